//! Server-sent events: resumable, without gaps.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event as Sent, KeepAlive};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::Api;
use super::input::Query;
use super::problem::Problem;
use crate::domain::model::Event;

/// Proxies and NAT drop silent connections, some after 30 s; half of that is safe.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Longest wait for events in one call of the engine.
const WAIT_MS: u64 = 15_000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventParams {
    /// The sequence number of the last event that the client has; without it, the stream begins with the next
    /// event. If the events after it are no longer kept: 410 with the sequence number of the oldest event that is
    /// kept.
    after: Option<i64>,
}

/// The engine's events, as server-sent events, without gaps.
///
/// Each event is `id: SEQ`, `event: TYPE`, and an Event as JSON in `data`. An `event: problem` says why the stream
/// ends.
// `Last-Event-ID` takes precedence: a client that reconnects repeats its first URL, whose `after` is old.
#[utoipa::path(get, path = "/events", operation_id = "followEvents", tag = "events",
    params(EventParams, ("Last-Event-ID" = Option<i64>, Header,
        description = "Sequence number of the last event that the client has, as a client sends it when it \
                       reconnects; it takes precedence over `after`.")),
    responses((status = 200, description = "The events.", body = String, content_type = "text/event-stream")))]
pub(super) async fn stream(
    api: Api,
    Query(params): Query<EventParams>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Sent, Infallible>>>, Problem> {
    let last_seen = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok())
        .map(|id| {
            id.trim().parse::<i64>().map_err(|_| {
                Problem::invalid(format!("Last-Event-ID: \"{id}\" is not a whole number"))
            })
        })
        .transpose()?;
    let newest = || api.control.snapshot().borrow().last_event;
    let after = last_seen.or(params.after).unwrap_or_else(newest);
    // The first page is read before the answer begins, because the answer can then still be a 410.
    let first = api.control.events(after, 0).await;
    let first = first.map_err(Problem::of_query)?;
    let after = first.last().map_or(after, |event| event.seq);
    let rest = stream::unfold(Some((api, after)), |position| async move {
        let (api, after) = position?;
        let page = tokio::select! {
            () = api.shutdown.cancelled() => return None,
            page = api.control.events(after, WAIT_MS) => page,
        };
        Some(match page {
            Ok(events) => {
                let after = events.last().map_or(after, |event| event.seq);
                (events.iter().map(sent).collect(), Some((api, after)))
            }
            // The client needs events that are no longer kept, or the engine failed: one message, then the end.
            // The message has no id, so the client resumes after its last event.
            Err(error) => {
                let problem = Problem::from(error).document().to_string();
                (vec![Sent::default().event("problem").data(problem)], None)
            }
        })
    });
    let first: Vec<Sent> = first.iter().map(sent).collect();
    let pages = stream::iter([first]).chain(rest);
    let events = pages.flat_map(|page| stream::iter(page.into_iter().map(Ok)));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

fn sent(event: &Event) -> Sent {
    // `data` cannot carry line breaks, and JSON has no raw ones.
    let name = json!(event.kind);
    Sent::default()
        .id(event.seq.to_string())
        .event(name.as_str().unwrap_or("event"))
        .data(json!(event).to_string())
}
