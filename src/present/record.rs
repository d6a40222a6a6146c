//! Records of the engine as YAML.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

/// Writes a record as YAML. Clouds choose some of its texts and names of fields, so each passes through `safe` first.
///
/// # Errors
/// The record cannot be written; the message says why.
pub fn yaml<T: Serialize + ?Sized>(
    record: &T,
    safe: impl Fn(&str) -> Cow<'_, str>,
) -> Result<String, String> {
    let mut record = serde_json::to_value(record).map_err(|error| error.to_string())?;
    make_safe(&mut record, &safe);
    serde_saphyr::to_string(&record).map_err(|error| error.to_string())
}

fn make_safe(value: &mut Value, safe: &impl Fn(&str) -> Cow<'_, str>) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(safe) = safe(text) {
                *text = safe;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| make_safe(item, safe)),
        Value::Object(members) => {
            let old = std::mem::take(members);
            for (key, mut member) in old {
                make_safe(&mut member, safe);
                members.insert(safe(&key).into_owned(), member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
