//! Implements [`Control`]: carries out commands, answers queries, and returns events and snapshots.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::PAGE_MAX;
use super::commands::Commands;
use super::journal::Journal;
use super::queries::Queries;
use super::requests::{KeyedRequests, asks_for_deletion, keyed};
use super::snapshot::Publishing;
use crate::control::query::answer_query;
use crate::control::{Command, Control, ControlError, Envelope, Page, Query, Receipt, Snapshot};
use crate::domain::model::Event;
use crate::ledger::{EventFilter, Ledger};

pub(super) struct ControlService {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) journal: Arc<Journal>,
    pub(super) publishing: Arc<Publishing>,
    pub(super) requests: Arc<KeyedRequests>,
    pub(super) commands: Arc<Commands>,
    pub(super) queries: Queries,
}

#[async_trait]
impl Control for ControlService {
    async fn submit(&self, mut envelope: Envelope) -> Result<Receipt, ControlError> {
        let Some(request) = keyed(&envelope) else {
            return self.commands.carry_out(envelope).await;
        };
        if asks_for_deletion(&envelope.command) {
            if let Some(deletion_id) = self.requests.deletion_asked_for(&request).await? {
                envelope.command = Command::RepeatDelete { deletion_id };
            }
            return self.commands.carry_out(envelope).await;
        }
        let commands = self.commands.clone();
        let command = async move { commands.carry_out(envelope).await };
        self.requests.once(request, command).await
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        answer_query(&self.queries, query).await
    }

    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        let mut committed = self.journal.follow();
        let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
        loop {
            committed.mark_unchanged();
            let page = self
                .ledger
                .events(after, EventFilter::default(), PAGE_MAX)
                .await?;
            if after + 1 < page.oldest {
                return Err(ControlError::Expired {
                    message: format!("events up to {} are no longer kept", page.oldest - 1),
                    oldest: page.oldest,
                });
            }
            if !page.events.is_empty()
                || tokio::time::timeout_at(deadline, committed.changed())
                    .await
                    .is_err()
            {
                return Ok(page.events);
            }
        }
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.publishing.follow()
    }
}
