//! The rows of steps: all columns that a change reads or writes.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows;
use super::sql::{Run, Sql};

use crate::ledger::store::StoredStep;
use crate::ledger::store::decode::{self, STEP};

/// Writes the columns of a step that changed. Columns that seldom change have statements of their own, because
/// SQLite rewrites each index over a column that a statement sets.
pub(super) fn save_step(db: &Connection, saved: &StoredStep, now: &StoredStep) -> Sql<()> {
    let at = |time: Option<DateTime<Utc>>| time.map(rows::micros);
    if has_moved(saved, now) {
        let blockers = (!now.blockers.is_empty())
            .then(|| rows::json(&now.blockers))
            .transpose()?;
        db.run(
            "UPDATE steps SET state = ?2, since = ?3, waits = ?4, attempts = ?5, looks = ?6,
                 next_attempt_at = ?7, own_attempt_at = ?8, blocked_since = ?9, blockers = ?10,
                 last_error = ?11, held_by = ?12, claim = ?13, epoch = ?14, sent = ?15
             WHERE id = ?1",
            params![
                now.id,
                now.state.as_str(),
                rows::micros(now.since),
                now.waits,
                now.attempts,
                now.observations,
                at(now.next_attempt_at),
                at(now.own_attempt_at),
                at(now.blocked_since),
                blockers,
                now.error.as_ref().map(rows::json).transpose()?,
                now.held_by,
                now.claim,
                now.epoch,
                now.sent
            ],
        )?;
    } else if saved.waits != now.waits {
        let sql = "UPDATE steps SET waits = ?2 WHERE id = ?1";
        db.run(sql, params![now.id, now.waits])?;
    }
    if saved.ended_at != now.ended_at {
        let sql = "UPDATE steps SET ended_at = ?2 WHERE id = ?1";
        db.run(sql, params![now.id, at(now.ended_at)])?;
    }
    if (saved.left_to, saved.record) != (now.left_to, now.record) {
        let sql = "UPDATE steps SET left_to = ?2, record = ?3 WHERE id = ?1";
        db.run(sql, params![now.id, now.left_to, now.record])?;
    }
    if saved.action != now.action {
        let sql = "UPDATE steps SET action = ?2 WHERE id = ?1";
        db.run(sql, params![now.id, now.action.as_str()])?;
    }
    if saved.notified != now.notified {
        let sql = "UPDATE steps SET told = ?2 WHERE id = ?1";
        db.run(sql, params![now.id, now.notified])?;
    }
    Ok(())
}

/// Whether a column changed that is written together with the state, other than `waits`.
fn has_moved(saved: &StoredStep, now: &StoredStep) -> bool {
    let of = |step: &StoredStep| {
        (
            (step.state, step.since, step.attempts, step.observations),
            (step.next_attempt_at, step.own_attempt_at),
            (step.blocked_since, step.held_by),
            (step.claim, step.epoch, step.sent),
        )
    };
    of(saved) != of(now) || saved.blockers != now.blockers || saved.error != now.error
}

/// Loads steps by their ids; those that do not exist are left out.
pub(super) fn load(db: &Connection, ids: &[i64]) -> Sql<Vec<StoredStep>> {
    let mut one = db.prepare_cached(&format!("SELECT {STEP} FROM steps s WHERE s.id = ?1"))?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(
            one.query_row([id], |row| Ok(decode::step(row)?))
                .optional()?,
        );
    }
    Ok(found)
}
