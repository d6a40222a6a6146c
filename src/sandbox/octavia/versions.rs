//! The version document.
use serde_json::{Value, json};

use crate::sandbox::wire::{Answer, Call};

/// Time of the last update of each minor version of v2; the last is the current one.
const UPDATED: [&str; 31] = [
    "2016-12-11T00",
    "2018-04-20T00",
    "2018-07-31T00",
    "2018-12-18T00",
    "2018-12-19T00",
    "2019-01-21T00",
    "2019-01-25T00",
    "2018-01-25T12",
    "2019-02-12T00",
    "2019-03-04T00",
    "2019-03-05T00",
    "2019-06-24T00",
    "2019-09-11T00",
    "2019-09-13T00",
    "2019-11-10T00",
    "2020-03-10T00",
    "2020-03-15T00",
    "2020-04-29T00",
    "2020-04-29T01",
    "2020-05-12T00",
    "2020-08-02T00",
    "2020-09-03T00",
    "2020-09-04T00",
    "2020-09-07T00",
    "2020-10-15T00",
    "2021-10-02T00",
    "2022-08-29T00",
    "2023-05-05T00",
    "2023-11-08T00",
    "2024-10-15T00",
    "2025-02-26T00",
];

/// Answers `GET` of the endpoint, which needs no token.
pub(super) fn versions(call: &Call<'_>) -> Answer {
    let url = format!("{}/v2", call.url.trim_end_matches('/'));
    let versions: Value = UPDATED
        .iter()
        .enumerate()
        .map(|(number, updated)| {
            let last = number + 1 == UPDATED.len();
            json!({
                "id": format!("v2.{number}"),
                "status": if last { "CURRENT" } else { "SUPPORTED" },
                "updated": format!("{updated}:00:00Z"),
                "links": [{"href": url, "rel": "self"}],
            })
        })
        .collect();
    Answer::ok(json!({"versions": versions}))
}
