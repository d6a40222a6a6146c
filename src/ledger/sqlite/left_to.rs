//! Steps that are left to another deletion, and share the fate of its step (P9, I9).
//!
//! `steps.left_to` names the step of the other deletion, the *owner*. While the owner is live, the step
//! waits for it; nothing is sent for it. Then, in the transaction that moves the owner:
//!
//! 1. the owner is confirmed gone: the step is gone;
//! 2. the owner is stuck: the step is stuck, and says which deletion to retry;
//! 3. the owner goes on: the step waits again;
//! 4. the owner was cancelled before anything was sent, so its resource stays: the step takes the
//!    resource over, since its own deletion was approved to delete it;
//! 5. the owner was abandoned: the step takes the resource over, but a person decides (stuck).
//!
//! Triggers note in `owners_moved` each owner that ends, gets stuck or goes on, and the owner of each step
//! that is no longer held, whichever change caused it; [`Batch::settle_left_steps`] settles the steps once
//! per transaction.
//!
//! No steps wait in a circle: a step is left only to a deletion that started earlier, and a resource is taken
//! over by the earliest of the steps that were left.

use chrono::{DateTime, Utc};
use rusqlite::params;

use super::batch::Batch;
use super::intents::Fences;
use super::rows;
use super::sql::{Run, Sql};
use crate::domain::ladder::{FORGOTTEN, LEFT_TO};
use crate::domain::model::{Action, ErrorClass, KindName, Phase, StepError, StepState, short_id};
use crate::ledger::events::{self, Happened};
use crate::ledger::transitions::has_ended;
use crate::ledger::transitions::step::{Facts, Trigger};

/// A live step that is left to another deletion, and the state of that deletion's step.
struct LeftStep {
    id: i64,
    deletion: i64,
    state: StepState,
    held_by: Option<i64>,
    owner: i64,
    owner_state: StepState,
}

impl LeftStep {
    fn key(&self) -> (i64, i64) {
        (self.deletion, self.id)
    }

    fn facts(&self) -> Facts {
        Facts {
            held: self.held_by.is_some(),
            left: true,
            ..Facts::default()
        }
    }
}

impl Batch<'_> {
    /// Notes the owners of a deletion's steps, which may have moved before it started.
    pub(super) fn note_owners(&mut self, num: i64, now: DateTime<Utc>) -> Sql<()> {
        self.moved_at = Some(now);
        self.run(
            "INSERT OR IGNORE INTO owners_moved(step)
             SELECT left_to FROM steps WHERE deletion = ?1 AND left_to IS NOT NULL",
            params![num],
        )
        .map(drop)
    }

    /// Settles the steps that were left to owners that have moved, and the steps left to those in turn.
    pub(super) fn settle_left_steps(&mut self, now: DateTime<Utc>) -> Sql<()> {
        loop {
            let left: Vec<i64> = self.all(
                "SELECT s.id FROM owners_moved m
                     JOIN steps s INDEXED BY steps_left ON s.left_to = m.step
                     WHERE s.left_to IS NOT NULL AND s.ended_at IS NULL ORDER BY s.id",
                (),
                |row| row.get(0),
            )?;
            self.run("DELETE FROM owners_moved", ())?;
            if left.is_empty() {
                return Ok(());
            }
            for id in left {
                // Read now: an earlier step of this loop may have moved it.
                if let Some(step) = self.left_step(id)? {
                    self.settle_left_step(&step, now)?;
                }
            }
        }
    }

    /// None if the step has ended, or has been taken over.
    fn left_step(&self, id: i64) -> Sql<Option<LeftStep>> {
        self.first(
            "SELECT s.id, s.deletion, s.state, s.held_by, o.id, o.state
                 FROM steps s JOIN steps o ON o.id = s.left_to
                 WHERE s.id = ?1 AND s.ended_at IS NULL",
            [id],
            |row| {
                Ok(LeftStep {
                    id: row.get(0)?,
                    deletion: row.get(1)?,
                    state: rows::word(row, 2)?,
                    held_by: row.get(3)?,
                    owner: row.get(4)?,
                    owner_state: rows::word(row, 5)?,
                })
            },
        )
    }

    fn settle_left_step(&mut self, step: &LeftStep, now: DateTime<Utc>) -> Sql<()> {
        match step.owner_state {
            StepState::Gone => self.gone_with_owner(step, now)?,
            StepState::Skipped | StepState::Purged => self.take_over(step, now)?,
            StepState::Stuck => self.stuck_with_owner(step, now)?,
            StepState::Waiting
            | StepState::Ready
            | StepState::Running
            | StepState::Verifying
            | StepState::Blocked => self.wait_for_owner(step, now)?,
        }
        self.derive_state(step.deletion, now)
    }

    fn gone_with_owner(&mut self, step: &LeftStep, now: DateTime<Utc>) -> Sql<()> {
        let next = self.next(step.state, Trigger::OwnerGone, step.facts())?;
        self.put_step(step.key(), step.state, next.state, None, now)?;
        self.tell_left(
            step,
            &events::owner_gone(&self.deletion_of(step.owner)?),
            now,
        )?;
        self.follow(step.deletion, step.id, next.effects, now)
    }

    fn stuck_with_owner(&mut self, step: &LeftStep, now: DateTime<Utc>) -> Sql<()> {
        if step.state == StepState::Stuck {
            return Ok(());
        }
        let why: String = self.one(
            "SELECT coalesce(last_error ->> 'message', '') FROM steps WHERE id = ?1",
            [step.owner],
            |row| row.get(0),
        )?;
        let by = self.deletion_of(step.owner)?;
        let message =
            format!("deletion {by} deletes it, and is stuck there: {why}; next: gone retry {by}");
        self.stick(step, Trigger::OwnerStuck, LEFT_TO, message, now)
    }

    fn wait_for_owner(&mut self, step: &LeftStep, now: DateTime<Utc>) -> Sql<()> {
        let next = self.next(step.state, Trigger::OwnerContinues, step.facts())?;
        if next.state == step.state {
            return Ok(());
        }
        if let Some(root) = self.holder_of(step.deletion, step.id)? {
            return self.mark_stuck_behind(step.deletion, step.id, root, now);
        }
        let by = self.deletion_of(step.owner)?;
        let error = waiting_error(&by, now)?;
        self.run(
            "UPDATE steps SET state = ?4, since = ?2, last_error = ?3, told = 0 WHERE id = ?1",
            params![step.id, rows::micros(now), error, next.state.as_str()],
        )?;
        self.moved(step.deletion, step.state, next.state, 1, now)?;
        self.tell_left(step, &events::owner_continues(&by), now)?;
        self.follow(step.deletion, step.id, next.effects, now)
    }

    /// The owner did not delete the resource: from here on this deletion does, as it was approved to. Other
    /// steps that were left to the same owner are left to this one.
    fn take_over(&mut self, step: &LeftStep, now: DateTime<Utc>) -> Sql<()> {
        let (kind, record) = self.raise_fence_of(step, now)?;
        self.run(
            "UPDATE steps SET left_to = NULL, record = ?2, last_error = NULL WHERE id = ?1",
            params![step.id, record],
        )?;
        self.leave_to(step, now)?;
        self.run(
            "INSERT OR IGNORE INTO owners_moved(step) VALUES(?1)",
            params![step.id],
        )?;
        if let (Some(importers), Some(_)) = (self.importers_by_kind()?.get(&kind), record) {
            self.await_clearance(step.id, importers)?;
        }
        let by = self.deletion_of(step.owner)?;
        if step.owner_state == StepState::Purged {
            let message = format!(
                "deletion {by} abandoned it, and it may still exist; next: retry, and this \
                 deletion deletes it"
            );
            return self.stick(step, Trigger::OwnerAbandoned, FORGOTTEN, message, now);
        }
        // A dependency was abandoned meanwhile: only a person's retry sends this step.
        let forgotten = self.first(
            "SELECT d.id FROM edges e JOIN steps d ON d.id = e.dependency
                 WHERE e.dependent = ?1 AND d.state = 'purged' LIMIT 1",
            [step.id],
            |row| row.get(0),
        )?;
        if let Some(forgotten) = forgotten {
            let message = self.waited_for_forgotten(forgotten)?;
            return self.stick(step, Trigger::DependencyAbandoned, FORGOTTEN, message, now);
        }
        let holder = self.holder_of(step.deletion, step.id)?;
        let waits = self.one(
            "SELECT waits > 0 FROM steps WHERE id = ?1",
            [step.id],
            |row| row.get(0),
        )?;
        let facts = Facts {
            waits,
            held: holder.is_some(),
            ..Facts::default()
        };
        let next = self.next(step.state, Trigger::OwnerSkipped, facts)?;
        let to = next.state;
        self.put_step(step.key(), step.state, to, None, now)?;
        self.tell_left(
            step,
            &events::left_step_taken_over(&by, to, step.owner),
            now,
        )?;
        match holder {
            Some(root) => self.mark_stuck_behind(step.deletion, step.id, root, now),
            None => self.follow(step.deletion, step.id, next.effects, now),
        }
    }

    /// Leaves the other steps that were left to the same owner to this step.
    fn leave_to(&self, step: &LeftStep, now: DateTime<Utc>) -> Sql<()> {
        let others: Vec<(i64, i64)> = self.all(
            "UPDATE steps SET left_to = ?1
                 WHERE left_to = ?2 AND left_to IS NOT NULL AND ended_at IS NULL
                 RETURNING id, deletion",
            [step.id, step.owner],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let happened = events::left_step_passed_on(&self.deletion_of(step.id)?, step.owner);
        for (id, num) in others {
            self.event(Some(num), Some(id), &happened, now)?;
        }
        Ok(())
    }

    /// Raises a tombstone for this deletion if the step takes the resource away.
    fn raise_fence_of(&self, step: &LeftStep, now: DateTime<Utc>) -> Sql<(KindName, Option<i64>)> {
        let (action, id, kind, site): (String, String, KindName, String) = self.one(
            "SELECT action, resource, kind, site FROM steps WHERE id = ?1",
            [step.id],
            |row| Ok((row.get(0)?, row.get(1)?, rows::word(row, 2)?, row.get(3)?)),
        )?;
        if action != Action::Delete.as_str() && action != Action::Detach.as_str() {
            return Ok((kind, None));
        }
        let identity = (id.as_str(), &kind, site.as_str());
        let record =
            Fences::prepare(self.db)?.raise(step.deletion, identity, Phase::Deleting, now)?;
        Ok((kind, record))
    }

    /// Makes the step stuck in its own right, with this reason: its dependents become stuck too, and people
    /// are notified.
    fn stick(
        &mut self,
        step: &LeftStep,
        trigger: Trigger,
        error_type: &str,
        message: String,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let error = left_error(error_type, message, now);
        let next = self.next(step.state, trigger, step.facts())?;
        let written = rows::json(&error)?;
        self.put_step(step.key(), step.state, next.state, Some(&written), now)?;
        let taken_from = has_ended(step.owner_state).then_some(step.owner);
        self.tell_left(step, &events::left_step_stuck(&error, taken_from), now)?;
        self.follow(step.deletion, step.id, next.effects, now)
    }

    fn tell_left(&self, step: &LeftStep, happened: &Happened, now: DateTime<Utc>) -> Sql<()> {
        self.event(Some(step.deletion), Some(step.id), happened, now)
    }

    /// The short id of the deletion to which a step belongs.
    pub(super) fn deletion_of(&self, step: i64) -> Sql<String> {
        let id: String = self.one(
            "SELECT d.id FROM steps s JOIN deletions d ON d.num = s.deletion WHERE s.id = ?1",
            [step],
            |row| row.get(0),
        )?;
        Ok(short_id(&id).to_owned())
    }
}

/// Why a step waits whose resource the deletion `by` deletes, as the JSON of its `last_error`.
pub(super) fn waiting_error(by: &str, now: DateTime<Utc>) -> Sql<String> {
    let message = format!("deletion {by} deletes it: this step ends when that one ends");
    rows::json(&left_error(LEFT_TO, message, now))
}

fn left_error(error_type: &str, message: String, now: DateTime<Utc>) -> StepError {
    rows::own_error(ErrorClass::Blocked, error_type, message, now)
}
