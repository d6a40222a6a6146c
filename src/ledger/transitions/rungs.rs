//! The rungs of the purge ladder (P3). Each rung is recorded before any call is sent because of it.

use super::refuse;
use crate::domain::model::{Action, StepState, short_id};
use crate::ledger::events;
use crate::ledger::store::LedgerRows;
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, NewDeletion, NewPurge, PurgeAction};

impl<S: LedgerRows> WorkingSet<S> {
    /// Takes a rung; see [`Change::Purge`](crate::ledger::Change::Purge).
    pub fn purge(&mut self, purge: &NewPurge) -> Changing<S, Applied> {
        let now = purge.now;
        let applied = match &purge.action {
            PurgeAction::Retry => self.retry_or_refuse(&purge.what, &purge.audit, now)?,
            PurgeAction::Unpin(deletion) => self.unpin(purge, deletion)?,
            PurgeAction::Reset => self.retry_by(purge, Action::Reset)?,
            PurgeAction::Force => self.retry_by(purge, Action::Force)?,
            PurgeAction::Runbook => {
                self.chosen(&purge.what)?;
                self.audit(&purge.audit, now);
                Applied::Done
            }
            PurgeAction::Forget => self.forget(purge)?,
        };
        self.write_purge_events(purge)?;
        Ok(applied)
    }

    /// Accepts the deletion of the blocking edges, and retries the step. If either is refused, neither is done.
    fn unpin(&mut self, purge: &NewPurge, deletion: &NewDeletion) -> Changing<S, Applied> {
        let accepted = self.accept(deletion)?;
        if let Applied::Accepted { .. } = accepted {
            self.retry_or_refuse(&purge.what, &purge.audit, purge.now)?;
        }
        Ok(accepted)
    }

    /// Retries the steps, and replaces the deletes of the retried ones by another call. A step that is not retried
    /// keeps its call: it is neither stuck nor blocked, or is left to another deletion, or waits for a stuck step.
    fn retry_by(&mut self, purge: &NewPurge, action: Action) -> Changing<S, Applied> {
        let chosen = self.chosen(&purge.what)?.into_values().flatten().flatten();
        let mut deletes = Vec::new();
        for step in chosen {
            if self.is_failed_delete(step)? {
                deletes.push(step);
            }
        }
        let applied = self.retry_or_refuse(&purge.what, &purge.audit, purge.now)?;
        for step in deletes {
            if !self.is_failed_delete(step)? {
                self.call_instead(step, action)?;
            }
        }
        Ok(applied)
    }

    fn is_failed_delete(&mut self, step: i64) -> Changing<S, bool> {
        let step = self.step(step)?;
        let has_failed = matches!(step.state, StepState::Stuck | StepState::Blocked);
        Ok(has_failed && step.action.planned() == Action::Delete)
    }

    fn write_purge_events(&mut self, purge: &NewPurge) -> Changing<S> {
        let rung = purge.action.rung().as_str();
        for (num, steps) in self.chosen(&purge.what)? {
            let (step, of) = match steps.as_deref() {
                Some([step]) => (Some(*step), format!("step {step}")),
                _ => {
                    let deletion = short_id(&self.deletion(num)?.id);
                    (None, format!("deletion {deletion}"))
                }
            };
            let draft = events::rung_taken(&of, rung, &purge.audit.actor.name);
            self.event(Some(num), step, draft, purge.now);
        }
        Ok(())
    }

    fn forget(&mut self, purge: &NewPurge) -> Changing<S, Applied> {
        let mut forgotten = 0;
        for (num, only) in self.chosen(&purge.what)? {
            forgotten += self.abandon_steps(num, only.as_deref(), purge.now)?;
        }
        if forgotten == 0 {
            return refuse("none of the chosen steps is stuck or blocked");
        }
        self.audit(&purge.audit, purge.now);
        Ok(Applied::Moved(forgotten))
    }
}
