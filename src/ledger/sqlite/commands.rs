//! Retries, and plans that are made again.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::params;

use super::batch::Batch;
use super::rows;
use super::sql::{Apply, Run, Stop, refuse};
use crate::domain::model::{DeletionState, PlanOptions, ResourceKey, Target, short_id};
use crate::ledger::transitions::deletion;
use crate::ledger::{Applied, AuditEntry, RetryBy, Selection};

/// Deletions by number, each with the steps that were named; none: all its steps.
pub(super) type Chosen = BTreeMap<i64, Option<Vec<i64>>>;

impl Batch<'_> {
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
            self.audit(audit, now);
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
}
