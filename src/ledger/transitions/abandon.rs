//! Abandons stuck and blocked steps: the last rung of the purge ladder (P3).

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::step::{Facts, Trigger};
use super::{deletion, has_ended, own_error};
use crate::domain::ladder::DEPENDENCY_ABANDONED;
use crate::domain::model::{ErrorClass, StepState};
use crate::ledger::events;
use crate::ledger::store::{RowStore, Stop};
use crate::ledger::working_set::{Changing, WorkingSet};

impl<S: RowStore> WorkingSet<S> {
    /// Abandons the stuck and blocked steps of a deletion, or those of them in `only`, and returns how many: the steps
    /// end `purged`, and their tombstones with them. No call is sent for them. Steps that waited for an abandoned step
    /// are stuck, with an error that names the abandoned step, until a person retries them.
    pub fn abandon_steps(
        &mut self,
        num: i64,
        only: Option<&[i64]>,
        now: DateTime<Utc>,
    ) -> Changing<S, u64> {
        self.check(num, deletion::Trigger::StepsAbandoned)?;
        let abandoned = self.steps_to_abandon(num, only)?;
        for id in &abandoned {
            let step = self.step_mut(*id)?;
            let (from, record) = (step.state, step.record);
            let next = Self::next(from, Trigger::Abandoned, Facts::default())?;
            (step.state, step.since, step.ended_at) = (next.state, now, Some(now));
            (step.held_by, step.next_attempt_at) = (None, None);
            self.moved(num, from, next.state, 1, now)?;
            self.drop_pending_clearances(*id);
            self.end_tombstone(num, record, next.effects.tombstone, now);
            self.event(Some(num), Some(*id), events::abandoned(), now);
        }
        self.release_stuck(num, &abandoned, now)?;
        self.leave_waiting(num, &abandoned, now)?;
        self.derive_state(num, now)?;
        Ok(abandoned.len() as u64)
    }

    /// The steps to abandon. None of them has a call in flight: an engine claims a step before it sends the step's
    /// call.
    fn steps_to_abandon(&mut self, num: i64, only: Option<&[i64]>) -> Changing<S, Vec<i64>> {
        let mut steps = self.steps_in(num, StepState::Stuck)?;
        steps.extend(self.steps_in(num, StepState::Blocked)?);
        steps.sort_unstable();
        let Some(only) = only else {
            return Ok(steps);
        };
        steps.retain(|id| only.contains(id));
        if let Some(other) = only.iter().find(|id| !steps.contains(id)) {
            let why = format!("step {other} cannot be abandoned: it is neither stuck nor blocked");
            return Err(Stop::Refused(why));
        }
        for id in &steps {
            if let Some(root) = self.step(*id)?.held_by {
                return Err(Stop::Refused(format!(
                    "step {id} cannot be abandoned: it waits for step {root}, which is stuck; use the rung forget on step {root}"
                )));
            }
        }
        Ok(steps)
    }

    /// Makes the dependents of abandoned steps stuck, because the abandoned resources may still exist.
    fn leave_waiting(&mut self, num: i64, abandoned: &[i64], now: DateTime<Utc>) -> Changing<S> {
        let mut left: BTreeSet<(i64, i64)> = BTreeSet::new();
        for id in abandoned {
            for dependent in self.dependents(*id)? {
                if has_ended(self.step(dependent)?.state) {
                    continue;
                }
                let step = self.step_mut(dependent)?;
                step.waits = step.waits.saturating_sub(1);
                // This deletion sends nothing for steps that are left to another deletion: they share the fate of that
                // deletion's steps (P9).
                if step.left_to.is_none() {
                    left.insert((dependent, *id));
                }
            }
        }
        let mut stuck = Vec::new();
        for (dependent, abandoned) in left {
            let message = self.waited_for_abandoned(abandoned)?;
            let step = self.step_mut(dependent)?;
            let from = step.state;
            let next = Self::next(from, Trigger::DependencyAbandoned, Facts::default())?;
            if from != next.state {
                (step.state, step.since) = (next.state, now);
            }
            let error = own_error(ErrorClass::Blocked, DEPENDENCY_ABANDONED, message, now);
            (step.held_by, step.error) = (None, Some(error));
            self.moved(num, from, next.state, 1, now)?;
            stuck.push((dependent, next.effects));
        }
        for (dependent, effects) in stuck {
            self.follow(dependent, effects, now)?;
        }
        Ok(())
    }
}
