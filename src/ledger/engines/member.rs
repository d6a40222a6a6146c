//! The state of one engine among those of its ledger: its lease, its place, and what the gates of the others know. The
//! parts of a store share it: the one that writes, the one that renews the lease, and the one that answers requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::{EngineTerms, Membership};
use crate::ledger::tombstones::{Changed, Tombstones};
use crate::ledger::{Change, Job};

/// How long a gate answers from its memory after the lease of its engine was last renewed. Whoever accepts a deletion
/// waits no longer than this for a gate that does not move.
pub const GATE_LEASE: Duration = Duration::from_secs(10);
/// How often the waits for gates look again without being woken: a gate's lease may end.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The memory of another engine, from which gates answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateMember {
    /// The last change of a tombstone that it has, and the last one before which no write is in progress.
    pub applied: i64,
    pub passed: i64,
    /// Until when it may answer, by our own clock, at the latest; and when the last write ends that it lets through.
    pub until: Instant,
    pub writes_until: Instant,
}

/// The gates of the other engines, as one read showed them.
#[derive(Default)]
struct Gates {
    /// The last read that was asked for before this one began.
    read: u64,
    members: Vec<GateMember>,
}

/// A request that is being answered: what must follow its transaction.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    raises_tombstones: bool,
    takes_over: bool,
    drains: bool,
    /// As in [`Member`], before it.
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
    /// Number of reads of the rows of engines that were asked for.
    reads_asked: AtomicU64,
    works: AtomicBool,
    is_closing: AtomicBool,
    /// Whether others have ended the lease, so that the writer must join again.
    must_join: AtomicBool,
    /// Our positions, as in [`GateMember`].
    applied: AtomicI64,
    passed: AtomicI64,
    /// The last change of a tombstone that this engine has committed while others had gates.
    raised: AtomicI64,
    wake: Arc<Notify>,
}

impl Member {
    pub fn new(mut terms: EngineTerms, index: Option<Arc<Tombstones>>) -> Self {
        if index.is_some() {
            // Whoever takes its lease over need not wait for writes any more.
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

    /// Takes in the membership as just read, unless it has begun another epoch since.
    pub(super) fn renew(&self, now: Membership) {
        self.change(|membership| {
            if membership.epoch == now.epoch {
                *membership = now;
            }
        });
    }

    /// Says why nothing may be sent for now.
    pub fn fail(&self, fault: &str) {
        self.change(|membership| membership.fault = Some(fault.to_owned()));
    }

    /// Begins a new epoch, whose memory goes up to this change, and whose lease ends then.
    pub fn joined(&self, epoch: i64, applied: i64, until: Instant) {
        self.apply(applied);
        self.passed.store(applied, Ordering::Release);
        self.change(|membership| {
            *membership = Membership {
                until: Some(until),
                place: None,
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

    /// Has the writer join again, unless it has done so since.
    pub fn lose_epoch(&self, epoch: i64) {
        if self.epoch() == epoch {
            self.must_join.store(true, Ordering::Release);
            self.fail(
                "this engine's lease expired, and another engine took over its steps; this engine is rejoining \
                 the ledger",
            );
        }
    }

    /// Wakes the thread that renews the lease, once notified.
    pub fn waker(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    pub fn wake(&self) {
        self.wake.notify_one();
    }
}

/// What a store does around each transaction.
impl Member {
    /// Begins a request.
    pub fn begin(&self, job: &Job) -> Request {
        let changes = match job {
            Job::Commit(changes) => changes.as_slice(),
            Job::Claim { .. } => &[],
        };
        let has = |of: fn(&Change) -> bool| changes.iter().any(of);
        Request {
            raises_tombstones: job.raises_tombstones(),
            takes_over: has(|change| matches!(change, Change::TakeOver { .. })),
            drains: has(|change| matches!(change, Change::DrainEngines { .. })),
            raised: self.raised(),
        }
    }

    /// Takes in a transaction that was committed: the changes of tombstones that others made before it, and its own.
    /// `last`: the last change now; none if the commit was not answered. `has_raised`: whether gates of others must know
    /// a change that this transaction made.
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

    /// Ends a request whose transaction was committed: what raised tombstones is answered when the gates of the other
    /// engines have them, or may not answer (T3).
    pub async fn end(&self, request: Request) {
        if request.takes_over {
            self.change(|membership| membership.is_takeover_due = false);
        }
        if request.drains {
            self.wake();
        }
        let raised = self.raised();
        if request.raises_tombstones && raised > request.raised {
            self.gates_caught_up(raised, false).await;
        }
    }
}

/// The memories from which gates answer.
impl Member {
    pub fn applied(&self) -> i64 {
        self.applied.load(Ordering::Acquire)
    }

    fn apply(&self, to: i64) {
        // Others wait only for those that have gates.
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

    /// Notes the last change of a tombstone that this engine has committed while others had gates.
    pub fn raise(&self, to: i64) {
        self.raised.fetch_max(to, Ordering::AcqRel);
    }

    fn raised(&self) -> i64 {
        self.raised.load(Ordering::Acquire)
    }

    /// The last read of the rows of engines that was asked for.
    pub(super) fn reads_asked(&self) -> u64 {
        self.reads_asked.load(Ordering::Acquire)
    }

    pub(super) fn see_gates(&self, read: u64, members: Vec<GateMember>) {
        self.gates.send_replace(Gates { read, members });
    }

    /// Waits until each gate of the others has the changes of tombstones up to this one, or may not answer any more. With
    /// `writes_ended`: our own gates, too, and no write from before is in progress in any of them.
    ///
    /// It waits for a read that began after this call: an engine that began before the change was committed is in it,
    /// and one that began later has loaded the change.
    pub async fn gates_caught_up(&self, to: i64, writes_ended: bool) {
        let read = self.reads_asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut gates = self.gates.subscribe();
        self.wake();
        while !self.is_closing() {
            {
                let seen = gates.borrow_and_update();
                let now = Instant::now();
                let is_behind = |gate: &GateMember| match writes_ended {
                    true => gate.passed < to && now < gate.writes_until,
                    false => gate.applied < to && now < gate.until,
                };
                let are_ours_behind = writes_ended && self.index.is_some() && self.passed() < to;
                if seen.read >= read && !are_ours_behind && !seen.members.iter().any(is_behind) {
                    return;
                }
            }
            // A failure means that nothing is renewed any more: the leases end.
            let _ = tokio::time::timeout(LOOK_AGAIN, gates.changed()).await;
        }
    }
}
