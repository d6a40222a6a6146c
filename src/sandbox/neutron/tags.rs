//! The tags of a resource: `/{collection}/{id}/tags` and `/{collection}/{id}/tags/{tag}`.
use serde_json::{Value, json};

use super::refused;
use crate::sandbox::core::{Answer, Call, Kind, Result, Session};

pub(super) fn answer(
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
