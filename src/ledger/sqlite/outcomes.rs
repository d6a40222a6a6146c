//! Applies the outcome of a step in one change: fence, state, counts, events and tombstone.

use chrono::{DateTime, Utc};
use rusqlite::{OptionalExtension, params};
use serde_json::{Value, json};

use super::batch::{Batch, Sql};
use super::rows;
use crate::domain::model::{EventKind, StepState};
use crate::domain::peers::AWAITED;
use crate::ledger::{Applied, Fence, StepChange};

/// A step as the ledger has it when its outcome arrives.
struct CurrentStep {
    fence: Fence,
    deletion: i64,
    record: Option<i64>,
    looks: u32,
    waits: u32,
}

impl Batch<'_> {
    pub(super) fn step(&mut self, change: &StepChange) -> Sql<Applied> {
        let Some(current) = self.current_step(change.step_id)? else {
            return Ok(Applied::Stale);
        };
        if current.fence != change.fence {
            return Ok(Applied::Stale);
        }
        let from = current.fence.state;
        if let Some(why) = impossible(from, change.to, current.waits) {
            return Ok(Applied::Refused(why));
        }
        let num = current.deletion;
        // Nothing more is sent for a cancelled deletion: a step that would be retried is skipped (P8).
        let to = match change.to {
            StepState::Blocked | StepState::Stuck | StepState::Ready
                if self.deletion(num)?.cancelled =>
            {
                StepState::Skipped
            }
            // The clearance that it waits for has arrived meanwhile.
            StepState::Blocked
                if waits_for_word(change) && !self.awaits_clearance(change.step_id)? =>
            {
                StepState::Ready
            }
            to => to,
        };
        self.write_outcome(&current, to, change)?;
        self.moved(num, from, to, 1, change.now)?;
        if let Some(record) = current.record {
            self.end_tombstone(num, record, to, change.now)?;
        }
        self.tell(num, from, to, change)?;
        if from == StepState::Stuck && to != StepState::Stuck {
            self.release_stuck(num, &[change.step_id], change.now)?;
        }
        match to {
            StepState::Gone | StepState::Skipped | StepState::Purged => {
                self.drop_pending_clearances(change.step_id)?;
                self.release_dependents(num, change.step_id, change.now)?;
            }
            StepState::Stuck => {
                self.propagate_stuck(num, change.step_id, change.now)?;
                self.tell_person(num, change.step_id, change.now)?;
            }
            _ => {}
        }
        self.derive_state(num, change.now)?;
        Ok(Applied::Done)
    }

    fn current_step(&self, id: i64) -> Sql<Option<CurrentStep>> {
        self.db
            .prepare_cached(
                "SELECT state, claim, epoch, deletion, record, looks, waits
                 FROM steps WHERE id = ?1",
            )?
            .query_row([id], |row| {
                Ok(CurrentStep {
                    fence: Fence {
                        state: rows::word(row, 0)?,
                        claim: row.get(1)?,
                        epoch: row.get(2)?,
                    },
                    deletion: row.get(3)?,
                    record: row.get(4)?,
                    looks: rows::number(row, 5)?,
                    waits: rows::number(row, 6)?,
                })
            })
            .optional()
    }

    fn write_outcome(&self, current: &CurrentStep, to: StepState, change: &StepChange) -> Sql<()> {
        let now = rows::micros(change.now);
        // Without a next attempt the step is due now; otherwise it would never be.
        let due = match to {
            StepState::Blocked | StepState::Verifying => {
                Some(change.next_attempt_at.map_or(now, rows::micros))
            }
            _ => None,
        };
        let looks = match change.observed_again {
            true => current.looks.saturating_add(1),
            false => 0,
        };
        let blockers = (!change.blockers.is_empty())
            .then(|| rows::json(&change.blockers))
            .transpose()?;
        let error = change.error.as_ref().map(rows::json).transpose()?;
        self.db
            .prepare_cached(
                // A step that waits for an observation has been on its way since it was sent.
                "UPDATE steps SET state = ?2, since = CASE
                         WHEN state = ?2 OR state = 'running' AND ?2 = 'verifying' THEN since
                         ELSE ?3 END,
                     attempts = ?4, next_attempt_at = ?5, blocked_since = ?6, blockers = ?7,
                     last_error = ?8, looks = ?9, held_by = NULL,
                     own_attempt_at = CASE WHEN ?2 IN ('ready', 'verifying') THEN own_attempt_at END
                 WHERE id = ?1",
            )?
            .execute(params![
                change.step_id,
                to.as_str(),
                now,
                change.attempts,
                due,
                change.blocked_since.map(rows::micros),
                blockers,
                error,
                looks
            ])?;
        if has_ended(to) {
            // Written separately: `ended_at` decides over an index that other outcomes need not touch.
            self.execute(
                "UPDATE steps SET ended_at = ?2 WHERE id = ?1",
                &[&change.step_id, &now],
            )?;
        }
        Ok(())
    }

    /// The phase and the step end together (T9); a failure never drops the tombstone (T8).
    pub(super) fn end_tombstone(
        &self,
        num: i64,
        record: i64,
        to: StepState,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let (phase, gone_at) = match to {
            StepState::Gone => ("gone", Some(rows::micros(now))),
            StepState::Skipped => ("released", None),
            StepState::Purged => ("purged", None),
            _ => return Ok(()),
        };
        let ended = self
            .db
            .prepare_cached(
                "UPDATE tombstones SET phase = ?3, gone_at = ?4
                 WHERE record_id = ?1 AND deletion = ?2",
            )?
            .execute(params![record, num, phase, gone_at])?;
        if ended > 0 {
            self.execute("DELETE FROM snapshots WHERE record = ?1", &[&record])?;
        }
        Ok(())
    }

    /// Writes a line of the step's timeline, unless an observation found nothing new.
    fn tell(&self, num: i64, from: StepState, to: StepState, change: &StepChange) -> Sql<()> {
        if from == to && change.error.is_none() {
            return Ok(());
        }
        let kind = match from {
            StepState::Running => EventKind::Attempt,
            _ => EventKind::StepState,
        };
        let mut data = json!({"state": to.as_str(), "attempts": change.attempts});
        // The answer takes precedence over the error, which may come from an earlier call.
        let (status, request_id) = match (&change.answer, &change.error) {
            (Some(answer), _) => (answer.status, answer.request_id.as_deref()),
            (None, Some(error)) => (error.status, Some(error.request_id.as_str())),
            (None, None) => (None, None),
        };
        if let Some(status) = status {
            data["status"] = json!(status);
        }
        if let Some(request_id) = request_id.filter(|id| !id.is_empty()) {
            data["request_id"] = json!(request_id);
        }
        if let Some(error) = &change.error {
            data["error"] = json!(error);
            tell_why(&mut data, change);
        }
        self.event(
            Some(num),
            Some(change.step_id),
            kind,
            &change.message,
            &data,
            change.now,
        )
    }
}

fn waits_for_word(change: &StepChange) -> bool {
    change
        .error
        .as_ref()
        .is_some_and(|error| error.kind == AWAITED)
}

/// Adds details that a replay shows of a step that did not go. Steps that go need none, and cost no more.
fn tell_why(data: &mut Value, change: &StepChange) {
    if !change.blockers.is_empty() {
        data["blockers"] = json!(change.blockers);
    }
    for (name, at) in [
        ("next_attempt_at", change.next_attempt_at),
        ("blocked_since", change.blocked_since),
    ] {
        if let Some(at) = at {
            data[name] = json!(at);
        }
    }
}

pub(super) fn has_ended(state: StepState) -> bool {
    matches!(
        state,
        StepState::Gone | StepState::Skipped | StepState::Purged
    )
}

fn impossible(from: StepState, to: StepState, waits: u32) -> Option<String> {
    let from_name = from.as_str();
    if has_ended(from) {
        return Some(format!("the step has ended: {from_name}"));
    }
    if matches!(to, StepState::Waiting | StepState::Running) {
        return Some(format!("no outcome is {}", to.as_str()));
    }
    let needs_its_turn = matches!(
        to,
        StepState::Ready | StepState::Verifying | StepState::Blocked
    );
    if waits > 0 && needs_its_turn {
        return Some(format!(
            "the step is {from_name}: other steps must go first"
        ));
    }
    None
}
