//! Cancels a deletion (P8), and pauses or resumes it.

use chrono::{DateTime, Utc};

use super::step::{Facts, Trigger};
use super::{deletion, has_ended};
use crate::domain::model::StepState;
use crate::ledger::store::RowStore;
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, AuditEntry};

/// The states of steps that a cancellation moves, in this order. A step that it moves to one of these states was in a
/// state later in the list, so no step is moved twice.
const CANCELLED: [StepState; 5] = [
    StepState::Verifying,
    StepState::Waiting,
    StepState::Ready,
    StepState::Stuck,
    StepState::Blocked,
];

impl<S: RowStore> WorkingSet<S> {
    /// Cancels a deletion; see [`Change::Cancel`](crate::ledger::Change::Cancel).
    pub fn cancel(
        &mut self,
        deletion_id: &str,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let num = self.existing_deletion(deletion_id)?;
        self.check(num, deletion::Trigger::Cancelled)?;
        for state in CANCELLED {
            let steps = self.searched()?.find_in_state(num, state)?;
            self.each_step(&steps, |set, id| set.cancel_step(id, now))?;
        }
        self.release_checking(num, now)?;
        self.audit(audit, now);
        self.move_deletion(num, deletion::Trigger::Cancelled, now)?;
        Ok(Applied::Done)
    }

    /// Skips a step that was not sent, and releases its tombstone. A call that was sent runs to its end, and an
    /// observation finds out how it ended.
    fn cancel_step(&mut self, id: i64, now: DateTime<Utc>) -> Changing<S> {
        let step = self.step_mut(id)?;
        let (num, from, record) = (step.deletion, step.state, step.record);
        let facts = Facts {
            sent: step.sent,
            waits: step.waits > 0,
            ..Facts::default()
        };
        let next = Self::next(from, Trigger::DeletionCancelled, facts)?;
        if next.state != from {
            (step.state, step.since, step.held_by) = (next.state, now, None);
        }
        step.next_attempt_at = (next.state == StepState::Verifying).then_some(now);
        if has_ended(next.state) {
            step.ended_at = Some(now);
            self.drop_pending_clearances(id);
            self.end_tombstone(num, record, next.effects.tombstone, now);
        }
        self.moved(num, from, next.state, 1, now)
    }

    /// Pauses or resumes a deletion.
    pub fn pause(
        &mut self,
        deletion_id: &str,
        paused: bool,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let num = self.existing_deletion(deletion_id)?;
        let trigger = match paused {
            true => deletion::Trigger::Paused,
            false => deletion::Trigger::Resumed,
        };
        self.check(num, trigger)?;
        self.audit(audit, now);
        self.move_deletion(num, trigger, now)?;
        Ok(Applied::Done)
    }
}
