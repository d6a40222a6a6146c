//! Request bodies: unambiguous JSON, and the resources that it refers to.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::route::{Named, Routes};

/// Parses a complete JSON text.
///
/// # Errors
/// The text is not JSON, or an object has a key twice: the service might use the other value.
pub fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Unique.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Returns the resources that a body refers to, by the fields that the kinds name, at any depth: in a bulk request,
/// in the tree of a load balancer, in the arguments of an action.
pub fn referred(routes: &Routes, body: &Value) -> Vec<Named> {
    let mut found = BTreeSet::new();
    collect(routes, body, &mut found);
    found.into_iter().collect()
}

fn collect(routes: &Routes, value: &Value, found: &mut BTreeSet<Named>) {
    match value {
        Value::Object(fields) => {
            // Glance's JSON patch names the changed field in a path.
            let patched = fields.get("path").and_then(Value::as_str);
            if let (Some(path), Some(value)) = (patched, fields.get("value")) {
                let field = path.rsplit('/').next().unwrap_or(path);
                name(routes, field, value, found);
            }
            for (field, value) in fields {
                name(routes, field, value, found);
                collect(routes, value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|it| collect(routes, it, found)),
        _ => {}
    }
}

/// Adds the resources that a field names, if a kind has that field.
fn name(routes: &Routes, field: &str, value: &Value, found: &mut BTreeSet<Named>) {
    let Some(kinds) = routes.references.get(field) else {
        return;
    };
    let texts = match value {
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    let ids = texts.iter().filter_map(Value::as_str);
    for id in ids.filter(|id| !id.is_empty()) {
        found.extend(kinds.iter().map(|kind| Named::new(kind, id)));
    }
}

/// Deserializes a value whose objects have each key once.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! visit_scalars {
    ($($visit:ident: $scalar:ty),*) => {$(
        fn $visit<E>(self, value: $scalar) -> Result<Value, E> {
            Ok(value.into())
        }
    )*};
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    visit_scalars! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = elements.next_element_seed(Unique)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Unique)?;
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!(
                    "the key \"{key}\" is given twice"
                )));
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}
