//! Records the outcome of a claimed step: state, counts, event and tombstone, and the effects on other steps. Records
//! nothing if the step's state, claim or epoch differs from the fence of the outcome.

use chrono::{DateTime, Utc};

use super::has_ended;
use super::step::{self, Trigger};
use crate::domain::model::{Action, StepState};
use crate::domain::peers::AWAITED;
use crate::ledger::events;
use crate::ledger::store::{RowStore, Stop};
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, Fence, StepChange};

impl<S: RowStore> WorkingSet<S> {
    /// Records an outcome; see [`Change::Step`](crate::ledger::Change::Step).
    pub fn record_outcome(&mut self, change: &StepChange) -> Changing<S, Applied> {
        let Some(step) = self.find_step(change.step_id)? else {
            return Ok(Applied::Stale);
        };
        let fence = Fence {
            state: step.state,
            claim: step.claim,
            epoch: step.epoch,
        };
        if fence != change.fence {
            return Ok(Applied::Stale);
        }
        let (num, from, record) = (step.deletion, step.state, step.record);
        let waits = step.waits > 0;
        let facts = step::Facts {
            waits,
            cancelled: self.deletion(num)?.cancelled,
            cleared: needs_clearance(change)
                && self.searched()?.load_pending(change.step_id)?.is_empty(),
            ..step::Facts::default()
        };
        let next = match step::after(from, Trigger::Answered(change.decision.to), facts) {
            Ok(next) => next,
            Err(why) => return Err(Stop::Refused(why.0)),
        };
        self.write_outcome(next.state, change)?;
        self.moved(num, from, next.state, 1, change.now)?;
        self.end_tombstone(num, record, next.effects.tombstone, change.now);
        self.write_outcome_event(num, from, next.state, change);
        self.follow(change.step_id, next.effects, change.now)?;
        self.derive_state(num, change.now)?;
        Ok(Applied::Done)
    }

    fn write_outcome(&mut self, to: StepState, change: &StepChange) -> Changing<S> {
        let (now, decision) = (change.now, &change.decision);
        let step = self.step_mut(change.step_id)?;
        // A step that waits for an observation keeps the time at which it was claimed for its call.
        let on_its_way = step.state == StepState::Running && to == StepState::Verifying;
        if step.state != to && !on_its_way {
            step.since = now;
        }
        step.state = to;
        // A delete follows a reset.
        if step.action == Action::Reset && to == StepState::Ready && decision.error.is_none() {
            step.action = Action::Delete;
        }
        step.ended_at = has_ended(to).then_some(now);
        step.attempts = decision.attempts;
        // A blocked or verifying step without a next attempt would never be due, so it is due now.
        step.next_attempt_at = match to {
            StepState::Blocked | StepState::Verifying => {
                Some(decision.next_attempt_at.unwrap_or(now))
            }
            _ => None,
        };
        step.observations = match decision.observed_again {
            true => step.observations.saturating_add(1),
            false => 0,
        };
        step.blocked_since = decision.blocked_since;
        step.blockers.clone_from(&decision.blockers);
        step.error.clone_from(&decision.error);
        step.held_by = None;
        if !matches!(to, StepState::Ready | StepState::Verifying) {
            step.own_attempt_at = None;
        }
        Ok(())
    }

    /// Carries out the effects of a step's move on other steps, and notifies people.
    pub fn follow(&mut self, id: i64, effects: step::Effects, now: DateTime<Utc>) -> Changing<S> {
        let num = self.step(id)?.deletion;
        if effects.frees_stuck_steps {
            self.release_stuck(num, &[id], now)?;
        }
        match effects.dependents {
            Some(Trigger::DependenciesEnded) => {
                self.drop_pending_clearances(id);
                self.release_dependents(num, id, now)?;
            }
            Some(Trigger::DependencyStuck) => self.propagate_stuck(num, id, now)?,
            _ => {}
        }
        if effects.notifies {
            self.notify_person(id, now)?;
        }
        Ok(())
    }

    /// Writes a line of the step's timeline, unless an observation found nothing new.
    fn write_outcome_event(
        &mut self,
        num: i64,
        from: StepState,
        to: StepState,
        change: &StepChange,
    ) {
        if from != to || change.decision.error.is_some() {
            let draft = events::answered(from, to, change);
            self.event(Some(num), Some(change.step_id), draft, change.now);
        }
    }

    /// Notifies people that a step is stuck in its own right: once, until a person retries the step, the cause of its
    /// error ends, its resource is re-created, or its owner is no longer stuck (I7). After a repeated DELETE (T6),
    /// which wakes the step for one attempt, people are not notified again.
    fn notify_person(&mut self, id: i64, now: DateTime<Utc>) -> Changing<S> {
        let step = self.step(id)?;
        if step.notified {
            return Ok(());
        }
        let num = step.deletion;
        self.step_mut(id)?.notified = true;
        let deletion = self.deletion(num)?.id.clone();
        let step = self.step(id)?;
        let draft = events::person_needed(&deletion, &step.key, &step.name, step.error.as_ref());
        self.event(Some(num), Some(id), draft, now);
        Ok(())
    }
}

/// Whether the outcome says that the step waits until importers give their clearance.
fn needs_clearance(change: &StepChange) -> bool {
    let error = change.decision.error.as_ref();
    error.is_some_and(|error| error.kind == AWAITED)
}
