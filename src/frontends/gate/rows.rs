//! Splits a page into the JSON texts of its rows, and joins rows into a page. Each row is parsed by itself, so a large
//! page takes little more memory than its text, and other threads run between two rows.

use std::fmt;

use bytes::Bytes;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::threads::Yielder;

/// Splits a page into its fields, with null in place of the rows, and the rows, which are in the field `items`. None if
/// the text is not a page with this field.
pub(super) fn split(text: &Bytes, items: &str) -> Option<(Map<String, Value>, Vec<Bytes>)> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let page = PageOf { text, items };
    let (page, rows) = (&mut deserializer).deserialize_map(page).ok()?;
    deserializer.end().ok()?;
    Some((page, rows?))
}

/// Joins the fields of a page and its rows into JSON.
pub(super) fn join<'r>(
    page: &Map<String, Value>,
    items: &str,
    rows: impl ExactSizeIterator<Item = &'r Bytes> + Clone,
) -> Bytes {
    let bytes: usize = rows.clone().map(|row| row.len() + 1).sum();
    let mut text = Vec::with_capacity(bytes + 1_024);
    let mut yielder = Yielder::new();
    for (number, (key, value)) in page.iter().enumerate() {
        text.push(if number == 0 { b'{' } else { b',' });
        text.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
        text.push(b':');
        if key != items {
            text.extend_from_slice(value.to_string().as_bytes());
            continue;
        }
        text.push(b'[');
        for (number, row) in rows.clone().enumerate() {
            if number > 0 {
                text.push(b',');
            }
            text.extend_from_slice(row);
            yielder.after_row();
        }
        text.push(b']');
    }
    text.push(b'}');
    text.into()
}

struct PageOf<'a> {
    text: &'a Bytes,
    items: &'a str,
}

impl<'de> Visitor<'de> for PageOf<'_> {
    /// The fields, and the rows if there are any.
    type Value = (Map<String, Value>, Option<Vec<Bytes>>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a page with \"{}\"", self.items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut page, mut rows) = (Map::new(), None);
        while let Some(key) = entries.next_key::<String>()? {
            if key != self.items {
                page.insert(key, entries.next_value()?);
                continue;
            }
            if rows.is_some() {
                return Err(A::Error::custom("the page has its rows twice"));
            }
            rows = Some(entries.next_value_seed(Rows(self.text))?);
            page.insert(key, Value::Null);
        }
        Ok((page, rows))
    }
}

struct Rows<'a>(&'a Bytes);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = Vec<Bytes>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Bytes>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = Vec<Bytes>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<Bytes>, A::Error> {
        let (mut rows, mut yielder) = (Vec::new(), Yielder::new());
        while let Some(row) = elements.next_element::<&RawValue>()? {
            rows.push(self.0.slice_ref(row.get().as_bytes()));
            yielder.after_row();
        }
        Ok(rows)
    }
}
