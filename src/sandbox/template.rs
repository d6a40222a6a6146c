//! Texts and JSON with `${word}`, which stands for a value.
use serde_json::Value;

/// A function that returns the value of a word; `None` for an unknown word.
pub(super) type Words<'w> = dyn FnMut(&str) -> Option<String> + 'w;

/// Replaces the words of a text. An unknown word is an error.
pub(super) fn fill(text: &str, words: &mut Words<'_>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let closed = after.split_once('}');
        let (word, after) = closed.ok_or_else(|| format!("{text:?}: ${{ without }}"))?;
        filled.push_str(before);
        filled += &words(word).ok_or_else(|| format!("${{{word}}} has no value"))?;
        rest = after;
    }
    Ok(filled + rest)
}

/// Replaces the words of all texts in a value.
pub(super) fn fill_all(value: &Value, words: &mut Words<'_>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(fill(text, words)?),
        Value::Array(items) => items
            .iter()
            .map(|item| fill_all(item, words))
            .collect::<Result<_, _>>()?,
        Value::Object(map) => {
            let filled = map
                .iter()
                .map(|(name, value)| Ok((name.clone(), fill_all(value, words)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}
