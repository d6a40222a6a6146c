//! Steps that continue without an answer: because their next attempt is due, or because their engine has ended.

use chrono::{DateTime, Utc};

use super::own_error;
use super::step::{Facts, Trigger};
use crate::domain::model::{ErrorClass, StepState};
use crate::domain::policy::OBSERVATION_WAIT_MAX;
use crate::ledger::store::{RowStore, StepRange, StoredStep};
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, StepFilter};

/// Maximum number of steps that one change wakes. This bounds the transaction, not the work: the other steps stay due.
const WAKE_MAX: usize = 10_000;

impl<S: RowStore> WorkingSet<S> {
    /// Moves blocked steps to `ready` if their next attempt is due: at most `WAKE_MAX` of them.
    pub fn wake_due(&mut self, now: DateTime<Utc>) -> Changing<S, Applied> {
        let due = self.searched()?.find_due(now, WAKE_MAX)?;
        self.each_step(&due, |set, id| {
            let step = set.step_mut(id)?;
            let (num, from) = (step.deletion, step.state);
            let to = Self::next(from, Trigger::Due, Facts::default())?.state;
            (step.state, step.since, step.next_attempt_at) = (to, now, None);
            set.moved(num, from, to, 1, now)
        })?;
        Ok(Applied::Moved(due.len() as u64))
    }

    /// Moves steps to `verifying` if their call was in flight when their engine ended: nobody knows whether the call
    /// took effect. Late outcomes of that engine no longer count (I11).
    ///
    /// Calls in flight of other engines continue if their engine has not ended; those of this engine continue if
    /// `goes_on`.
    pub fn recover(&mut self, goes_on: bool, now: DateTime<Utc>) -> Changing<S, Applied> {
        let message = "the engine ended while the call was in flight".to_owned();
        let error = own_error(ErrorClass::OutcomeUnknown, "EngineEnded", message, now);
        let in_flight = StepRange {
            state: StepState::Running,
            deletion: None,
            after: None,
            filter: &StepFilter::default(),
        };
        let in_flight = self.searched()?.find_steps(&in_flight, usize::MAX)?;
        let in_flight: Vec<i64> = in_flight.into_iter().map(|(_, id)| id).collect();
        let (own, mut living) = (self.store().epoch(), self.searched()?.end_lost_engines()?);
        living.retain(|epoch| *epoch != own);
        living.extend(goes_on.then_some(own));
        let mut taken_over = 0;
        self.each_step(&in_flight, |set, id| {
            if living.contains(&set.step(id)?.epoch) {
                return Ok(());
            }
            taken_over += 1;
            let step = set.step_mut(id)?;
            let (num, from) = (step.deletion, step.state);
            let to = Self::next(from, Trigger::EngineEnded, Facts::default())?.state;
            (step.state, step.since, step.next_attempt_at) = (to, now, Some(now));
            (step.observations, step.error) = (0, Some(error.clone()));
            set.moved(num, from, to, 1, now)
        })?;
        // An engine that begins leaves the observations to the engine that leads, if one is alive.
        if goes_on || living.is_empty() {
            self.searched()?.take_over_observations()?;
        }
        self.end_waits_in_future(now)?;
        Ok(Applied::Moved(taken_over))
    }

    /// Shortens waits that are too long because a clock was set back.
    fn end_waits_in_future(&mut self, now: DateTime<Utc>) -> Changing<S> {
        let ahead = self
            .searched()?
            .find_ahead(now, now + OBSERVATION_WAIT_MAX)?;
        self.each_step(&ahead, |set, id| {
            let step = set.step_mut(id)?;
            wait_from(step, now);
            Ok(())
        })
    }
}

/// Makes a wait that began later than now begin now, with the same length. The next observation is due at most
/// [`OBSERVATION_WAIT_MAX`] from now.
fn wait_from(step: &mut StoredStep, now: DateTime<Utc>) {
    if step.since > now {
        let ahead = step.since - now;
        step.next_attempt_at = step.next_attempt_at.map(|next| (next - ahead).max(now));
        step.blocked_since = step.blocked_since.map(|since| since.min(now));
        step.since = now;
    }
    if step.state == StepState::Verifying {
        step.next_attempt_at = step
            .next_attempt_at
            .map(|next| next.min(now + OBSERVATION_WAIT_MAX));
    }
}
