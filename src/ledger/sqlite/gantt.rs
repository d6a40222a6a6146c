//! Steps counted by time: when the steps of a deletion ran, and when blocked steps are due.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::sql::{Run, Sql};
use super::{reads, rows};
use crate::domain::gantt::{DUE_WITHIN, Gantt, GanttCell, GanttRow, Last, Upcoming, WaitedFor};
use rusqlite::{Connection, params};

/// None if there is no such deletion. A deletion that has not ended is shown up to `now`.
pub(super) fn gantt(
    db: &Connection,
    deletion_id: &str,
    columns: u32,
    now: DateTime<Utc>,
) -> Sql<Option<Gantt>> {
    let Some(num) = reads::find(db, deletion_id)? else {
        return Ok(None);
    };
    let (from, finished) = db.one(
        "SELECT requested_at, finished_at FROM deletions WHERE num = ?1",
        [num],
        |row| Ok((rows::time(row, 0)?, rows::time_opt(row, 1)?)),
    )?;
    let until = finished.unwrap_or(now).max(from);
    let columns = columns.max(1);
    let mut cells = cells(db, num, (from, until), columns)?;
    let mut groups = groups(db, num)?;
    for group in &mut groups {
        let name = key(group);
        group.cells = cells.remove(&name).unwrap_or_default();
    }
    groups.sort_by_key(|group| group.cells.first().map_or(u32::MAX, |cell| cell.column));
    Ok(Some(Gantt {
        from,
        until,
        columns,
        rows: groups,
    }))
}

/// Site, kind and action, as the tables have them.
type Key = (String, String, String);

fn key(row: &GanttRow) -> Key {
    (
        row.site.to_string(),
        row.kind.to_string(),
        row.action.as_str().to_owned(),
    )
}

/// For each group, the columns of time in which anything happened.
fn cells(
    db: &Connection,
    num: i64,
    (from, until): (DateTime<Utc>, DateTime<Utc>),
    columns: u32,
) -> Sql<HashMap<Key, Vec<GanttCell>>> {
    let span = (until - from).num_microseconds().unwrap_or(i64::MAX).max(1);
    let mut counted = db.prepare_cached(
        "SELECT s.site, s.kind, s.action, min((e.at - ?2) / ((?3 + ?4 - 1) / ?4), ?4 - 1) AS col,
             sum(e.kind = 'attempt'), sum(e.data ->> 'state' IN ('blocked', 'stuck')),
             sum(e.data ->> 'state' IN ('gone', 'skipped', 'purged'))
         FROM events e CROSS JOIN steps s ON s.id = e.step
         WHERE e.deletion = ?1 AND e.at BETWEEN ?2 AND ?2 + ?3
         GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
    )?;
    let mut found = counted.query(params![num, rows::micros(from), span, columns])?;
    let mut cells: HashMap<Key, Vec<GanttCell>> = HashMap::new();
    while let Some(row) = found.next()? {
        let of = cells.entry((row.get(0)?, row.get(1)?, row.get(2)?));
        of.or_default().push(GanttCell {
            column: rows::number(row, 3)?,
            sent: rows::number(row, 4)?,
            refused: rows::number(row, 5)?,
            ended: rows::number(row, 6)?,
        });
    }
    Ok(cells)
}

/// The rows without their cells. SQLite takes the columns that are in no aggregate from the row with the
/// maximum.
fn groups(db: &Connection, num: i64) -> Sql<Vec<GanttRow>> {
    db.all(
        "SELECT b.site, b.kind, b.action, count(*), sum(s.ended_at IS NOT NULL),
             s.id, s.name, s.resource, s.ended_at, max(coalesce(s.ended_at, 9e18))
         FROM branches b CROSS JOIN steps s INDEXED BY steps_by_branch ON s.branch = b.id
         WHERE b.deletion = ?1 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        [num],
        |row| {
            Ok(GanttRow {
                site: rows::word(row, 0)?,
                kind: rows::word(row, 1)?,
                action: rows::word(row, 2)?,
                steps: rows::number(row, 3)?,
                ended: rows::number(row, 4)?,
                cells: Vec::new(),
                last: Last {
                    name: named(row, 6)?,
                    ended_at: rows::time_opt(row, 8)?,
                    waited_for: waited_for(db, row.get(5)?)?,
                },
            })
        },
    )
}

/// The dependency of a step that ended last, or one that has not ended.
fn waited_for(db: &Connection, step: i64) -> Sql<Option<WaitedFor>> {
    db.first(
        "SELECT t.kind, t.name, t.resource, t.ended_at FROM edges JOIN steps t ON t.id = dependency
         WHERE dependent = ?1 ORDER BY t.ended_at IS NOT NULL, t.ended_at DESC, t.id LIMIT 1",
        [step],
        |row| {
            Ok(WaitedFor {
                kind: rows::word(row, 0)?,
                name: named(row, 1)?,
                ended_at: rows::time_opt(row, 3)?,
            })
        },
    )
}

/// The name in this column, or the id in the next column if there is no name.
fn named(row: &rusqlite::Row, column: usize) -> Sql<String> {
    let name: String = row.get(column)?;
    match name.is_empty() {
        true => row.get(column + 1),
        false => Ok(name),
    }
}

pub(super) fn upcoming(db: &Connection, now: DateTime<Utc>) -> Sql<Upcoming> {
    let mut counted = db.prepare_cached(
        "SELECT count(*), min(next_attempt_at) FROM steps
         WHERE state = 'blocked' AND next_attempt_at > ?1 AND next_attempt_at <= ?2",
    )?;
    let mut between = |after: i64, until: i64| {
        counted.query_row([after, until], |row| {
            Ok((rows::number(row, 0)?, rows::time_opt(row, 1)?))
        })
    };
    let ends = DUE_WITHIN.map(|seconds| rows::micros(now + TimeDelta::seconds(seconds)));
    let mut after = rows::micros(now);
    let (overdue, _) = between(i64::MIN, after)?;
    let mut upcoming = Upcoming {
        at: now,
        now: overdue,
        ..Upcoming::default()
    };
    for end in ends.into_iter().chain([i64::MAX]) {
        let (steps, first) = between(after, end)?;
        upcoming.columns.push(steps);
        upcoming.next = upcoming.next.or(first);
        after = end;
    }
    Ok(upcoming)
}
