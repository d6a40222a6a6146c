//! The effects of a step on its dependents: they become ready when it has ended, and stuck when it is stuck,
//! so that nothing waits forever without saying for what (N12).

use chrono::{DateTime, Utc};
use rusqlite::params;

use super::batch::Batch;
use super::rows;
use super::sql::{Run, Sql};
use crate::domain::ladder::HELD;
use crate::domain::model::{ErrorClass, StepState};
use crate::ledger::events;
use crate::ledger::transitions::step::{Facts, Trigger};

impl Batch<'_> {
    /// Releases the dependents of a step that has ended: those that wait for nothing else become ready. In a
    /// cancelled deletion only steps that were sent still wait: they are observed (P8).
    pub(super) fn release_dependents(&mut self, num: i64, id: i64, now: DateTime<Utc>) -> Sql<()> {
        // Row by row: for an `UPDATE` of many rows, or one with `RETURNING`, SQLite makes a table of its own,
        // which costs more than everything else in an outcome.
        let dependents: Vec<(i64, bool)> = self.all(
            "SELECT s.id, s.waits = 1 AND s.state = 'waiting' AND s.left_to IS NULL
                 FROM edges e JOIN steps s ON s.id = e.dependent
                 WHERE e.dependency = ?1 AND s.ended_at IS NULL",
            [id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let facts = Facts {
            cancelled: self.deletion(num)?.cancelled,
            ..Facts::default()
        };
        let to = self.state_after(StepState::Waiting, Trigger::DependenciesEnded, facts)?;
        let due = (to == StepState::Verifying).then(|| rows::micros(now));
        let mut free = 0;
        for (dependent, waits_for_no_other) in dependents {
            self.run(
                "UPDATE steps SET waits = waits - 1 WHERE id = ?1",
                params![dependent],
            )?;
            if waits_for_no_other {
                self.run(
                    "UPDATE steps SET state = ?2, since = ?3, next_attempt_at = ?4 WHERE id = ?1",
                    params![dependent, to.as_str(), rows::micros(now), due],
                )?;
                free += 1;
            }
        }
        self.moved(num, StepState::Waiting, to, free, now)
    }

    /// Repeats the steps that enabled this step's resource, before a retry. The cloud may have answered 2xx
    /// and ignored them, or somebody may have changed it since. A plan enables for one step each time; a step
    /// on which several depend stays as it is, and so does a resource that another deletion is enabling.
    /// Returns for how many steps this one waits again.
    pub(super) fn enable_again(&mut self, num: i64, id: i64, now: DateTime<Utc>) -> Sql<u64> {
        // Through its few dependencies: otherwise SQLite would read all steps that are gone, for each retry.
        let enables: Vec<(i64, Option<i64>)> = self.all(
            "SELECT s.id, s.left_to FROM edges e JOIN steps s ON s.id = e.dependency
                 WHERE e.dependent = ?1 AND s.action = 'enable' AND s.state = 'gone'
                     AND NOT EXISTS (SELECT 1 FROM edges
                         WHERE dependency = s.id AND dependent <> ?1)
                     AND NOT EXISTS (SELECT 1 FROM steps live WHERE live.resource = s.resource
                         AND live.kind = s.kind AND live.site = s.site
                         AND live.action = 'enable' AND live.ended_at IS NULL)",
            [id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let gone = StepState::Gone;
        let to = self.state_after(gone, Trigger::DependentRetried, Facts::default())?;
        for (enable, left_to) in &enables {
            self.run(
                "UPDATE steps SET state = ?3, since = ?2, ended_at = NULL, left_to = NULL,
                     attempts = 0, looks = 0, last_error = NULL WHERE id = ?1",
                params![*enable, rows::micros(now), to.as_str()],
            )?;
            self.run(
                "UPDATE steps SET waits = waits + 1 WHERE id = ?1",
                params![id],
            )?;
            self.event(Some(num), Some(*enable), &events::repeated(*left_to), now)?;
        }
        let again = enables.len() as u64;
        self.moved(num, gone, to, again, now)?;
        Ok(again)
    }

    /// Makes the dependents of a stuck step stuck too, and theirs in turn. With `on_failure = stop`, so are
    /// all steps that were not sent (N11).
    pub(super) fn propagate_stuck(&mut self, num: i64, root: i64, now: DateTime<Utc>) -> Sql<()> {
        let error = self.blocking_error(root, now)?;
        let mut held = self.mark_dependents_stuck(num, root, root, &error, now)?;
        if self.deletion(num)?.stops {
            for state in [StepState::Waiting, StepState::Ready] {
                let to = self.state_after(state, Trigger::DeletionStopped, Facts::default())?;
                let n = self.run(
                    "UPDATE steps SET state = ?6, since = ?3, held_by = ?4, last_error = ?5,
                         next_attempt_at = NULL
                     WHERE deletion = ?1 AND state = ?2 AND sent = 0",
                    params![
                        num,
                        state.as_str(),
                        rows::micros(now),
                        root,
                        error,
                        to.as_str()
                    ],
                )?;
                self.moved(num, state, to, n as u64, now)?;
                held += n as u64;
            }
        }
        if held > 0 {
            self.event(Some(num), Some(root), &events::holds_others(held), now)?;
        }
        Ok(())
    }

    fn mark_dependents_stuck(
        &mut self,
        num: i64,
        from: i64,
        root: i64,
        error: &str,
        now: DateTime<Utc>,
    ) -> Sql<u64> {
        let waiting = StepState::Waiting;
        let stuck = self.state_after(waiting, Trigger::DependencyStuck, Facts::default())?;
        let mut held = 0;
        {
            let mut dependents = self.db.prepare_cached(
                "SELECT s.id FROM edges e JOIN steps s ON s.id = e.dependent
                 WHERE e.dependency = ?1 AND s.state = 'waiting'",
            )?;
            let mut put = self.db.prepare_cached(
                "UPDATE steps SET state = ?5, since = ?2, held_by = ?3, last_error = ?4
                 WHERE id = ?1",
            )?;
            // Each step is held once, so the work is bounded by the edges, also around diamonds.
            let mut reached = vec![from];
            while let Some(id) = reached.pop() {
                let waiting: Vec<i64> = dependents
                    .query_map([id], |row| row.get(0))?
                    .collect::<Sql<_>>()?;
                for dependent in waiting {
                    let since = rows::micros(now);
                    put.execute(params![dependent, since, root, error, stuck.as_str()])?;
                    held += 1;
                    reached.push(dependent);
                }
            }
        }
        self.moved(num, waiting, stuck, held, now)?;
        Ok(held)
    }

    /// `port web (4fdb…)`
    pub(super) fn called(&self, id: i64) -> Sql<String> {
        self.one(
            "SELECT kind, name, resource FROM steps WHERE id = ?1",
            [id],
            |row| {
                let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
                let resource: String = row.get(2)?;
                Ok(match name.is_empty() {
                    true => format!("{kind} {resource}"),
                    false => format!("{kind} {name} ({resource})"),
                })
            },
        )
    }

    /// Says for which step a held one waits; as the JSON of its `last_error`.
    pub(super) fn blocking_error(&self, root: i64, now: DateTime<Utc>) -> Sql<String> {
        let called = self.called(root)?;
        let message = format!("waits for step {root}, {called}, which does not go");
        rows::json(&rows::own_error(ErrorClass::Blocked, HELD, message, now))
    }

    /// Releases the steps that only these roots held, which are no longer stuck. The others stay held by
    /// steps that are still stuck.
    pub(super) fn release_stuck(&mut self, num: i64, roots: &[i64], now: DateTime<Utc>) -> Sql<()> {
        if self.deletion(num)?.stops {
            return self.release_all_stuck(num, roots, now);
        }
        let mut freed = Vec::new();
        let mut reached = roots.to_vec();
        while let Some(id) = reached.pop() {
            let dependents: Vec<i64> = self.all(
                "SELECT s.id FROM edges e JOIN steps s ON s.id = e.dependent
                 WHERE e.dependency = ?1 AND s.state = 'stuck' AND s.held_by IS NOT NULL",
                [id],
                |row| row.get(0),
            )?;
            for dependent in dependents {
                self.free(num, dependent, now)?;
                freed.push(dependent);
                reached.push(dependent);
            }
        }
        for id in freed {
            if let Some((dependency, root)) = self.stuck_dependency(id)? {
                let error = self.blocking_error(root, now)?;
                self.mark_dependents_stuck(num, dependency, root, &error, now)?;
            }
        }
        Ok(())
    }

    /// With `on_failure = stop`, one failure that is left keeps the deletion stopped, and holds its steps.
    fn release_all_stuck(&mut self, num: i64, roots: &[i64], now: DateTime<Utc>) -> Sql<()> {
        let failed = self.first(
            "SELECT id FROM steps WHERE deletion = ?1 AND state = 'stuck' AND held_by IS NULL
                 LIMIT 1",
            [num],
            |row| row.get(0),
        )?;
        if let Some(failed) = failed {
            for root in roots {
                self.mark_stuck_behind(num, *root, failed, now)?;
            }
            return Ok(());
        }
        let held: Vec<i64> = self.all(
            "SELECT id FROM steps WHERE deletion = ?1 AND state = 'stuck'",
            [num],
            |row| row.get(0),
        )?;
        for id in held {
            self.free(num, id, now)?;
        }
        Ok(())
    }

    /// Makes another step hold what a step held, and the step itself if it is still stuck.
    pub(super) fn mark_stuck_behind(
        &self,
        num: i64,
        before: i64,
        root: i64,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let error = self.blocking_error(root, now)?;
        self.run(
            "UPDATE steps SET held_by = ?3, last_error = ?4
             WHERE deletion = ?1 AND state = 'stuck' AND (held_by = ?2 OR id = ?2)",
            params![num, before, root, error],
        )
        .map(drop)
    }

    /// Releases a step that is stuck because of another.
    fn free(&mut self, num: i64, id: i64, now: DateTime<Utc>) -> Sql<()> {
        let facts = self.one(
            "SELECT waits > 0, left_to IS NOT NULL FROM steps WHERE id = ?1",
            [id],
            |row| {
                Ok(Facts {
                    waits: row.get(0)?,
                    left: row.get(1)?,
                    held: true,
                    ..Facts::default()
                })
            },
        )?;
        let to = self.state_after(StepState::Stuck, Trigger::HolderReleased, facts)?;
        self.put_step((num, id), StepState::Stuck, to, None, now)
    }

    /// Finds a stuck dependency of this step, and the step that holds it (or itself). Ignores steps that are
    /// stuck because of this one: if a failure stops the deletion, that is every step.
    pub(super) fn stuck_dependency(&self, id: i64) -> Sql<Option<(i64, i64)>> {
        self.first("SELECT s.id, coalesce(s.held_by, s.id) FROM edges e JOIN steps s ON s.id = e.dependency
                 WHERE e.dependent = ?1 AND s.state = 'stuck'
                     AND s.held_by IS NOT ?1 LIMIT 1", [id], |row| Ok((row.get(0)?, row.get(1)?)))
    }
}
