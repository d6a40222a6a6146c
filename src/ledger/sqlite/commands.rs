//! Commands for deletions that have started (retry, cancel, pause), and recovery after a restart.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::params;

use super::batch::{Batch, unrefused};
use super::rows;
use super::sql::{Apply, Run, Sql, Stop, refuse};
use crate::domain::drift::RECREATED;
use crate::domain::model::{
    DeletionState, ErrorClass, EventKind, PlanOptions, ResourceKey, StepState, Target, short_id,
};
use crate::domain::policy::LOOK_WAIT_MAX;
use crate::ledger::events::{self, Happened};
use crate::ledger::transitions::step::{Facts, Trigger};
use crate::ledger::transitions::{deletion, own_error};
use crate::ledger::{Applied, AuditEntry, NewEvent, RetryBy, Selection, StuckAgain};

/// Blocked steps that one wake-up moves. This bounds the transaction, not the work: the rest stays due.
const WAKE_MAX: i64 = 10_000;

/// Deletions by number, each with the steps that were named; none: all its steps.
pub(super) type Chosen = BTreeMap<i64, Option<Vec<i64>>>;

impl Batch<'_> {
    pub(super) fn wake_due(&mut self, now: DateTime<Utc>) -> Apply {
        let blocked = StepState::Blocked;
        let ready = self.state_after(blocked, Trigger::Due, Facts::default())?;
        let woken: Vec<i64> = self.all(
            "UPDATE steps SET state = ?3, since = ?1, next_attempt_at = NULL
                 WHERE id IN (SELECT id FROM steps INDEXED BY steps_due WHERE state = 'blocked'
                     AND next_attempt_at <= ?1 ORDER BY next_attempt_at LIMIT ?2)
                 RETURNING deletion",
            params![rows::micros(now), WAKE_MAX, ready.as_str()],
            |row| row.get(0),
        )?;
        for num in &woken {
            self.moved(*num, blocked, ready, 1, now)?;
        }
        Ok(Applied::Moved(woken.len() as u64))
    }

    /// Steps whose call was in flight are observed first; the earlier engine's late outcomes no longer count
    /// (I11).
    pub(super) fn recover(&mut self, now: DateTime<Utc>) -> Apply {
        // Nobody knows whether the call took effect: an observation decides whether it is sent again.
        let message = "the engine ended while the call was in flight".to_owned();
        let error = own_error(ErrorClass::OutcomeUnknown, "EngineEnded", message, now);
        let error = rows::json(&error)?;
        let running = StepState::Running;
        let to = self.state_after(running, Trigger::EngineEnded, Facts::default())?;
        let found: Vec<i64> = self.all(
            "UPDATE steps SET state = ?3, since = ?1, next_attempt_at = ?1, looks = 0,
                     last_error = ?2
                 WHERE state = 'running' RETURNING deletion",
            params![rows::micros(now), error, to.as_str()],
            |row| row.get(0),
        )?;
        // Also what an earlier engine was looking for.
        self.run(
            "UPDATE steps SET epoch = ?1 WHERE state = 'verifying'",
            params![self.epoch],
        )?;
        for num in &found {
            self.moved(*num, running, to, 1, now)?;
        }
        self.forget_the_future(now)?;
        Ok(Applied::Moved(found.len() as u64))
    }

    /// Handles a clock that was set back while no engine ran: waits that began later than now begin now, and
    /// keep their length. No observation is further away than the longest wait between observations.
    fn forget_the_future(&self, now: DateTime<Utc>) -> Sql<()> {
        let at = rows::micros(now);
        self.run(
            "UPDATE steps SET next_attempt_at = max(?1, next_attempt_at - (since - ?1)),
                 blocked_since = min(blocked_since, ?1), since = ?1
             WHERE state IN ('blocked', 'verifying') AND since > ?1",
            params![at],
        )?;
        self.run(
            "UPDATE steps SET next_attempt_at = ?1
             WHERE state = 'verifying' AND next_attempt_at > ?1",
            params![rows::micros(now + LOOK_WAIT_MAX)],
        )
        .map(drop)
    }

    pub(super) fn retry(
        &mut self,
        selection: &Selection,
        by: RetryBy,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Apply {
        let chosen = self.chosen(selection)?;
        let by_person = by == RetryBy::Person;
        let mut moved = 0;
        let mut refused = None;
        for (num, only) in &chosen {
            match self.retry_deletion(*num, only.as_deref(), by_person, now) {
                Err(Stop::Refused(why)) => refused = refused.or(Some(why)),
                retried => moved += retried?,
            }
        }
        if let Some(why) = refused.filter(|_| moved == 0) {
            return refuse(why);
        }
        if by_person || moved > 0 {
            self.audit(audit, now)?;
        }
        Ok(Applied::Moved(moved))
    }

    /// Resolves a selection to deletions and steps.
    pub(super) fn chosen(&mut self, selection: &Selection) -> Apply<Chosen> {
        let mut chosen = Chosen::new();
        match selection {
            Selection::Deletion(id) => drop(chosen.insert(self.found(id)?, None)),
            Selection::Steps(ids) => {
                for id in ids {
                    let num =
                        self.first("SELECT deletion FROM steps WHERE id = ?1", [id], |row| {
                            row.get(0)
                        })?;
                    match num {
                        Some(num) => chosen
                            .entry(num)
                            .or_default()
                            .get_or_insert_default()
                            .push(*id),
                        None => return refuse(format!("no step {id}")),
                    }
                }
            }
        }
        Ok(chosen)
    }

    fn retry_deletion(
        &mut self,
        num: i64,
        only: Option<&[i64]>,
        by_person: bool,
        now: DateTime<Utc>,
    ) -> Apply<u64> {
        let trigger = deletion::Trigger::Retried { by_person };
        self.check(num, trigger)?;
        if self.deletion(num)?.state == DeletionState::Refused {
            return self.plan_again(num, trigger, now);
        }
        self.in_memory(|set| set.retry_steps(num, only, by_person, now))
    }

    /// Retries these steps, as a person would, because what they waited for has happened.
    pub(super) fn retry_steps(
        &mut self,
        num: i64,
        steps: &[i64],
        now: DateTime<Utc>,
    ) -> Apply<u64> {
        self.retry_deletion(num, Some(steps), true, now)
    }

    /// Plans a refused deletion again, behind its write guard.
    fn plan_again(
        &mut self,
        num: i64,
        retried: deletion::Trigger,
        now: DateTime<Utc>,
    ) -> Apply<u64> {
        let (targets, copies, options): (Vec<Target>, Vec<ResourceKey>, PlanOptions) = self.one(
            "SELECT targets, copies, options FROM requests WHERE num = ?1",
            [num],
            |row| {
                Ok((
                    rows::from_json(row, 0)?,
                    rows::from_json(row, 1)?,
                    rows::from_json(row, 2)?,
                ))
            },
        )?;
        // The targets of a chained deletion are under the write guard of the deletion that takes them away.
        let (targets, copies) = match options.chained {
            true => (Vec::new(), Vec::new()),
            false => (targets, copies),
        };
        for key in targets.iter().map(|target| &target.key).chain(&copies) {
            if let Some(other) = self.in_the_hands_of(key)? {
                return refuse(format!(
                    "{key} is being deleted by deletion {}",
                    short_id(&other)
                ));
            }
        }
        self.raise_checking(num, &targets, &copies, now)?;
        self.run(
            "UPDATE requests SET refused = '[]' WHERE num = ?1",
            params![num],
        )?;
        self.move_deletion(num, retried, now)?;
        Ok(1)
    }

    pub(super) fn cancel(
        &mut self,
        deletion_id: &str,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Apply {
        let num = self.found(deletion_id)?;
        self.check(num, deletion::Trigger::Cancelled)?;
        self.skip_unsent(num, now)?;
        self.observe_sent(num, now)?;
        self.release_checking(num)?;
        self.audit(audit, now)?;
        self.move_deletion(num, deletion::Trigger::Cancelled, now)?;
        Ok(Applied::Done)
    }

    /// Skips the steps whose delete was not sent, and releases their tombstones (P8).
    fn skip_unsent(&mut self, num: i64, now: DateTime<Utc>) -> Sql<()> {
        for state in [StepState::Waiting, StepState::Ready, StepState::Stuck] {
            let next = self.next(state, Trigger::DeletionCancelled, Facts::default())?;
            self.run(
                "DELETE FROM awaited WHERE step IN
                     (SELECT id FROM steps WHERE deletion = ?1 AND state = ?2 AND sent = 0)",
                params![num, state.as_str()],
            )?;
            self.run(
                "UPDATE tombstones SET phase = 'released' WHERE deletion = ?1
                     AND phase IN ('checking', 'deleting') AND record_id IN
                     (SELECT record FROM steps WHERE deletion = ?1 AND state = ?2 AND sent = 0)",
                params![num, state.as_str()],
            )?;
            let skipped = self.run(
                "UPDATE steps SET state = ?4, since = ?3, ended_at = ?3, held_by = NULL
                 WHERE deletion = ?1 AND state = ?2 AND sent = 0",
                params![num, state.as_str(), rows::micros(now), next.state.as_str()],
            )?;
            self.moved(num, state, next.state, skipped as u64, now)?;
        }
        Ok(())
    }

    /// Lets calls that were sent run to their end, which one observation finds out. A call in flight is
    /// observed anyway when it is answered; a step that waits for a resource to be enabled again is observed
    /// after that.
    fn observe_sent(&mut self, num: i64, now: DateTime<Utc>) -> Sql<()> {
        for (state, waits) in [
            (StepState::Stuck, true),
            (StepState::Stuck, false),
            (StepState::Ready, false),
            (StepState::Blocked, false),
            (StepState::Verifying, false),
        ] {
            let facts = Facts {
                sent: true,
                waits,
                ..Facts::default()
            };
            let to = self.state_after(state, Trigger::DeletionCancelled, facts)?;
            let moved = self.run(
                "UPDATE steps SET state = ?4, next_attempt_at = iif(?4 = 'verifying', ?3, NULL),
                     held_by = NULL, since = CASE WHEN state = ?4 THEN since ELSE ?3 END
                 WHERE deletion = ?1 AND state = ?2 AND sent = 1 AND (waits > 0) = ?5",
                params![num, state.as_str(), rows::micros(now), to.as_str(), waits],
            )?;
            self.moved(num, state, to, moved as u64, now)?;
        }
        Ok(())
    }

    pub(super) fn pause(
        &mut self,
        deletion_id: &str,
        paused: bool,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Apply {
        let num = self.found(deletion_id)?;
        let trigger = match paused {
            true => deletion::Trigger::Paused,
            false => deletion::Trigger::Resumed,
        };
        self.check(num, trigger)?;
        self.audit(audit, now)?;
        self.move_deletion(num, trigger, now)?;
        Ok(Applied::Done)
    }

    pub(super) fn recreated(
        &mut self,
        key: &ResourceKey,
        copy: Option<&ResourceKey>,
        stuck: Option<StuckAgain>,
        now: DateTime<Utc>,
    ) -> Apply {
        let found: Option<(i64, i64, i64)> = self.first(// If other steps wait for its step, or the step is no longer kept, the return is only
                // counted.
                "UPDATE tombstones AS t SET recreated = recreated + 1, (phase, gone_at) =
                     (SELECT iif(stuck, 'deleting', t.phase), iif(stuck, NULL, t.gone_at)
                      FROM (SELECT ?4 AND EXISTS (SELECT 1 FROM steps
                          WHERE deletion = t.deletion AND record = t.record_id AND state = 'gone'
                              AND NOT EXISTS (SELECT 1 FROM edges e JOIN steps d ON d.id = e.dependent
                                  WHERE e.dependency = steps.id AND d.ended_at IS NULL)) AS stuck))
                 WHERE id = ?1 AND kind = ?2 AND site = ?3
                     AND (phase = 'gone' OR ?5 AND phase = 'deleting')
                 RETURNING deletion, recreated, record_id", params![
                    key.id,
                    key.kind.as_str(),
                    key.site.to_string(),
                    stuck.is_some(),
                    copy.is_some()
                ], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let Some((num, times, record)) = found else {
            return refuse(format!("{key} was not deleted before"));
        };
        let (happened, why) = events::recreated(key, copy, times, stuck);
        if let Some(why) = why {
            self.stuck_again(num, record, why, now)?;
        }
        self.event(Some(num), None, happened, now);
        Ok(Applied::Done)
    }

    /// Marks the step that had deleted the resource as stuck, with the reason: a person must find out who
    /// re-creates it. While dependents of that step are live, nothing is marked: the resource blocks their
    /// own calls.
    fn stuck_again(
        &mut self,
        num: i64,
        record: i64,
        message: String,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let error = own_error(ErrorClass::Drift, RECREATED, message, now);
        let gone = StepState::Gone;
        let next = self.next(gone, Trigger::Recreated, Facts::default())?;
        let stuck: Vec<i64> = self.all(
            "UPDATE steps SET state = ?5, since = ?3, ended_at = NULL, last_error = ?4,
                     told = 0
                 WHERE deletion = ?1 AND record = ?2 AND state = 'gone'
                     AND NOT EXISTS (SELECT 1 FROM edges e JOIN steps d ON d.id = e.dependent
                         WHERE e.dependency = steps.id AND d.ended_at IS NULL)
                 RETURNING id",
            params![
                num,
                record,
                rows::micros(now),
                rows::json(&error)?,
                next.state.as_str()
            ],
            |row| row.get(0),
        )?;
        let count = stuck.len() as u64;
        self.moved(num, gone, next.state, count, now)?;
        unrefused(self.in_memory(|set| {
            for step in stuck {
                set.follow(step, next.effects, now)?;
            }
            set.derive_state(num, now)
        }))
    }

    pub(super) fn note(&mut self, event: &NewEvent, now: DateTime<Utc>) -> Apply {
        if event.kind == EventKind::Site && !self.site_changed(&event.data)? {
            return Ok(Applied::Done);
        }
        let num = match &event.deletion_id {
            Some(id) => self.find(id)?,
            None => None,
        };
        let happened = Happened {
            kind: event.kind,
            words: event.message.clone(),
            fields: event.data.clone(),
        };
        self.event(num, event.step_id, happened, now);
        Ok(Applied::Done)
    }
}
