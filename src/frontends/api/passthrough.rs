//! The four calls of [`Control`](crate::control::Control) verbatim, for our own consoles and verbs.
//!
//! Errors travel as the JSON of [`ControlError`], so that the client gets the engine's own error.

use axum::Json;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};

use super::Api;
use super::caller::Sent;
use super::input::{Query as Params, StrictJson};
use super::problem::{Problem, status_and_type};
use crate::control::remote::{HEARTBEAT, Hello, PROTOCOL};
use crate::control::{ControlError, Envelope, Query};

/// Longest wait for events in one request, in milliseconds; a longer one is cut to this.
const WAIT_MS_MAX: u64 = 60_000;

/// `GET hello`: the engine, and the version of its protocol.
pub(super) async fn hello() -> Json<Hello> {
    Json(Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
    })
}

/// `POST submit`: an envelope, answered with its receipt.
pub(super) async fn submit(Sent(api, envelope): Sent<Envelope>) -> Result<Response, Problem> {
    let envelope = api.caller()?.authorize(envelope)?;
    Ok(answer(api.control.submit(envelope).await))
}

/// `POST query`: a query, answered with its page.
pub(super) async fn query(api: Api, StrictJson(query): StrictJson<Query>) -> Response {
    answer(api.control.query(query).await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventParams {
    after: Option<i64>,
    wait_ms: Option<i64>,
}

/// `GET events?after=&wait_ms=`: at most 500 events, after a wait for the first.
pub(super) async fn events(api: Api, Params(params): Params<EventParams>) -> Response {
    let after = params.after.unwrap_or_default();
    let wait_ms = u64::try_from(params.wait_ms.unwrap_or_default())
        .unwrap_or_default()
        .min(WAIT_MS_MAX);
    let events = tokio::select! {
        // The client misses nothing: it asks the next engine for the events after `after`.
        () = api.shutdown.cancelled() => Ok(Vec::new()),
        events = api.control.events(after, wait_ms) => events,
    };
    answer(events)
}

/// `GET snapshots`: one JSON line for the current snapshot and for each later one; a slow client
/// gets the newest only. An empty line is a keep-alive.
pub(super) async fn snapshots(api: Api) -> impl IntoResponse {
    let mut snapshots = api.control.snapshot();
    snapshots.mark_changed();
    let start = (snapshots, api.shutdown);
    let lines = stream::try_unfold(start, |(mut snapshots, shutdown)| async {
        let line = tokio::select! {
            () = shutdown.cancelled() => return Ok(None),
            changed = tokio::time::timeout(HEARTBEAT, snapshots.changed()) => match changed {
                Ok(Err(_ended)) => return Ok(None),
                Ok(Ok(())) => {
                    let snapshot = snapshots.borrow_and_update().clone();
                    serde_json::to_string(&snapshot)? + "\n"
                }
                Err(_elapsed) => "\n".to_owned(),
            },
        };
        Ok::<_, serde_json::Error>(Some((line, (snapshots, shutdown))))
    });
    let json_lines = [(header::CONTENT_TYPE, "application/jsonl")];
    (json_lines, Body::from_stream(lines))
}

fn answer<T: Serialize>(result: Result<T, ControlError>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => (status_and_type(&error).0, Json(error)).into_response(),
    }
}
