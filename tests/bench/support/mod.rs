//! Measures how fast a deletion deleted its resources, and how fast plain calls delete ports.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use gone::domain::model::{Event, EventKind};
use gone::ledger::sqlite::SqliteLedger;
use gone::ledger::{Cursor, EventFilter, StepFilter, Views as _};

/// Deletes ports by plain calls of several clients at once. Returns the time from the first call to the last answer.
pub async fn delete_by_plain_calls(
    network_url: &str,
    token: &str,
    ports: Vec<String>,
    clients: usize,
) -> Duration {
    let client = reqwest::Client::new();
    let ports = Arc::new(ports);
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let workers: Vec<_> = (0..clients)
        .map(|_| {
            let (client, ports, next) = (client.clone(), ports.clone(), next.clone());
            let (network_url, token) = (network_url.to_owned(), token.to_owned());
            tokio::spawn(async move {
                while let Some(id) = ports.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let url = format!("{network_url}/ports/{id}");
                    let call = client.delete(url).header("x-auth-token", &token);
                    assert_eq!(call.send().await.unwrap().status(), 204);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    began.elapsed()
}

/// The times of a deletion, from its events.
pub struct Timeline {
    /// From the event `planned`, when the first delete is sent, to the answer to the delete of the last port.
    pub deletes: Duration,
    /// From the answer about the last port to the end of the deletion: observations, and the deletes of the networks.
    pub rest: Duration,
}

/// Reads the times of a deletion from its ledger. `ports` is the number of deletes of ports. These come first, since
/// a network waits for its ports.
pub async fn timeline(ledger: &Path, deletion_id: &str, ports: usize) -> Timeline {
    let ledger = SqliteLedger::open_reader(ledger).unwrap();
    let events = events_of(&ledger, deletion_id).await;
    let times_of = |kind: EventKind| -> Vec<DateTime<Utc>> {
        let of_kind = events.iter().filter(|event| event.kind == kind);
        of_kind.map(|event| event.at).collect()
    };
    let began = times_of(EventKind::DeletionPlanned)[0];
    let answers = times_of(EventKind::Attempt);
    assert!(
        answers.len() >= ports,
        "{} answers for {ports} ports",
        answers.len()
    );
    let last = answers[ports - 1];
    let ended = events.last().unwrap().at;
    Timeline {
        deletes: (last - began).to_std().unwrap(),
        rest: (ended - last).to_std().unwrap(),
    }
}

/// Describes when the steps of each kind had their first and their last event, and when the other events of each kind
/// happened, in seconds after the deletion was accepted: `port 1.2-3.4 s`. Sorted by the last event.
pub async fn phases(ledger: &Path, deletion_id: &str) -> Vec<String> {
    let ledger = SqliteLedger::open_reader(ledger).unwrap();
    let events = events_of(&ledger, deletion_id).await;
    let kinds = kinds_of_steps(&ledger, deletion_id).await;
    let mut spans: BTreeMap<&str, (DateTime<Utc>, DateTime<Utc>)> = BTreeMap::new();
    for event in &events {
        let of_step = event.step_id.and_then(|id| kinds.get(&id));
        let kind = of_step.map_or(event.kind.as_str(), String::as_str);
        spans.entry(kind).or_insert((event.at, event.at)).1 = event.at;
    }
    let mut spans: Vec<_> = spans.into_iter().collect();
    spans.sort_by_key(|(_, (_, last))| *last);
    let began = events[0].at;
    let after = |at: DateTime<Utc>| (at - began).as_seconds_f64();
    let words = spans
        .into_iter()
        .map(|(kind, (first, last))| format!("{kind} {:.1}-{:.1} s", after(first), after(last)));
    words.collect()
}

/// The kind of each step of a deletion.
async fn kinds_of_steps(ledger: &SqliteLedger, deletion_id: &str) -> BTreeMap<i64, String> {
    let filter = StepFilter {
        deletion_id: Some(deletion_id.to_owned()),
        ..StepFilter::default()
    };
    let mut kinds = BTreeMap::new();
    let mut after = None;
    loop {
        let page = Cursor { after, limit: 500 };
        let steps = ledger.steps(filter.clone(), page).await.unwrap();
        let rows = steps.rows.into_iter();
        kinds.extend(rows.map(|step| (step.id, step.resource.key.kind.to_string())));
        after = steps.next;
        if after.is_none() {
            return kinds;
        }
    }
}

/// All events of a deletion.
async fn events_of(ledger: &SqliteLedger, deletion_id: &str) -> Vec<Event> {
    let filter = EventFilter {
        deletion_id: Some(deletion_id.to_owned()),
        step_id: None,
    };
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq);
        let page = ledger.events(after, filter.clone(), 10_000).await.unwrap();
        if page.events.is_empty() {
            return events;
        }
        events.extend(page.events);
    }
}

pub fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
