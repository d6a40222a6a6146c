//! Reads of steps, and counts of them.

use chrono::{DateTime, Utc};
use rusqlite::{OptionalExtension, params};

use super::rows::{self, CAUSE, NEEDS_PERSON};
use super::sql::{Run, Sql};
use super::{branch_reads, count_reads, due_reads, pages};
use crate::domain::attention::CauseGroup;
use crate::domain::gantt::GanttCell;
use crate::domain::last_hour::SiteMinute;
use crate::domain::model::{Counts, ResourceKey, Site, StepState};
use crate::domain::outline::Branch;
use crate::ledger::ObservationsDue;
use crate::ledger::store::decode;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{
    BranchRange, DueCount, GroupProgress, SearchedStep, StepGroup, StepRange, StepReads, StepRow,
};

impl<R: Run> StepReads for R {
    fn load_step_rows(&self, ids: &[i64]) -> Sql<Vec<StepRow>> {
        let sql = decode::select_steps("FROM steps s WHERE s.id = ?1");
        let mut one = self.db().prepare_cached(&sql)?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.extend(
                one.query_row([id], |row| Ok(decode::step_row(row)?))
                    .optional()?,
            );
        }
        Ok(found)
    }

    fn load_dependencies(&self, ids: &[i64], each_max: Option<usize>) -> Sql<Vec<(i64, i64)>> {
        // SQLite reads a negative limit as no limit.
        let limit = each_max.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
        let sql = "SELECT dependency FROM edges WHERE dependent = ?1 ORDER BY dependency LIMIT ?2";
        let mut edges = Vec::new();
        for id in ids {
            edges.extend(self.all(sql, [*id, limit], |row| Ok((row.get(0)?, *id)))?);
        }
        Ok(edges)
    }

    fn find_last_dependency(&self, step: i64) -> Sql<Option<i64>> {
        self.first(
            "SELECT t.id FROM edges JOIN steps t ON t.id = dependency WHERE dependent = ?1
             ORDER BY t.ended_at IS NOT NULL, t.ended_at DESC, t.id LIMIT 1",
            [step],
            |row| row.get(0),
        )
    }

    fn find_live(&self, keys: &[ResourceKey]) -> Sql<Vec<i64>> {
        let mut find = self.db().prepare_cached(
            "SELECT id FROM steps INDEXED BY steps_live
             WHERE resource = ?1 AND kind = ?2 AND site = ?3 AND ended_at IS NULL
                 AND left_to IS NULL
             ORDER BY id",
        )?;
        let mut found = Vec::new();
        for key in keys {
            let identity = params![key.id, key.kind.as_str(), key.site.to_string()];
            for id in find.query_map(identity, |row| row.get(0))? {
                found.push(id?);
            }
        }
        Ok(found)
    }

    fn find_steps(&self, range: &StepRange<'_>, limit: usize) -> Sql<Vec<(i64, i64)>> {
        pages::steps(self.db(), range, limit)
    }

    fn search_steps(
        &self,
        range: &StepRange<'_>,
        limit: usize,
        visit: &mut dyn FnMut(&SearchedStep<'_>) -> bool,
    ) -> Sql<()> {
        pages::search_steps(self.db(), range, limit, visit)
    }

    fn find_stuck(&self, limit: usize) -> Sql<Vec<i64>> {
        self.all(
            "SELECT id FROM steps INDEXED BY steps_stuck
             WHERE state = 'stuck' AND held_by IS NULL ORDER BY since LIMIT ?1",
            [limit as i64],
            |row| row.get(0),
        )
    }

    fn find_delayed(&self, limit: usize) -> Sql<Vec<i64>> {
        self.all(
            "SELECT id FROM steps INDEXED BY steps_settling
             WHERE state = 'verifying' AND blocked_since IS NOT NULL
             ORDER BY blocked_since LIMIT ?1",
            [limit as i64],
            |row| row.get(0),
        )
    }

    fn find_abandoned(&self, after: Option<(i64, i64)>, limit: usize) -> Sql<Vec<(i64, i64)>> {
        let (num, id) = after.unwrap_or_default();
        self.all(
            "SELECT s.deletion, s.id FROM steps s INDEXED BY steps_by_state
             JOIN tombstones t ON t.record_id = s.record AND t.deletion = s.deletion
             WHERE s.state = 'purged' AND t.phase = 'purged' AND (s.deletion, s.id) > (?1, ?2)
             ORDER BY s.deletion, s.id LIMIT ?3",
            params![num, id, limit as i64],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    fn count_causes(&self, sites: &[Site]) -> Sql<Vec<CauseGroup>> {
        let sites = rows::json(&sites.iter().map(Site::to_string).collect::<Vec<_>>())?;
        self.all(
            &format!(
                "WITH g(state, kind, class, status, type, steps, since, example) AS (
                     SELECT state, kind, {CAUSE}, count(*), min(since), min(id)
                     FROM steps INDEXED BY steps_by_state
                     WHERE state IN ('stuck', 'blocked') AND {NEEDS_PERSON}
                         AND (?1 = '[]' OR site IN (SELECT value FROM json_each(?1)))
                     GROUP BY 1, 2, 3, 4, 5)
                 SELECT g.state, g.kind, g.class, g.status, g.type, g.steps, g.since,
                     s.last_error ->> 'message'
                 FROM g JOIN steps s ON s.id = g.example ORDER BY g.steps DESC, g.example"
            ),
            [sites],
            |row| Ok(decode::cause_group(row)?),
        )
    }

    fn count_by_site(&self, deletion: i64) -> Sql<Vec<(Site, StepState, u64)>> {
        count_reads::by_site(self.db(), deletion)
    }

    fn find_observations_due(&self, now: DateTime<Utc>) -> Sql<Vec<ObservationsDue>> {
        due_reads::observations(self.db(), now)
    }

    fn load_observed(
        &self,
        of: &[ObservationsDue],
        now: DateTime<Utc>,
        limit: usize,
    ) -> Sql<Vec<StepRow>> {
        due_reads::observed(self.db(), of, now, limit)
    }

    fn find_first_due(
        &self,
        state: StepState,
        after: Option<DateTime<Utc>>,
    ) -> Sql<Option<DateTime<Utc>>> {
        due_reads::first(self.db(), state, after)
    }

    fn find_next_attempt(&self, deletion: i64) -> Sql<Option<DateTime<Utc>>> {
        self.one(
            "SELECT min(next_attempt_at) FROM steps INDEXED BY steps_by_state
             WHERE state = 'blocked' AND deletion = ?1",
            [deletion],
            |row| Ok(row.read(0)?),
        )
    }

    fn count_due(&self, ends: &[DateTime<Utc>]) -> Sql<Vec<DueCount>> {
        due_reads::count(self.db(), ends)
    }

    fn load_branches(&self, deletion: i64, below: Option<i64>) -> Sql<Vec<Branch>> {
        branch_reads::load(self.db(), deletion, below)
    }

    fn count_branch(&self, branch: i64) -> Sql<Counts> {
        branch_reads::count(self.db(), branch)
    }

    fn find_in_branch(&self, range: &BranchRange) -> Sql<Vec<i64>> {
        branch_reads::find(self.db(), range)
    }

    fn count_before(&self, branch: i64, state: StepState, id: i64) -> Sql<u64> {
        self.one(
            "SELECT count(*) FROM steps INDEXED BY steps_by_branch
             WHERE branch = ?1 AND state = ?2 AND id < ?3",
            params![branch, state.as_str(), id],
            |row| Ok(row.read(0)?),
        )
    }

    fn count_cells(
        &self,
        deletion: i64,
        from: DateTime<Utc>,
        until: DateTime<Utc>,
        columns: u32,
    ) -> Sql<Vec<(StepGroup, GanttCell)>> {
        count_reads::cells(self.db(), deletion, (from, until), columns)
    }

    fn count_calls(&self, after: i64, from: DateTime<Utc>, minutes: u32) -> Sql<Vec<SiteMinute>> {
        count_reads::calls(self.db(), after, from, minutes)
    }

    fn count_groups(&self, deletion: i64) -> Sql<Vec<GroupProgress>> {
        count_reads::groups(self.db(), deletion)
    }
}
