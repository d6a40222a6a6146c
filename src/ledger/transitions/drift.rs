//! A person's answer to drift, and options that change after a deletion was accepted (P11).

use super::refuse;
use crate::domain::model::{DeletionState, OnFailure, PlanOptions, short_id};
use crate::ledger::events;
use crate::ledger::store::{LedgerRows, StoredDeletion};
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, DriftAnswer, NewDriftAnswer, NewOptions, Selection};

impl<S: LedgerRows> WorkingSet<S> {
    pub fn answer_drift(&mut self, answered: &NewDriftAnswer) -> Changing<S, Applied> {
        let now = answered.now;
        let applied = self.carry_out(answered)?;
        if let Some(num) = self.store().find_deletion(&answered.deletion_id)? {
            let (answer, note) = match &answered.answer {
                DriftAnswer::Accept { .. } => ("accepted", None),
                DriftAnswer::Refuse { note } => {
                    note.clone_into(&mut self.deletion(num)?.note);
                    ("refused", Some(note.as_str()))
                }
            };
            let by = &answered.audit.actor.name;
            let draft = events::drift_answered(&answered.deletion_id, answer, by, note);
            self.event(Some(num), None, draft, now);
        }
        Ok(applied)
    }

    fn carry_out(&mut self, answered: &NewDriftAnswer) -> Changing<S, Applied> {
        let now = answered.now;
        match &answered.answer {
            DriftAnswer::Accept { newcomers } => {
                if let Some(newcomers) = newcomers
                    && let Applied::KeyReused(of) = self.accept(newcomers)?
                {
                    return Ok(Applied::KeyReused(of));
                }
                let steps = Selection::Steps(answered.steps.clone());
                self.retry_or_refuse(&steps, &answered.audit, now)
            }
            DriftAnswer::Refuse { .. } => self.cancel(&answered.deletion_id, &answered.audit, now),
        }
    }

    pub fn set_options(&mut self, new: &NewOptions) -> Changing<S, Applied> {
        let num = self.existing_deletion(&new.deletion_id)?;
        let mut request = self.request(num)?;
        let before = request.options;
        let options = PlanOptions {
            drift: new.drift.unwrap_or(before.drift),
            on_failure: new.on_failure.unwrap_or(before.on_failure),
            ..before
        };
        let (audit, now) = (&new.audit, new.now);
        if options == before && (audit.reason.is_empty() || audit.reason == request.reason) {
            return Ok(Applied::Moved(0));
        }
        let row = self.deletion(num)?;
        if let Some(why) = why_fixed(row, request.plan_hash.is_some(), before, options) {
            return refuse(format!(
                "the options of deletion {} stay as they are: {why}",
                short_id(&new.deletion_id)
            ));
        }
        row.stops = options.on_failure == OnFailure::Stop;
        request.options = options;
        if !audit.reason.is_empty() {
            request.reason.clone_from(&audit.reason);
        }
        self.store().save_request(num, &request)?;
        if new.retry.is_empty() {
            self.audit(audit, now);
        }
        let draft = events::options_set(&new.deletion_id, &options, &audit.actor.name);
        self.event(Some(num), None, draft, now);
        match new.retry.is_empty() {
            true => Ok(Applied::Moved(0)),
            false => {
                let steps = Selection::Steps(new.retry.clone());
                self.retry_or_refuse(&steps, audit, now)
            }
        }
    }
}

/// Returns why the options of a deletion cannot change now; none if they can.
fn why_fixed(
    row: &StoredDeletion,
    is_approved: bool,
    before: PlanOptions,
    options: PlanOptions,
) -> Option<&'static str> {
    match row.state {
        DeletionState::Planning if is_approved && options != before => {
            Some("its approved plan, with the options, is being compared with the cloud")
        }
        DeletionState::Running | DeletionState::Paused | DeletionState::Stuck
            if options.on_failure != before.on_failure && row.counts.stuck > 0 =>
        {
            Some("some of its steps are stuck: retry them before you change --on-failure")
        }
        DeletionState::Planning
        | DeletionState::Running
        | DeletionState::Paused
        | DeletionState::Stuck => None,
        DeletionState::AwaitingApproval => Some("it waits for approval with its present options"),
        DeletionState::Refused
        | DeletionState::Gone
        | DeletionState::Cancelled
        | DeletionState::Purged => Some("it has ended"),
    }
}
