//! The list of Neutron's extensions, and the empty list of resources at the root.
use serde_json::{Value, json};

use super::refused;
use crate::sandbox::core::{Answer, Handled};

/// The extensions of this release of Neutron.
const EXTENSIONS: &str = include_str!("../../../assets/sandbox/extensions.txt");

/// Answers a call of the root or of the extensions; `None` for other paths.
pub(super) fn answer(path: &[&str]) -> Handled {
    let mut extensions = EXTENSIONS.split_whitespace();
    Ok(Some(Answer::ok(match path {
        [] => json!({"resources": []}),
        ["extensions"] => json!({"extensions": extensions.map(shown).collect::<Value>()}),
        ["extensions", alias] if extensions.any(|known| known == *alias) => {
            json!({"extension": shown(alias)})
        }
        ["extensions", _] => return Err(refused("no_page", &[])),
        _ => return Ok(None),
    })))
}

fn shown(alias: &str) -> Value {
    json!({"name": alias, "alias": alias, "description": "", "updated": "2016-01-01T10:00:00-00:00", "links": []})
}
