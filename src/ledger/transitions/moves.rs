//! Moves of steps and deletions to other states, and the counts of a deletion's steps by state.

use chrono::{DateTime, Utc};

use super::{deletion, step};
use crate::domain::model::{DeletionState, StepError, StepState};
use crate::ledger::events;
use crate::ledger::store::{RowStore, Stop, StoredDeletion};
use crate::ledger::working_set::{Changing, WorkingSet};

/// Returns the next state of the deletion after this trigger, or why the trigger is impossible.
fn next_of(
    row: &StoredDeletion,
    trigger: deletion::Trigger,
) -> Result<deletion::Next, super::Impossible> {
    let facts = deletion::Facts {
        cancelled: row.cancelled,
        paused: row.paused,
        counts: row.counts,
    };
    deletion::after(row.state, trigger, &facts)
}

impl<S: RowStore> WorkingSet<S> {
    /// Moves `n` steps from one state to another in the counts.
    pub fn moved(
        &mut self,
        num: i64,
        from: StepState,
        to: StepState,
        n: u64,
        now: DateTime<Utc>,
    ) -> Changing<S> {
        self.moved_at = Some(now);
        let row = self.deletion(num)?;
        let before = row.counts.accepted();
        let left = row.counts.of_mut(from);
        debug_assert!(
            *left >= n,
            "more steps moved from {from:?} than the deletion had in that state"
        );
        *left = left.saturating_sub(n);
        *row.counts.of_mut(to) += n;
        if row.counts.accepted() > before {
            row.pace.moved(before, now);
        }
        Ok(())
    }

    /// Moves a step for a reason other than an answer, and replaces its error. Clears the record of the other step
    /// because of which the step was stuck.
    pub(super) fn move_step(
        &mut self,
        id: i64,
        to: StepState,
        error: Option<StepError>,
        now: DateTime<Utc>,
    ) -> Changing<S> {
        let step = self.step_mut(id)?;
        let (num, from) = (step.deletion, step.state);
        step.state = to;
        step.since = now;
        step.ended_at = super::has_ended(to).then_some(now);
        step.held_by = None;
        step.error = error;
        self.moved(num, from, to, 1, now)
    }

    /// Derives the deletion's state from its counts, and writes an event if the state changed.
    pub fn derive_state(&mut self, num: i64, now: DateTime<Utc>) -> Changing<S> {
        self.move_deletion(num, deletion::Trigger::StepsMoved, now)
    }

    /// Refuses a trigger that must not happen to the deletion in its state.
    pub fn check(&mut self, num: i64, trigger: deletion::Trigger) -> Changing<S> {
        match next_of(self.deletion(num)?, trigger) {
            Ok(_) => Ok(()),
            Err(why) => Err(Stop::Refused(why.0)),
        }
    }

    /// Moves the deletion to its next state, and writes an event if its state changed. A stuck deletion needs no
    /// notification: people were notified of each step that is stuck in its own right.
    pub fn move_deletion(
        &mut self,
        num: i64,
        trigger: deletion::Trigger,
        now: DateTime<Utc>,
    ) -> Changing<S> {
        let row = self.deletion(num)?;
        let next = next_of(row, trigger).map_err(|why| Stop::Impossible(why.0))?;
        (row.cancelled, row.paused) = (next.cancelled, next.paused);
        let state = next.state;
        let finished = deletion::has_finished(state, row.counts.live());
        row.finished_at = finished.then(|| row.finished_at.unwrap_or(now));
        if row.state == state {
            return Ok(());
        }
        row.state = state;
        if state != DeletionState::Refused {
            row.note.clear();
        }
        let (id, stuck) = (row.id.clone(), row.counts.stuck);
        self.event(Some(num), None, events::deletion_moved(&id, state), now);
        if state == DeletionState::Stuck {
            self.deletion(num)?.note = self.why_stuck(num, stuck)?;
        }
        Ok(())
    }

    /// Returns the note of a stuck deletion: the number of stuck steps if there are several, and the first step that is
    /// stuck in its own right, with its error.
    fn why_stuck(&mut self, num: i64, stuck: u64) -> Changing<S, String> {
        let first = match self.searched()?.find_failed(num, 0)? {
            None => String::new(),
            Some(id) => {
                let step = self.step(id)?;
                let called = match step.name.is_empty() {
                    true => &step.key.id,
                    false => &step.name,
                };
                let message = step.error.as_ref().map_or("", |error| &error.message);
                format!("{} {called}: {message}", step.key.kind)
            }
        };
        Ok(match stuck {
            1 => first,
            n => format!("{n} steps; {first}"),
        })
    }

    /// The next state of a step, with the effects of the transition.
    pub(super) fn next(
        state: StepState,
        trigger: step::Trigger,
        facts: step::Facts,
    ) -> Changing<S, step::Next> {
        step::after(state, trigger, facts).map_err(|why| Stop::Impossible(why.0))
    }
}
