//! A person's answer to drift, and options that change after a deletion was accepted (P11).

use rusqlite::params;

use super::batch::Batch;
use super::rows;
use super::sql::{Apply, Run, refuse};
use crate::domain::model::{DeletionState, OnFailure, PlanOptions, short_id};
use crate::ledger::events;
use crate::ledger::{Applied, DriftAnswer, NewDriftAnswer, NewOptions, RetryBy, Selection};

impl Batch<'_> {
    pub(super) fn answer_drift(&mut self, answered: &NewDriftAnswer) -> Apply {
        let now = answered.now;
        let before = self.savepoint()?;
        let applied = match self.carry_out(answered) {
            Err(refused) => {
                self.undo(before)?;
                return Err(refused);
            }
            Ok(applied) => applied,
        };
        self.keep(before)?;
        if let Some(num) = self.find(&answered.deletion_id)? {
            let (answer, note) = match &answered.answer {
                DriftAnswer::Accept { .. } => ("accepted", None),
                DriftAnswer::Refuse { note } => {
                    note.clone_into(&mut self.deletion(num)?.note);
                    ("refused", Some(note.as_str()))
                }
            };
            let by = &answered.audit.actor.name;
            let happened = events::drift_answered(&answered.deletion_id, answer, by, note);
            self.event(Some(num), None, happened, now);
        }
        Ok(applied)
    }

    fn carry_out(&mut self, answered: &NewDriftAnswer) -> Apply {
        let now = answered.now;
        match &answered.answer {
            DriftAnswer::Accept { newcomers } => {
                if let Some(newcomers) = newcomers
                    && let Applied::KeyReused(of) = self.accept(newcomers)?
                {
                    return Ok(Applied::KeyReused(of));
                }
                let steps = Selection::Steps(answered.steps.clone());
                self.retry(&steps, RetryBy::Person, &answered.audit, now)
            }
            DriftAnswer::Refuse { .. } => {
                self.set.cancel(&answered.deletion_id, &answered.audit, now)
            }
        }
    }

    pub(super) fn set_options(&mut self, new: &NewOptions) -> Apply {
        let num = self.found(&new.deletion_id)?;
        let (mut options, reason, approved): (PlanOptions, String, bool) = self.one(
            "SELECT options, reason, plan_hash IS NOT NULL FROM requests WHERE num = ?1",
            [num],
            |row| Ok((rows::from_json(row, 0)?, row.get(1)?, row.get(2)?)),
        )?;
        let before = options;
        options.drift = new.drift.unwrap_or(options.drift);
        options.on_failure = new.on_failure.unwrap_or(options.on_failure);
        if options == before && (new.audit.reason.is_empty() || new.audit.reason == reason) {
            return Ok(Applied::Moved(0));
        }
        let row = self.deletion(num)?;
        let why_not = match row.state {
            DeletionState::Planning if approved && options != before => {
                Some("its approved plan, with the options, is being compared with the cloud")
            }
            DeletionState::Running | DeletionState::Paused | DeletionState::Stuck
                if options.on_failure != before.on_failure && row.counts.stuck > 0 =>
            {
                Some("steps of it are stuck: retry them before --on-failure changes")
            }
            DeletionState::Planning
            | DeletionState::Running
            | DeletionState::Paused
            | DeletionState::Stuck => None,
            DeletionState::AwaitingApproval => {
                Some("it waits for approval with its present options")
            }
            DeletionState::Refused
            | DeletionState::Gone
            | DeletionState::Cancelled
            | DeletionState::Purged => Some("it has ended"),
        };
        if let Some(why) = why_not {
            return refuse(format!(
                "the options of deletion {} stay as they are: {why}",
                short_id(&new.deletion_id)
            ));
        }
        self.run(
            "UPDATE requests SET options = ?2 WHERE num = ?1",
            params![num, rows::json(&options)?],
        )?;
        let stops = options.on_failure == OnFailure::Stop;
        self.run(
            "UPDATE deletions SET stops = ?2 WHERE num = ?1",
            params![num, stops],
        )?;
        self.deletion(num)?.stops = stops;
        if !new.audit.reason.is_empty() {
            self.run(
                "UPDATE requests SET reason = ?2 WHERE num = ?1",
                params![num, new.audit.reason],
            )?;
        }
        if new.retry.is_empty() {
            self.audit(&new.audit, new.now);
        }
        self.event(
            Some(num),
            None,
            events::options_set(&new.deletion_id, &options, &new.audit.actor.name),
            new.now,
        );
        match new.retry.is_empty() {
            true => Ok(Applied::Moved(0)),
            false => {
                let steps = Selection::Steps(new.retry.clone());
                self.retry(&steps, RetryBy::Person, &new.audit, new.now)
            }
        }
    }
}
