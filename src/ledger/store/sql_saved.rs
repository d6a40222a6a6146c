//! The rows that a change saves, as the values of SQL statements: each function returns the values in the order of the
//! columns that its doc comment, or the constants above it, name.

use super::sql::{Decoded, SqlValue, json, json_opt};
use super::{EndedTombstone, StoredDeletion, StoredStep, StoredTombstone, UnsavedEvent};
use crate::domain::model::{Phase, StepState};
use crate::ledger::AuditRow;

/// The columns of a step that are written together with its state; `$1` is its id.
pub const SET_MOVED: &str = "state = $2, since = $3, waits = $4, attempts = $5, looks = $6, \
     next_attempt_at = $7, own_attempt_at = $8, blocked_since = $9, blockers = $10, \
     last_error = $11, held_by = $12, claim = $13, epoch = $14, sent = $15";
/// Number of the values of [`SET_MOVED`], which are the first of those that [`step`] returns.
pub const MOVED: usize = 15;
/// The other columns of a step that a change writes.
pub const SET_REST: &str = "ended_at = $16, left_to = $17, record = $18, action = $19, told = $20";

pub fn step(step: &StoredStep) -> Decoded<[SqlValue<'_>; 20]> {
    let blockers = (!step.blockers.is_empty()).then_some(&step.blockers);
    Ok([
        step.id.into(),
        step.state.into(),
        step.since.into(),
        step.waits.into(),
        step.attempts.into(),
        step.observations.into(),
        step.next_attempt_at.into(),
        step.own_attempt_at.into(),
        step.blocked_since.into(),
        json_opt(blockers)?.into(),
        json_opt(step.error.as_ref())?.into(),
        step.held_by.into(),
        step.claim.into(),
        step.epoch.into(),
        step.sent.into(),
        step.ended_at.into(),
        step.left_to.into(),
        step.record.into(),
        step.action.into(),
        step.notified.into(),
    ])
}

/// The columns of a deletion that change while its steps move, except its state; `$1` is its number.
pub const SET_DELETION: &str = "cancelled = $2, paused = $3, stops = $4, waiting = $5, \
     ready = $6, running = $7, verifying = $8, blocked = $9, stuck = $10, gone = $11, \
     skipped = $12, purged = $13, total = $14, finished_at = $15, woken_at = $16, note = $17, \
     moved_at = $18, pace_at = $19, pace_done = $20, pace_mid_at = $21, pace_mid_done = $22";

/// The values of [`SET_DELETION`], then the state.
pub fn deletion(row: &StoredDeletion) -> [SqlValue<'_>; 23] {
    let (counts, pace) = (&row.counts, &row.pace);
    let [
        waiting,
        ready,
        running,
        verifying,
        blocked,
        stuck,
        gone,
        skipped,
        purged,
    ] = StepState::ALL.map(|state| counts.of(state).into());
    [
        row.num.into(),
        row.cancelled.into(),
        row.paused.into(),
        row.stops.into(),
        waiting,
        ready,
        running,
        verifying,
        blocked,
        stuck,
        gone,
        skipped,
        purged,
        counts.total.into(),
        row.finished_at.into(),
        row.woken_at.into(),
        (&row.note).into(),
        pace.moved_at.into(),
        pace.from.0.into(),
        pace.from.1.into(),
        pace.middle.0.into(),
        pace.middle.1.into(),
        row.state.into(),
    ]
}

/// The columns of a tombstone that a change writes; `$1` is its record.
pub const SET_TOMBSTONE: &str = "deletion = $2, phase = $3, deleted_at = $4, gone_at = $5, \
     incarnation = $6, recreated = $7";

pub fn tombstone(row: &StoredTombstone) -> [SqlValue<'_>; 7] {
    [
        row.record.into(),
        row.deletion.into(),
        row.phase.into(),
        row.deleted_at.into(),
        row.gone_at.into(),
        row.incarnation.into(),
        row.recreated.into(),
    ]
}

/// Record, deletion, phase, and when the resource was gone.
pub fn ended(row: &EndedTombstone) -> [SqlValue<'_>; 4] {
    let gone_at = (row.phase == Phase::Gone).then_some(row.at);
    [
        row.record.into(),
        row.deletion.into(),
        row.phase.into(),
        gone_at.into(),
    ]
}

pub const AUDIT: &str = "audit(seq, at, actor, action, target, reason, detail, hash)";

pub fn audit(row: &AuditRow) -> Decoded<[SqlValue<'_>; 8]> {
    Ok([
        row.seq.into(),
        row.at.into(),
        json(&row.actor)?.into(),
        (&row.action).into(),
        (&row.target).into(),
        (&row.reason).into(),
        row.detail.to_string().into(),
        (&row.hash).into(),
    ])
}

/// At, deletion, step, kind, message and data. The store gives the number.
pub fn event(event: &UnsavedEvent) -> [SqlValue<'_>; 6] {
    [
        event.at.into(),
        event.deletion.into(),
        event.step.into(),
        event.draft.kind.as_str().into(),
        (&event.draft.words).into(),
        event.draft.fields.to_string().into(),
    ]
}

/// The table and the conflict clause of an insert that adds a number to a counter of all deletions or steps.
pub const COUNT: (&str, &str) = (
    "counters(name, n)",
    "ON CONFLICT(name) DO UPDATE SET n = counters.n + excluded.n",
);
