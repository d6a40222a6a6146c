//! The rows of deletions: the columns that change while their steps move.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::rows;
use super::sql::{Run, Sql};
use crate::domain::model::StepState;
use crate::ledger::store::{StoredDeletion, counter_changes};

/// Saves deletions, and adds their changes to the counters of all deletions.
pub(super) fn save(
    db: &Connection,
    changed: &[(Option<StoredDeletion>, StoredDeletion)],
) -> Sql<()> {
    for (_, now) in changed {
        save_deletion(db, now)?;
    }
    for (name, n) in counter_changes(changed) {
        db.run(
            "INSERT INTO counters(name, n) VALUES(?1, ?2)
             ON CONFLICT(name) DO UPDATE SET n = n + excluded.n",
            params![name, n],
        )?;
    }
    Ok(())
}

/// Writes the columns that change with the steps.
fn save_deletion(db: &Connection, deletion: &StoredDeletion) -> Sql<()> {
    let at = |time: Option<DateTime<Utc>>| time.map(rows::micros);
    let count = |state| deletion.counts.of(state).cast_signed();
    let pace = &deletion.pace;
    db.run(
        "UPDATE deletions SET stops = ?22, cancelled = ?2, paused = ?3, waiting = ?4, ready = ?5, running = ?6,
             verifying = ?7, blocked = ?8, stuck = ?9, gone = ?10, skipped = ?11, purged = ?12,
             total = ?13, finished_at = ?14, woken_at = ?15, note = ?16, moved_at = ?17,
             pace_at = ?18, pace_done = ?19, pace_mid_at = ?20, pace_mid_done = ?21
         WHERE num = ?1",
        params![
            deletion.num,
            deletion.cancelled,
            deletion.paused,
            count(StepState::Waiting),
            count(StepState::Ready),
            count(StepState::Running),
            count(StepState::Verifying),
            count(StepState::Blocked),
            count(StepState::Stuck),
            count(StepState::Gone),
            count(StepState::Skipped),
            count(StepState::Purged),
            deletion.counts.total.cast_signed(),
            at(deletion.finished_at),
            at(deletion.woken_at),
            deletion.note,
            at(pace.moved_at),
            at(pace.from.0),
            pace.from.1.cast_signed(),
            at(pace.middle.0),
            pace.middle.1.cast_signed(),
            deletion.stops,
        ],
    )?;
    // The state is written separately, and only if it changed, because it is indexed.
    db.run(
        "UPDATE deletions SET state = ?2 WHERE num = ?1 AND state <> ?2",
        params![deletion.num, deletion.state.as_str()],
    )
    .map(drop)
}
