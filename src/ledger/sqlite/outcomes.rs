//! Applies the outcome of a step in one change: fence, state, counts, events and tombstone.

use chrono::{DateTime, Utc};
use rusqlite::params;

use super::batch::Batch;
use super::rows;
use super::sql::{Apply, Run, Sql, refuse};
use crate::domain::model::{Phase, StepState};
use crate::domain::peers::AWAITED;
use crate::ledger::events;
use crate::ledger::transitions::has_ended;
use crate::ledger::transitions::step::{self, Trigger};
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
    pub(super) fn step(&mut self, change: &StepChange) -> Apply {
        let Some(current) = self.current_step(change.step_id)? else {
            return Ok(Applied::Stale);
        };
        if current.fence != change.fence {
            return Ok(Applied::Stale);
        }
        let (num, from) = (current.deletion, current.fence.state);
        let facts = step::Facts {
            waits: current.waits > 0,
            cancelled: self.deletion(num)?.cancelled,
            cleared: needs_clearance(change) && !self.awaits_clearance(change.step_id)?,
            ..step::Facts::default()
        };
        let next = match step::after(from, Trigger::Answered(change.decision.to), facts) {
            Ok(next) => next,
            Err(why) => return refuse(why.0),
        };
        self.write_outcome(&current, next.state, change)?;
        self.moved(num, from, next.state, 1, change.now)?;
        self.end_tombstone(num, current.record, next.effects.tombstone, change.now)?;
        self.tell(num, from, next.state, change)?;
        self.follow(num, change.step_id, next.effects, change.now)?;
        self.derive_state(num, change.now)?;
        Ok(Applied::Done)
    }

    /// Writes the move of a step that no answer caused, with the JSON of its new error.
    pub(super) fn put_step(
        &mut self,
        (num, id): (i64, i64),
        from: StepState,
        to: StepState,
        error: Option<&str>,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let now_us = rows::micros(now);
        let ended_at = has_ended(to).then_some(now_us);
        self.run(
            "UPDATE steps SET state = ?2, since = ?3, ended_at = ?4, held_by = NULL,
                 last_error = ?5
             WHERE id = ?1",
            params![id, to.as_str(), now_us, ended_at, error],
        )?;
        self.moved(num, from, to, 1, now)
    }

    /// Carries out what a step's move changes in other steps, and notifies people.
    pub(super) fn follow(
        &mut self,
        num: i64,
        id: i64,
        effects: step::Effects,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        if effects.releases_held {
            self.release_stuck(num, &[id], now)?;
        }
        match effects.dependents {
            Some(Trigger::DependenciesEnded) => {
                self.drop_pending_clearances(id)?;
                self.release_dependents(num, id, now)?;
            }
            Some(Trigger::DependencyStuck) => self.propagate_stuck(num, id, now)?,
            _ => {}
        }
        if effects.notifies {
            self.tell_person(num, id, now)?;
        }
        Ok(())
    }

    fn current_step(&self, id: i64) -> Sql<Option<CurrentStep>> {
        self.first(
            "SELECT state, claim, epoch, deletion, record, looks, waits
                 FROM steps WHERE id = ?1",
            [id],
            |row| {
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
            },
        )
    }

    fn write_outcome(&self, current: &CurrentStep, to: StepState, change: &StepChange) -> Sql<()> {
        let now = rows::micros(change.now);
        // Without a next attempt the step is due now; otherwise it would never be.
        let due = match to {
            StepState::Blocked | StepState::Verifying => {
                Some(change.decision.next_attempt_at.map_or(now, rows::micros))
            }
            _ => None,
        };
        let looks = match change.decision.observed_again {
            true => current.looks.saturating_add(1),
            false => 0,
        };
        let blockers = (!change.decision.blockers.is_empty())
            .then(|| rows::json(&change.decision.blockers))
            .transpose()?;
        let error = change.decision.error.as_ref().map(rows::json).transpose()?;
        self.run(
            // A step that waits for an observation has been on its way since it was sent.
            "UPDATE steps SET state = ?2, since = CASE
                         WHEN state = ?2 OR state = 'running' AND ?2 = 'verifying' THEN since
                         ELSE ?3 END,
                     attempts = ?4, next_attempt_at = ?5, blocked_since = ?6, blockers = ?7,
                     last_error = ?8, looks = ?9, held_by = NULL,
                     own_attempt_at = CASE WHEN ?2 IN ('ready', 'verifying') THEN own_attempt_at END
                 WHERE id = ?1",
            params![
                change.step_id,
                to.as_str(),
                now,
                change.decision.attempts,
                due,
                change.decision.blocked_since.map(rows::micros),
                blockers,
                error,
                looks
            ],
        )?;
        if has_ended(to) {
            // Written separately: `ended_at` decides over an index that other outcomes need not touch.
            self.run(
                "UPDATE steps SET ended_at = ?2 WHERE id = ?1",
                params![change.step_id, now],
            )?;
        }
        Ok(())
    }

    /// Ends the tombstone of a step that has one, in the transaction that ends the step (T9).
    pub(super) fn end_tombstone(
        &self,
        num: i64,
        record: Option<i64>,
        phase: Option<Phase>,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let (Some(record), Some(phase)) = (record, phase) else {
            return Ok(());
        };
        let gone_at = (phase == Phase::Gone).then(|| rows::micros(now));
        let ended = self.run(
            "UPDATE tombstones SET phase = ?3, gone_at = ?4
                 WHERE record_id = ?1 AND deletion = ?2",
            params![record, num, phase.as_str(), gone_at],
        )?;
        if ended > 0 {
            self.run("DELETE FROM snapshots WHERE record = ?1", params![record])?;
        }
        Ok(())
    }

    /// Writes a line of the step's timeline, unless an observation found nothing new.
    fn tell(&self, num: i64, from: StepState, to: StepState, change: &StepChange) -> Sql<()> {
        if from == to && change.decision.error.is_none() {
            return Ok(());
        }
        let happened = events::answered(from, to, change);
        self.event(Some(num), Some(change.step_id), &happened, change.now)
    }
}

/// Whether the step is blocked until importers give their clearance.
fn needs_clearance(change: &StepChange) -> bool {
    change
        .decision
        .error
        .as_ref()
        .is_some_and(|error| error.kind == AWAITED)
}
