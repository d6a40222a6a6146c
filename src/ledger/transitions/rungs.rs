//! The rungs of the purge ladder (P3). Each is recorded before anything is sent because of it.

use super::refuse;
use crate::domain::model::{Action, short_id};
use crate::ledger::events;
use crate::ledger::store::LedgerRows;
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, NewDeletion, NewPurge, PurgeAction, RetryBy};

impl<S: LedgerRows> WorkingSet<S> {
    /// Takes a rung; see [`Change::Purge`](crate::ledger::Change::Purge).
    pub fn purge(&mut self, purge: &NewPurge) -> Changing<S, Applied> {
        let now = purge.now;
        let applied = match &purge.action {
            PurgeAction::Retry => self.retry(&purge.what, RetryBy::Person, &purge.audit, now)?,
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
        let before = self.savepoint()?;
        let accepted = match self.accept(deletion) {
            Ok(accepted @ Applied::Accepted { .. }) => accepted,
            other => {
                self.keep(before)?;
                return other;
            }
        };
        match self.retry(&purge.what, RetryBy::Person, &purge.audit, purge.now) {
            Ok(_) => {
                self.keep(before)?;
                Ok(accepted)
            }
            refused => {
                self.undo(before)?;
                refused
            }
        }
    }

    /// Retries the step with another call.
    fn retry_by(&mut self, purge: &NewPurge, action: Action) -> Changing<S, Applied> {
        let applied = self.retry(&purge.what, RetryBy::Person, &purge.audit, purge.now)?;
        let steps = self.chosen(&purge.what)?.into_values().flatten().flatten();
        for step in steps {
            self.call_instead(step, action)?;
        }
        Ok(applied)
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
            let happened = events::rung_taken(&of, rung, &purge.audit.actor.name);
            self.event(Some(num), step, happened, purge.now);
        }
        Ok(())
    }

    fn forget(&mut self, purge: &NewPurge) -> Changing<S, Applied> {
        let mut forgotten = 0;
        for (num, only) in self.chosen(&purge.what)? {
            forgotten += self.abandon_steps(num, only.as_deref(), purge.now)?;
        }
        if forgotten == 0 {
            return refuse("none of its steps is stuck or blocked");
        }
        self.audit(&purge.audit, purge.now);
        Ok(Applied::Moved(forgotten))
    }
}
