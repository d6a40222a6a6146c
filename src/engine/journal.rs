//! The engine's writes of the ledger, and whom each of them wakes: the loop, readers of events, the snapshot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::errors::ledger_error;
use crate::control::{ControlError, EngineStatus, Receipt};
use crate::ledger::{Applied, Change, Commit, LedgerError, Membership};

/// How long to wait after a failed write of the ledger.
pub(super) const LEDGER_RETRY: Duration = Duration::from_secs(5);
/// Maximum number of outcomes in one commit: it delays other outcomes, and claims, by some 10 ms at most.
const OUTCOMES_MAX: usize = 100;

pub(super) struct Journal {
    ledger: Arc<dyn Commit>,
    /// The number of commits, for readers that follow events.
    commits: watch::Sender<u64>,
    /// Wakes the loop: something may have to be done.
    wake: Notify,
    /// Whether something changed that the snapshot shows.
    is_dirty: AtomicBool,
    /// Ends the longer pause between snapshots.
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

    /// Commits, wakes all followers, and has the change shown soon.
    pub(super) async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        let applied = self.write(changes).await?;
        self.show_soon();
        Ok(applied)
    }

    async fn write(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError> {
        let applied = self.ledger.commit(changes).await?;
        self.wake_followers();
        Ok(applied)
    }

    /// Commits an outcome that must not be lost: waits for a full disk, as long as it takes.
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

    /// Writes the outcomes of steps; an outcome is never lost while this process lives. They are many, and are
    /// shown in the snapshot's own time.
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

    /// Commits the one change of a command; the receipt says how much it changed.
    pub(super) async fn commit_command(&self, change: Change) -> Result<Receipt, ControlError> {
        let applied = self.commit(vec![change]).await.map_err(ledger_error)?;
        match applied.into_iter().next() {
            Some(Applied::Moved(moved)) => Ok(Receipt::Done { moved }),
            Some(Applied::Refused(why)) => Err(ControlError::Conflict { message: why }),
            _ => Ok(Receipt::Done { moved: 0 }),
        }
    }

    /// Wakes those who follow events, and has the snapshot built anew: another engine may have written something.
    pub(super) fn others_committed(&self) {
        self.commits.send_modify(|version| *version += 1);
        self.mark_dirty();
    }

    /// Takes in this engine's membership among the engines of its ledger.
    pub(super) fn set_membership(&self, membership: &Membership) {
        let mut status = self.lock_status();
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

    /// Returns the number of commits, and each later one.
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

    /// Requests a rebuilt snapshot at its regular time, because steps have changed here or at another engine.
    fn mark_dirty(&self) {
        self.is_dirty.store(true, Ordering::Relaxed);
    }

    /// Requests a new snapshot soon, because something that a person waits for has changed.
    pub(super) fn show_soon(&self) {
        self.mark_dirty();
        self.shows_soon.notify_one();
    }

    /// Ends a longer pause between snapshots: somebody began to look.
    pub(super) fn end_snapshot_pause(&self) {
        self.shows_soon.notify_one();
    }

    /// Waits until the snapshot is to be built soon.
    pub(super) async fn wait_for_snapshot_request(&self) {
        self.shows_soon.notified().await;
    }

    /// Whether something changed since this was last called.
    pub(super) fn take_dirty(&self) -> bool {
        self.is_dirty.swap(false, Ordering::Relaxed)
    }

    pub(super) fn status(&self) -> EngineStatus {
        self.lock_status().clone()
    }

    fn lock_status(&self) -> MutexGuard<'_, EngineStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets or clears the reason why the engine takes no new work. After [`Self::poison`] the reason stays.
    pub(super) fn set_fault(&self, fault: Option<String>) {
        let mut status = self.lock_status();
        if !self.is_poisoned() && status.fault != fault {
            if let Some(fault) = &fault {
                tracing::error!(fault, "the engine accepts no new work");
            }
            status.fault = fault;
            self.show_soon();
        }
    }

    /// Takes no new work until a restart, for this reason.
    pub(super) fn poison(&self, fault: String) {
        self.set_fault(Some(fault));
        self.is_poisoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Relaxed)
    }
}
