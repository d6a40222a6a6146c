//! Server-sent events: in order, without gaps, resumable.

use gone::control::ControlError;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::bench::{Bench, DEADLINE, content_type};

/// Reads a stream of events as a browser does.
struct Reader {
    response: Response,
    text: String,
}

#[derive(Debug, PartialEq)]
struct Received {
    id: Option<i64>,
    name: String,
    data: Value,
}

impl Reader {
    async fn open(bench: &Bench, path: &str, last_seen: Option<i64>) -> Self {
        let mut request = bench.request(Method::GET, path);
        if let Some(seq) = last_seen {
            request = request.header("Last-Event-ID", seq.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(content_type(&response), "text/event-stream");
        Self {
            response,
            text: String::new(),
        }
    }

    /// Returns the next event, without the heartbeats before it. `None` if the stream has ended.
    async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let received = parse(block);
                self.text = rest.to_owned();
                if received.is_some() {
                    return received;
                }
                continue;
            }
            let chunk = tokio::time::timeout(DEADLINE, self.response.chunk());
            let chunk = chunk
                .await
                .expect("an event within the deadline")
                .unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    async fn ids(&mut self, count: usize) -> Vec<i64> {
        let mut ids = Vec::new();
        while ids.len() < count {
            ids.push(self.next().await.unwrap().id.unwrap());
        }
        ids
    }
}

/// Parses one block of the stream. `None` for a heartbeat.
fn parse(block: &str) -> Option<Received> {
    let field = |name: &str| {
        let mut lines = block.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    Some(Received {
        id: field("id").map(|id| id.parse().unwrap()),
        name: field("event")?.to_owned(),
        data: serde_json::from_str(field("data")?).unwrap(),
    })
}

#[tokio::test]
async fn events_arrive_in_order_and_as_they_happen() {
    let bench = Bench::new().await;
    bench.fake.emit(1..=8);
    let mut reader = Reader::open(&bench, "/api/v1/events?after=0", None).await;
    let first = reader.next().await.unwrap();
    assert_eq!((first.id, first.name.as_str()), (Some(1), "step_state"));
    assert_eq!(first.data, json!(crate::samples::event(1)));
    assert_eq!(reader.ids(7).await, [2, 3, 4, 5, 6, 7, 8]);
    bench.fake.emit([9]);
    assert_eq!(reader.ids(1).await, [9]);
    bench.fake.emit(10..=14);
    assert_eq!(reader.ids(5).await, [10, 11, 12, 13, 14]);
}

#[tokio::test]
async fn a_stream_resumes_without_gaps() {
    let bench = Bench::new().await;
    bench.fake.emit(1..=20);
    let mut received_ids = Vec::new();
    while received_ids.last() != Some(&20) {
        // The connection is dropped after every two events; a browser repeats its first URL.
        let mut reader = Reader::open(
            &bench,
            "/api/v1/events?after=0",
            received_ids.last().copied(),
        )
        .await;
        received_ids.extend(reader.ids(2).await);
    }
    assert_eq!(received_ids, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_without_a_start_begins_with_the_next_event() {
    let bench = Bench::new().await;
    bench.fake.emit(1..=5);
    bench.fake.publish(|snapshot| snapshot.last_event = 5);
    let mut reader = Reader::open(&bench, "/api/v1/events", None).await;
    bench.fake.emit([6]);
    assert_eq!(reader.ids(1).await, [6]);
}

#[tokio::test]
async fn pruned_events_are_410_with_the_oldest_kept_sequence_number() {
    let bench = Bench::new().await;
    bench.fake.emit(1..=20);
    bench.fake.prune_events_before(12);
    let (status, problem) = bench.get("/api/v1/events?after=3").await;
    assert_eq!((status, &problem["oldest"]), (410, &json!(12)));
    let mut reader = Reader::open(&bench, "/api/v1/events?after=11", None).await;
    assert_eq!(reader.ids(1).await, [12]);
}

#[tokio::test]
async fn a_failure_is_sent_as_a_problem_event_and_ends_the_stream() {
    let bench = Bench::new().await;
    bench.fake.emit([1]);
    let mut reader = Reader::open(&bench, "/api/v1/events?after=0", None).await;
    assert_eq!(reader.ids(1).await, [1]);
    let message = "the ledger is damaged".to_owned();
    bench
        .fake
        .fail_next_events(ControlError::Internal { message });
    let problem = reader.next().await.unwrap();
    assert_eq!((problem.id, problem.name.as_str()), (None, "problem"));
    assert_eq!(problem.data["detail"], "the ledger is damaged");
    assert_eq!(reader.next().await, None);
}

#[tokio::test]
async fn a_shutdown_ends_open_streams_without_waiting_for_them() {
    let bench = Bench::new().await;
    bench.fake.emit([1]);
    let mut reader = Reader::open(&bench, "/api/v1/events?after=0", None).await;
    assert_eq!(reader.ids(1).await, [1]);
    let stopped = tokio::time::timeout(DEADLINE, bench.api.stop());
    stopped
        .await
        .expect("the API stops although a stream is open");
    assert_eq!(reader.next().await, None);
    assert!(!bench.socket.exists());
}
