//! Steps that are left to another deletion, and share the fate of its step (P9, I9).
//!
//! `left_to` names the step of the other deletion, the *owner*. While the owner is live, the step waits for
//! it, and no call is sent for the step. Then, in the transaction that moves the owner:
//!
//! 1. the owner is confirmed gone: the step is gone;
//! 2. the owner is stuck: the step is stuck, and its error names the deletion to retry;
//! 3. the owner continues: the step waits again;
//! 4. the owner was skipped, because its deletion was cancelled, so its resource stays: the step takes the
//!    resource over, since its own deletion was approved to delete it;
//! 5. the owner was abandoned: the step takes the resource over, but a person decides (stuck).
//!
//! In 3 and 4 the step is stuck nevertheless if a dependency in its own deletion is stuck; in 4 also if one was abandoned.
//!
//! The working set notes each owner that ends, becomes stuck or continues, and the owner of each left step that
//! waits again, whichever change caused it. [`WorkingSet::update_left_steps`] updates the left steps once per
//! transaction.
//!
//! Steps cannot wait in a circle: a step is left only to a deletion that started earlier, and the earliest of
//! the left steps takes a resource over.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::step::{Facts, Trigger};
use super::{has_ended, own_error};
use crate::domain::ladder::{DEPENDENCY_ABANDONED, LEFT_TO};
use crate::domain::model::{ErrorClass, KindName, Phase, StepError, StepState, short_id};
use crate::ledger::events;
use crate::ledger::store::RowStore;
use crate::ledger::working_set::{Changing, WorkingSet};

/// A live step that is left to another deletion, and the state of that deletion's step.
struct LeftStep {
    id: i64,
    deletion: i64,
    state: StepState,
    is_held: bool,
    owner: i64,
    owner_state: StepState,
}

impl LeftStep {
    fn facts(&self) -> Facts {
        Facts {
            stuck_by_another: self.is_held,
            left: true,
            ..Facts::default()
        }
    }
}

impl<S: RowStore> WorkingSet<S> {
    /// Updates the steps that are left to owners that have moved, and then the steps that are left to the updated ones.
    pub fn update_left_steps(&mut self, now: DateTime<Utc>) -> Changing<S> {
        loop {
            let left = self.save_and_find_left()?;
            if left.is_empty() {
                return Ok(());
            }
            for id in left {
                // The step is read now, because an earlier round of this loop may have moved it.
                if let Some(step) = self.left_step(id)? {
                    self.settle_left_step(&step, now)?;
                }
            }
        }
    }

    /// Returns a left step; none if the step has ended, or is no longer left.
    fn left_step(&mut self, id: i64) -> Changing<S, Option<LeftStep>> {
        let step = self.step(id)?;
        let (deletion, state, is_held) = (step.deletion, step.state, step.held_by.is_some());
        let Some(owner) = step.left_to.filter(|_| !has_ended(state)) else {
            return Ok(None);
        };
        Ok(Some(LeftStep {
            id,
            deletion,
            state,
            is_held,
            owner,
            owner_state: self.step(owner)?.state,
        }))
    }

    fn settle_left_step(&mut self, step: &LeftStep, now: DateTime<Utc>) -> Changing<S> {
        match step.owner_state {
            StepState::Gone => self.gone_with_owner(step, now)?,
            StepState::Skipped | StepState::Purged => {
                self.take_over(step, now)?;
                // Other steps are left to this step now.
                self.note_owner(step.id, now);
            }
            StepState::Stuck => self.stuck_with_owner(step, now)?,
            StepState::Waiting
            | StepState::Ready
            | StepState::Running
            | StepState::Verifying
            | StepState::Blocked => self.wait_for_owner(step, now)?,
        }
        self.derive_state(step.deletion, now)
    }

    fn gone_with_owner(&mut self, step: &LeftStep, now: DateTime<Utc>) -> Changing<S> {
        let next = Self::next(step.state, Trigger::OwnerGone, step.facts())?;
        self.move_step(step.id, next.state, None, now)?;
        let by = self.deletion_of(step.owner)?;
        self.event(
            Some(step.deletion),
            Some(step.id),
            events::owner_gone(&by),
            now,
        );
        self.follow(step.id, next.effects, now)
    }

    fn stuck_with_owner(&mut self, step: &LeftStep, now: DateTime<Utc>) -> Changing<S> {
        if step.state == StepState::Stuck {
            return Ok(());
        }
        let error = self.step(step.owner)?.error.as_ref();
        let why = error.map_or(String::new(), |error| error.message.clone());
        let by = self.deletion_of(step.owner)?;
        let message = format!(
            "deletion {by} deletes this resource, and is stuck: {why}; next: gone retry {by}"
        );
        self.stick(step, Trigger::OwnerStuck, LEFT_TO, message, now)
    }

    fn wait_for_owner(&mut self, left: &LeftStep, now: DateTime<Utc>) -> Changing<S> {
        let next = Self::next(left.state, Trigger::OwnerContinues, left.facts())?;
        if next.state == left.state {
            return Ok(());
        }
        if let Some(root) = self.find_stuck_cause(left.deletion, left.id)? {
            return self.mark_stuck_behind(left.deletion, left.id, root, now);
        }
        let by = self.deletion_of(left.owner)?;
        let step = self.step_mut(left.id)?;
        (step.state, step.since, step.notified) = (next.state, now, false);
        step.error = Some(waiting_error(&by, now));
        self.moved(left.deletion, left.state, next.state, 1, now)?;
        self.event(
            Some(left.deletion),
            Some(left.id),
            events::owner_continues(&by),
            now,
        );
        self.follow(left.id, next.effects, now)
    }

    /// Makes the step's own deletion delete the resource, as was approved, because the owner did not. Other steps
    /// that were left to the same owner are left to this step.
    fn take_over(&mut self, left: &LeftStep, now: DateTime<Utc>) -> Changing<S> {
        let record = self.raise_tombstone_of(left, now)?;
        let step = self.step_mut(left.id)?;
        (step.left_to, step.record, step.error) = (None, record, None);
        let kind = step.key.kind.clone();
        self.leave_to(left, now)?;
        if record.is_some() {
            let importers = self.importers_by_kind()?.remove(&kind).unwrap_or_default();
            let awaited: Vec<_> = importers.into_iter().map(|it| (it, left.id)).collect();
            self.searched()?.await_clearances(&awaited)?;
        }
        let by = self.deletion_of(left.owner)?;
        if left.owner_state == StepState::Purged {
            let message = format!(
                "deletion {by} abandoned this resource, which may still exist; next: retry this step, and its \
                 own deletion deletes the resource"
            );
            return self.stick(
                left,
                Trigger::OwnerAbandoned,
                DEPENDENCY_ABANDONED,
                message,
                now,
            );
        }
        // A dependency was abandoned meanwhile, so a person must retry this step.
        if let Some(abandoned) = self.searched()?.find_abandoned_dependency(left.id)? {
            let message = self.waited_for_abandoned(abandoned)?;
            return self.stick(
                left,
                Trigger::DependencyAbandoned,
                DEPENDENCY_ABANDONED,
                message,
                now,
            );
        }
        let stuck_cause = self.find_stuck_cause(left.deletion, left.id)?;
        let facts = Facts {
            waits: self.step(left.id)?.waits > 0,
            stuck_by_another: stuck_cause.is_some(),
            ..Facts::default()
        };
        let next = Self::next(left.state, Trigger::OwnerSkipped, facts)?;
        let to = next.state;
        self.move_step(left.id, to, None, now)?;
        let draft = events::left_step_taken_over(&by, to, left.owner);
        self.event(Some(left.deletion), Some(left.id), draft, now);
        match stuck_cause {
            Some(root) => self.mark_stuck_behind(left.deletion, left.id, root, now),
            None => self.follow(left.id, next.effects, now),
        }
    }

    /// Leaves to this step the other steps that were left to the same owner.
    fn leave_to(&mut self, left: &LeftStep, now: DateTime<Utc>) -> Changing<S> {
        let others = self.searched()?.find_left_to(&[left.owner])?;
        let by = self.deletion_of(left.id)?;
        for id in others {
            let step = self.step_mut(id)?;
            step.left_to = Some(left.id);
            let num = step.deletion;
            let draft = events::left_step_passed_on(&by, left.owner);
            self.event(Some(num), Some(id), draft, now);
        }
        Ok(())
    }

    /// Raises a tombstone for the step's own deletion if the step deletes the resource.
    fn raise_tombstone_of(
        &mut self,
        left: &LeftStep,
        now: DateTime<Utc>,
    ) -> Changing<S, Option<i64>> {
        let step = self.step(left.id)?;
        if !step.action.takes_away() {
            return Ok(None);
        }
        let keys = [step.key.clone()];
        let records = self.raise_tombstones(left.deletion, &keys, Phase::Deleting, now)?;
        Ok(records.into_iter().next().flatten())
    }

    /// Makes the step stuck in its own right, with this reason: its dependents become stuck too, and people
    /// are notified.
    fn stick(
        &mut self,
        left: &LeftStep,
        trigger: Trigger,
        error_type: &str,
        message: String,
        now: DateTime<Utc>,
    ) -> Changing<S> {
        let error = left_error(error_type, message, now);
        let next = Self::next(left.state, trigger, left.facts())?;
        self.move_step(left.id, next.state, Some(error.clone()), now)?;
        let taken_from = has_ended(left.owner_state).then_some(left.owner);
        let draft = events::left_step_stuck(&error, taken_from);
        self.event(Some(left.deletion), Some(left.id), draft, now);
        self.follow(left.id, next.effects, now)
    }

    /// The importers of each kind. Steps that delete resources of the kind wait for their clearances.
    pub(super) fn importers_by_kind(&self) -> Changing<S, BTreeMap<KindName, Vec<String>>> {
        let mut by_kind: BTreeMap<KindName, Vec<String>> = BTreeMap::new();
        for (kind, importer) in self.store().load_importer_kinds()? {
            by_kind.entry(kind).or_default().push(importer);
        }
        Ok(by_kind)
    }

    /// The short id of the deletion to which a step belongs.
    pub fn deletion_of(&mut self, step: i64) -> Changing<S, String> {
        let num = self.step(step)?.deletion;
        Ok(short_id(&self.deletion(num)?.id).to_owned())
    }

    /// The message of a step that depends on this abandoned step.
    pub fn waited_for_abandoned(&mut self, step: i64) -> Changing<S, String> {
        let called = self.called(step)?;
        Ok(format!(
            "waited for step {step}, {called}, which was abandoned and may still block it; a retry \
             sends it anyway"
        ))
    }
}

/// The error of a step that waits because the deletion `by` deletes its resource.
pub fn waiting_error(by: &str, now: DateTime<Utc>) -> StepError {
    let message = format!(
        "deletion {by} deletes this resource: the step is gone once deletion {by} has confirmed the resource gone"
    );
    left_error(LEFT_TO, message, now)
}

fn left_error(error_type: &str, message: String, now: DateTime<Utc>) -> StepError {
    own_error(ErrorClass::Blocked, error_type, message, now)
}
