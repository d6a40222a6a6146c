//! Hashes of canonical JSON (keys sorted, no blanks), in hex.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// A SHA-256 over canonical JSON that is added piece by piece: as one JSON value, a large plan would take many times
/// the memory of the plan itself.
#[derive(Default)]
pub struct Canonical(Sha256);

impl Canonical {
    /// Adds a text as it is, without quotes.
    pub fn text(&mut self, text: &str) {
        self.0.update(text.as_bytes());
    }

    /// Adds a JSON value, with the keys of its objects sorted.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
                self.text("{");
                for (nth, (key, value)) in sorted.into_iter().enumerate() {
                    if nth > 0 {
                        self.text(",");
                    }
                    self.value(&Value::from(key.as_str()));
                    self.text(":");
                    self.value(value);
                }
                self.text("}");
            }
            Value::Array(elements) => self.list(elements, Self::value),
            other => self.text(&other.to_string()),
        }
    }

    /// Adds a JSON array, whose elements `each` adds.
    pub fn list<T>(&mut self, elements: &[T], each: impl Fn(&mut Self, &T)) {
        self.text("[");
        for (nth, element) in elements.iter().enumerate() {
            if nth > 0 {
                self.text(",");
            }
            each(self, element);
        }
        self.text("]");
    }

    /// Returns the hash, in hex.
    pub fn finish(self) -> String {
        hex::encode(self.0.finalize())
    }
}

/// Returns the SHA-256 of a text, in hex.
pub fn hash(text: impl AsRef<[u8]>) -> String {
    hex::encode(Sha256::digest(text))
}
