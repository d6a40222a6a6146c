//! Fixed answers: versions, extensions, and collections that stay empty.
use serde_json::{Value, json};

use super::refused;
use crate::sandbox::wire::{Answer, Call, Handled};

/// The extensions of this release of Neutron.
const EXTENSIONS: &str = include_str!("../../../assets/sandbox/extensions.txt");

/// Collections that exist but stay empty here, and the refusal of an id.
const EMPTY: [(&str, &str); 2] = [("agents", "AgentNotFound"), ("flavors", "FlavorNotFound")];

/// Collections that can only be listed, and are empty here.
const LISTS: [&str; 3] = ["availability_zones", "quotas", "service-providers"];

/// Answers `GET` of the endpoint, which needs no token.
pub(super) fn versions(call: &Call<'_>) -> Option<Answer> {
    if !call.segments().is_empty() {
        return None;
    }
    let root = call.url.trim_end_matches('/');
    Some(Answer::ok(json!({"versions": [{
        "id": "v2.0",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": format!("{root}/v2.0/")}],
    }]})))
}

/// Answers a path that leads to no kind.
pub(super) fn answer(call: &Call<'_>, path: &[&str]) -> Handled {
    let is_get = call.method == http::Method::GET;
    match path {
        [] => Some(Ok(Answer::ok(json!({"resources": []})))),
        ["extensions"] => {
            let all: Value = EXTENSIONS.split_whitespace().map(extension).collect();
            Some(Ok(Answer::ok(json!({"extensions": all}))))
        }
        ["extensions", alias] => {
            let known = EXTENSIONS.split_whitespace().any(|known| known == *alias);
            let shown = known.then(|| Answer::ok(json!({"extension": extension(alias)})));
            Some(shown.ok_or_else(|| refused("no_page", &[])))
        }
        [list] if LISTS.contains(list) && is_get => {
            Some(Ok(Answer::ok(json!({list.replace('-', "_"): []}))))
        }
        [collection, rest @ ..] => {
            let (name, missing) = EMPTY.iter().find(|(name, _)| name == collection)?;
            Some(match rest {
                [] if is_get => Ok(Answer::ok(json!({*name: []}))),
                [id] => Err(refused(missing, &[id])),
                _ => Err(refused("no_page", &[])),
            })
        }
    }
}

fn extension(alias: &str) -> Value {
    json!({"name": alias, "alias": alias, "description": "", "updated": "2016-01-01T10:00:00-00:00", "links": []})
}
