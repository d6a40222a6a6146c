//! Values of attributes that nobody set, in Neutron and Octavia alike.

use serde_json::{Map, Value};

/// The value of an attribute that nobody set.
#[derive(Clone, Copy)]
pub(in crate::sandbox) enum Unset {
    Null,
    Text(&'static str),
    List,
    Object,
    Flag(bool),
    Number(i64),
    /// Not stored: a rule reads or computes the attribute.
    Absent,
}

impl Unset {
    pub(in crate::sandbox) fn value(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Text(text) => text.into(),
            Self::List => Value::Array(Vec::new()),
            Self::Object => Value::Object(Map::new()),
            Self::Flag(flag) => flag.into(),
            Self::Number(number) => number.into(),
            Self::Absent => return None,
        })
    }
}
