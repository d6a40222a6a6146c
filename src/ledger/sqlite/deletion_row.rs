//! The row of a deletion, with the counts of its steps.

use chrono::{DateTime, TimeDelta, Utc};
use rusqlite::{Connection, Row, params};

use super::rows;
use super::sql::{Run, Sql};
use crate::domain::model::{Counts, DeletionState, StepState};
use crate::ledger::transitions::{Impossible, deletion};

/// The hot columns of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeletionRow {
    pub(super) num: i64,
    pub(super) id: String,
    pub(super) state: DeletionState,
    pub(super) cancelled: bool,
    pub(super) paused: bool,
    /// Whether `on_failure = stop`.
    pub(super) stops: bool,
    pub(super) counts: Counts,
    pub(super) finished_at: Option<DateTime<Utc>>,
    /// When a repeated DELETE last woke it (T6).
    pub(super) woken_at: Option<DateTime<Utc>>,
    pub(super) note: String,
    pub(super) pace: Pace,
}

/// How fast clouds accept the steps: two samples, so that the rate covers the last 30 to 60 s of progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pace {
    pub(super) moved_at: Option<DateTime<Utc>>,
    pub(super) from: (Option<DateTime<Utc>>, u64),
    pub(super) middle: (Option<DateTime<Utc>>, u64),
}

const PACE_MARK: TimeDelta = TimeDelta::seconds(30);

impl Pace {
    pub(super) fn moved(&mut self, ended_before: u64, now: DateTime<Utc>) {
        self.moved_at = Some(now);
        match self.middle.0 {
            Some(middle) if now - middle < PACE_MARK => {}
            Some(middle) if now - middle < PACE_MARK * 2 => {
                self.from = self.middle;
                self.middle = (Some(now), ended_before);
            }
            // The first sample, or the first after a pause: older samples say nothing.
            _ => {
                self.from = (Some(now), ended_before);
                self.middle = self.from;
            }
        }
    }

    /// Estimates the seconds until the rest is accepted too, at the rate of the last minute.
    pub(super) fn eta_seconds(&self, counts: &Counts, latest: DateTime<Utc>) -> Option<u64> {
        let (from, moved) = (self.from.0?, self.moved_at?);
        let done = counts.accepted().checked_sub(self.from.1);
        let done = u128::from(done.filter(|done| *done > 0)?);
        let left = (counts.live() - counts.verifying).max(1);
        if latest - moved > PACE_MARK * 2 {
            return None;
        }
        let millis = u128::try_from((moved - from).num_milliseconds().max(1)).ok()?;
        u64::try_from((u128::from(left) * millis).div_ceil(done * 1000)).ok()
    }
}

impl DeletionRow {
    pub(super) const COLUMNS: &str = "num, id, state, cancelled, paused, stops, waiting, ready, \
         running, verifying, blocked, stuck, gone, skipped, purged, total, finished_at, woken_at, \
         note, moved_at, pace_at, pace_done, pace_mid_at, pace_mid_done";

    pub(super) fn read(row: &Row) -> Sql<Self> {
        Ok(Self {
            num: row.get(0)?,
            id: row.get(1)?,
            state: rows::word(row, 2)?,
            cancelled: row.get(3)?,
            paused: row.get(4)?,
            stops: row.get(5)?,
            counts: rows::counts(row, 6)?,
            finished_at: rows::time_opt(row, 16)?,
            woken_at: rows::time_opt(row, 17)?,
            note: row.get(18)?,
            pace: Pace {
                moved_at: rows::time_opt(row, 19)?,
                from: (rows::time_opt(row, 20)?, rows::number(row, 21)?),
                middle: (rows::time_opt(row, 22)?, rows::number(row, 23)?),
            },
        })
    }

    /// The row after this trigger, if it is possible.
    pub(super) fn after(&self, trigger: deletion::Trigger) -> Result<deletion::Next, Impossible> {
        let facts = deletion::Facts {
            cancelled: self.cancelled,
            paused: self.paused,
            counts: self.counts,
        };
        deletion::after(self.state, trigger, &facts)
    }

    /// Writes the hot columns.
    pub(super) fn write(&self, db: &Connection) -> Sql<()> {
        let at = |time: Option<DateTime<Utc>>| time.map(rows::micros);
        let count = |state| self.counts.of(state).cast_signed();
        db.run(
            "UPDATE deletions SET cancelled = ?2, paused = ?3, waiting = ?4, ready = ?5, running = ?6,
                 verifying = ?7, blocked = ?8, stuck = ?9, gone = ?10, skipped = ?11, purged = ?12,
                 total = ?13, finished_at = ?14, woken_at = ?15, note = ?16, moved_at = ?17,
                 pace_at = ?18, pace_done = ?19, pace_mid_at = ?20, pace_mid_done = ?21
             WHERE num = ?1",
            params![
                self.num,
                self.cancelled,
                self.paused,
                count(StepState::Waiting),
                count(StepState::Ready),
                count(StepState::Running),
                count(StepState::Verifying),
                count(StepState::Blocked),
                count(StepState::Stuck),
                count(StepState::Gone),
                count(StepState::Skipped),
                count(StepState::Purged),
                self.counts.total.cast_signed(),
                at(self.finished_at),
                at(self.woken_at),
                self.note,
                at(self.pace.moved_at),
                at(self.pace.from.0),
                self.pace.from.1.cast_signed(),
                at(self.pace.middle.0),
                self.pace.middle.1.cast_signed(),
            ],
        )?;
        // Written separately, and only if it changed, because the column is indexed.
        db.run(
            "UPDATE deletions SET state = ?2 WHERE num = ?1 AND state <> ?2",
            params![self.num, self.state.as_str()],
        )
        .map(drop)
    }
}
