//! A replay: the engine's answers from a ledger as it was at another time. A replay asks no cloud, writes nothing,
//! and carries out no deletion.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::watch;

use super::control_service::ControlService;
use super::{Engine, EngineParts, lock};
use crate::cloud::Cloud;
use crate::control::{
    Command, Control, ControlError, Envelope, Moment, Page, Query, Receipt, Snapshot, query,
};
use crate::domain::kinds::Kinds;
use crate::domain::model::Event;
use crate::ledger::sqlite::rewind::Rewind;
use crate::ledger::{Ledger, LedgerError};
use crate::system::clock::Clock;
use crate::system::config::Settings;

/// Answers as of one time. [`Command::Seek`] moves to another time, and every other command is refused.
pub struct Replay {
    /// This engine never runs: it only answers.
    engine: Arc<ControlService>,
    clock: Clock,
    rewind: Arc<Mutex<Rewind>>,
    /// Allows one seek at a time, so that the published snapshot and the ledger show the same time.
    seeking: tokio::sync::Mutex<()>,
}

impl Replay {
    /// Opens a replay at this time. `cloud` has no sites. `name` is the ledger's name, shown to people.
    ///
    /// # Errors
    /// The copy of the ledger that is set to this time cannot be read.
    pub async fn open(
        rewind: Rewind,
        at: DateTime<Utc>,
        kinds: Arc<Kinds>,
        cloud: Arc<dyn Cloud>,
        name: String,
    ) -> Result<Self, ControlError> {
        let clock = Clock::stopped_at(at);
        let ledger: Arc<dyn Ledger> = Arc::new(rewind.ledger()?);
        let mut settings = Settings::default();
        settings.guard.read_only = true;
        let engine = Engine::new(EngineParts {
            neighbours: None,
            ledger,
            cloud,
            kinds,
            clock: clock.clone(),
            settings,
            tombstones: None,
            gates: Arc::default(),
            ledger_name: name,
            epoch: 0,
        });
        let replay = Self {
            engine: engine.service,
            clock,
            rewind: Arc::new(Mutex::new(rewind)),
            seeking: tokio::sync::Mutex::default(),
        };
        replay.seek(Moment::At(at)).await?;
        Ok(replay)
    }

    async fn seek(&self, to: Moment) -> Result<Receipt, ControlError> {
        let _alone = self.seeking.lock().await;
        let rewind = self.rewind.clone();
        let sought = tokio::task::spawn_blocking(move || {
            let mut rewind = lock(&rewind);
            match to {
                Moment::At(at) => rewind.seek(at),
                Moment::By(moments) => rewind.step(moments),
            }
        });
        let sought = sought.await.unwrap_or(Err(LedgerError::Closed));
        self.clock.set(sought?);
        self.engine.publishing.publish_replayed().await?;
        // Wakes the readers that follow events, because the ledger may have other events at this time.
        self.engine.journal.wake_followers();
        Ok(Receipt::Done { moved: 0 })
    }

    fn at(&self) -> String {
        self.clock.now().format("%F %T UTC").to_string()
    }
}

#[async_trait]
impl Control for Replay {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        match envelope.command {
            Command::Seek { to } => self.seek(to).await,
            _ => Err(ControlError::Forbidden {
                message: format!(
                    "this is a replay of {} as of {}: the command was refused, because a replay changes nothing",
                    self.engine.journal.status().ledger,
                    self.at()
                ),
            }),
        }
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        match query {
            Query::Resources(_) | Query::ResourceCounts(_) | Query::Ladder(_) => {
                Err(ControlError::Forbidden {
                    message: "a replay asks no cloud: it shows what the ledger knew".into(),
                })
            }
            Query::Explain(query::Explain { target }) => {
                let mut explanation = self
                    .engine
                    .queries
                    .explaining
                    .explain_remembered(&target)
                    .await;
                if let Ok(explanation) = &mut explanation {
                    let line = "a replay asks no cloud: this is what the ledger knew".to_owned();
                    explanation.lines.push(line);
                    // No action is possible in a replay.
                    explanation.next_action.clear();
                }
                self.with_time(explanation.map(|explanation| Page::Explain(Box::new(explanation))))
            }
            // In a replay no reconciler and no engine runs.
            Query::Reconcilers(_) => Ok(Page::Reconcilers(Vec::new())),
            Query::Engines(_) => Ok(Page::Engines(Vec::new())),
            query => self.with_time(self.engine.query(query).await),
        }
    }

    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        self.engine.events(after, wait_ms).await
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.engine.snapshot()
    }
}

impl Replay {
    /// Replaces a not-found error by one that gives the time, because the ledger may have the record at another time.
    fn with_time(&self, answer: Result<Page, ControlError>) -> Result<Page, ControlError> {
        answer.map_err(|error| match error {
            ControlError::NotFound { .. } => {
                ControlError::not_found(format!("the ledger had no such record at {}", self.at()))
            }
            error => error,
        })
    }
}
