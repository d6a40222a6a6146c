//! An engine that answers peers at once, refuses them, or lets them wait; and remembers who asked.

use gone::control::query;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gone::control::*;
use gone::domain::model::{Actor, Event};
use gone::domain::peers::*;
use tokio::sync::watch;

use crate::support::deployment;

pub struct Fake {
    pub asked: Mutex<Vec<Asked>>,
    does: Mutex<Does>,
    waiting: watch::Sender<usize>,
}

/// What reached the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Watch(Watch, Actor),
    Question(Question),
    Hint(Deployment, Actor),
}

#[derive(Clone)]
enum Does {
    Answer,
    Refuse(ControlError),
    /// Until the caller goes away.
    Wait,
}

impl Fake {
    pub fn new() -> Arc<Self> {
        Self::that(Does::Answer)
    }

    pub fn refuses(error: ControlError) -> Arc<Self> {
        Self::that(Does::Refuse(error))
    }

    pub fn waits() -> Arc<Self> {
        Self::that(Does::Wait)
    }

    fn that(does: Does) -> Arc<Self> {
        Arc::new(Self {
            asked: Mutex::default(),
            does: Mutex::new(does),
            waiting: watch::Sender::new(0),
        })
    }

    pub fn last(&self) -> Asked {
        self.asked.lock().unwrap().last().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Returns when so many calls wait at once.
    pub async fn await_waiting(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        waiting.wait_for(|now| *now == count).await.unwrap();
    }

    async fn does<T>(&self, asked: Asked, answer: T) -> Result<T, ControlError> {
        self.asked.lock().unwrap().push(asked);
        let does = self.does.lock().unwrap().clone();
        match does {
            Does::Answer => Ok(answer),
            Does::Refuse(error) => Err(error),
            Does::Wait => {
                let _here = Here::new(&self.waiting);
                std::future::pending().await
            }
        }
    }
}

/// Counted until it is dropped.
struct Here<'a>(&'a watch::Sender<usize>);

impl<'a> Here<'a> {
    fn new(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|count| *count += 1);
        Self(waiting)
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[async_trait]
impl Control for Fake {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        let Envelope { command, actor, .. } = envelope;
        match command {
            Command::Watch { watch } => {
                let news = news(&watch);
                let receipt = Receipt::Notices(Box::new(news));
                self.does(Asked::Watch(watch, actor), receipt).await
            }
            Command::Hint { from } => {
                let receipt = Receipt::Done { moved: 1 };
                self.does(Asked::Hint(from, actor), receipt).await
            }
            other => panic!("no peer may ask for {other:?}"),
        }
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        match query {
            Query::PointsAt(query::PointsAt { question }) => {
                let answers = answers(&question);
                let page = Page::PointsAt(answers);
                self.does(Asked::Question(question), page).await
            }
            other => panic!("no peer may ask for {other:?}"),
        }
    }

    async fn events(&self, _: i64, _: u64) -> Result<Vec<Event>, ControlError> {
        panic!("no peer follows events")
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        panic!("no peer sees snapshots")
    }
}

/// What is heard after a watch.
pub fn news(watch: &Watch) -> DeletionNotices {
    DeletionNotices {
        from: deployment("s1"),
        ledger: "l1".to_owned(),
        seq: watch.after + 1,
        changes: Vec::new(),
        more: false,
    }
}

/// Nothing points there.
pub fn answers(question: &Question) -> Answers {
    let clear =
        |asked: &gone::domain::peers::ClearanceRequest| Answered::of(asked.clone(), Vec::new(), 0);
    Answers {
        from: deployment("s1"),
        ledger: question.ledger.clone(),
        seq: question.seq,
        about: question.about.iter().map(clear).collect(),
    }
}
