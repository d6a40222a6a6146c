//! The state that the threads of one engine share: its lease, its place among the engines, and the gates of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::ledger::tombstones::Tombstones;
use crate::ledger::{EngineTerms, Standing};

/// How long a gate answers from its memory after the lease of its engine was last renewed. Whoever accepts a deletion
/// waits no longer than this for a gate that does not move.
pub(super) const GATE_LEASE: Duration = Duration::from_secs(10);
/// How often the waits for gates look again without being woken: a gate's lease may end.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The memory of another engine, from which gates answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GateMember {
    /// The last change of a tombstone that it has, and the last one before which no write is in progress.
    pub(super) applied: i64,
    pub(super) passed: i64,
    /// Until when it may answer, by our own clock, at the latest.
    pub(super) until: Instant,
}

/// The gates of the other engines, as one look showed them.
#[derive(Default)]
struct Gates {
    /// The last look that was asked for before this one began.
    look: u64,
    members: Vec<GateMember>,
}

pub(super) struct Member {
    pub(super) terms: EngineTerms,
    /// The tombstones from which our gates answer.
    pub(super) index: Option<Arc<Tombstones>>,
    standing: watch::Sender<Standing>,
    others: watch::Sender<u64>,
    gates: watch::Sender<Gates>,
    /// Number of looks at the engines that were asked for.
    looks_asked: AtomicU64,
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
    pub(super) fn new(terms: EngineTerms, index: Option<Arc<Tombstones>>) -> Self {
        Self {
            terms,
            index,
            standing: watch::Sender::new(Standing::alone(0)),
            others: watch::Sender::new(0),
            gates: watch::Sender::new(Gates::default()),
            looks_asked: AtomicU64::new(0),
            works: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            must_join: AtomicBool::new(true),
            applied: AtomicI64::new(0),
            passed: AtomicI64::new(0),
            raised: AtomicI64::new(0),
            wake: Arc::default(),
        }
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    pub(super) fn epoch(&self) -> i64 {
        self.standing.borrow().epoch
    }

    /// Changes how this engine stands; those who follow are told if that is a change of more than the time.
    fn change(&self, change: impl FnOnce(&mut Standing)) {
        let mut is_change = false;
        self.standing.send_modify(|standing| {
            let before = standing.clone();
            change(standing);
            let timeless = |standing: &Standing| Standing {
                until: None,
                ..standing.clone()
            };
            is_change = timeless(&before) != timeless(standing);
        });
        if is_change {
            self.others_moved();
        }
    }

    /// Takes in how this engine stands, unless it has begun another epoch since.
    pub(super) fn stand(&self, now: Standing) {
        self.change(|standing| {
            if standing.epoch == now.epoch {
                *standing = now;
            }
        });
    }

    /// Says why nothing may be sent for now.
    pub(super) fn fail(&self, fault: &str) {
        self.change(|standing| standing.fault = Some(fault.to_owned()));
    }

    /// Says that the steps of lost engines were taken over.
    pub(super) fn took_over(&self) {
        self.change(|standing| standing.is_takeover_due = false);
    }

    /// Begins a new epoch, whose memory goes up to this change, and whose lease ends then.
    pub(super) fn joined(&self, epoch: i64, applied: i64, until: Instant) {
        self.apply(applied);
        self.passed.store(applied, Ordering::Release);
        self.change(|standing| {
            *standing = Standing {
                until: Some(until),
                place: None,
                leads: false,
                ..Standing::alone(epoch)
            };
        });
        self.must_join.store(false, Ordering::Release);
        self.wake();
    }

    pub(super) fn others_moved(&self) {
        self.others.send_modify(|moved| *moved += 1);
    }

    pub(super) fn follow_others(&self) -> watch::Receiver<u64> {
        self.others.subscribe()
    }

    pub(super) fn begin_work(&self) {
        self.works.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn works(&self) -> bool {
        self.works.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    pub(super) fn must_join(&self) -> bool {
        self.must_join.load(Ordering::Acquire)
    }

    /// Has the writer join again, unless it has done so since.
    pub(super) fn lose_epoch(&self, epoch: i64) {
        if self.epoch() == epoch {
            self.must_join.store(true, Ordering::Release);
            self.fail("others took this engine's steps over while it had no lease; it joins again");
        }
    }

    /// Wakes the thread that renews the lease, once notified.
    pub(super) fn waker(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }
}

/// The memories from which gates answer.
impl Member {
    pub(super) fn applied(&self) -> i64 {
        self.applied.load(Ordering::Acquire)
    }

    pub(super) fn apply(&self, to: i64) {
        if self.applied.swap(to, Ordering::AcqRel) < to {
            self.wake();
        }
    }

    pub(super) fn passed(&self) -> i64 {
        self.passed.load(Ordering::Acquire)
    }

    pub(super) fn pass(&self, to: i64) {
        self.passed.store(to, Ordering::Release);
    }

    /// Notes the last change of a tombstone that this engine has committed while others had gates.
    pub(super) fn raise(&self, to: i64) {
        self.raised.fetch_max(to, Ordering::AcqRel);
    }

    pub(super) fn raised(&self) -> i64 {
        self.raised.load(Ordering::Acquire)
    }

    /// The last look that was asked for.
    pub(super) fn looks_asked(&self) -> u64 {
        self.looks_asked.load(Ordering::Acquire)
    }

    pub(super) fn see_gates(&self, look: u64, members: Vec<GateMember>) {
        self.gates.send_replace(Gates { look, members });
    }

    /// Waits until each gate of the others has the changes of tombstones up to this one, or may not answer any more. With
    /// `writes_ended`: our own gates, too, and no write from before is in progress in any of them.
    ///
    /// It waits for a look that began after this call: an engine that began before the change was committed is in it,
    /// and one that began later has loaded the change.
    pub(super) async fn gates_caught_up(&self, to: i64, writes_ended: bool) {
        let look = self.looks_asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut gates = self.gates.subscribe();
        self.wake();
        while !self.is_closing() {
            {
                let seen = gates.borrow_and_update();
                let now = Instant::now();
                let is_behind = |gate: &GateMember| {
                    let has = if writes_ended {
                        gate.passed
                    } else {
                        gate.applied
                    };
                    has < to && now < gate.until
                };
                let are_ours_behind = writes_ended && self.index.is_some() && self.passed() < to;
                if seen.look >= look && !are_ours_behind && !seen.members.iter().any(is_behind) {
                    return;
                }
            }
            // A failure means that nothing is renewed any more: the leases end.
            let _ = tokio::time::timeout(LOOK_AGAIN, gates.changed()).await;
        }
    }
}
