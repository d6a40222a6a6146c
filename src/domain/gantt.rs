//! Two charts: when the steps of a deletion ran and what they waited for, and when blocked steps are due for their
//! next attempt. Each counts steps in columns of time, so its size does not grow with the number of steps.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::model::{Action, KindName, Site};

/// The timeline of a deletion, from its request to its end, or to now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gantt {
    pub from: DateTime<Utc>,
    pub until: DateTime<Utc>,
    /// Number of columns into which the time from `from` until `until` is divided, all of equal length.
    pub columns: u32,
    /// The rows, in the order of their first cells; rows without cells come last.
    pub rows: Vec<GanttRow>,
}

/// Steps of one kind at one site with the same action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GanttRow {
    pub site: Site,
    pub kind: KindName,
    pub action: Action,
    pub steps: u64,
    pub ended: u64,
    /// The columns in which something happened.
    pub cells: Vec<GanttCell>,
    /// The step that ended last, or a step that has not ended.
    pub last: Last,
}

/// Counts of what happened to the steps of one row within one column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GanttCell {
    pub column: u32,
    /// Number of calls that ended: with an answer, without one, or before they were sent.
    pub sent: u64,
    /// How often a step became blocked or stuck.
    pub refused: u64,
    pub ended: u64,
}

/// The step that is described for a row of the chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    pub name: String,
    pub ended_at: Option<DateTime<Utc>>,
    /// A dependency of this step that has not ended, else the one that ended last.
    pub waited_for: Option<WaitedFor>,
}

/// A dependency of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitedFor {
    pub kind: KindName,
    pub name: String,
    pub ended_at: Option<DateTime<Utc>>,
}

/// How a stretch of time is drawn: by the most important thing that happened in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState {
    /// Nothing has happened to the row's steps yet, usually because other steps come first.
    Waits,
    Sent,
    Refused,
    Gone,
    /// The steps have begun and not ended, but nothing happened: the cloud works, or the next attempt is not
    /// due.
    Rests,
    /// All steps of the row ended before this time.
    Over,
}

impl GanttRow {
    /// Draws the row in `width` columns, or in `columns` columns if those are fewer.
    pub fn cell_states(&self, columns: u32, width: usize) -> Vec<CellState> {
        let width = width.min(columns as usize);
        let mut drawn = vec![GanttCell::default(); width];
        let drawn_at = |column: u32| (column as usize * width) / (columns.max(1) as usize);
        for cell in &self.cells {
            if let Some(sum) = drawn.get_mut(drawn_at(cell.column)) {
                sum.sent += cell.sent;
                sum.refused += cell.refused;
                sum.ended += cell.ended;
            }
        }
        let first = self.cells.iter().map(|cell| drawn_at(cell.column)).min();
        let last = self.cells.iter().map(|cell| drawn_at(cell.column)).max();
        let is_over = self.ended == self.steps;
        let mark = |(at, cell): (usize, GanttCell)| match cell {
            GanttCell { ended: 1.., .. } => CellState::Gone,
            GanttCell { refused: 1.., .. } => CellState::Refused,
            GanttCell { sent: 1.., .. } => CellState::Sent,
            _ if is_over && last.is_none_or(|last| at > last) => CellState::Over,
            _ if first.is_none_or(|first| at < first) => CellState::Waits,
            _ => CellState::Rests,
        };
        drawn.into_iter().enumerate().map(mark).collect()
    }
}

/// The ends of the columns of [`Upcoming`], in seconds from now. One more column follows, which has no end.
pub const DUE_WITHIN: [i64; 13] = [
    10, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400,
];

/// When blocked steps are due for their next attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upcoming {
    /// The time at which the steps were counted.
    pub at: DateTime<Utc>,
    /// Number of steps that are due now.
    pub now: u64,
    /// Number of steps that are due in each column: after the end of the column before, and up to the column's own end
    /// ([`DUE_WITHIN`]). The last number counts the steps that are due after all ends.
    pub columns: Vec<u64>,
    /// When the first step that is not due yet becomes due; null if there is none.
    pub next: Option<DateTime<Utc>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(steps: u64, ended: u64, cells: &[(u32, u64, u64, u64)]) -> GanttRow {
        let cell = |(column, sent, refused, ended): &(u32, u64, u64, u64)| GanttCell {
            column: *column,
            sent: *sent,
            refused: *refused,
            ended: *ended,
        };
        GanttRow {
            site: "prod/RegionOne".parse().unwrap(),
            kind: KindName::new("port"),
            action: Action::Delete,
            steps,
            ended,
            cells: cells.iter().map(cell).collect(),
            last: Last {
                name: "p".to_owned(),
                ended_at: None,
                waited_for: None,
            },
        }
    }

    fn drawn(row: &GanttRow, columns: u32, width: usize) -> String {
        let sign = |state| match state {
            CellState::Waits => '.',
            CellState::Sent => '+',
            CellState::Refused => 'x',
            CellState::Gone => '#',
            CellState::Rests => '-',
            CellState::Over => ' ',
        };
        row.cell_states(columns, width)
            .into_iter()
            .map(sign)
            .collect()
    }

    #[test]
    fn a_row_shows_the_most_important_state_of_each_stretch() {
        let cells = [(2, 5, 0, 0), (4, 1, 1, 0), (6, 3, 1, 2)];
        assert_eq!(drawn(&row(5, 5, &cells), 10, 10), "..+-x-#   ");
        assert_eq!(drawn(&row(5, 4, &cells), 10, 10), "..+-x-#---");
        // At half the width, two columns become one.
        assert_eq!(drawn(&row(5, 5, &cells), 10, 5), ".+x# ");
        // The row never gets wider than the counted columns.
        assert_eq!(drawn(&row(5, 5, &cells), 10, 99).len(), 10);
        assert_eq!(drawn(&row(5, 0, &[]), 4, 4), "....");
        // All steps have ended, and none was sent: they were skipped.
        assert_eq!(drawn(&row(5, 5, &[]), 4, 4), "    ");
        assert_eq!(drawn(&row(5, 5, &[]), 0, 4), "");
    }
}
