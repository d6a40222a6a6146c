//! Fixed answers: versions, extensions, and collections that stay empty.
use http::Method;
use serde_json::{Value, json};

use super::session::Session;
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

/// The extensions that this release of Neutron reports.
const EXTENSIONS: &str = include_str!("extensions.json");

/// Collections that exist but stay empty here: path, and the type and the message of a 404.
const EMPTY_COLLECTIONS: [(&str, &str, &str, &str); 2] = [
    ("agents", "AgentNotFound", "Agent ", " could not be found."),
    (
        "flavors",
        "FlavorNotFound",
        "Flavor ",
        " could not be found.",
    ),
];

/// Collections that can only be listed, and are empty here.
const LISTS: [&str; 3] = ["availability_zones", "quotas", "service-providers"];

pub(super) fn versions(call: &Call<'_>) -> Answer {
    let root = call.url.trim_end_matches('/');
    Answer::ok(json!({"versions": [{
        "id": "v2.0",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": format!("{root}/v2.0/")}],
    }]}))
}

pub(super) fn resources(call: &Call<'_>) -> Answer {
    let root = call.url.trim_end_matches('/');
    let listed: Value = ["network", "subnet", "subnetpool", "port"]
        .iter()
        .map(|name| {
            json!({
                "name": name,
                "collection": format!("{name}s"),
                "links": [{"rel": "self", "href": format!("{root}/{name}s")}],
            })
        })
        .collect();
    Answer::ok(json!({"resources": listed}))
}

pub(super) fn extensions(session: &Session<'_>, path: &[&str]) -> Result<Answer> {
    let all: Value = serde_json::from_str(EXTENSIONS).map_err(|_| session.internal_error())?;
    match path {
        [] => Ok(Answer::ok(json!({"extensions": all}))),
        [alias] => all
            .as_array()
            .into_iter()
            .flatten()
            .find(|extension| extension.get("alias").and_then(Value::as_str) == Some(*alias))
            .map(|extension| Answer::ok(json!({"extension": extension})))
            .ok_or_else(|| session.no_such_path()),
        _ => Err(session.no_such_path()),
    }
}

pub(super) fn empty_collection(
    session: &Session<'_>,
    call: &Call<'_>,
    path: &[&str],
) -> Result<Answer> {
    let joined = path.join("/");
    if LISTS.contains(&joined.as_str()) && call.method == Method::GET {
        return Ok(Answer::ok(json!({joined.replace('-', "_"): []})));
    }
    for (collection, kind, before, after) in EMPTY_COLLECTIONS {
        let Some(rest) = joined.strip_prefix(collection) else {
            continue;
        };
        if rest.is_empty() && call.method == Method::GET {
            let plural = collection
                .rsplit('/')
                .next()
                .unwrap_or(collection)
                .replace('-', "_");
            return Ok(Answer::ok(json!({plural: []})));
        }
        if let Some(id) = rest.strip_prefix('/') {
            return Err(Refusal::not_found(kind, format!("{before}{id}{after}")));
        }
    }
    Err(session.no_such_path())
}
