//! Reads of steps, and counts of them.

use chrono::{DateTime, Utc};

use super::conditions::Conditions;
use super::failed::Sql;
use super::rows::{self, CAUSE, NEEDS_PERSON, limit, micros};
use super::transaction::PostgresRows;
use super::{count_reads, due_reads};
use crate::domain::attention::CauseGroup;
use crate::domain::gantt::GanttCell;
use crate::domain::last_hour::SiteMinute;
use crate::domain::model::{Counts, ResourceKey, Site, StepState};
use crate::domain::outline::Branch;
use crate::ledger::ObservationsDue;
use crate::ledger::store::decode::{self, SEARCHED};
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{
    BranchRange, DueCount, GroupProgress, SearchedStep, StepGroup, StepRange, StepReads, StepRow,
};

impl StepReads for PostgresRows {
    fn load_step_rows(&self, ids: &[i64]) -> Sql<Vec<StepRow>> {
        let sql = decode::select_steps(
            "FROM unnest($1::bigint[]) WITH ORDINALITY AS k(id, n) JOIN steps s ON s.id = k.id
             ORDER BY k.n",
        );
        self.db.all(&sql, &[&ids], |row| Ok(decode::step_row(row)?))
    }

    fn load_dependencies(&self, ids: &[i64], each_max: Option<usize>) -> Sql<Vec<(i64, i64)>> {
        self.db.all(
            "SELECT e.dependency, k.id FROM unnest($1::bigint[]) WITH ORDINALITY AS k(id, n),
                 LATERAL (SELECT dependency FROM edges WHERE dependent = k.id
                     ORDER BY dependency LIMIT $2) e
             ORDER BY k.n, e.dependency",
            &[&ids, &each_max.and_then(limit)],
            |row| Ok((row.read(0)?, row.read(1)?)),
        )
    }

    fn find_last_dependency(&self, step: i64) -> Sql<Option<i64>> {
        self.db.first(
            "SELECT t.id FROM edges e JOIN steps t ON t.id = e.dependency WHERE e.dependent = $1
             ORDER BY t.ended_at DESC NULLS FIRST, t.id LIMIT 1",
            &[&step],
            |row| Ok(row.read(0)?),
        )
    }

    fn find_live(&self, keys: &[ResourceKey]) -> Sql<Vec<i64>> {
        let keys = rows::Keys::of(keys);
        self.db.all(
            "SELECT s.id FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY
                 AS k(id, kind, site, n)
             JOIN steps s ON s.resource = k.id AND s.kind = k.kind AND s.site = k.site
             WHERE s.ended_at IS NULL AND s.left_to IS NULL ORDER BY k.n, s.id",
            &[&keys.ids, &keys.kinds, &keys.sites],
            |row| Ok(row.read(0)?),
        )
    }

    fn find_steps(&self, range: &StepRange<'_>, most: usize) -> Sql<Vec<(i64, i64)>> {
        let conditions = conditions_of(range);
        let sql = format!(
            "SELECT deletion, id FROM steps WHERE state = '{}'{} ORDER BY deletion, id LIMIT {}",
            range.state.as_str(),
            conditions.sql,
            limit(most).map_or("ALL".to_owned(), |most| most.to_string())
        );
        self.db.all(&sql, &conditions.values(), |row| {
            Ok((row.read(0)?, row.read(1)?))
        })
    }

    fn search_steps(
        &self,
        range: &StepRange<'_>,
        most: usize,
        visit: &mut dyn FnMut(&SearchedStep<'_>) -> bool,
    ) -> Sql<()> {
        let conditions = conditions_of(range);
        let sql = format!(
            "SELECT {SEARCHED} FROM steps WHERE state = '{}'{} ORDER BY deletion, id LIMIT {most}",
            range.state.as_str(),
            conditions.sql
        );
        self.db.each(&sql, &conditions.values(), &mut |row| {
            Ok(visit(&decode::searched(row)?))
        })
    }

    fn find_stuck(&self, most: usize) -> Sql<Vec<i64>> {
        self.db.all(
            "SELECT id FROM steps WHERE state = 'stuck' AND held_by IS NULL
             ORDER BY since, id LIMIT $1",
            &[&limit(most)],
            |row| Ok(row.read(0)?),
        )
    }

    fn find_delayed(&self, most: usize) -> Sql<Vec<i64>> {
        self.db.all(
            "SELECT id FROM steps WHERE state = 'verifying' AND blocked_since IS NOT NULL
             ORDER BY blocked_since, id LIMIT $1",
            &[&limit(most)],
            |row| Ok(row.read(0)?),
        )
    }

    fn find_abandoned(&self, after: Option<(i64, i64)>, most: usize) -> Sql<Vec<(i64, i64)>> {
        let (num, id) = after.unwrap_or_default();
        self.db.all(
            "SELECT s.deletion, s.id FROM steps s
             JOIN tombstones t ON t.record_id = s.record AND t.deletion = s.deletion
             WHERE s.state = 'purged' AND t.phase = 'purged' AND (s.deletion, s.id) > ($1, $2)
             ORDER BY s.deletion, s.id LIMIT $3",
            &[&num, &id, &limit(most)],
            |row| Ok((row.read(0)?, row.read(1)?)),
        )
    }

    fn count_causes(&self, sites: &[Site]) -> Sql<Vec<CauseGroup>> {
        let sites: Vec<String> = sites.iter().map(Site::to_string).collect();
        self.db.all(
            &format!(
                "SELECT g.state, g.kind, g.class, g.status, g.type, g.steps, g.since,
                     s.last_error::json ->> 'message'
                 FROM (
                     SELECT state, kind, {CAUSE}, count(*), min(since), min(id)
                     FROM steps WHERE state IN ('stuck', 'blocked') AND {NEEDS_PERSON}
                         AND (cardinality($1::text[]) = 0 OR site = ANY($1))
                     GROUP BY 1, 2, 3, 4, 5
                 ) g(state, kind, class, status, type, steps, since, example)
                 JOIN steps s ON s.id = g.example ORDER BY g.steps DESC, g.example"
            ),
            &[&sites],
            |row| Ok(decode::cause_group(row)?),
        )
    }

    fn count_by_site(&self, deletion: i64) -> Sql<Vec<(Site, StepState, u64)>> {
        count_reads::by_site(&self.db, deletion)
    }

    fn find_observations_due(&self, now: DateTime<Utc>) -> Sql<Vec<ObservationsDue>> {
        due_reads::observations(&self.db, now)
    }

    fn load_observed(
        &self,
        of: &[ObservationsDue],
        now: DateTime<Utc>,
        most: usize,
    ) -> Sql<Vec<StepRow>> {
        due_reads::observed(&self.db, of, now, most)
    }

    fn find_first_due(
        &self,
        state: StepState,
        after: Option<DateTime<Utc>>,
    ) -> Sql<Option<DateTime<Utc>>> {
        due_reads::first(&self.db, state, after)
    }

    fn find_next_attempt(&self, deletion: i64) -> Sql<Option<DateTime<Utc>>> {
        self.db.one(
            "SELECT min(next_attempt_at) FROM steps WHERE state = 'blocked' AND deletion = $1",
            &[&deletion],
            |row| Ok(row.read(0)?),
        )
    }

    fn count_due(&self, ends: &[DateTime<Utc>]) -> Sql<Vec<DueCount>> {
        due_reads::count(&self.db, ends)
    }

    fn load_branches(&self, deletion: i64, below: Option<i64>) -> Sql<Vec<Branch>> {
        count_reads::branches(&self.db, deletion, below)
    }

    fn count_branch(&self, branch: i64) -> Sql<Counts> {
        count_reads::branch(&self.db, branch)
    }

    fn find_in_branch(&self, range: &BranchRange) -> Sql<Vec<i64>> {
        let order = if range.from_end { "DESC" } else { "ASC" };
        self.db.all(
            &format!(
                "SELECT id FROM steps WHERE branch = $1 AND state = $2 ORDER BY id {order}
                 LIMIT $3 OFFSET $4"
            ),
            &[
                &range.branch,
                &range.state.as_str(),
                &i64::try_from(range.limit).ok(),
                &range.offset.cast_signed(),
            ],
            |row| Ok(row.read(0)?),
        )
    }

    fn count_before(&self, branch: i64, state: StepState, id: i64) -> Sql<u64> {
        self.db.one(
            "SELECT count(*) FROM steps WHERE branch = $1 AND state = $2 AND id < $3",
            &[&branch, &state.as_str(), &id],
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
        count_reads::cells(&self.db, deletion, (from, until), columns)
    }

    fn count_calls(&self, after: i64, from: DateTime<Utc>, minutes: u32) -> Sql<Vec<SiteMinute>> {
        count_reads::calls(&self.db, after, from, minutes)
    }

    fn count_groups(&self, deletion: i64) -> Sql<Vec<GroupProgress>> {
        count_reads::groups(&self.db, deletion)
    }
}

/// The conditions of a range besides its state, which each query names, because an index begins with it.
fn conditions_of(range: &StepRange<'_>) -> Conditions {
    let mut conditions = Conditions::default();
    let filter = range.filter;
    match (range.deletion, range.after) {
        (Some(num), after) => {
            conditions.and("deletion = ?", [Box::new(num)]);
            if let Some((_, id)) = after {
                conditions.and("id > ?", [Box::new(id)]);
            }
        }
        (None, Some((num, id))) => {
            conditions.and("(deletion, id) > (?, ?)", [Box::new(num), Box::new(id)]);
        }
        (None, None) => {}
    }
    if let Some(site) = &filter.site {
        conditions.and("site = ?", [Box::new(site.to_string())]);
    }
    if let Some(kind) = &filter.kind {
        conditions.and("kind = ?", [Box::new(kind.to_string())]);
    }
    if let Some(time) = filter.older_than {
        conditions.and("since < ?", [Box::new(micros(time))]);
    }
    if let Some(cause) = &filter.cause {
        conditions.and(NEEDS_PERSON, []);
        conditions.and(
            &format!("(state, kind, {CAUSE}) IS NOT DISTINCT FROM (?, ?, ?, ?, ?)"),
            [
                Box::new(cause.state.as_str().to_owned()),
                Box::new(cause.kind.to_string()),
                Box::new(cause.class.map(|class| class.as_str().to_owned())),
                Box::new(cause.status.map(i64::from)),
                Box::new(cause.error_type.clone()),
            ],
        );
    }
    conditions
}
