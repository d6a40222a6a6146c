//! The rows of steps: all columns that a change reads or writes.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows;
use super::sql::{Run, Sql};
use crate::ledger::store::{StepPlan, StepRow, StoredStep};

/// Writes what changed of a step. Columns over which an index decides are written only if they changed.
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

/// Whether anything changed that is written with the state.
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

/// The columns of a step.
const STEP: &str = "id, deletion, site, kind, resource, name, action, record, state, since, \
     ended_at, claim, epoch, sent, waits, attempts, looks, next_attempt_at, own_attempt_at, \
     blocked_since, blockers, last_error, held_by, left_to, told";

/// The columns that are written with the plan, after those of [`STEP`].
const PLAN: &str = "position, rank, max_attempts, branch, project, vars, why, fingerprint";

/// A statement that reads [`row`]s; `from`: its text from `FROM` on.
pub(super) fn select(from: &str) -> String {
    format!("SELECT {STEP}, {PLAN} {from}")
}

/// A step with what its plan says, from [`select`].
pub(super) fn row(row: &Row) -> Sql<StepRow> {
    Ok(StepRow {
        now: step(row)?,
        plan: StepPlan {
            position: rows::number(row, 25)?,
            rank: rows::number(row, 26)?,
            max_attempts: rows::number(row, 27)?,
            branch: row.get(28)?,
            project_id: row.get(29)?,
            vars: rows::from_json_opt(row, 30)?,
            why: row.get(31)?,
            fingerprint: row.get(32)?,
        },
    })
}

/// Loads steps by their ids; those that do not exist are left out.
pub(super) fn load(db: &Connection, ids: &[i64]) -> Sql<Vec<StoredStep>> {
    let mut one = db.prepare_cached(&format!("SELECT {STEP} FROM steps WHERE id = ?1"))?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(one.query_row([id], step).optional()?);
    }
    Ok(found)
}

/// A step, from [`STEP`].
fn step(row: &Row) -> Sql<StoredStep> {
    Ok(StoredStep {
        id: row.get(0)?,
        deletion: row.get(1)?,
        key: rows::key(row, 2)?,
        name: row.get(5)?,
        action: rows::word(row, 6)?,
        record: row.get(7)?,
        state: rows::word(row, 8)?,
        since: rows::time(row, 9)?,
        ended_at: rows::time_opt(row, 10)?,
        claim: row.get(11)?,
        epoch: row.get(12)?,
        sent: row.get(13)?,
        waits: rows::number(row, 14)?,
        attempts: rows::number(row, 15)?,
        observations: rows::number(row, 16)?,
        next_attempt_at: rows::time_opt(row, 17)?,
        own_attempt_at: rows::time_opt(row, 18)?,
        blocked_since: rows::time_opt(row, 19)?,
        blockers: rows::from_json_opt(row, 20)?,
        error: rows::from_json_opt(row, 21)?,
        held_by: row.get(22)?,
        left_to: row.get(23)?,
        notified: row.get(24)?,
    })
}
