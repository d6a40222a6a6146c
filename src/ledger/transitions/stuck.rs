//! The effects of a step on its dependents: they become ready when the step has ended, and stuck when it is stuck,
//! so that no step waits forever without a reason (N12).

use chrono::{DateTime, Utc};

use super::step::{Facts, Trigger};
use super::{has_ended, own_error};
use crate::domain::ladder::DEPENDENCY_STUCK;
use crate::domain::model::{ErrorClass, StepError, StepState};
use crate::ledger::events;
use crate::ledger::store::RowStore;
use crate::ledger::working_set::{Changing, WorkingSet};

impl<S: RowStore> WorkingSet<S> {
    /// Releases the dependents of a step that has ended: those that wait for no other step and are not left to another
    /// deletion become ready. In a cancelled deletion only steps that were sent before still wait, and they are
    /// observed (P8).
    pub fn release_dependents(&mut self, num: i64, id: i64, now: DateTime<Utc>) -> Changing<S> {
        let facts = Facts {
            cancelled: self.deletion(num)?.cancelled,
            ..Facts::default()
        };
        let waiting = StepState::Waiting;
        let to = Self::next(waiting, Trigger::DependenciesEnded, facts)?.state;
        let due = (to == StepState::Verifying).then_some(now);
        let mut free = 0;
        for dependent in self.dependents(id)? {
            if has_ended(self.step(dependent)?.state) {
                continue;
            }
            let step = self.step_mut(dependent)?;
            step.waits = step.waits.saturating_sub(1);
            if step.waits == 0 && step.state == waiting && step.left_to.is_none() {
                (step.state, step.since, step.next_attempt_at) = (to, now, due);
                free += 1;
            }
        }
        self.moved(num, waiting, to, free, now)
    }

    /// Repeats the steps that enabled this step's resource, before a retry. The cloud may have answered 2xx without
    /// enabling it, or somebody may have disabled it since. An enabling step is not repeated if other steps depend
    /// on it, too, or if another live step is enabling the resource.
    pub fn enable_again(&mut self, num: i64, id: i64, now: DateTime<Utc>) -> Changing<S> {
        let gone = StepState::Gone;
        let to = Self::next(gone, Trigger::DependentRetried, Facts::default())?.state;
        let enables = self.searched()?.find_own_enables(id)?;
        for enable in &enables {
            let step = self.step_mut(*enable)?;
            let left_to = step.left_to.take();
            (step.state, step.since, step.ended_at) = (to, now, None);
            (step.attempts, step.observations, step.error) = (0, 0, None);
            self.step_mut(id)?.waits += 1;
            let draft = events::repeated(left_to);
            self.event(Some(num), Some(*enable), draft, now);
        }
        self.moved(num, gone, to, enables.len() as u64, now)
    }

    /// Makes the dependents of a stuck step stuck too, and theirs in turn. With `on_failure = stop`, all steps that
    /// were not sent become stuck (N11).
    pub fn propagate_stuck(&mut self, num: i64, root: i64, now: DateTime<Utc>) -> Changing<S> {
        let error = self.blocking_error(root, now)?;
        let mut held = self.mark_dependents_stuck(num, root, root, &error, now)?;
        if self.deletion(num)?.stops {
            for state in [StepState::Waiting, StepState::Ready] {
                held += self.mark_unsent_stuck(num, state, root, &error, now)?;
            }
        }
        if held > 0 {
            self.event(Some(num), Some(root), events::makes_others_stuck(held), now);
        }
        Ok(())
    }

    fn mark_unsent_stuck(
        &mut self,
        num: i64,
        state: StepState,
        root: i64,
        error: &StepError,
        now: DateTime<Utc>,
    ) -> Changing<S, u64> {
        let to = Self::next(state, Trigger::DeletionStopped, Facts::default())?.state;
        let mut held = 0;
        for id in self.steps_in(num, state)? {
            let step = self.step_mut(id)?;
            if !step.sent {
                (step.state, step.since, step.next_attempt_at) = (to, now, None);
                (step.held_by, step.error) = (Some(root), Some(error.clone()));
                held += 1;
            }
        }
        self.moved(num, state, to, held, now)?;
        Ok(held)
    }

    fn mark_dependents_stuck(
        &mut self,
        num: i64,
        from: i64,
        root: i64,
        error: &StepError,
        now: DateTime<Utc>,
    ) -> Changing<S, u64> {
        let waiting = StepState::Waiting;
        let stuck = Self::next(waiting, Trigger::DependencyStuck, Facts::default())?.state;
        let mut held = 0;
        // Each step becomes stuck once, even if several paths lead to it, so the number of edges bounds the work.
        let mut reached = vec![from];
        while let Some(id) = reached.pop() {
            for dependent in self.dependents(id)? {
                if self.step(dependent)?.state != waiting {
                    continue;
                }
                let step = self.step_mut(dependent)?;
                (step.state, step.since) = (stuck, now);
                (step.held_by, step.error) = (Some(root), Some(error.clone()));
                held += 1;
                reached.push(dependent);
            }
        }
        self.moved(num, waiting, stuck, held, now)?;
        Ok(held)
    }

    /// The resource of a step, for messages: `port web (4fdb…)`, or `port 4fdb…` if it has no name.
    pub fn called(&mut self, id: i64) -> Changing<S, String> {
        let step = self.step(id)?;
        let (kind, resource) = (&step.key.kind, &step.key.id);
        Ok(match step.name.as_str() {
            "" => format!("{kind} {resource}"),
            name => format!("{kind} {name} ({resource})"),
        })
    }

    /// The error of a step that is stuck because of the step `root`.
    fn blocking_error(&mut self, root: i64, now: DateTime<Utc>) -> Changing<S, StepError> {
        let called = self.called(root)?;
        let message = format!("waits for step {root}, {called}, which is stuck");
        Ok(own_error(
            ErrorClass::Blocked,
            DEPENDENCY_STUCK,
            message,
            now,
        ))
    }

    /// Releases the steps that were stuck because of these roots, which are no longer stuck. Steps with another stuck
    /// dependency stay stuck because of that dependency.
    pub fn release_stuck(&mut self, num: i64, roots: &[i64], now: DateTime<Utc>) -> Changing<S> {
        if self.deletion(num)?.stops {
            return self.release_all_stuck(num, roots, now);
        }
        let mut freed = Vec::new();
        let mut reached = roots.to_vec();
        while let Some(id) = reached.pop() {
            for dependent in self.dependents(id)? {
                let step = self.step(dependent)?;
                if step.state == StepState::Stuck && step.held_by.is_some() {
                    self.free(dependent, now)?;
                    freed.push(dependent);
                    reached.push(dependent);
                }
            }
        }
        for id in freed {
            let stuck = self.searched()?.find_stuck_dependency(id)?;
            if let Some((dependency, root)) = stuck {
                let error = self.blocking_error(root, now)?;
                self.mark_dependents_stuck(num, dependency, root, &error, now)?;
            }
        }
        Ok(())
    }

    /// With `on_failure = stop`, one remaining failure keeps the deletion stopped, and its unsent steps stuck.
    /// If no failure remains, releases all stuck steps of the deletion.
    fn release_all_stuck(&mut self, num: i64, roots: &[i64], now: DateTime<Utc>) -> Changing<S> {
        if let Some(failed) = self.searched()?.find_failed(num, 0)? {
            for root in roots {
                self.mark_stuck_behind(num, *root, failed, now)?;
            }
            return Ok(());
        }
        for id in self.steps_in(num, StepState::Stuck)? {
            self.free(id, now)?;
        }
        Ok(())
    }

    /// Marks the steps that were stuck because of the step `before`, and `before` itself if it is still stuck, as stuck
    /// because of the step `root`.
    pub fn mark_stuck_behind(
        &mut self,
        num: i64,
        before: i64,
        root: i64,
        now: DateTime<Utc>,
    ) -> Changing<S> {
        let error = self.blocking_error(root, now)?;
        for id in self.steps_in(num, StepState::Stuck)? {
            if id == before || self.step(id)?.held_by == Some(before) {
                let step = self.step_mut(id)?;
                (step.held_by, step.error) = (Some(root), Some(error.clone()));
            }
        }
        Ok(())
    }

    /// Releases a step that is stuck because of another step.
    fn free(&mut self, id: i64, now: DateTime<Utc>) -> Changing<S> {
        let step = self.step(id)?;
        let facts = Facts {
            waits: step.waits > 0,
            left: step.left_to.is_some(),
            stuck_by_another: true,
            ..Facts::default()
        };
        let to = Self::next(step.state, Trigger::StuckCauseReleased, facts)?.state;
        self.move_step(id, to, None, now)
    }

    /// Finds the step because of which a step that was never sent must be stuck: a stuck dependency, or the step
    /// because of which that dependency is stuck; or, if a failure stops the deletion, any other step that is stuck in
    /// its own right (N11).
    pub fn find_stuck_cause(&mut self, num: i64, step: i64) -> Changing<S, Option<i64>> {
        if let Some((_, root)) = self.searched()?.find_stuck_dependency(step)? {
            return Ok(Some(root));
        }
        match self.deletion(num)?.stops {
            true => Ok(self.searched()?.find_failed(num, step)?),
            false => Ok(None),
        }
    }
}
