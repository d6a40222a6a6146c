//! The state of one engine among those of its ledger: its lease, its position, and the changes that the gates of the
//! other engines have. Three parts of a store share this state: the writer, the thread that renews the lease, and the
//! code that answers requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::{EngineTerms, Membership};
use crate::ledger::tombstones::{Changed, Tombstones};
use crate::ledger::{Change, WriteRequest};

/// How long a gate answers from its memory after the lease of its engine was last renewed. An engine that raises
/// tombstones waits no longer than this for a gate that does not respond.
pub const GATE_LEASE: Duration = Duration::from_secs(10);
/// How often a wait for gates checks them without being woken: a gate's lease may have ended.
const CHECK_GATES_EVERY: Duration = Duration::from_millis(100);

/// The gates of another engine, which answer from its memory. Changes of tombstones are numbered in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateMember {
    /// The last change that these gates have.
    pub applied: i64,
    /// The last change for which every write that began before these gates had the change has ended.
    pub passed: i64,
    /// The latest time, by our own clock, at which these gates may answer.
    pub until: Instant,
    /// The latest time, by our own clock, at which a write that these gates let through ends.
    pub writes_until: Instant,
}

/// The gates of the other engines, as one read showed them.
#[derive(Default)]
struct Gates {
    /// The number of reads that were requested before this one began.
    read: u64,
    members: Vec<GateMember>,
}

/// The facts about a request that decide what must follow its transaction.
#[derive(Clone, Copy, Debug)]
pub struct RequestEffects {
    raises_tombstones: bool,
    takes_over: bool,
    drains: bool,
    /// `raised` of the [`Member`] before the transaction.
    raised: i64,
}

/// An engine among those of its ledger.
pub struct Member {
    pub terms: EngineTerms,
    /// The tombstones from which our gates answer.
    pub index: Option<Arc<Tombstones>>,
    membership: watch::Sender<Membership>,
    others: watch::Sender<u64>,
    gates: watch::Sender<Gates>,
    /// Number of reads of the rows of engines that were requested.
    reads_asked: AtomicU64,
    works: AtomicBool,
    is_closing: AtomicBool,
    /// Whether the writer must begin a new epoch: at the start, and after other engines have ended the lease.
    must_join: AtomicBool,
    /// The positions of our own gates, as in [`GateMember`].
    applied: AtomicI64,
    passed: AtomicI64,
    /// The last change of a tombstone that this engine has committed while other engines had gates.
    raised: AtomicI64,
    wake: Arc<Notify>,
}

impl Member {
    pub fn new(mut terms: EngineTerms, index: Option<Arc<Tombstones>>) -> Self {
        if index.is_some() {
            // Once this lease has ended, the writes through this engine's gates have ended, too: an engine that takes
            // over need not wait.
            terms.lease = terms.lease.max(GATE_LEASE + terms.call_timeout);
        }
        Self {
            terms,
            index,
            membership: watch::Sender::new(Membership::alone(0)),
            others: watch::Sender::new(0),
            gates: watch::Sender::new(Gates::default()),
            reads_asked: AtomicU64::new(0),
            works: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            must_join: AtomicBool::new(true),
            applied: AtomicI64::new(0),
            passed: AtomicI64::new(0),
            raised: AtomicI64::new(0),
            wake: Arc::default(),
        }
    }

    pub fn membership(&self) -> Membership {
        self.membership.borrow().clone()
    }

    pub fn epoch(&self) -> i64 {
        self.membership.borrow().epoch
    }

    /// Changes this engine's membership. Notifies the followers, unless only the end of the lease has changed.
    fn change(&self, change: impl FnOnce(&mut Membership)) {
        let mut is_change = false;
        self.membership.send_modify(|membership| {
            let before = membership.clone();
            change(membership);
            let timeless = |membership: &Membership| Membership {
                until: None,
                ..membership.clone()
            };
            is_change = timeless(&before) != timeless(membership);
        });
        if is_change {
            self.others_moved();
        }
    }

    /// Sets the membership as just read, unless the engine has begun another epoch since.
    pub(super) fn renew(&self, now: Membership) {
        self.change(|membership| {
            if membership.epoch == now.epoch {
                *membership = now;
            }
        });
    }

    /// Sets the reason why nothing may be sent for now.
    pub fn fail(&self, fault: &str) {
        self.change(|membership| membership.fault = Some(fault.to_owned()));
    }

    /// Begins a new epoch. `applied`: the last change of a tombstone in memory. `until`: the end of the lease.
    pub fn joined(&self, epoch: i64, applied: i64, until: Instant) {
        self.apply(applied);
        self.passed.store(applied, Ordering::Release);
        self.change(|membership| {
            *membership = Membership {
                until: Some(until),
                rank: None,
                leads: false,
                ..Membership::alone(epoch)
            };
        });
        self.must_join.store(false, Ordering::Release);
        self.wake();
    }

    pub(super) fn others_moved(&self) {
        self.others.send_modify(|moved| *moved += 1);
    }

    pub fn follow_others(&self) -> watch::Receiver<u64> {
        self.others.subscribe()
    }

    pub fn begin_work(&self) {
        self.works.store(true, Ordering::Release);
        self.wake();
    }

    pub fn works(&self) -> bool {
        self.works.load(Ordering::Acquire)
    }

    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.wake();
    }

    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    pub fn must_join(&self) -> bool {
        self.must_join.load(Ordering::Acquire)
    }

    /// Makes the writer begin a new epoch, unless the writer has begun one after this epoch.
    pub fn lose_epoch(&self, epoch: i64) {
        if self.epoch() == epoch {
            self.must_join.store(true, Ordering::Release);
            self.fail(
                "this engine's lease expired, and another engine took over its steps; this engine is rejoining \
                 the ledger",
            );
        }
    }

    /// Returns the notifier that wakes the thread which renews the lease.
    pub fn waker(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    pub fn wake(&self) {
        self.wake.notify_one();
    }
}

/// The calls of a store before and after each transaction.
impl Member {
    /// Begins a request, and returns the effects that must follow its transaction.
    pub fn begin(&self, request: &WriteRequest) -> RequestEffects {
        let changes = match request {
            WriteRequest::Commit(changes) => changes.as_slice(),
            WriteRequest::Claim { .. } => &[],
        };
        let has = |of: fn(&Change) -> bool| changes.iter().any(of);
        RequestEffects {
            raises_tombstones: request.raises_tombstones(),
            takes_over: has(|change| matches!(change, Change::TakeOver { .. })),
            drains: has(|change| matches!(change, Change::DrainEngines { .. })),
            raised: self.raised(),
        }
    }

    /// Applies the changes of tombstones that other engines made before a committed transaction, and those that the
    /// transaction made. `last`: the number of the last change; none if the commit was not answered. `has_raised`:
    /// whether gates of other engines must apply a change that this transaction made.
    pub fn committed(&self, changed: Vec<Changed>, last: Option<i64>, has_raised: bool) {
        if let Some(index) = &self.index {
            index.apply(changed);
        }
        if let Some(last) = last {
            if has_raised {
                self.raise(last);
            }
            self.apply(last);
        }
    }

    /// Ends a request whose transaction was committed. If the transaction raised tombstones, waits until the gates of
    /// the other engines have them, or may no longer answer (T3).
    pub async fn end(&self, effects: RequestEffects) {
        if effects.takes_over {
            self.change(|membership| membership.is_takeover_due = false);
        }
        if effects.drains {
            self.wake();
        }
        let raised = self.raised();
        if effects.raises_tombstones && raised > effects.raised {
            self.gates_caught_up(raised, false).await;
        }
    }
}

/// The changes that gates have.
impl Member {
    pub fn applied(&self) -> i64 {
        self.applied.load(Ordering::Acquire)
    }

    fn apply(&self, to: i64) {
        // The other engines wait only for engines with gates.
        if self.applied.swap(to, Ordering::AcqRel) < to && self.index.is_some() {
            self.wake();
        }
    }

    pub fn passed(&self) -> i64 {
        self.passed.load(Ordering::Acquire)
    }

    pub(super) fn pass(&self, to: i64) {
        self.passed.store(to, Ordering::Release);
    }

    /// Notes the last change of a tombstone that this engine has committed while other engines had gates.
    pub fn raise(&self, to: i64) {
        self.raised.fetch_max(to, Ordering::AcqRel);
    }

    fn raised(&self) -> i64 {
        self.raised.load(Ordering::Acquire)
    }

    /// The number of reads of the rows of engines that were requested.
    pub(super) fn reads_asked(&self) -> u64 {
        self.reads_asked.load(Ordering::Acquire)
    }

    /// Sets the gates of the other engines, as a read of the rows of engines returned them.
    pub(super) fn note_gates(&self, read: u64, members: Vec<GateMember>) {
        self.gates.send_replace(Gates { read, members });
    }

    /// Waits until the gates of all other engines have the changes of tombstones up to this one, or may not answer any
    /// more. With `writes_ended`, also waits for our own gates, and until no write is in progress that any of these
    /// gates let through before it had the changes. Also returns once this engine closes its ledger.
    ///
    /// A read of the rows of engines that begins after this call is needed: it shows every engine that began before the
    /// change was committed, and a later engine has loaded the change.
    pub async fn gates_caught_up(&self, to: i64, writes_ended: bool) {
        let read = self.reads_asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut gates = self.gates.subscribe();
        self.wake();
        while !self.is_closing() {
            {
                let read_gates = gates.borrow_and_update();
                let now = Instant::now();
                let is_behind = |gate: &GateMember| match writes_ended {
                    true => gate.passed < to && now < gate.writes_until,
                    false => gate.applied < to && now < gate.until,
                };
                let are_ours_behind = writes_ended && self.index.is_some() && self.passed() < to;
                let are_behind = are_ours_behind || read_gates.members.iter().any(is_behind);
                if read_gates.read >= read && !are_behind {
                    return;
                }
            }
            // After the time-out the gates are checked again, because their leases may have ended.
            let _ = tokio::time::timeout(CHECK_GATES_EVERY, gates.changed()).await;
        }
    }
}
