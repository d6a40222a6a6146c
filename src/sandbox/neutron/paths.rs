//! Paths that no kind's table has: the tags of a resource (`/{collection}/{id}/tags`, also with `/{tag}`), the list of
//! extensions, and the empty list of resources at the root.
use serde_json::{Value, json};

use super::refused;
use crate::sandbox::core::{Answer, Call, Handled, Kind, Result, Session};

pub(super) fn tags(
    session: &mut Session<'_>,
    call: &Call<'_>,
    kind: &'static Kind,
    id: &str,
    path: &[&str],
) -> Result<Answer> {
    let row = session.named(kind.name, id)?;
    let mut tags: Vec<Value> = row.items("tags").to_vec();
    let position = |tags: &[Value], tag: &str| {
        let position = tags.iter().position(|known| known == tag);
        position.ok_or_else(|| refused("TagNotFound", &[&tag]))
    };
    let answer = match (call.method.as_str(), path) {
        ("GET", []) => return Ok(Answer::ok(json!({"tags": tags}))),
        ("GET", [tag]) => return position(&tags, tag).map(|_| Answer::no_content()),
        ("PUT", []) => {
            let given = call.json()["tags"].as_array().cloned();
            let given = given.filter(|tags| tags.iter().all(Value::is_string));
            tags = given.ok_or_else(|| refused("InvalidTags", &[]))?;
            Answer::ok(json!({"tags": tags}))
        }
        ("PUT", [tag]) => {
            tags.push((*tag).into());
            Answer::created(Value::Null)
        }
        ("DELETE", []) => {
            tags.clear();
            Answer::no_content()
        }
        ("DELETE", [tag]) => {
            tags.remove(position(&tags, tag)?);
            Answer::no_content()
        }
        _ => return Err(refused("no_page", &[])),
    };
    session.may_change(&row, "update")?;
    tags.sort_by_key(Value::to_string);
    tags.dedup();
    session.edit(kind.name, row.id, |row| row.set("tags", tags));
    session.raise_revision(kind.name, row.id);
    Ok(answer)
}

/// The extensions of this release of Neutron.
const EXTENSIONS: &str = include_str!("../../../assets/sandbox/extensions.txt");

/// Answers a call of the root or of the extensions; `None` for other paths.
pub(super) fn root(path: &[&str]) -> Handled {
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
