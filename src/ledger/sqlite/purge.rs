//! The rungs of the purge ladder (P3), released tombstones, and paused sites: each is recorded before
//! anything can be sent because of it.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::batch::Batch;
use super::rows::{self, CLAIMED};
use super::sql::{Apply, Run, Sql, refuse};
use crate::domain::model::{Paged, Phase, ResourceKey, Site, SitePause, short_id};
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
            PurgeAction::Runbook => {
                self.chosen(&purge.what)?;
                self.audit(&purge.audit, now)?;
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
        self.audit(audit, now)?;
        Ok(Applied::Moved(forgotten))
    }

    /// Releases the tombstone of a resource that exists after its deletion ended; in any other phase this is
    /// refused.
    pub(super) fn release(
        &mut self,
        key: &ResourceKey,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Apply {
        let site = key.site.to_string();
        let identity = params![key.id, key.kind.as_str(), site];
        let found: Option<(Phase, String, i64)> = self.first(
            "SELECT t.phase, coalesce(d.id, ''), t.deletion FROM tombstones t
                 LEFT JOIN deletions d ON d.num = t.deletion
                 WHERE t.id = ?1 AND t.kind = ?2 AND t.site = ?3",
            identity,
            |row| Ok((rows::word(row, 0)?, row.get(1)?, row.get(2)?)),
        )?;
        let Some((phase, deletion, num)) = found else {
            return refuse(format!("{key} has no tombstone"));
        };
        let short = short_id(&deletion);
        match phase {
            Phase::Gone | Phase::Purged => {}
            Phase::Released => return refuse(format!("{key} is released already")),
            Phase::Checking | Phase::Deleting => {
                return refuse(format!(
                    "{key} is {} by deletion {short}: cancel that deletion, or abandon its step, \
                     first",
                    if phase == Phase::Checking {
                        "being checked"
                    } else {
                        "being deleted"
                    }
                ));
            }
        }
        self.let_go_of_ended(key, false)?;
        self.audit(audit, now)?;
        self.event(
            Some(num),
            None,
            events::tombstone_released(key, &audit.actor.name),
            now,
        );
        Ok(Applied::Done)
    }

    /// Revives the record of a resource that was created again after its end (M1, M3). Others stay as they
    /// were.
    pub(super) fn revive(
        &mut self,
        key: &ResourceKey,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Apply {
        let Some((num, incarnation)) = self.let_go_of_ended(key, true)? else {
            return Ok(Applied::Done);
        };
        self.audit(audit, now)?;
        self.event(
            Some(num),
            None,
            events::revived(key, &audit.actor.name, incarnation),
            now,
        );
        Ok(Applied::Done)
    }

    /// Releases the tombstone of an ended deletion. Returns that deletion, and which incarnation exists now;
    /// none if it has not ended. What exists after `gone`, or was created, is another incarnation (M1); what
    /// was left behind is the same.
    fn let_go_of_ended(&self, key: &ResourceKey, created: bool) -> Sql<Option<(i64, i64)>> {
        self.first(
            "UPDATE tombstones SET incarnation = incarnation + (phase = 'gone' OR ?4),
                     phase = 'released', deleted_at = NULL, gone_at = NULL, recreated = 0
                 WHERE id = ?1 AND kind = ?2 AND site = ?3 AND phase IN ('gone', 'purged')
                 RETURNING deletion, incarnation",
            params![key.id, key.kind.as_str(), key.site.to_string(), created],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    pub(super) fn pause_site(
        &mut self,
        site: &Site,
        paused: bool,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Apply {
        let name = site.to_string();
        let changed = match paused {
            true => self.run(
                "INSERT INTO site_pauses(site, actor, reason, at) VALUES(?1, ?2, ?3, ?4)
                 ON CONFLICT(site) DO NOTHING",
                params![
                    name,
                    rows::json(&audit.actor)?,
                    audit.reason,
                    rows::micros(now)
                ],
            )?,
            false => self.run("DELETE FROM site_pauses WHERE site = ?1", params![name])?,
        };
        if changed == 0 {
            return refuse(match paused {
                true => format!("{site} is paused already"),
                false => format!("{site} is not paused by a person"),
            });
        }
        self.audit(audit, now)?;
        self.event(
            None,
            None,
            events::site_paused(site, paused, &audit.actor.name, &audit.reason),
            now,
        );
        Ok(Applied::Done)
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
