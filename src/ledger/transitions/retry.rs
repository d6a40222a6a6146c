//! Retries of stuck and blocked steps: by a person, by a repeated DELETE, or because the cause of their error has
//! ended.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::step::{self, Facts, Trigger};
use super::{deletion, refuse};
use crate::domain::model::{Action, DeletionState, ErrorClass, StepState};
use crate::ledger::store::{LedgerRows, RowStore, Stop};
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, AuditEntry, RetryBy, Selection};

/// Minimum time between two repeated DELETEs that wake the steps of a deletion (T6). A woken step that had no next
/// attempt gets its own attempt after this time (I14).
const WAKE_EVERY: TimeDelta = TimeDelta::minutes(1);

/// The result of a retry of several steps.
#[derive(Default)]
struct Retried {
    /// Number of steps that were retried.
    moved: u64,
    /// The retried steps because of which other steps may have been stuck.
    roots: Vec<i64>,
    /// A stuck step. Another step is stuck because of this step, and was therefore not retried.
    held_by: Option<i64>,
    /// The owner of a step that was not retried, because it is left to another deletion (P9).
    left_to: Option<i64>,
}

/// Deletions by number, each with the steps that were chosen; none: all steps of the deletion.
pub(super) type Chosen = BTreeMap<i64, Option<Vec<i64>>>;

impl<S: LedgerRows> WorkingSet<S> {
    /// Retries the chosen steps; see [`Change::Retry`](crate::ledger::Change::Retry). If no step moves and the retry of
    /// a deletion was refused, the answer is `Applied::Refused`, but a step that was found to be stuck because of
    /// another step names that step from now on.
    pub fn retry(
        &mut self,
        selection: &Selection,
        by: RetryBy,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let by_person = by == RetryBy::Person;
        let mut moved = 0;
        let mut refused = None;
        for (num, only) in self.chosen(selection)? {
            match self.retry_deletion(num, only.as_deref(), by_person, now) {
                Err(Stop::Refused(why)) => refused = refused.or(Some(why)),
                retried => moved += retried?,
            }
        }
        if let Some(why) = refused.filter(|_| moved == 0) {
            return Ok(Applied::Refused(why));
        }
        if by_person || moved > 0 {
            self.audit(audit, now);
        }
        Ok(Applied::Moved(moved))
    }

    /// Resolves a selection to deletions and steps.
    pub(super) fn chosen(&mut self, selection: &Selection) -> Changing<S, Chosen> {
        let mut chosen = Chosen::new();
        match selection {
            Selection::Deletion(id) => drop(chosen.insert(self.existing_deletion(id)?, None)),
            Selection::Steps(ids) => {
                self.load_steps(ids)?;
                for id in ids {
                    let Some(step) = self.find_step(*id)? else {
                        return refuse(format!("there is no step {id}"));
                    };
                    let steps = chosen.entry(step.deletion).or_default();
                    steps.get_or_insert_default().push(*id);
                }
            }
        }
        Ok(chosen)
    }

    /// Retries the stuck and blocked steps of a deletion, or only these, and returns how many. If the deletion was
    /// refused, plans it again, and returns 1.
    pub fn retry_deletion(
        &mut self,
        num: i64,
        only: Option<&[i64]>,
        by_person: bool,
        now: DateTime<Utc>,
    ) -> Changing<S, u64> {
        let trigger = deletion::Trigger::Retried { by_person };
        self.check(num, trigger)?;
        match self.deletion(num)?.state {
            DeletionState::Refused => self.plan_again(num, trigger, now),
            _ => self.retry_steps(num, only, by_person, now),
        }
    }
}

impl<S: LedgerRows> WorkingSet<S> {
    /// Retries the chosen steps as a part of a change, which is refused if the retry is.
    pub(super) fn retry_or_refuse(
        &mut self,
        selection: &Selection,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        match self.retry(selection, RetryBy::Person, audit, now)? {
            Applied::Refused(why) => refuse(why),
            retried => Ok(retried),
        }
    }
}

impl<S: RowStore> WorkingSet<S> {
    /// Retries the stuck and blocked steps of a deletion that has started, or only these; returns how many.
    pub fn retry_steps(
        &mut self,
        num: i64,
        only: Option<&[i64]>,
        by_person: bool,
        now: DateTime<Utc>,
    ) -> Changing<S, u64> {
        if !by_person {
            let woken_at = &mut self.deletion(num)?.woken_at;
            // A wake-up that is later than now was recorded by another clock, and does not count.
            let woken = woken_at.filter(|woken| *woken <= now);
            if woken.is_some_and(|woken| now - woken < WAKE_EVERY) {
                return Ok(0);
            }
            *woken_at = Some(now);
        }
        let mut retried = Retried::default();
        for id in self.retry_candidates(num, only)? {
            self.retry_step(num, id, by_person, &mut retried, now)?;
        }
        if let (0, Some(_), Some(root)) = (retried.moved, only, retried.held_by) {
            let called = self.called(root)?;
            return Err(Stop::Refused(format!(
                "the step waits for {called}, which is stuck: retry its step, {root}"
            )));
        }
        if let (0, Some(owner)) = (retried.moved, retried.left_to) {
            let (called, by) = (self.called(owner)?, self.deletion_of(owner)?);
            return Err(Stop::Refused(format!(
                "deletion {by} deletes {called}, and is stuck; next: gone retry {by}"
            )));
        }
        if !retried.roots.is_empty() {
            self.release_stuck(num, &retried.roots, now)?;
        }
        self.move_deletion(num, deletion::Trigger::Retried { by_person }, now)?;
        Ok(retried.moved)
    }

    /// Makes this action the next call of a retried step, in place of the delete (P3).
    pub fn call_instead(&mut self, id: i64, action: Action) -> Changing<S> {
        self.step_mut(id)?.action = action;
        Ok(())
    }

    /// The stuck and blocked steps, in the order of their ids.
    fn retry_candidates(&mut self, num: i64, only: Option<&[i64]>) -> Changing<S, Vec<i64>> {
        let mut found = self.steps_in(num, StepState::Stuck)?;
        found.extend(self.steps_in(num, StepState::Blocked)?);
        found.sort_unstable();
        if let Some(only) = only {
            let only: HashSet<i64> = only.iter().copied().collect();
            found.retain(|id| only.contains(id));
        }
        Ok(found)
    }

    fn retry_step(
        &mut self,
        num: i64,
        id: i64,
        by_person: bool,
        retried: &mut Retried,
        now: DateTime<Utc>,
    ) -> Changing<S> {
        let step = self.step(id)?;
        let (from, sent) = (step.state, step.sent);
        if step.left_to.is_some() {
            retried.left_to = retried.left_to.or(step.left_to);
            return Ok(());
        }
        if step.held_by.is_some() {
            retried.held_by = step.held_by;
            return Ok(());
        }
        if !by_person && waits_for_person(step.error.as_ref().map(|error| error.class)) {
            return Ok(());
        }
        let stuck_cause = match sent {
            true => self
                .searched()?
                .find_stuck_dependency(id)?
                .map(|(_, root)| root),
            false => self.find_stuck_cause(num, id)?,
        };
        if let Some(root) = stuck_cause {
            // The step is stuck or blocked in its own right, and must wait for another stuck step, too.
            self.mark_stuck_behind(num, id, root, now)?;
            retried.held_by = Some(root);
            return Ok(());
        }
        self.enable_again(num, id, now)?;
        let next = self.put_to_work(id, by_person, now)?;
        self.moved(num, from, next.state, 1, now)?;
        retried.moved += 1;
        if next.effects.frees_stuck_steps {
            retried.roots.push(id);
        }
        Ok(())
    }

    /// Makes a retried step ready, or waiting. After a retry by a person, the attempts of a stuck step are counted from
    /// 0, and people are notified again (I7). A repeated DELETE causes one call, keeps the step's attempts (T6) and
    /// uses none: the engine's own schedule continues where it was (I14). A blocked step keeps its attempts either way.
    fn put_to_work(
        &mut self,
        id: i64,
        by_person: bool,
        now: DateTime<Utc>,
    ) -> Changing<S, step::Next> {
        let step = self.step_mut(id)?;
        let facts = Facts {
            waits: step.waits > 0,
            ..Facts::default()
        };
        let next = Self::next(step.state, Trigger::Retried, facts)?;
        if by_person && step.state == StepState::Stuck {
            (step.attempts, step.blocked_since) = (0, None);
        }
        step.own_attempt_at =
            (!by_person).then(|| step.next_attempt_at.unwrap_or(now + WAKE_EVERY));
        step.notified &= !by_person;
        if by_person {
            step.action = step.action.planned();
        }
        (step.state, step.since) = (next.state, now);
        (step.next_attempt_at, step.observations) = (None, 0);
        Ok(next)
    }
}

/// Whether only a person can help, because the error is fatal, drift or a guard.
fn waits_for_person(class: Option<ErrorClass>) -> bool {
    matches!(
        class,
        Some(ErrorClass::Fatal | ErrorClass::Drift | ErrorClass::Guard)
    )
}
