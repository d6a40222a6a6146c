//! Prunes the ledger, once an hour and when a person asks.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;

use super::activity::Activity;
use super::audit::audit;
use super::journal::Journal;
use crate::control::{ControlError, Envelope, Receipt};
use crate::domain::model::KindName;
use crate::ledger::{Applied, AuditEntry, Change, LedgerError};
use crate::system::clock::Clock;

/// Time from when the engine first leads the engines of its ledger to the first pruning.
const FIRST: Duration = Duration::from_secs(60);
/// Time between two prunings.
const EVERY: Duration = Duration::from_secs(60 * 60);

pub(super) struct Pruning {
    pub(super) clock: Clock,
    pub(super) journal: Arc<Journal>,
    pub(super) retention: Duration,
    pub(super) hold_down: Duration,
    /// The kinds whose ids are never used again (M1).
    pub(super) unique_id_kinds: Arc<[KindName]>,
    pub(super) activity: Arc<Activity>,
}

impl Pruning {
    /// Starts a pruning that is due. Returns the time until the next one.
    pub(super) fn start(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> Duration {
        let now = self.clock.now();
        let due = self.activity.next_run_or(FIRST);
        if due > now {
            return (due - now).to_std().unwrap_or(EVERY);
        }
        // A pruning that takes longer than its period wakes the loop when it ends.
        if self.activity.is_running() {
            return EVERY;
        }
        self.activity.runs_in(EVERY);
        let (pruning, run) = (self.clone(), self.activity.begin(""));
        tasks.spawn(async move {
            match pruning.prune_before(now - pruning.retention, None).await {
                Ok(0) => {}
                Ok(rows) => tracing::info!(rows, "removed rows whose retention has ended"),
                Err(error) => {
                    run.failed(&error);
                    tracing::warn!(%error, "some rows whose retention has ended were not \
                                                      removed; the next prune retries")
                }
            }
        });
        EVERY
    }

    pub(super) async fn prune_by_hand(
        &self,
        envelope: &Envelope,
        before: Option<DateTime<Utc>>,
    ) -> Result<Receipt, ControlError> {
        let now = self.clock.now();
        let before = before.unwrap_or(now - self.retention);
        let mut audit = audit(envelope, "prune", "ledger");
        audit.detail = serde_json::json!({ "before": before });
        let moved = self.prune_before(before, Some(audit)).await?;
        Ok(Receipt::Done { moved })
    }

    /// Prunes in small pieces, so that outcomes can be written in between. Returns the number of removed rows.
    async fn prune_before(
        &self,
        before: DateTime<Utc>,
        mut audit: Option<AuditEntry>,
    ) -> Result<u64, LedgerError> {
        let now = self.clock.now();
        // The sweep still needs the rows of resources in hold-down.
        let before = before.min(now - self.hold_down);
        let mut rows = 0;
        loop {
            let piece = Change::Prune {
                before,
                unique_id_kinds: self.unique_id_kinds.clone(),
                audit: audit.take(),
                now,
            };
            match self.journal.commit_one(piece).await? {
                Some(Applied::Moved(moved)) if moved > 0 => rows += moved,
                _ => return Ok(rows),
            }
        }
    }
}
