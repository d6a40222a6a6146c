//! The rungs of the purge ladder (P3): each is recorded before anything can be sent because of it.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::batch::Batch;
use super::rows::{self, CLAIMED};
use super::sql::{Apply, Run, Sql, refuse};
use crate::domain::model::{Action, Paged, SitePause, short_id};
use crate::ledger::events;
use crate::ledger::{
    AbandonedStep, Applied, AuditEntry, NewDeletion, NewPurge, PurgeAction, RetryBy, Selection,
};

impl Batch<'_> {
    pub(super) fn purge(&mut self, purge: &NewPurge) -> Apply {
        let now = purge.now;
        let applied = match &purge.action {
            PurgeAction::Retry => self.retry(&purge.what, RetryBy::Person, &purge.audit, now)?,
            PurgeAction::Unpin(deletion) => self.unpin(purge, deletion)?,
            PurgeAction::Call(action) => self.retry_by(purge, *action)?,
            PurgeAction::Runbook => {
                self.chosen(&purge.what)?;
                self.audit(&purge.audit, now);
                Applied::Done
            }
            PurgeAction::Forget => self.forget(&purge.what, &purge.audit, now)?,
        };
        self.tell_purge(purge)?;
        Ok(applied)
    }

    /// Deletes the blocking edges, and retries the step, which snoozes while they go. If either half is
    /// refused, neither counts.
    fn unpin(&mut self, purge: &NewPurge, deletion: &NewDeletion) -> Apply {
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
    fn retry_by(&mut self, purge: &NewPurge, action: Action) -> Apply {
        let applied = self.retry(&purge.what, RetryBy::Person, &purge.audit, purge.now)?;
        let steps = self.chosen(&purge.what)?.into_values().flatten().flatten();
        for step in steps {
            self.in_memory(|set| set.call_instead(step, action))?;
        }
        Ok(applied)
    }

    fn tell_purge(&mut self, purge: &NewPurge) -> Apply<()> {
        let rung = purge.action.rung().as_str();
        let chosen = self.chosen(&purge.what)?;
        for (num, steps) in chosen {
            let deletion = self.deletion(num)?.id.clone();
            let (step, of) = match steps.as_deref() {
                Some([step]) => (Some(*step), format!("step {step}")),
                _ => (None, format!("deletion {}", short_id(&deletion))),
            };
            self.event(
                Some(num),
                step,
                events::rung_taken(&of, rung, &purge.audit.actor.name),
                purge.now,
            );
        }
        Ok(())
    }

    fn forget(&mut self, what: &Selection, audit: &AuditEntry, now: DateTime<Utc>) -> Apply {
        let chosen = self.chosen(what)?;
        let mut forgotten = 0;
        for (num, only) in &chosen {
            forgotten += self.in_memory(|set| set.abandon_steps(*num, only.as_deref(), now))?;
        }
        if forgotten == 0 {
            let why = "none of its steps is stuck or blocked".to_owned();
            return refuse(why);
        }
        self.audit(audit, now);
        Ok(Applied::Moved(forgotten))
    }
}

pub(super) fn site_pauses(db: &Connection) -> Sql<Vec<SitePause>> {
    db.all(
        "SELECT site, actor, reason, at FROM site_pauses ORDER BY site",
        (),
        |row| {
            Ok(SitePause {
                site: rows::site(row, 0)?,
                by: rows::from_json(row, 1)?,
                reason: row.get(2)?,
                at: rows::time(row, 3)?,
            })
        },
    )
}

/// By deletion, then by step; the cursor is both. A resource deleted or released since is not an orphan.
pub(super) fn orphans(
    db: &Connection,
    after: Option<[i64; 2]>,
    limit: usize,
) -> Sql<Paged<AbandonedStep>> {
    let [num, id] = after.unwrap_or([0, 0]);
    let found = db.all(
        &format!(
            "SELECT {CLAIMED}, d.id, s.ended_at FROM steps s INDEXED BY steps_by_state
             JOIN deletions d ON d.num = s.deletion
             JOIN tombstones t ON t.record_id = s.record AND t.deletion = s.deletion
             WHERE s.state = 'purged' AND t.phase = 'purged' AND (s.deletion, s.id) > (?1, ?2)
             ORDER BY s.deletion, s.id LIMIT ?3"
        ),
        params![num, id, limit as i64 + 1],
        |row| {
            let deletion_id: String = row.get(20)?;
            let forgotten = AbandonedStep {
                step: rows::claimed(row, &deletion_id, false)?,
                since: rows::time(row, 21)?,
            };
            let num: i64 = row.get(1)?;
            Ok((format!("{num}:{}", forgotten.step.id), forgotten))
        },
    )?;
    Ok(rows::page(found, limit))
}
