//! An engine that answers the calls of peers at once, refuses them, or never answers them, and records them.

use gone::control::query;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gone::control::*;
use gone::domain::model::{Actor, Event};
use gone::domain::peers::*;
use tokio::sync::watch;

use crate::support::deployment;

pub struct FakeEngine {
    received: Mutex<Vec<ReceivedCall>>,
    behaviour: Mutex<Behaviour>,
    waiting: watch::Sender<usize>,
}

/// A call that reached the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum ReceivedCall {
    Watch(Watch, Actor),
    Question(Question),
    Hint(Deployment, Actor),
}

#[derive(Clone)]
enum Behaviour {
    Answer,
    Refuse(ControlError),
    /// Wait until the caller hangs up.
    Wait,
}

impl FakeEngine {
    pub fn new() -> Arc<Self> {
        Self::with_behaviour(Behaviour::Answer)
    }

    pub fn refusing(error: ControlError) -> Arc<Self> {
        Self::with_behaviour(Behaviour::Refuse(error))
    }

    pub fn waiting() -> Arc<Self> {
        Self::with_behaviour(Behaviour::Wait)
    }

    fn with_behaviour(behaviour: Behaviour) -> Arc<Self> {
        Arc::new(Self {
            received: Mutex::default(),
            behaviour: Mutex::new(behaviour),
            waiting: watch::Sender::new(0),
        })
    }

    pub fn last(&self) -> ReceivedCall {
        self.received.lock().unwrap().last().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// Returns when this many calls wait at the same time.
    pub async fn wait_for_waiting_calls(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        waiting.wait_for(|now| *now == count).await.unwrap();
    }

    async fn record_and_reply<T>(&self, call: ReceivedCall, answer: T) -> Result<T, ControlError> {
        self.received.lock().unwrap().push(call);
        let behaviour = self.behaviour.lock().unwrap().clone();
        match behaviour {
            Behaviour::Answer => Ok(answer),
            Behaviour::Refuse(error) => Err(error),
            Behaviour::Wait => {
                let _waiting = WaitingCall::new(&self.waiting);
                std::future::pending().await
            }
        }
    }
}

/// A call that waits. It is counted until it is dropped.
struct WaitingCall<'a>(&'a watch::Sender<usize>);

impl<'a> WaitingCall<'a> {
    fn new(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|count| *count += 1);
        Self(waiting)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[async_trait]
impl Control for FakeEngine {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        let Envelope { command, actor, .. } = envelope;
        match command {
            Command::Watch { watch } => {
                let notices = notices(&watch);
                let receipt = Receipt::Notices(Box::new(notices));
                self.record_and_reply(ReceivedCall::Watch(watch, actor), receipt)
                    .await
            }
            Command::Hint { from } => {
                let receipt = Receipt::Done { moved: 1 };
                self.record_and_reply(ReceivedCall::Hint(from, actor), receipt)
                    .await
            }
            other => panic!("a call of a peer must not lead to {other:?}"),
        }
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        match query {
            Query::ClearanceAnswers(query::ClearanceAnswers { question }) => {
                let answers = answers(&question);
                let page = Page::ClearanceAnswers(answers);
                self.record_and_reply(ReceivedCall::Question(question), page)
                    .await
            }
            other => panic!("a call of a peer must not lead to {other:?}"),
        }
    }

    async fn events(&self, _: i64, _: u64) -> Result<Vec<Event>, ControlError> {
        panic!("a call of a peer must not read events")
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        panic!("a call of a peer must not read snapshots")
    }
}

/// The answer to a watch: the sequence number after `after`, and no changes.
pub fn notices(watch: &Watch) -> DeletionNotices {
    DeletionNotices {
        from: deployment("s1"),
        ledger: "l1".to_owned(),
        seq: watch.after + 1,
        changes: Vec::new(),
        more: false,
    }
}

/// The answer to a question: nothing refers to the resources.
pub fn answers(question: &Question) -> Answers {
    let clear = |request: &ClearanceRequest| ClearanceAnswer::of(request.clone(), Vec::new(), 0);
    Answers {
        from: deployment("s1"),
        ledger: question.ledger.clone(),
        seq: question.seq,
        about: question.about.iter().map(clear).collect(),
    }
}
