//! How fast a deletion went, and how fast plain calls go.
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use gone::domain::model::{Event, EventKind};
use gone::ledger::sqlite::SqliteLedger;
use gone::ledger::{EventFilter, Views as _};

/// Deletes ports by plain calls, so many at a time; from the first one sent to the last answer.
pub async fn plain(network_url: &str, token: &str, ports: Vec<String>, clients: usize) -> Duration {
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

/// A deletion's own timeline.
pub struct Timeline {
    /// From the plan's start, when the first delete is sent, to the answer to the last port's.
    pub deletes: Duration,
    /// From there to the end: looks, and the networks themselves.
    pub rest: Duration,
}

/// `ports`: how many of its calls delete ports; they come first, since a network waits for them.
pub async fn timeline(ledger: &Path, deletion_id: &str, ports: usize) -> Timeline {
    let ledger = SqliteLedger::open_reader(ledger).unwrap();
    let filter = EventFilter {
        deletion_id: Some(deletion_id.to_owned()),
        step_id: None,
    };
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq);
        let page = ledger.events(after, filter.clone(), 10_000).await.unwrap();
        if page.events.is_empty() {
            break;
        }
        events.extend(page.events);
    }
    let of = |kind: EventKind| -> Vec<DateTime<Utc>> {
        let of_kind = events.iter().filter(|event| event.kind == kind);
        of_kind.map(|event| event.at).collect()
    };
    let began = of(EventKind::DeletionPlanned)[0];
    let answers = of(EventKind::Attempt);
    assert!(answers.len() >= ports, "{} of {ports}", answers.len());
    let last = answers[ports - 1];
    let ended = events.last().unwrap().at;
    Timeline {
        deletes: (last - began).to_std().unwrap(),
        rest: (ended - last).to_std().unwrap(),
    }
}

pub fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
