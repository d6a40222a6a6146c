//! Reads of steps, and counts of them, in the SQL of all stores.

use chrono::{DateTime, Utc};

use super::Stored;
use super::decode::{self, STEP_ROW};
use super::reads::{
    BranchRange, DueCount, GroupProgress, SearchedStep, StepGroup, StepRange, StepReads,
};
use super::sql::{
    Each, ReadColumns as _, SqlValue, Statements, json, key_values, numbers, planned_action,
};
use super::sql_pages;
use super::steps::StepRow;
use crate::domain::attention::CauseGroup;
use crate::domain::gantt::GanttCell;
use crate::domain::last_hour::SiteMinute;
use crate::domain::model::{Counts, ResourceKey, Site, StepState};
use crate::domain::outline::Branch;
use crate::domain::policy::WORTH_A_LIST;
use crate::ledger::ObservationsDue;

impl<S: Statements> StepReads for S {
    fn load_step_rows(&self, ids: &[i64]) -> Stored<Self, Vec<StepRow>> {
        self.read_numbered(
            (&STEP_ROW, "steps s WHERE s.id = $1"),
            ids,
            decode::step_row,
        )
    }

    fn load_dependencies(
        &self,
        ids: &[i64],
        each_max: Option<usize>,
    ) -> Stored<Self, Vec<(i64, i64)>> {
        let each = Each {
            columns: "dependency, dependent",
            from: "edges WHERE dependent = $1",
            order: "dependency",
            limit: each_max,
        };
        let values = numbers(ids.iter().copied());
        self.read_each(&each, values, |row| Ok((row.read(0)?, row.read(1)?)))
    }

    fn find_last_dependency(&self, step: i64) -> Stored<Self, Option<i64>> {
        let sql = "SELECT t.id FROM edges e JOIN steps t ON t.id = e.dependency
             WHERE e.dependent = $1 ORDER BY t.ended_at DESC NULLS FIRST, t.id LIMIT 1";
        self.read_first(sql, &[step.into()], |row| row.read(0))
    }

    fn find_live(&self, keys: &[ResourceKey]) -> Stored<Self, Vec<i64>> {
        let by_resource = Self::DIALECT.by_index("steps_live");
        let each = Each {
            columns: "s.id",
            from: &format!(
                "steps s {by_resource} WHERE s.resource = $1 AND s.kind = $2 AND s.site = $3
                     AND s.ended_at IS NULL AND s.left_to IS NULL"
            ),
            order: "s.id",
            limit: None,
        };
        let values = keys.iter().map(key_values).collect();
        self.read_each(&each, values, |row| row.read(0))
    }

    fn find_steps(&self, range: &StepRange<'_>, limit: usize) -> Stored<Self, Vec<(i64, i64)>> {
        sql_pages::steps(self, range, limit)
    }

    fn search_steps(
        &self,
        range: &StepRange<'_>,
        limit: usize,
        visit: &mut dyn FnMut(&SearchedStep<'_>) -> bool,
    ) -> Stored<Self> {
        sql_pages::search_steps(self, range, limit, visit)
    }

    fn find_stuck(&self, limit: usize) -> Stored<Self, Vec<i64>> {
        let by_time = Self::DIALECT.by_index("steps_stuck");
        let sql = format!(
            "SELECT id FROM steps {by_time} WHERE state = 'stuck' AND held_by IS NULL
             ORDER BY since, id LIMIT $1"
        );
        self.read_all(&sql, &[limit.into()], |row| row.read(0))
    }

    fn find_delayed(&self, limit: usize) -> Stored<Self, Vec<i64>> {
        let by_time = Self::DIALECT.by_index("steps_settling");
        let sql = format!(
            "SELECT id FROM steps {by_time}
             WHERE state = 'verifying' AND blocked_since IS NOT NULL
             ORDER BY blocked_since, id LIMIT $1"
        );
        self.read_all(&sql, &[limit.into()], |row| row.read(0))
    }

    fn find_abandoned(
        &self,
        after: Option<(i64, i64)>,
        limit: usize,
    ) -> Stored<Self, Vec<(i64, i64)>> {
        let (num, id) = after.unwrap_or_default();
        let by_state = Self::DIALECT.by_index("steps_by_state");
        let sql = format!(
            "SELECT s.deletion, s.id FROM steps s {by_state}
             JOIN tombstones t ON t.record_id = s.record AND t.deletion = s.deletion
             WHERE s.state = 'purged' AND t.phase = 'purged' AND (s.deletion, s.id) > ($1, $2)
             ORDER BY s.deletion, s.id LIMIT $3"
        );
        let values = [num.into(), id.into(), limit.into()];
        self.read_all(&sql, &values, |row| Ok((row.read(0)?, row.read(1)?)))
    }

    fn count_causes(&self, sites: &[Site]) -> Stored<Self, Vec<CauseGroup>> {
        let dialect = Self::DIALECT;
        let names: Vec<String> = sites.iter().map(Site::to_string).collect();
        let (at_sites, values) = match sites {
            [] => (String::new(), None),
            _ => {
                let at_sites = format!("AND site IN (SELECT value FROM {})", (dialect.texts)("$1"));
                (at_sites, Some(SqlValue::from(json(&names)?)))
            }
        };
        let [class, status, error_type] = sql_pages::cause(&dialect);
        let sql = format!(
            "SELECT g.state, g.kind, g.class, g.status, g.type, g.steps, g.since,
                 s.last_error{} ->> 'message'
             FROM (SELECT state, kind, {class} AS class, {status} AS status, {error_type} AS type,
                     count(*) AS steps, min(since) AS since, min(id) AS example
                 FROM steps {} WHERE state IN ('stuck', 'blocked') AND {} {at_sites}
                 GROUP BY 1, 2, 3, 4, 5) AS g
             JOIN steps s ON s.id = g.example ORDER BY g.steps DESC, g.example",
            dialect.as_json,
            dialect.by_index("steps_by_state"),
            sql_pages::needs_person(&dialect),
        );
        self.read_all(&sql, values.as_slice(), decode::cause_group)
    }

    fn count_by_site(&self, deletion: i64) -> Stored<Self, Vec<(Site, StepState, u64)>> {
        let by_branch = Self::DIALECT.by_index("steps_by_branch");
        let sql = format!(
            "SELECT b.site, s.state, count(*) FROM branches b CROSS JOIN steps s {by_branch}
             WHERE s.branch = b.id AND b.deletion = $1 GROUP BY b.site, s.state
             ORDER BY b.site, s.state"
        );
        self.read_all(&sql, &[deletion.into()], |row| {
            Ok((row.read(0)?, row.word(1)?, row.read(2)?))
        })
    }

    /// The query jumps from group to group along an index. The search for the next group starts after the last possible
    /// entry of a group; from its first entry on, the store would read the whole group. SQLite searches the index by
    /// all five columns only for values that are not columns, hence `coalesce`.
    fn find_observations_due(&self, now: DateTime<Utc>) -> Stored<Self, Vec<ObservationsDue>> {
        let looks = Self::DIALECT.by_index("steps_looks");
        let next = |after: &str| {
            format!(
                "(SELECT v.id FROM steps v {looks} WHERE v.state = 'verifying' {after}
                     ORDER BY v.deletion, v.site, v.kind, v.rank LIMIT 1)"
            )
        };
        let of_group = "v.state = 'verifying' AND v.deletion = g.deletion AND v.site = g.site
             AND v.kind = g.kind AND v.rank = g.rank";
        let sql = format!(
            "WITH RECURSIVE g(deletion, site, kind, rank) AS (
                 SELECT deletion, site, kind, rank FROM steps WHERE id = {}
                 UNION ALL
                 SELECT s.deletion, s.site, s.kind, s.rank FROM g CROSS JOIN steps s WHERE s.id = {}
             )
             SELECT * FROM (SELECT g.deletion, g.site, g.kind, g.rank,
                 (SELECT min(v.next_attempt_at) FROM steps v {looks} WHERE {of_group}) AS oldest,
                 $2 = (SELECT count(*) FROM (SELECT 1 FROM steps v {looks}
                     WHERE {of_group} AND v.next_attempt_at <= $1 LIMIT $2) AS due),
                 (SELECT s.rank FROM steps s {} WHERE s.state = 'ready' AND s.site = g.site
                     AND s.deletion = g.deletion AND NOT d.paused AND NOT d.cancelled
                     ORDER BY s.rank DESC LIMIT 1) AS ready,
                 (SELECT max(s.rank) FROM steps s {} WHERE s.state = 'running'
                     AND s.deletion = g.deletion AND s.site = g.site) AS running,
                 d.verifying, d.ready + d.running, d.requested_at
             FROM g CROSS JOIN deletions d WHERE d.num = g.deletion) AS found
             WHERE oldest <= $1 ORDER BY 1, 2, 3, 4",
            next(""),
            next(&format!(
                "AND (v.deletion, v.site, v.kind, v.rank, v.next_attempt_at)
                     > (coalesce(g.deletion, 0), coalesce(g.site, ''), coalesce(g.kind, ''),
                         coalesce(g.rank, 0), {})",
                i64::MAX
            )),
            Self::DIALECT.by_index("steps_ready"),
            Self::DIALECT.by_index("steps_by_state"),
        );
        let values = [now.into(), WORTH_A_LIST.into()];
        self.read_all(&sql, &values, decode::observations_due)
    }

    fn load_observed(
        &self,
        of: &[ObservationsDue],
        now: DateTime<Utc>,
        limit: usize,
    ) -> Stored<Self, Vec<StepRow>> {
        let each = Each {
            columns: &STEP_ROW,
            from: &format!(
                "steps s {} WHERE s.state = 'verifying' AND s.deletion = $1 AND s.site = $2
                     AND s.kind = $3 AND s.rank = $4 AND s.next_attempt_at <= $5",
                Self::DIALECT.by_index("steps_looks")
            ),
            order: "s.next_attempt_at, s.id",
            limit: Some(limit),
        };
        let values = of.iter().map(|group| {
            let (site, kind) = ((&group.site).into(), (&group.kind).into());
            let rank = group.gathered.rank.into();
            [group.deletion.into(), site, kind, rank, now.into()]
        });
        let mut found = self.read_each(&each, values.collect(), decode::step_row)?;
        found.truncate(limit);
        Ok(found)
    }

    fn find_first_due(
        &self,
        state: StepState,
        after: Option<DateTime<Utc>>,
    ) -> Stored<Self, Option<DateTime<Utc>>> {
        let sql = format!(
            "SELECT min(next_attempt_at) FROM steps {} WHERE state = '{}' AND next_attempt_at > $1",
            Self::DIALECT.by_index("steps_due"),
            state.as_str()
        );
        let after = after.map_or(i64::MIN, |after| after.timestamp_micros());
        self.read_one(&sql, &[after.into()], |row| row.read(0))
    }

    fn find_next_attempt(&self, deletion: i64) -> Stored<Self, Option<DateTime<Utc>>> {
        let by_state = Self::DIALECT.by_index("steps_by_state");
        let sql = format!(
            "SELECT min(next_attempt_at) FROM steps {by_state}
             WHERE state = 'blocked' AND deletion = $1"
        );
        self.read_one(&sql, &[deletion.into()], |row| row.read(0))
    }

    fn count_due(&self, ends: &[DateTime<Utc>]) -> Stored<Self, Vec<DueCount>> {
        let each = Each {
            columns: "count(*), min(next_attempt_at)",
            from: "steps WHERE state = 'blocked' AND next_attempt_at > $1
                 AND next_attempt_at <= $2",
            ..Each::default()
        };
        let ends = ends.iter().map(|end| end.timestamp_micros());
        let begins = [i64::MIN].into_iter().chain(ends.clone());
        let between = begins.zip(ends.chain([i64::MAX]));
        let between = between.map(|(after, until)| [after.into(), until.into()]);
        self.read_each(&each, between.collect(), |row| {
            Ok(DueCount {
                steps: row.read(0)?,
                first: row.read(1)?,
            })
        })
    }

    fn load_branches(&self, deletion: i64, below: Option<i64>) -> Stored<Self, Vec<Branch>> {
        let condition = match below {
            Some(_) => "below = $2",
            None => "below IS NULL",
        };
        let sql = format!(
            "SELECT id, below, site, kind, action, leaf FROM branches
             WHERE deletion = $1 AND {condition} ORDER BY id"
        );
        let mut values: Vec<SqlValue<'_>> = vec![deletion.into()];
        values.extend(below.map(SqlValue::from));
        let mut branches = self.read_all(&sql, &values, decode::branch)?;
        let ids: Vec<i64> = branches.iter().map(|branch| branch.id).collect();
        for (branch, counts) in branches.iter_mut().zip(count_branches(self, &ids)?) {
            branch.counts = counts;
        }
        Ok(branches)
    }

    fn count_branch(&self, branch: i64) -> Stored<Self, Counts> {
        let counts = count_branches(self, &[branch])?;
        Ok(counts.into_iter().next().unwrap_or_default())
    }

    fn find_in_branch(&self, range: &BranchRange) -> Stored<Self, Vec<i64>> {
        let order = if range.from_end { "DESC" } else { "ASC" };
        let sql = format!(
            "SELECT id FROM steps {} WHERE branch = $1 AND state = $2
             ORDER BY id {order} LIMIT $3 OFFSET $4",
            Self::DIALECT.by_index("steps_by_branch")
        );
        let (limit, offset) = (range.limit.into(), range.offset.into());
        let values = [range.branch.into(), range.state.into(), limit, offset];
        self.read_all(&sql, &values, |row| row.read(0))
    }

    fn count_before(&self, branch: i64, state: StepState, id: i64) -> Stored<Self, u64> {
        let by_branch = Self::DIALECT.by_index("steps_by_branch");
        let sql = format!(
            "SELECT count(*) FROM steps {by_branch} WHERE branch = $1 AND state = $2 AND id < $3"
        );
        let values = [branch.into(), state.into(), id.into()];
        self.read_one(&sql, &values, |row| row.read(0))
    }

    fn count_cells(
        &self,
        deletion: i64,
        from: DateTime<Utc>,
        until: DateTime<Utc>,
        columns: u32,
    ) -> Stored<Self, Vec<(StepGroup, GanttCell)>> {
        let span = (until - from).num_microseconds().unwrap_or(i64::MAX).max(1);
        let columns = i64::from(columns);
        let width = span.saturating_add(columns - 1) / columns;
        // The end of the interval is in the last column.
        let last_begins = width.saturating_mul(columns - 1);
        let sql = format!(
            "SELECT s.site, s.kind, {action}, CASE WHEN e.at - $2 >= CAST($5 AS bigint)
                     THEN CAST($6 AS bigint) ELSE (e.at - $2) / CAST($4 AS bigint) END,
                 count(*) FILTER (WHERE e.kind = 'attempt'),
                 count(*) FILTER (WHERE e.data{json} ->> 'state' IN ('blocked', 'stuck')),
                 count(*) FILTER (WHERE e.data{json} ->> 'state' IN ('gone', 'skipped', 'purged'))
             FROM events e CROSS JOIN steps s
             WHERE s.id = e.step AND e.deletion = $1
                 AND e.at BETWEEN $2 AND $2 + CAST($3 AS bigint)
             GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
            action = planned_action("s.action"),
            json = Self::DIALECT.as_json
        );
        let values = [
            deletion.into(),
            from.into(),
            span.into(),
            width.into(),
            last_begins.into(),
            (columns - 1).into(),
        ];
        self.read_all(&sql, &values, decode::cell)
    }

    /// Counts only events with a number of attempts: those are the events of answers and observations. Other events may
    /// have the state `stuck`, too.
    fn count_calls(
        &self,
        after: i64,
        from: DateTime<Utc>,
        minutes: u32,
    ) -> Stored<Self, Vec<SiteMinute>> {
        let json = Self::DIALECT.as_json;
        let sql = format!(
            "SELECT * FROM (
                 SELECT s.site, (e.at - $2) / 60000000 AS minute,
                     count(*) FILTER (WHERE e.kind = 'attempt') AS calls,
                     count(*) FILTER (WHERE e.data{json} ->> 'state' IN ('blocked', 'stuck'))
                         AS refused
                 FROM events e CROSS JOIN steps s
                 WHERE s.id = e.step AND e.seq > $1
                     AND e.at >= $2 AND e.at < $2 + CAST($3 AS bigint) * 60000000
                     AND e.kind IN ('attempt', 'step_state')
                     AND e.data{json} ->> 'attempts' IS NOT NULL
                 GROUP BY 1, 2
             ) AS counted WHERE calls + refused > 0 ORDER BY 1, 2"
        );
        let values = [after.into(), from.into(), minutes.into()];
        self.read_all(&sql, &values, decode::site_minute)
    }

    fn count_groups(&self, deletion: i64) -> Stored<Self, Vec<GroupProgress>> {
        let sql = format!(
            "SELECT b.site, b.kind, b.action, count(*), count(s.ended_at), {}
             FROM branches b CROSS JOIN steps s {} WHERE s.branch = b.id AND b.deletion = $1
             GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            Self::DIALECT.last_of_group,
            Self::DIALECT.by_index("steps_by_branch")
        );
        self.read_all(&sql, &[deletion.into()], decode::group_progress)
    }
}

/// Counts the steps of branches from an index of branch and state alone.
fn count_branches<S: Statements>(rows: &S, branches: &[i64]) -> Stored<S, Vec<Counts>> {
    let by_branch = S::DIALECT.by_index("steps_by_branch");
    let each = Each {
        columns: "state, count(*)",
        from: &format!("steps {by_branch} WHERE branch = $1 GROUP BY state"),
        ..Each::default()
    };
    let mut counts = vec![Counts::default(); branches.len()];
    let values = numbers(branches.iter().copied());
    rows.visit_each(&each, values, &mut |place, row| {
        let number: u64 = row.read(1)?;
        *counts[place].of_mut(row.word(0)?) += number;
        counts[place].total += number;
        Ok(())
    })?;
    Ok(counts)
}
