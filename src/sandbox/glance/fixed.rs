//! Fixed answers: the versions.
use http::StatusCode;
use serde_json::{Value, json};

use crate::sandbox::wire::{Answer, Call};

/// The versions, in the order in which this release lists them.
const VERSIONS: [&str; 16] = [
    "v2.15", "v2.13", "v2.12", "v2.11", "v2.10", "v2.9", "v2.8", "v2.17", "v2.7", "v2.6", "v2.5",
    "v2.4", "v2.3", "v2.2", "v2.1", "v2.0",
];
const CURRENT: &str = "v2.17";

/// Answers `GET /` with 300 (multiple choices) and `GET /versions` with 200; neither needs a token.
pub(super) fn versions(call: &Call<'_>) -> Option<Answer> {
    let (root, status) = match (call.method.as_str(), call.segments().as_slice()) {
        ("GET", []) => (call.url.as_str(), StatusCode::MULTIPLE_CHOICES),
        ("GET", ["versions"]) => {
            let url = call.url.trim_end_matches('/');
            (url.trim_end_matches("/versions"), StatusCode::OK)
        }
        _ => return None,
    };
    let href = format!("{}/v2/", root.trim_end_matches('/'));
    let listed: Value = VERSIONS
        .iter()
        .map(|version| {
            let status = if *version == CURRENT {
                "CURRENT"
            } else {
                "SUPPORTED"
            };
            json!({"id": version, "status": status, "links": [{"rel": "self", "href": href}]})
        })
        .collect();
    Some(Answer::json(status, json!({"versions": listed})))
}
