//! Paths into rows, and templates.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::Value;

/// Stands for null in a call's body, since TOML has no null.
pub const NULL: &str = "{null}";

/// Returns all values under a dotted path; `[]` steps into each element of an array.
pub fn values<'v>(row: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut here = vec![row];
    for part in path.split('.') {
        let (key, each) = match part.strip_suffix("[]") {
            Some(key) => (key, true),
            None => (part, false),
        };
        here = here
            .into_iter()
            .filter_map(|value| value.get(key))
            .flat_map(|value| match value.as_array() {
                Some(elements) if each => elements.iter().collect(),
                _ => vec![value],
            })
            .collect();
    }
    here
}

/// Returns the non-empty texts under a path; numbers and booleans as they are written.
pub fn lookup(row: &Value, path: &str) -> Vec<String> {
    texts(row, path).map(Cow::into_owned).collect()
}

/// Returns the first of the texts that [`lookup`] returns.
pub fn lookup_one(row: &Value, path: &str) -> Option<String> {
    texts(row, path).next().map(Cow::into_owned)
}

/// Returns a time in a row, which is in RFC 3339, in UTC without a zone (Octavia), or in seconds since 1970. None if
/// there is no value, or the value has another form.
pub(super) fn time(row: &Value, path: &str) -> Option<DateTime<Utc>> {
    let text = lookup_one(row, path)?;
    if let Ok(seconds) = text.parse() {
        return DateTime::from_timestamp(seconds, 0);
    }
    let utc = text.parse::<NaiveDateTime>().map(|time| time.and_utc());
    text.parse::<DateTime<Utc>>().or(utc).ok()
}

fn texts<'v>(row: &'v Value, path: &str) -> impl Iterator<Item = Cow<'v, str>> {
    let found = values(row, path).into_iter().filter_map(text);
    found.filter(|text| !text.is_empty())
}

/// Returns a text, number or boolean as it is written; none for null, an array or an object.
pub fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(true) => Some("true".into()),
        Value::Bool(false) => Some("false".into()),
        _ => None,
    }
}

/// Replaces each `{variable}` of a template. The error is the name of a variable that is not given.
pub fn fill(template: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once('{') {
        let Some((name, after)) = tail.split_once('}') else {
            break;
        };
        filled.push_str(before);
        filled.push_str(variables.get(name).ok_or_else(|| name.to_owned())?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Returns the variables that a template names.
pub fn variables(template: &str) -> impl Iterator<Item = &str> {
    template
        .split('{')
        .skip(1)
        .filter_map(|tail| tail.split_once('}').map(|(name, _)| name))
}
