//! Sentences about the rows of a chart of a deletion over time.

use chrono::{DateTime, Utc};

use super::words::{duration, kind_words, thousands};
use crate::domain::gantt::GanttRow;
use crate::domain::model::Action;

/// Returns the kind of a row of the chart, with the action if that is not a delete: `detach router interface`.
pub fn chart_words(row: &GanttRow) -> String {
    let kind = kind_words(&row.kind);
    match row.action {
        Action::Delete => kind,
        other => format!("{} {kind}", other.as_str()),
    }
}

/// Returns the progress of a row, such as `port at prod/RegionOne: 12 of 600 ended`.
pub fn chart_facts(row: &GanttRow) -> String {
    let (ended, steps) = (thousands(row.ended), thousands(row.steps));
    format!(
        "{} at {}: {ended} of {steps} ended",
        chart_words(row),
        row.site
    )
}

/// Describes which of a row's steps ended last, and what it had waited for.
pub fn chart_last_words(row: &GanttRow, time: impl Fn(DateTime<Utc>) -> String) -> String {
    let last = &row.last;
    let name = &last.name;
    let waited = last.waited_for.as_ref();
    let other = waited.map(|it| format!("{} {}", kind_words(&it.kind), it.name));
    match (last.ended_at, other, waited.and_then(|it| it.ended_at)) {
        (Some(at), Some(other), Some(before)) => {
            let seconds = (at - before).num_seconds().unsigned_abs();
            let (at, took) = (time(at), duration(seconds));
            format!("the last was {name} at {at}: {took} after {other}, for which it waited")
        }
        (Some(at), ..) => {
            let at = time(at);
            format!("the last was {name} at {at}; it waited for no other step")
        }
        (None, Some(other), None) => format!("{name} has not ended: it waits for {other}"),
        (None, Some(other), Some(before)) => {
            let before = time(before);
            format!("{name} has not ended; the last that it waited for, {other}, ended at {before}")
        }
        (None, None, _) => format!("{name} has not ended; it waits for no other step"),
    }
}
