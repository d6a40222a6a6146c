//! The engine's writes to the ledger. Each write wakes the loop and the readers of events, and requests a new snapshot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::lock;
use crate::control::{ControlError, EngineStatus, Receipt};
use crate::ledger::{Applied, Change, Commit, LedgerError, Membership};

/// How long to wait after the ledger could not be read or written.
pub(super) const LEDGER_RETRY: Duration = Duration::from_secs(5);
/// Maximum number of outcomes in one commit. Such a commit delays other outcomes, and claims, by some 10 ms at most.
const OUTCOMES_MAX: usize = 100;

pub(super) struct Journal {
    ledger: Arc<dyn Commit>,
    /// Grows with each commit here, and when another engine may have committed. Readers of events follow it.
    commits: watch::Sender<u64>,
    /// Wakes the loop: something may have to be done.
    wake: Notify,
    /// Whether something that the snapshot shows has changed.
    is_dirty: AtomicBool,
    /// Ends the additional pause between two snapshots.
    shows_soon: Notify,
    /// Whether a worker panicked: no new work is taken until a restart.
    is_poisoned: AtomicBool,
    status: Mutex<EngineStatus>,
}

impl Journal {
    pub(super) fn new(ledger: Arc<dyn Commit>, status: EngineStatus) -> Self {
        Self {
            ledger,
            commits: watch::Sender::new(0),
            wake: Notify::new(),
            is_dirty: AtomicBool::new(true),
            shows_soon: Notify::new(),
            is_poisoned: AtomicBool::new(false),
            status: Mutex::new(status),
        }
    }

    /// Commits changes, wakes all followers, and requests a snapshot that shows the changes soon.
    pub(super) async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        let applied = self.write(changes).await?;
        self.show_soon();
        Ok(applied)
    }

    /// Commits one change as [`Self::commit`] does, and returns the ledger's answer to it.
    pub(super) async fn commit_one(&self, change: Change) -> Result<Option<Applied>, LedgerError> {
        Ok(self.commit(vec![change]).await?.into_iter().next())
    }

    async fn write(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        let applied = self.ledger.commit(changes).await?;
        self.wake_followers();
        Ok(applied)
    }

    /// Commits changes that must not be lost. Retries for as long as the ledger cannot be written, for example
    /// because its disk is full.
    pub(super) async fn commit_until_done(
        &self,
        changes: Vec<Change>,
    ) -> Result<Vec<Applied>, LedgerError> {
        let applied = self.write_until_done(changes).await?;
        self.show_soon();
        Ok(applied)
    }

    async fn write_until_done(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        loop {
            match self.write(changes.clone()).await {
                Err(error @ LedgerError::Io { .. }) => {
                    self.set_fault(Some(error.to_string()));
                    tokio::time::sleep(LEDGER_RETRY).await;
                }
                other => return other,
            }
        }
    }

    /// Writes the outcomes of steps, as [`Self::commit_until_done`] does. There are many of them, so the snapshot shows
    /// them at its regular time. If the ledger refuses an outcome, the step's resource is observed again at the next
    /// start.
    pub(super) async fn commit_outcomes(&self, changes: Vec<Change>) {
        for some in changes.chunks(OUTCOMES_MAX) {
            match self.write_until_done(some.to_vec()).await {
                Ok(applied) => {
                    for answer in applied {
                        if let Applied::Refused(why) = answer {
                            tracing::error!(
                                why,
                                "the ledger refused an outcome; the resource is \
                                                  observed again at the next start"
                            );
                        }
                    }
                }
                Err(error) => {
                    tracing::error!(%error, count = some.len(), "outcomes were not written to the \
                                                                 ledger; their resources are \
                                                                 observed again at the next start");
                    self.set_fault(Some(error.to_string()));
                }
            }
        }
    }

    /// Commits the one change of a command; the receipt has the number of [`Applied::Moved`].
    pub(super) async fn commit_command(&self, change: Change) -> Result<Receipt, ControlError> {
        match self.commit_one(change).await? {
            Some(Applied::Moved(moved)) => Ok(Receipt::Done { moved }),
            Some(Applied::Refused(why)) => Err(ControlError::conflict(why)),
            _ => Ok(Receipt::Done { moved: 0 }),
        }
    }

    /// Wakes the readers of events, and requests a new snapshot, because another engine may have written something.
    pub(super) fn others_committed(&self) {
        self.commits.send_modify(|version| *version += 1);
        self.mark_dirty();
    }

    /// Shows in the status whether this engine leads the engines of its ledger, and its epoch.
    pub(super) fn set_membership(&self, membership: &Membership) {
        let mut status = lock(&self.status);
        let now = (membership.epoch, !membership.leads);
        if (status.epoch, status.follows) != now {
            (status.epoch, status.follows) = now;
            self.show_soon();
        }
    }

    /// Announces a write: wakes the readers of events and the engine's loop, and marks the snapshot as out of date.
    pub(super) fn wake_followers(&self) {
        self.commits.send_modify(|version| *version += 1);
        self.mark_dirty();
        self.wake_loop();
    }

    /// Returns a receiver of a number that grows with each commit here, and when another engine may have committed.
    pub(super) fn follow(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    pub(super) fn wake_loop(&self) {
        self.wake.notify_one();
    }

    /// Waits until the loop may have something to do.
    pub(super) async fn wait_for_wake(&self) {
        self.wake.notified().await;
    }

    /// Requests a rebuilt snapshot at its regular time, because something that it shows may have changed.
    pub(super) fn mark_dirty(&self) {
        self.is_dirty.store(true, Ordering::Relaxed);
    }

    /// Requests a new snapshot soon, because something that a person waits for has changed.
    pub(super) fn show_soon(&self) {
        self.mark_dirty();
        self.shows_soon.notify_one();
    }

    /// Ends the additional pause between two snapshots, because a reader has begun to follow the snapshot.
    pub(super) fn end_snapshot_pause(&self) {
        self.shows_soon.notify_one();
    }

    /// Waits until a new snapshot is needed soon, or a reader begins to follow the snapshot.
    pub(super) async fn wait_for_snapshot_request(&self) {
        self.shows_soon.notified().await;
    }

    /// Whether something that the snapshot shows has changed since the last call of this function.
    pub(super) fn take_dirty(&self) -> bool {
        self.is_dirty.swap(false, Ordering::Relaxed)
    }

    pub(super) fn status(&self) -> EngineStatus {
        lock(&self.status).clone()
    }

    /// Sets or clears the reason why the engine takes no new work. After [`Self::poison`] the reason stays.
    pub(super) fn set_fault(&self, fault: Option<String>) {
        let mut status = lock(&self.status);
        if !self.is_poisoned() && status.fault != fault {
            if let Some(fault) = &fault {
                tracing::error!(fault, "the engine accepts no new work");
            }
            status.fault = fault;
            self.show_soon();
        }
    }

    /// Stops the engine from taking new work until a restart, for this reason.
    pub(super) fn poison(&self, fault: String) {
        self.set_fault(Some(fault));
        self.is_poisoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Relaxed)
    }
}
