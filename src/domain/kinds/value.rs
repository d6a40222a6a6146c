//! Paths into rows, and templates.

use std::collections::BTreeMap;

use serde_json::Value;

/// All values under a dotted path; `[]` steps into each element of an array.
pub(super) fn values<'v>(row: &'v Value, path: &str) -> Vec<&'v Value> {
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

/// The non-empty texts under a path; numbers and booleans as they are written.
pub fn lookup(row: &Value, path: &str) -> Vec<String> {
    values(row, path).into_iter().filter_map(text).collect()
}

pub fn lookup_one(row: &Value, path: &str) -> Option<String> {
    values(row, path).into_iter().find_map(text)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Replaces each `{variable}` of a template; the error is the name of one that is not given.
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

/// The variables that a template names.
pub(super) fn variables(template: &str) -> impl Iterator<Item = &str> {
    template
        .split('{')
        .skip(1)
        .filter_map(|tail| tail.split_once('}').map(|(name, _)| name))
}
