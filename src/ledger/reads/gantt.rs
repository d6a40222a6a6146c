//! Counts by time. For a deletion: its answered calls, and its steps that became blocked or stuck, or ended. For
//! blocked steps: when they are due. For each site in the last hour: the answered calls, and the steps that became
//! blocked or stuck.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::gantt::{DUE_WITHIN, Gantt, GanttCell, GanttRow, Last, Upcoming, WaitedFor};
use crate::domain::last_hour::{LastHour, MINUTES, minute_end};
use crate::ledger::store::{
    EventsOf, GroupProgress, LedgerReads, LogReads, StepGroup, StepReads, Stored, StoredStep,
};

/// Maximum time by which an event may have happened before one with a lower number: engines that share a ledger read
/// different clocks.
const OUT_OF_ORDER_MAX: TimeDelta = TimeDelta::minutes(1);

/// Answers [`Views::gantt`](crate::ledger::Views::gantt).
pub fn gantt<R: LedgerReads>(
    rows: &R,
    deletion_id: &str,
    columns: u32,
    now: DateTime<Utc>,
) -> Stored<R, Option<Gantt>> {
    let Some(num) = rows.find_deletion(deletion_id)? else {
        return Ok(None);
    };
    let deletion = rows.load_deletions(&[num])?.pop();
    let request = rows.load_requests(&[num])?.pop();
    let (Some(deletion), Some((_, request))) = (deletion, request) else {
        return Ok(None);
    };
    let from = request.requested_at;
    let until = deletion.finished_at.unwrap_or(now).max(from);
    let columns = columns.max(1);
    let mut cells: HashMap<StepGroup, Vec<GanttCell>> = HashMap::new();
    for (group, cell) in rows.count_cells(num, from, until, columns)? {
        cells.entry(group).or_default().push(cell);
    }
    let mut drawn = Vec::new();
    for progress in rows.count_groups(num)? {
        let cells = cells.remove(&progress.group).unwrap_or_default();
        drawn.extend(row(rows, progress, cells)?);
    }
    drawn.sort_by_key(|row| row.cells.first().map_or(u32::MAX, |cell| cell.column));
    Ok(Some(Gantt {
        from,
        until,
        columns,
        rows: drawn,
    }))
}

fn row<R: StepReads>(
    rows: &R,
    progress: GroupProgress,
    cells: Vec<GanttCell>,
) -> Stored<R, Option<GanttRow>> {
    let Some(last) = stored(rows, progress.last)? else {
        return Ok(None);
    };
    let waited_for = match rows.find_last_dependency(last.id)? {
        Some(id) => stored(rows, id)?,
        None => None,
    };
    let StepGroup { site, kind, action } = progress.group;
    Ok(Some(GanttRow {
        site,
        kind,
        action,
        steps: progress.steps,
        ended: progress.ended,
        cells,
        last: Last {
            ended_at: last.ended_at,
            waited_for: waited_for.map(|step| WaitedFor {
                kind: step.key.kind.clone(),
                ended_at: step.ended_at,
                name: called(step),
            }),
            name: called(last),
        },
    }))
}

fn stored<R: StepReads>(rows: &R, id: i64) -> Stored<R, Option<StoredStep>> {
    Ok(rows.load_step_rows(&[id])?.pop().map(|row| row.now))
}

/// The name of a step's resource, or its id if it has none.
fn called(step: StoredStep) -> String {
    match step.name.is_empty() {
        true => step.key.id,
        false => step.name,
    }
}

pub fn upcoming<R: StepReads>(rows: &R, now: DateTime<Utc>) -> Stored<R, Upcoming> {
    let later = DUE_WITHIN.map(|seconds| now + TimeDelta::seconds(seconds));
    let ends: Vec<DateTime<Utc>> = std::iter::once(now).chain(later).collect();
    let mut counted = rows.count_due(&ends)?.into_iter();
    let overdue = counted.next().unwrap_or_default();
    let mut upcoming = Upcoming {
        at: now,
        now: overdue.steps,
        ..Upcoming::default()
    };
    for column in counted {
        upcoming.columns.push(column.steps);
        upcoming.next = upcoming.next.or(column.first);
    }
    Ok(upcoming)
}

/// Counts the answered calls to each site in the 60 minutes up to the end of the current minute, and the steps that
/// became blocked or stuck by an answer or observation.
pub fn last_hour<R: LedgerReads>(rows: &R, now: DateTime<Utc>) -> Stored<R, LastHour> {
    let until = minute_end(now);
    let from = until - TimeDelta::minutes(MINUTES.into());
    let after = last_event_before(rows, from - OUT_OF_ORDER_MAX)?;
    let minutes = rows.count_calls(after, from, MINUTES)?;
    Ok(LastHour { until, minutes })
}

/// Finds the number of the last event before this time, or the number before that of the first event. Events are
/// numbered in the order of time, except within [`OUT_OF_ORDER_MAX`]. So a search reads some twenty of them, and the
/// ledger needs no index by time.
fn last_event_before<R: LogReads>(rows: &R, time: DateTime<Utc>) -> Stored<R, i64> {
    let range = rows.event_range()?;
    // The events up to `low` are before the time, and the events after `high` are not.
    let (mut low, mut high) = (range.oldest - 1, range.newest);
    while low < high {
        let middle = high - (high - low) / 2;
        let next = rows.load_events(middle - 1, EventsOf::All, 1)?.pop();
        match next.filter(|event| event.at < time) {
            Some(event) => low = event.seq,
            None => high = middle - 1,
        }
    }
    Ok(low)
}
