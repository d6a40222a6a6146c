//! Steps counted by site, by group and by time.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::rows;
use super::sql::{Run, Sql};
use crate::domain::gantt::GanttCell;
use crate::domain::last_hour::SiteMinute;
use crate::domain::model::{Site, StepState};
use crate::ledger::store::decode;
use crate::ledger::store::sql::{ReadColumns as _, planned_action};
use crate::ledger::store::{GroupProgress, StepGroup};

pub(super) fn by_site(db: &Connection, num: i64) -> Sql<Vec<(Site, StepState, u64)>> {
    db.all(
        "SELECT b.site, s.state, count(*) FROM branches b
         CROSS JOIN steps s INDEXED BY steps_by_branch ON s.branch = b.id
         WHERE b.deletion = ?1 GROUP BY b.site, s.state ORDER BY b.site",
        [num],
        |row| Ok((row.word(0)?, row.word(1)?, row.read(2)?)),
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
    db.all(
        &format!(
        "SELECT s.site, s.kind, {action}, min((e.at - ?2) / ((?3 + ?4 - 1) / ?4), ?4 - 1) AS col,
             count(*) FILTER (WHERE e.kind = 'attempt'),
             count(*) FILTER (WHERE e.data ->> 'state' IN ('blocked', 'stuck')),
             count(*) FILTER (WHERE e.data ->> 'state' IN ('gone', 'skipped', 'purged'))
         FROM events e CROSS JOIN steps s ON s.id = e.step
         WHERE e.deletion = ?1 AND e.at BETWEEN ?2 AND ?2 + ?3
         GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        ),
        params![num, rows::micros(from), span, columns],
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
        "SELECT s.site, (e.at - ?2) / 60000000,
             count(*) FILTER (WHERE e.kind = 'attempt') AS calls,
             count(*) FILTER (WHERE e.data ->> 'state' IN ('blocked', 'stuck')) AS refused
         FROM events e CROSS JOIN steps s ON s.id = e.step
         WHERE e.seq > ?1 AND e.at >= ?2 AND e.at < ?2 + ?3 * 60000000
             AND e.kind IN ('attempt', 'step_state') AND e.data ->> 'attempts' IS NOT NULL
         GROUP BY 1, 2 HAVING calls + refused > 0 ORDER BY 1, 2",
        params![after, rows::micros(from), minutes],
        |row| Ok(decode::site_minute(row)?),
    )
}

/// SQLite takes the columns that are in no aggregate from the row with the maximum.
pub(super) fn groups(db: &Connection, num: i64) -> Sql<Vec<GroupProgress>> {
    db.all(
        "SELECT b.site, b.kind, b.action, count(*), sum(s.ended_at IS NOT NULL), s.id,
             max(coalesce(s.ended_at, 9e18))
         FROM branches b CROSS JOIN steps s INDEXED BY steps_by_branch ON s.branch = b.id
         WHERE b.deletion = ?1 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        [num],
        |row| Ok(decode::group_progress(row)?),
    )
}
