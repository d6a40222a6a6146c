//! The rows of a page as the texts that the service sent: each is read by itself, and let go again, so that a
//! large page takes little more memory than its text, and others have their turn in between.

use std::fmt;

use bytes::Bytes;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::threads::Breath;

/// A page without its rows, null in their place, and these; none: it is no page.
pub(super) fn read(text: &Bytes, items: &str) -> Option<(Map<String, Value>, Vec<Bytes>)> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let page = PageOf { text, items };
    let (page, rows) = page.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some((page, rows?))
}

/// The text of a page with these rows in their place.
pub(super) fn text<'r>(
    page: &Map<String, Value>,
    items: &str,
    rows: impl ExactSizeIterator<Item = &'r Bytes> + Clone,
) -> Bytes {
    let bytes: usize = rows.clone().map(|row| row.len() + 1).sum();
    let mut text = Vec::with_capacity(bytes + 1_024);
    let mut breath = Breath::default();
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
            breath.take(row.len());
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

type Read = (Map<String, Value>, Option<Vec<Bytes>>);

impl<'de> DeserializeSeed<'de> for PageOf<'_> {
    type Value = Read;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Read, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PageOf<'_> {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a page with \"{}\"", self.items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Read, A::Error> {
        let (mut page, mut rows) = (Map::new(), None);
        while let Some(key) = entries.next_key::<String>()? {
            if key != self.items {
                page.insert(key, entries.next_value()?);
                continue;
            }
            if rows.is_some() {
                return Err(A::Error::custom("the rows stand twice"));
            }
            rows = Some(entries.next_value_seed(Rows { text: self.text })?);
            page.insert(key, Value::Null);
        }
        Ok((page, rows))
    }
}

struct Rows<'a> {
    text: &'a Bytes,
}

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
        let (mut rows, mut breath) = (Vec::new(), Breath::default());
        while let Some(row) = elements.next_element::<&RawValue>()? {
            rows.push(self.text.slice_ref(row.get().as_bytes()));
            breath.take(row.get().len());
        }
        Ok(rows)
    }
}
