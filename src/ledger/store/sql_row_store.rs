//! The steps and tombstones that a change finds along an index, and the rows of sites and channels, in the SQL of all
//! stores.

use chrono::{DateTime, Utc};

use super::decode::{self, STEP, STEP_ROW};
use super::sql::{Each, ReadColumns as _, Statements, Writes, json, numbers};
use super::{SiteRows, StepFinds, StepRow, Stored, StoredStep};
use crate::domain::model::{Site, SitePause};
use crate::domain::notification::CursorPosition;

impl<S: Statements> StepFinds for S {
    fn load_steps(&self, ids: &[i64]) -> Stored<Self, Vec<StoredStep>> {
        self.read_numbered((STEP, "steps s WHERE s.id = $1"), ids, decode::step)
    }

    fn load_dependents(&self, ids: &[i64]) -> Stored<Self, Vec<(i64, i64)>> {
        let each = Each {
            columns: "dependency, dependent",
            from: "edges WHERE dependency = $1",
            order: "dependent",
            limit: None,
        };
        let values = numbers(ids.iter().copied());
        self.read_each(&each, values, |row| Ok((row.read(0)?, row.read(1)?)))
    }

    fn find_left_to(&self, owners: &[i64]) -> Stored<Self, Vec<i64>> {
        let by_owner = Self::DIALECT.by_index("steps_left");
        let from = format!("steps s {by_owner} WHERE s.left_to = $1 AND s.ended_at IS NULL");
        let mut steps = self.read_numbered(("s.id", &from), owners, |row| row.read(0))?;
        steps.sort_unstable();
        Ok(steps)
    }

    /// The query jumps from one deletion to the next: the cost does not grow with their steps. It names its index,
    /// because SQLite, which has no statistics, would use an index that begins with the state, and would sort all ready
    /// steps at each claim.
    fn find_ready_deletions(
        &self,
        site: &Site,
        (after, until): (i64, i64),
        limit: usize,
    ) -> Stored<Self, Vec<i64>> {
        let by_rank = Self::DIALECT.by_index("steps_ready");
        let next = |after: &str| {
            format!(
                "SELECT (SELECT deletion FROM steps {by_rank} WHERE state = 'ready' AND site = $1
                     AND deletion > {after} AND deletion <= $3 ORDER BY deletion LIMIT 1)"
            )
        };
        let sql = format!(
            "WITH RECURSIVE found(num) AS (
                 {} UNION ALL {} FROM found WHERE num IS NOT NULL
             )
             SELECT num FROM found WHERE num IS NOT NULL LIMIT $4",
            next("$2"),
            next("found.num")
        );
        let values = [site.into(), after.into(), until.into(), limit.into()];
        self.read_all(&sql, &values, |row| row.read(0))
    }

    fn load_ready(&self, site: &Site, deletion: i64, limit: usize) -> Stored<Self, Vec<StepRow>> {
        let by_rank = Self::DIALECT.by_index("steps_ready");
        let sql = format!(
            "SELECT {} FROM steps s {by_rank}
             WHERE s.state = 'ready' AND s.site = $1 AND s.deletion = $2
             ORDER BY s.rank DESC, s.id LIMIT $3",
            *STEP_ROW
        );
        let values = [site.into(), deletion.into(), limit.into()];
        self.read_all(&sql, &values, decode::step_row)
    }

    fn find_stuck_dependency(&self, step: i64) -> Stored<Self, Option<(i64, i64)>> {
        let sql = "SELECT s.id, coalesce(s.held_by, s.id)
             FROM edges e JOIN steps s ON s.id = e.dependency
             WHERE e.dependent = $1 AND s.state = 'stuck' AND s.held_by IS DISTINCT FROM $1
             ORDER BY e.dependency LIMIT 1";
        self.read_first(sql, &[step.into()], |row| Ok((row.read(0)?, row.read(1)?)))
    }

    fn find_abandoned_dependency(&self, step: i64) -> Stored<Self, Option<i64>> {
        let sql = "SELECT d.id FROM edges e JOIN steps d ON d.id = e.dependency
             WHERE e.dependent = $1 AND d.state = 'purged' ORDER BY e.dependency LIMIT 1";
        self.read_first(sql, &[step.into()], |row| row.read(0))
    }

    fn find_failed(&self, deletion: i64, other_than: i64) -> Stored<Self, Option<i64>> {
        let sql = "SELECT id FROM steps WHERE state = 'stuck' AND deletion = $1 AND held_by IS NULL
                 AND id <> $2 ORDER BY id LIMIT 1";
        self.read_first(sql, &[deletion.into(), other_than.into()], |row| {
            row.read(0)
        })
    }

    fn find_due(&self, now: DateTime<Utc>, limit: usize) -> Stored<Self, Vec<i64>> {
        let by_time = Self::DIALECT.by_index("steps_due");
        let sql = format!(
            "SELECT id FROM steps {by_time} WHERE state = 'blocked' AND next_attempt_at <= $1
             ORDER BY next_attempt_at, id LIMIT $2"
        );
        self.read_all(&sql, &[now.into(), limit.into()], |row| row.read(0))
    }

    fn find_ahead(&self, now: DateTime<Utc>, observed_by: DateTime<Utc>) -> Stored<Self, Vec<i64>> {
        let sql = "SELECT id FROM steps WHERE state IN ('blocked', 'verifying') AND (since > $1
                 OR state = 'verifying' AND next_attempt_at > $2)
             ORDER BY id";
        self.read_all(sql, &[now.into(), observed_by.into()], |row| row.read(0))
    }

    fn find_gone_step(&self, deletion: i64, record: i64) -> Stored<Self, Option<i64>> {
        let sql = "SELECT id FROM steps WHERE deletion = $1 AND record = $2 AND state = 'gone'
             ORDER BY id LIMIT 1";
        self.read_first(sql, &[deletion.into(), record.into()], |row| row.read(0))
    }

    /// Searches the few dependencies of the step, and not all steps that are gone.
    fn find_own_enables(&self, step: i64) -> Stored<Self, Vec<i64>> {
        let sql = "SELECT s.id FROM edges e JOIN steps s ON s.id = e.dependency
             WHERE e.dependent = $1 AND s.action = 'enable' AND s.state = 'gone'
                 AND NOT EXISTS (SELECT 1 FROM edges other
                     WHERE other.dependency = s.id AND other.dependent <> $1)
                 AND NOT EXISTS (SELECT 1 FROM steps live WHERE live.resource = s.resource
                     AND live.kind = s.kind AND live.site = s.site
                     AND live.action = 'enable' AND live.ended_at IS NULL)
             ORDER BY e.dependency";
        self.read_all(sql, &[step.into()], |row| row.read(0))
    }

    fn find_checking(&self, deletion: i64) -> Stored<Self, Vec<i64>> {
        let sql = "SELECT record_id FROM tombstones WHERE deletion = $1 AND phase = 'checking'";
        let mut records = self.read_all(sql, &[deletion.into()], |row| row.read(0))?;
        records.sort_unstable();
        Ok(records)
    }
}

impl<S: Writes> SiteRows for S {
    fn await_clearances(&self, awaited: &[(String, i64)]) -> Stored<Self> {
        let rows = awaited
            .iter()
            .map(|(importer, step)| [importer.into(), (*step).into()]);
        let into = "awaited(importer, step)";
        self.insert_rows(into, rows.collect(), "ON CONFLICT DO NOTHING")
    }

    fn pause_site(&self, site: &Site, pause: Option<&SitePause>) -> Stored<Self, bool> {
        let changed = match pause {
            Some(pause) => {
                let sql = "INSERT INTO site_pauses(site, actor, reason, at) VALUES($1, $2, $3, $4)
                     ON CONFLICT(site) DO NOTHING";
                let by = json(&pause.by)?;
                let values = [
                    site.into(),
                    by.into(),
                    (&pause.reason).into(),
                    pause.at.into(),
                ];
                self.write(sql, &values)?
            }
            None => self.write("DELETE FROM site_pauses WHERE site = $1", &[site.into()])?,
        };
        Ok(changed > 0)
    }

    fn save_notification_cursor(
        &self,
        channel: &str,
        position: Option<&CursorPosition>,
    ) -> Stored<Self> {
        let done = match position {
            Some(position) => {
                let sql = "INSERT INTO told(channel, mark) VALUES($1, $2)
                     ON CONFLICT(channel) DO UPDATE SET mark = excluded.mark";
                self.write(sql, &[channel.into(), json(position)?.into()])
            }
            None => self.write("DELETE FROM told WHERE channel = $1", &[channel.into()]),
        };
        done.map(drop)
    }

    fn load_site_state(&self, site: &str) -> Stored<Self, Option<String>> {
        let sql = "SELECT state FROM sites WHERE site = $1";
        self.read_first(sql, &[site.into()], |row| row.read(0))
    }

    fn save_site_state(&self, site: &str, state: &str) -> Stored<Self> {
        let sql = "INSERT INTO sites(site, state) VALUES($1, $2)
             ON CONFLICT(site) DO UPDATE SET state = excluded.state";
        self.write(sql, &[site.into(), state.into()]).map(drop)
    }
}
