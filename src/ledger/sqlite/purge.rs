//! The rungs of the purge ladder (P3), released tombstones, and paused sites: each is recorded before
//! anything can be sent because of it.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::batch::Batch;
use super::rows::{self, CLAIMED};
use super::sql::{Apply, Run, Sql, refuse};
use crate::domain::ladder::FORGOTTEN;
use crate::domain::model::{
    ErrorClass, Paged, Phase, ResourceKey, Site, SitePause, StepState, short_id,
};
use crate::ledger::events;
use crate::ledger::transitions::deletion;
use crate::ledger::transitions::step::{Facts, Trigger};
use crate::ledger::{
    AbandonedStep, Applied, AuditEntry, NewDeletion, NewPurge, PurgeAction, RetryBy, Selection,
};

/// A stuck or blocked step that is abandoned.
struct StepToAbandon {
    id: i64,
    state: StepState,
    record: Option<i64>,
    held_by: Option<i64>,
}

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
                &events::rung_taken(&of, rung, &purge.audit.actor.name),
                purge.now,
            )?;
        }
        Ok(())
    }

    /// Abandons stuck and blocked steps: they end `purged`, and their tombstones with them. Nothing is sent,
    /// now or later: steps that waited for an abandoned one stay stuck and name it, until a person retries
    /// them.
    fn forget(&mut self, what: &Selection, audit: &AuditEntry, now: DateTime<Utc>) -> Apply {
        let chosen = self.chosen(what)?;
        let mut forgotten = 0;
        for (num, only) in &chosen {
            self.check(*num, deletion::Trigger::StepsAbandoned)?;
            let steps = self.steps_to_abandon(*num, only.as_deref())?;
            self.abandon(*num, &steps, now)?;
            forgotten += steps.len() as u64;
        }
        if forgotten == 0 {
            let why = "none of its steps is stuck or blocked".to_owned();
            return refuse(why);
        }
        self.audit(audit, now)?;
        Ok(Applied::Moved(forgotten))
    }

    /// The steps to abandon. None has a call in flight: an engine claims a step before it sends anything for
    /// it.
    fn steps_to_abandon(&self, num: i64, only: Option<&[i64]>) -> Apply<Vec<StepToAbandon>> {
        let mut steps = self.all(
            "SELECT id, state, record, held_by FROM steps
                 WHERE state IN ('stuck', 'blocked') AND deletion = ?1 ORDER BY id",
            [num],
            |row| {
                Ok(StepToAbandon {
                    id: row.get(0)?,
                    state: rows::word(row, 1)?,
                    record: row.get(2)?,
                    held_by: row.get(3)?,
                })
            },
        )?;
        if let Some(ids) = only {
            steps.retain(|step| ids.contains(&step.id));
            if let Some(other) = ids.iter().find(|id| !steps.iter().any(|it| it.id == **id)) {
                return refuse(format!("step {other} is neither stuck nor blocked"));
            }
            if let Some((held, root)) = steps.iter().find_map(|it| Some((it.id, it.held_by?))) {
                return refuse(format!(
                    "step {held} waits for step {root}, which is stuck: use the rung forget on \
                     that step"
                ));
            }
        }
        Ok(steps)
    }

    fn abandon(&mut self, num: i64, steps: &[StepToAbandon], now: DateTime<Utc>) -> Sql<()> {
        for step in steps {
            let next = self.next(step.state, Trigger::Abandoned, Facts::default())?;
            self.run(
                "UPDATE steps SET state = ?3, since = ?2, ended_at = ?2, held_by = NULL,
                     next_attempt_at = NULL WHERE id = ?1",
                params![step.id, rows::micros(now), next.state.as_str()],
            )?;
            self.moved(num, step.state, next.state, 1, now)?;
            self.drop_pending_clearances(step.id)?;
            self.end_tombstone(num, step.record, next.effects.tombstone, now)?;
            self.event(Some(num), Some(step.id), &events::abandoned(), now)?;
        }
        let ids: Vec<i64> = steps.iter().map(|step| step.id).collect();
        self.release_stuck(num, &ids, now)?;
        self.leave_waiting(num, &ids, now)?;
        self.derive_state(num, now)
    }

    /// Makes the dependents of abandoned steps stuck, because the abandoned resources may still exist.
    fn leave_waiting(&mut self, num: i64, forgotten: &[i64], now: DateTime<Utc>) -> Sql<()> {
        let mut left: BTreeSet<(i64, i64)> = BTreeSet::new();
        for id in forgotten {
            let dependents: Vec<(i64, bool)> = self.all(
                "UPDATE steps SET waits = waits - 1
                     WHERE ended_at IS NULL
                         AND id IN (SELECT dependent FROM edges WHERE dependency = ?1)
                     RETURNING id, left_to IS NULL",
                [id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            // Nothing is sent here for steps that are left to another deletion: they share its fate (P9).
            let own = dependents.into_iter().filter(|(_, is_own)| *is_own);
            left.extend(own.map(|(dependent, _)| (dependent, *id)));
        }
        let mut stuck = Vec::new();
        for (dependent, forgotten) in left {
            let from = self.one(
                "SELECT state FROM steps WHERE id = ?1",
                [dependent],
                |row| rows::word(row, 0),
            )?;
            let next = self.next(from, Trigger::DependencyAbandoned, Facts::default())?;
            let error = self.forgotten_error(forgotten, now)?;
            self.run(
                "UPDATE steps SET state = ?4, held_by = NULL, last_error = ?3,
                     since = iif(state = ?4, since, ?2) WHERE id = ?1",
                params![dependent, rows::micros(now), error, next.state.as_str()],
            )?;
            self.moved(num, from, next.state, 1, now)?;
            stuck.push((dependent, next.effects));
        }
        for (dependent, effects) in stuck {
            self.follow(num, dependent, effects, now)?;
        }
        Ok(())
    }

    /// Names the abandoned step that this one waited for, as the JSON of its `last_error`.
    fn forgotten_error(&self, step: i64, now: DateTime<Utc>) -> Sql<String> {
        let message = self.waited_for_forgotten(step)?;
        rows::json(&rows::own_error(
            ErrorClass::Blocked,
            FORGOTTEN,
            message,
            now,
        ))
    }

    pub(super) fn waited_for_forgotten(&self, step: i64) -> Sql<String> {
        let called = self.called(step)?;
        Ok(format!(
            "waited for step {step}, {called}, which was abandoned and may still block it; a retry \
             sends it anyway"
        ))
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
            &events::tombstone_released(key, &audit.actor.name),
            now,
        )?;
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
            &events::revived(key, &audit.actor.name, incarnation),
            now,
        )?;
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
            &events::site_paused(site, paused, &audit.actor.name, &audit.reason),
            now,
        )?;
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
