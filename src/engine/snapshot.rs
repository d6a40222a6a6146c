//! Publishes the bounded snapshot after a change, at most ten times a second. While nobody follows the
//! snapshot, the progress of steps is published at most once a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::activity::Activity;
use super::journal::Journal;
use super::sites::Sites;
use crate::control::Snapshot;
use crate::domain::attention;
use crate::domain::kinds::Kinds;
use crate::ledger::{LedgerError, Views};
use crate::system::clock::Clock;

/// The shortest time between two snapshots. Ten a second is more than a terminal over SSH can show.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);
/// The additional pause while nobody follows the snapshot and only the progress of steps has changed.
const UNFOLLOWED_PAUSE: Duration = Duration::from_millis(900);
/// Maximum number of steps that need attention in a snapshot: a page of a console, and more than a person can
/// take in.
const ATTENTION_MAX: usize = 200;

/// Publishes the snapshot to consoles and other readers.
pub(super) struct Publishing {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Views>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) sites: Arc<Sites>,
    pub(super) journal: Arc<Journal>,
    pub(super) snapshot: watch::Sender<Arc<Snapshot>>,
    pub(super) activity: Arc<Activity>,
    /// Whether a snapshot is being published, or the pause after it lasts.
    pub(super) is_busy: AtomicBool,
}

impl Publishing {
    /// Starts publishing if something changed, unless a snapshot is being published or the pause after it lasts.
    pub(super) fn start(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        if self.is_busy.load(Ordering::Relaxed) || !self.journal.take_dirty() {
            return;
        }
        self.is_busy.store(true, Ordering::Relaxed);
        let (publishing, run) = (self.clone(), self.activity.begin(""));
        tasks.spawn(async move {
            if let Err(error) = publishing.publish_now().await {
                tracing::warn!(%error, "a snapshot could not be built");
                run.failed(&error);
                // The change still has to be shown, after the pause below.
                publishing.journal.mark_dirty();
            }
            drop(run);
            sleep(PUBLISH_EVERY).await;
            if publishing.snapshot.receiver_count() == 0 {
                let _ = timeout(
                    UNFOLLOWED_PAUSE,
                    publishing.journal.wait_for_snapshot_request(),
                )
                .await;
            }
            publishing.is_busy.store(false, Ordering::Relaxed);
        });
    }

    pub(super) fn follow(&self) -> watch::Receiver<Arc<Snapshot>> {
        let reader = self.snapshot.subscribe();
        self.journal.end_snapshot_pause();
        reader
    }

    async fn publish_now(&self) -> Result<(), LedgerError> {
        let now = self.clock.now();
        let before = self.snapshot.borrow().clone();
        let snapshot = self.picture(&before).await?;
        if snapshot != *before {
            self.show(snapshot, now);
        }
        Ok(())
    }

    /// Publishes the present state of a replay, even if it is unchanged, because the command that set the time
    /// waits for the snapshot.
    pub(super) async fn publish_replayed(&self) -> Result<(), LedgerError> {
        let before = self.snapshot.borrow().clone();
        let snapshot = self.picture(&before).await?;
        self.show(snapshot, self.clock.now());
        Ok(())
    }

    fn show(&self, mut snapshot: Snapshot, now: DateTime<Utc>) {
        snapshot.version += 1;
        snapshot.at = Some(now);
        self.snapshot.send_replace(Arc::new(snapshot));
    }

    /// Builds a snapshot from the ledger, the status of the engine and the statuses of the sites. Version and time are
    /// those of the last snapshot.
    async fn picture(&self, before: &Snapshot) -> Result<Snapshot, LedgerError> {
        let mut summary = self.ledger.summary().await?;
        let now = self.clock.now();
        let slow = summary.delayed.into_iter().filter(|step| {
            let kind = self.kinds.get(&step.resource.key.kind);
            kind.is_some_and(|kind| attention::is_slow_delete(step, kind, now))
        });
        summary.attention.extend(slow);
        summary.attention.truncate(ATTENTION_MAX);
        let rates = summary.deletions.iter().map(|it| it.rate_per_second);
        let rate_per_second = rates.sum();
        Ok(Snapshot {
            version: before.version,
            at: before.at,
            engine: self.journal.status(),
            sites: self.sites.statuses(),
            deletions_by_state: summary
                .deletions_by_state
                .iter()
                .map(|(state, count)| (state.as_str().to_owned(), *count))
                .collect::<BTreeMap<_, _>>(),
            steps: summary.steps,
            deletions: summary.deletions,
            attention: summary.attention,
            last_event: summary.last_event,
            rate_per_second,
        })
    }
}
