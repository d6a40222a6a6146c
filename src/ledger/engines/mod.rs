//! The engines of a ledger, and what one of them may do at this moment.
//!
//! A ledger in a file has one engine. A ledger on a server may have several: each has a *lease*, which it renews. One
//! of them *leads*: it plans, observes, retries, sweeps, prunes and notifies, takes over the steps of lost engines, and
//! exchanges messages with other deployments. All engines that are not paused claim steps and send calls.
//!
//! A store with several engines keeps a [`Member`] for its own engine, and a [`Heartbeat`] that renews the lease.

mod heartbeat;
mod member;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

pub use heartbeat::{BEAT_WAIT_MIN, Beat, Heartbeat, MemberRow, Next, READ_EVERY, Roster};
pub use member::{GATE_LEASE, GateMember, Member, RequestEffects};

use super::LedgerError;
use crate::domain::engines::EngineRow;

/// How an engine takes part in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineTerms {
    /// The name of the engine for people (`gone pause --engine NAME`).
    pub name: String,
    /// How long the engine counts as alive after it last renewed its lease. Longer than a call to a cloud may take.
    pub lease: Duration,
    /// How long a call to a cloud may take.
    pub call_timeout: Duration,
    /// Whether the engine must be the only one, because only its memory has the state of its watches on other
    /// deployments.
    pub is_alone: bool,
}

impl Default for EngineTerms {
    fn default() -> Self {
        Self {
            name: String::new(),
            lease: Duration::from_secs(90),
            call_timeout: Duration::from_secs(60),
            is_alone: false,
        }
    }
}

/// The membership of an engine among those of its ledger, as of the latest read of their rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The engine's epoch, greater than that of each engine that began before it.
    pub epoch: i64,
    /// Number of engines that claim steps.
    pub working: usize,
    /// The position of this engine among those that claim steps, from 0; none if it claims no steps.
    pub rank: Option<usize>,
    /// Whether this engine leads: it alone plans, observes, retries, sweeps, prunes and notifies, takes over the steps
    /// of lost engines, and exchanges messages with other deployments.
    pub leads: bool,
    /// Whether the lease of another engine has ended, and nobody has taken over its steps yet.
    pub is_takeover_due: bool,
    /// Until when this engine may act, by this machine's monotonic clock (I11). None: for as long as it holds the
    /// ledger.
    pub until: Option<Instant>,
    /// Why the engine must not send anything now, even if its lease has not ended.
    pub fault: Option<String>,
}

impl Membership {
    /// The membership of an engine that holds its ledger alone.
    pub fn alone(epoch: i64) -> Self {
        Self {
            epoch,
            working: 1,
            rank: Some(0),
            leads: true,
            is_takeover_due: false,
            until: None,
            fault: None,
        }
    }

    /// Checks that a call which takes `timeout` at most ends before the lease, after which another engine may take over
    /// its step (I11).
    ///
    /// # Errors
    /// The reason why the call must not be sent.
    pub fn may_send(&self, timeout: Duration, now: Instant) -> Result<(), String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        match self.until {
            Some(until) if now + timeout > until => {
                Err("this engine's lease may end before the call does".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks that this engine may send the call of a step that it claimed in the epoch `claimed_in`. While the call
    /// waited for its permit, the lease may have ended and another engine may have taken the step over (I11).
    ///
    /// # Errors
    /// The reason why the call must not be sent.
    pub fn may_send_step(
        &self,
        claimed_in: i64,
        timeout: Duration,
        now: Instant,
    ) -> Result<(), String> {
        if claimed_in != self.epoch {
            return Err("this engine's lease has ended since the step was claimed".to_owned());
        }
        self.may_send(timeout, now)
    }

    /// This engine's share of a limit for all engines together. The shares of all engines add up to the limit.
    pub fn share_of(&self, limit: usize) -> usize {
        let Some(rank) = self.rank else {
            return 0;
        };
        let working = self.working.max(1);
        limit / working + usize::from(rank < limit % working)
    }
}

/// The engines of a ledger. The provided methods are those of a ledger that can have only one engine.
#[async_trait]
pub trait Engines: Send + Sync {
    /// The membership of this engine.
    fn membership(&self) -> Membership;

    /// Returns a number that changes when the membership has changed in more than the end of the lease and, while there
    /// are other engines, when any engine has committed an event.
    fn follow_others(&self) -> watch::Receiver<u64> {
        watch::Sender::new(0).subscribe()
    }

    /// Makes this engine work from now on: it claims steps, and may lead.
    fn begin_work(&self) {}

    /// Lists all engines that have not ended, the leader first; none for a ledger that can have only one engine.
    async fn engines(&self) -> Result<Vec<EngineRow>, LedgerError> {
        Ok(Vec::new())
    }

    /// Waits until every gate, of this engine and of the others, has the tombstones that are committed now, and until
    /// the writes that the gate let through before that have ended (T14). A gate that may no longer answer is not
    /// waited for, once its writes must have ended.
    async fn guards_reached_gates(&self) -> Result<(), LedgerError> {
        Ok(())
    }
}
