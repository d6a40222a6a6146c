//! A control that answers with samples or as a test says, and records the commands and queries that it gets.

use gone::control::{Accepted, query};
use gone::domain::model::Paged;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gone::control::*;
use gone::domain::model::*;
use tokio::sync::watch;

use crate::samples;

pub struct Fake {
    pub snapshots: watch::Sender<Arc<Snapshot>>,
    events: watch::Sender<Vec<Event>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    submitted: Vec<Envelope>,
    queried: Vec<Query>,
    receipts: VecDeque<Result<Receipt, ControlError>>,
    pages: VecDeque<Result<Page, ControlError>>,
    event_errors: VecDeque<ControlError>,
    /// The sequence number of the oldest event that is still kept.
    oldest_event: i64,
}

impl Fake {
    pub fn new(version: u64) -> Arc<Self> {
        Arc::new(Self {
            snapshots: watch::Sender::new(Arc::new(samples::snapshot(version))),
            events: watch::Sender::new(Vec::new()),
            state: Mutex::default(),
        })
    }

    /// Answers the next command with this receipt, instead of with a sample.
    pub fn answer_next_submit(&self, receipt: Result<Receipt, ControlError>) {
        self.state.lock().unwrap().receipts.push_back(receipt);
    }

    /// Answers the next query with this page, instead of with a sample.
    pub fn answer_next_query(&self, page: Result<Page, ControlError>) {
        self.state.lock().unwrap().pages.push_back(page);
    }

    /// Answers the next call of `events` with this error, even if the call is already waiting.
    pub fn fail_next_events(&self, error: ControlError) {
        self.state.lock().unwrap().event_errors.push_back(error);
        self.events.send_modify(|_| {});
    }

    pub fn emit(&self, seqs: impl IntoIterator<Item = i64>) {
        let events = seqs.into_iter().map(samples::event);
        self.events.send_modify(|all| all.extend(events));
    }

    /// The number of calls of `events` that wait now.
    pub fn waiting_event_calls(&self) -> usize {
        self.events.receiver_count()
    }

    pub fn prune_events_before(&self, seq: i64) {
        self.state.lock().unwrap().oldest_event = seq;
        self.events
            .send_modify(|all| all.retain(|event| event.seq >= seq));
    }

    pub fn last_submitted(&self) -> Envelope {
        self.state.lock().unwrap().submitted.last().unwrap().clone()
    }

    pub fn submits(&self) -> usize {
        self.state.lock().unwrap().submitted.len()
    }

    pub fn last_queried(&self) -> Query {
        self.state.lock().unwrap().queried.last().unwrap().clone()
    }

    pub fn publish(&self, change: impl FnOnce(&mut Snapshot)) {
        self.snapshots
            .send_modify(|snapshot| change(Arc::make_mut(snapshot)));
    }

    fn events_after(&self, after: i64) -> Result<Vec<Event>, ControlError> {
        let mut state = self.state.lock().unwrap();
        if let Some(error) = state.event_errors.pop_front() {
            return Err(error);
        }
        if after + 1 < state.oldest_event {
            return Err(ControlError::Expired {
                message: format!("events before {} are no longer kept", state.oldest_event),
                oldest: state.oldest_event,
            });
        }
        let all = self.events.borrow();
        // Three events per page, so that a stream needs several calls for all events.
        let page = all.iter().filter(|event| event.seq > after).take(3);
        Ok(page.cloned().collect())
    }
}

#[async_trait]
impl Control for Fake {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        let mut state = self.state.lock().unwrap();
        let receipt = match &envelope.command {
            Command::Plan { .. } => Receipt::Planned {
                plan: Arc::new(samples::plan()),
            },
            Command::Delete { .. }
            | Command::DeletePlan { .. }
            | Command::DeletePlanFile { .. } => Receipt::Accepted(Accepted {
                deletion_id: "d1".into(),
                existing: false,
            }),
            Command::Purge { rung, .. } => samples::purged(*rung),
            _ => Receipt::Done { moved: 1 },
        };
        state.submitted.push(envelope);
        state.receipts.pop_front().unwrap_or(Ok(receipt))
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        let mut state = self.state.lock().unwrap();
        state.queried.push(query.clone());
        state.pages.pop_front().unwrap_or_else(|| sample_of(&query))
    }

    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        let mut changed = self.events.subscribe();
        let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
        loop {
            let page = self.events_after(after)?;
            if !page.is_empty() {
                return Ok(page);
            }
            match tokio::time::timeout_at(deadline, changed.changed()).await {
                Ok(_) => {}
                Err(_) => return Ok(Vec::new()),
            }
        }
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.subscribe()
    }
}

fn sample_of(query: &Query) -> Result<Page, ControlError> {
    let nothing = |what: &str| {
        Err(ControlError::NotFound {
            message: format!("no {what}"),
        })
    };
    match query {
        Query::Deletion(query::Deletion { id }) if id != "d1" => return nothing("such deletion"),
        Query::Step(query::Step { id }) if *id != 7 => return nothing("such step"),
        Query::Plan(query::Plan { hash }) if hash != "abc" => {
            return Err(ControlError::Expired {
                message: "plans are kept 24 h".into(),
                oldest: 0,
            });
        }
        Query::Tombstones(query::Tombstones { id: Some(id), .. }) if id == "none" => {
            return Ok(Page::Tombstones(Paged {
                rows: vec![],
                next: None,
            }));
        }
        _ => {}
    }
    // A query and its answer have the same name on the socket.
    let Some(name) = samples::variant_of(query, "ask") else {
        return nothing("resource");
    };
    let is_answer = |page: &Page| samples::variant_of(page, "page").as_deref() == Some(&name);
    Ok(samples::pages().into_iter().find(is_answer).unwrap())
}
