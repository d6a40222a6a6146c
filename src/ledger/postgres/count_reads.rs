//! Steps counted by site, by group, by branch and by time.

use chrono::{DateTime, Utc};

use super::client::Connection;
use super::failed::Sql;
use super::rows::micros;
use crate::domain::gantt::GanttCell;
use crate::domain::last_hour::SiteMinute;
use crate::domain::model::{Counts, Site, StepState};
use crate::domain::outline::Branch;
use crate::ledger::store::decode;
use crate::ledger::store::sql::{ReadColumns as _, planned_action};
use crate::ledger::store::{GroupProgress, StepGroup};

pub(super) fn by_site(db: &Connection, num: i64) -> Sql<Vec<(Site, StepState, u64)>> {
    db.all(
        "SELECT b.site, s.state, count(*) FROM branches b JOIN steps s ON s.branch = b.id
         WHERE b.deletion = $1 GROUP BY b.site, s.state ORDER BY b.site, s.state",
        &[&num],
        |row| Ok((row.read(0)?, row.word(1)?, row.read(2)?)),
    )
}

/// Counts the events of each group by column of time. Columns without events are left out.
pub(super) fn cells(
    db: &Connection,
    num: i64,
    (from, until): (DateTime<Utc>, DateTime<Utc>),
    columns: u32,
) -> Sql<Vec<(StepGroup, GanttCell)>> {
    let action = planned_action("s.action");
    let span = (until - from).num_microseconds().unwrap_or(i64::MAX).max(1);
    let columns = i64::from(columns);
    let width = span.saturating_add(columns - 1) / columns;
    db.all(
        &format!(
            "SELECT s.site, s.kind, {action}, least((e.at - $2) / $4::bigint, $5::bigint - 1),
             count(*) FILTER (WHERE e.kind = 'attempt'),
             count(*) FILTER (WHERE e.data::json ->> 'state' IN ('blocked', 'stuck')),
             count(*) FILTER (WHERE e.data::json ->> 'state' IN ('gone', 'skipped', 'purged'))
         FROM events e JOIN steps s ON s.id = e.step
         WHERE e.deletion = $1 AND e.at BETWEEN $2 AND $2 + $3::bigint
         GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        ),
        &[&num, &micros(from), &span, &width, &columns],
        |row| Ok(decode::cell(row)?),
    )
}

/// Counts events with a number of attempts only: those are the events of answers and observations. Other events,
/// too, say that a step is stuck.
pub(super) fn calls(
    db: &Connection,
    after: i64,
    from: DateTime<Utc>,
    minutes: u32,
) -> Sql<Vec<SiteMinute>> {
    db.all(
        "SELECT * FROM (
             SELECT s.site, (e.at - $2) / 60000000 AS minute,
                 count(*) FILTER (WHERE e.kind = 'attempt') AS calls,
                 count(*) FILTER (WHERE e.data::json ->> 'state' IN ('blocked', 'stuck')) AS refused
             FROM events e JOIN steps s ON s.id = e.step
             WHERE e.seq > $1 AND e.at >= $2 AND e.at < $2 + $3::bigint * 60000000
                 AND e.kind IN ('attempt', 'step_state') AND e.data::json ->> 'attempts' IS NOT NULL
             GROUP BY 1, 2
         ) counted WHERE calls + refused > 0 ORDER BY 1, 2",
        &[&after, &micros(from), &i64::from(minutes)],
        |row| Ok(decode::site_minute(row)?),
    )
}

pub(super) fn groups(db: &Connection, num: i64) -> Sql<Vec<GroupProgress>> {
    db.all(
        "SELECT b.site, b.kind, b.action, count(*), count(s.ended_at),
             (array_agg(s.id ORDER BY s.ended_at DESC NULLS FIRST, s.id))[1]
         FROM branches b JOIN steps s ON s.branch = b.id
         WHERE b.deletion = $1 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        &[&num],
        |row| Ok(decode::group_progress(row)?),
    )
}

/// The branches below a step, or below none, with their counts.
pub(super) fn branches(db: &Connection, num: i64, below: Option<i64>) -> Sql<Vec<Branch>> {
    let condition = match below {
        Some(_) => "below = $2",
        None => "below IS NULL AND $2::bigint IS NULL",
    };
    let mut branches = db.all(
        &format!(
            "SELECT id, below, site, kind, action, leaf FROM branches
             WHERE deletion = $1 AND {condition} ORDER BY id"
        ),
        &[&num, &below],
        |row| Ok(decode::branch(row)?),
    )?;
    let ids: Vec<i64> = branches.iter().map(|branch| branch.id).collect();
    for (id, state, number) in count(db, &ids)? {
        let of = branches.binary_search_by_key(&id, |branch| branch.id);
        if let Some(branch) = of.ok().and_then(|at| branches.get_mut(at)) {
            add(&mut branch.counts, state, number);
        }
    }
    Ok(branches)
}

pub(super) fn branch(db: &Connection, branch: i64) -> Sql<Counts> {
    let mut counts = Counts::default();
    for (_, state, number) in count(db, &[branch])? {
        add(&mut counts, state, number);
    }
    Ok(counts)
}

fn count(db: &Connection, branches: &[i64]) -> Sql<Vec<(i64, StepState, u64)>> {
    db.all(
        "SELECT branch, state, count(*) FROM steps WHERE branch = ANY($1) GROUP BY branch, state",
        &[&branches],
        |row| Ok((row.read(0)?, row.word(1)?, row.read(2)?)),
    )
}

fn add(counts: &mut Counts, state: StepState, number: u64) {
    *counts.of_mut(state) += number;
    counts.total += number;
}
