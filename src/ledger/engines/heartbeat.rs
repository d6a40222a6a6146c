//! When an engine renews its lease, and what it concludes from the rows of all engines.
//!
//! A store carries each [`Beat`] to its ledger and the [`Roster`] back, and decides nothing. So engines decide alike on
//! every store, and a simulation runs the same code as the engines of a server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Membership;
use super::member::{GATE_LEASE, GateMember, Member};
use crate::ledger::tombstones::WriteMarks;

/// Time between two reads of the rows of engines while there are other engines, or while the engine must begin a new
/// epoch.
pub const READ_EVERY: Duration = Duration::from_secs(1);
/// Minimum time between two beats, however often the engine is woken.
pub const BEAT_WAIT_MIN: Duration = Duration::from_millis(10);
/// Time between two beats while earlier writes through our gates are still in progress.
const WRITES_EVERY: Duration = Duration::from_millis(50);

/// The row of an engine that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    pub epoch: i64,
    /// Whether the engine claims steps: it has begun to work, and nobody has paused it.
    pub claims: bool,
    pub has_gates: bool,
    /// The positions of the engine's gates, as in [`GateMember`].
    pub applied: i64,
    pub passed: i64,
    /// How long ago the engine last renewed its lease, by the ledger's clock, and how long its lease lasts.
    pub renewed_ago_ms: i64,
    pub lease_ms: i64,
}

impl MemberRow {
    /// Whether the engine's lease has not ended.
    pub fn is_alive(&self) -> bool {
        self.renewed_ago_ms < self.lease_ms
    }

    /// Returns how much is left of this time, which began with the last renewal.
    fn left_of(&self, time: Duration) -> Duration {
        let renewed_ago = Duration::from_millis(self.renewed_ago_ms.try_into().unwrap_or_default());
        time.saturating_sub(renewed_ago)
    }
}

/// The engines that have not ended, as of one moment.
#[derive(Clone, Debug)]
pub struct Roster {
    /// In the order of their epochs.
    pub rows: Vec<MemberRow>,
    /// The numbers of the last event, and of the last change of a tombstone.
    pub event: i64,
    pub tombstone: i64,
    /// For a renewal: whether less than [`GATE_LEASE`] had passed since the one before, so that no engine stopped
    /// waiting for our gates.
    pub was_trusted: bool,
}

/// One exchange with the ledger: the lease is renewed if `renews` is set, and the rows of the engines are read.
#[derive(Debug)]
pub struct Beat {
    pub renews: bool,
    pub epoch: i64,
    /// The values that a renewal writes into the engine's row: whether the engine works, and the positions of its
    /// gates.
    pub works: bool,
    pub applied: i64,
    pub passed: i64,
    /// The number of reads that were requested before this one.
    read: u64,
    began: Instant,
    /// The end of the lease if it is not renewed.
    until: Option<Instant>,
}

/// The actions that follow a beat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// How long until the next beat.
    pub wait: Duration,
    /// Whether to wake the other engines, because the positions of our gates have changed.
    pub wakes_others: bool,
    /// Whether the tombstones in memory lack changes of other engines. A transaction brings them up to date.
    pub is_behind: bool,
}

/// Decides when an engine renews its lease, and applies the rows of the ledger's engines. The fields keep its state
/// from one beat to the next.
pub struct Heartbeat {
    member: Arc<Member>,
    /// When the lease was last renewed.
    renewed: Option<Instant>,
    /// The positions of our gates that the last renewal wrote.
    published: (i64, i64),
    event: i64,
    /// The number of a change of a tombstone, and the writes that our gates let through before they had this change.
    writes: Option<(i64, WriteMarks)>,
}

impl Heartbeat {
    pub fn new(member: Arc<Member>) -> Self {
        Self {
            member,
            renewed: None,
            published: (0, 0),
            event: 0,
            writes: None,
        }
    }

    /// Begins a beat. None if the engine must begin a new epoch first.
    pub fn begin(&mut self) -> Option<Beat> {
        if self.member.must_join() {
            return None;
        }
        self.note_ended_writes();
        let member = &self.member;
        let (membership, now) = (member.membership(), Instant::now());
        let (applied, passed) = (member.applied(), member.passed());
        let every = self.renew_every();
        let renews = self.renewed.is_none_or(|renewed| now - renewed >= every)
            || membership.fault.is_some()
            || self.must_publish((applied, passed));
        Some(Beat {
            renews,
            epoch: membership.epoch,
            works: member.works(),
            applied,
            passed,
            read: member.reads_asked(),
            began: now,
            until: membership.until,
        })
    }

    /// Processes the answer to a beat. `roster`: none if the engine's row has ended.
    pub fn conclude(&mut self, beat: &Beat, roster: Option<Roster>) -> Next {
        let own = |row: &MemberRow| row.epoch == beat.epoch;
        let Some(roster) = roster.filter(|roster| roster.rows.iter().any(own)) else {
            self.renewed = None;
            self.member.lose_epoch(beat.epoch);
            return Next::default();
        };
        let is_shared = roster.rows.len() > 1;
        let mut wakes_others = false;
        if beat.renews {
            let positions = (beat.applied, beat.passed);
            wakes_others = is_shared && self.must_publish(positions);
            (self.renewed, self.published) = (Some(beat.began), positions);
            self.trust(&roster, beat);
        }
        let member = &self.member;
        let gates = other_gates(&roster, beat.epoch, member.terms.call_timeout);
        member.note_gates(beat.read, gates);
        // The ledger may have renewed the lease after the beat began, never before.
        let until = match beat.renews {
            true => Some(beat.began + member.terms.lease),
            false => beat.until,
        };
        member.renew(membership(&roster.rows, beat.epoch, until));
        if is_shared && roster.event != self.event {
            member.others_moved();
        }
        self.event = roster.event;
        Next {
            wait: self.wait(is_shared),
            wakes_others,
            is_behind: member.index.is_some() && roster.tombstone > member.applied(),
        }
    }

    /// Whether these positions must be written, so that the other engines know them. The other engines wait only for
    /// engines with gates.
    fn must_publish(&self, positions: (i64, i64)) -> bool {
        self.member.index.is_some() && self.published != positions
    }

    fn wait(&self, is_shared: bool) -> Duration {
        let every = self.renew_every();
        let next_renewal = every.saturating_sub(self.renewed.map_or(every, |at| at.elapsed()));
        match (self.writes.is_some(), is_shared) {
            (true, _) => WRITES_EVERY,
            (false, true) => READ_EVERY.min(next_renewal),
            (false, false) => next_renewal,
        }
    }

    /// The time between two renewals: a third of the time by which the lease is longer than a call, so that calls are
    /// still sent if one renewal fails; with gates, at most a third of [`GATE_LEASE`].
    fn renew_every(&self) -> Duration {
        let terms = &self.member.terms;
        let spare = terms.lease.saturating_sub(terms.call_timeout);
        let every = (spare / 3).max(BEAT_WAIT_MIN);
        match self.member.index {
            Some(_) => every.min(GATE_LEASE / 3),
            None => every,
        }
    }

    /// Lets our gates answer until their lease ends, on one of two conditions: their last lease has not ended, so the
    /// other engines have waited for our gates all the time; or our gates have every change.
    fn trust(&self, roster: &Roster, beat: &Beat) {
        if let Some(index) = &self.member.index
            && (roster.was_trusted || beat.applied >= roster.tombstone)
        {
            index.trust_until(beat.began + GATE_LEASE);
        }
    }

    /// Notes whether the writes that our gates let through before they had the latest changes have ended (T14).
    fn note_ended_writes(&mut self) {
        let Some(index) = &self.member.index else {
            return;
        };
        if let Some((applied, marks)) = &self.writes
            && index.have_ended(marks)
        {
            self.member.pass(*applied);
            self.writes = None;
        }
        let applied = self.member.applied();
        if self.writes.is_none() && applied > self.member.passed() {
            let marks = index.writes_under_way();
            match index.have_ended(&marks) {
                true => self.member.pass(applied),
                false => self.writes = Some((applied, marks)),
            }
        }
    }
}

/// The membership of an engine among those of its ledger. The first engine that claims steps leads.
fn membership(rows: &[MemberRow], epoch: i64, until: Option<Instant>) -> Membership {
    let claims = |row: &&MemberRow| row.claims && (row.is_alive() || row.epoch == epoch);
    let working: Vec<i64> = rows.iter().filter(claims).map(|row| row.epoch).collect();
    let is_lost = |row: &MemberRow| row.epoch != epoch && !row.is_alive();
    Membership {
        epoch,
        working: working.len(),
        rank: working.iter().position(|other| *other == epoch),
        leads: working.first() == Some(&epoch),
        is_takeover_due: rows.iter().any(is_lost),
        until,
        fault: None,
    }
}

/// The gates of the other engines that may answer, or whose writes may be in progress. A write takes `write_max` at
/// most.
fn other_gates(roster: &Roster, epoch: i64, write_max: Duration) -> Vec<GateMember> {
    let now = Instant::now();
    let others = roster.rows.iter().filter(|row| row.epoch != epoch);
    let gates = others.filter(|row| row.has_gates).map(|row| GateMember {
        applied: row.applied,
        passed: row.passed,
        until: now + row.left_of(GATE_LEASE),
        writes_until: now + row.left_of(GATE_LEASE + write_max),
    });
    gates.filter(|gate| gate.writes_until > now).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::pin::pin;

    use tokio::time::timeout;

    use super::super::EngineTerms;
    use super::*;

    fn row(epoch: i64, has_gates: bool, renewed_ago: Duration) -> MemberRow {
        MemberRow {
            epoch,
            claims: true,
            has_gates,
            applied: 7,
            passed: 7,
            renewed_ago_ms: renewed_ago.as_millis() as i64,
            lease_ms: 90_000,
        }
    }

    /// Returns how long the wait for change 8 takes if another engine with gates last renewed its lease this long ago.
    async fn waits(writes_ended: bool, renewed_ago: Duration) -> Duration {
        let terms = EngineTerms::default();
        let member = Arc::new(Member::new(terms.clone(), None));
        member.joined(2, 7, Instant::now() + terms.lease);
        let mut waiting = pin!(member.gates_caught_up(8, writes_ended));
        let early = timeout(Duration::from_millis(1), &mut waiting).await;
        assert!(
            early.is_err(),
            "the wait ended before the rows of engines were read"
        );
        let mut heartbeat = Heartbeat::new(member.clone());
        let beat = heartbeat.begin().unwrap();
        let roster = Roster {
            rows: vec![row(1, true, renewed_ago), row(2, false, Duration::ZERO)],
            event: 0,
            tombstone: 8,
            was_trusted: true,
        };
        heartbeat.conclude(&beat, Some(roster));
        let read_at = Instant::now();
        waiting.await;
        read_at.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn t03_t14_a_gate_is_awaited_until_its_lease_ends_and_its_writes_for_one_call_longer() {
        let write_max = EngineTerms::default().call_timeout;
        let second = Duration::from_secs(1);
        assert_eq!(waits(false, GATE_LEASE).await, Duration::ZERO);
        let left = waits(false, GATE_LEASE - 3 * second).await;
        assert!((3 * second..4 * second).contains(&left), "{left:?}");
        let left = waits(true, GATE_LEASE).await;
        assert!((write_max..write_max + second).contains(&left), "{left:?}");
        let over = GATE_LEASE + write_max;
        assert_eq!(waits(true, over).await, Duration::ZERO);
    }

    #[test]
    fn t14_the_lease_of_an_engine_with_gates_outlasts_their_writes() {
        let terms = EngineTerms {
            lease: Duration::from_secs(3),
            call_timeout: Duration::from_secs(2),
            ..EngineTerms::default()
        };
        let lease = |index| Member::new(terms.clone(), index).terms.lease;
        assert_eq!(lease(None), terms.lease);
        assert_eq!(lease(Some(Arc::default())), Duration::from_secs(12));
    }
}
