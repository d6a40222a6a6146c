//! Accepting and refusing a deletion, with its tombstones; saving plans.

use chrono::{DateTime, Utc};
use rusqlite::params;
use serde_json::{Value, json};

use super::batch::Batch;
use super::fences::Fences;
use super::reads::{KEPT, kept_request};
use super::rows;
use super::sql::{Apply, Run, Sql, refuse};
use crate::domain::canonical;
use crate::domain::model::{
    DeletionState, OnFailure, Phase, Plan, Refusal, ResourceKey, Target, short_id,
};
use crate::ledger::events;
use crate::ledger::transitions::deletion;
use crate::ledger::{Applied, KeyedRequest, NewDeletion};

impl Batch<'_> {
    pub(super) fn save_plan(&mut self, plan: &Plan, now: DateTime<Utc>) -> Apply {
        let expired = rows::micros(now - KEPT);
        self.run("DELETE FROM plans WHERE saved_at <= ?1", params![expired])?;
        self.run(
            "INSERT OR REPLACE INTO plans(hash, body, saved_at) VALUES(?1, ?2, ?3)",
            params![plan.hash, rows::json(plan)?, rows::micros(now)],
        )?;
        Ok(Applied::Done)
    }

    pub(super) fn accept(&mut self, wanted: &NewDeletion) -> Apply {
        if wanted.targets.is_empty() {
            return refuse("a deletion needs a target".to_owned());
        }
        if let Some(answer) = self.answered_before(wanted)? {
            return Ok(answer);
        }
        for target in &wanted.targets {
            if let Some(deletion_id) = self.in_the_hands_of(&target.key)? {
                self.prolong(&deletion_id, wanted.deadline)?;
                return Ok(Applied::Accepted {
                    deletion_id,
                    existing: true,
                });
            }
        }
        for copy in &wanted.copies {
            if let Some(deletion_id) = self.in_the_hands_of(copy)? {
                return refuse(format!(
                    "its copy {copy} is being deleted by deletion {}; delete it when that has ended",
                    short_id(&deletion_id)
                ));
            }
        }
        let num = self.insert_deletion(wanted)?;
        self.raise_checking(num, &wanted.targets, &wanted.copies, wanted.now)?;
        self.remember_shown(wanted)?;
        self.remember_key(wanted)?;
        self.audit(&wanted.audit, wanted.now);
        self.event(
            Some(num),
            None,
            events::accepted(&wanted.id, wanted.targets.len()),
            wanted.now,
        );
        Ok(Applied::Accepted {
            deletion_id: wanted.id.clone(),
            existing: false,
        })
    }

    /// Answers a request with the same id or idempotency key again: with the same deletion, or with a refusal
    /// if the key was used for another request.
    fn answered_before(&self, wanted: &NewDeletion) -> Sql<Option<Applied>> {
        if self.find(&wanted.id)?.is_some() {
            return Ok(Some(Applied::Accepted {
                deletion_id: wanted.id.clone(),
                existing: true,
            }));
        }
        let Some(key) = &wanted.idempotency_key else {
            return Ok(None);
        };
        let body = fingerprint(wanted)?;
        let before = kept_request(self.db, &wanted.actor, key, wanted.now)?;
        Ok(before.map(|before| match before.body == body {
            true => Applied::Accepted {
                deletion_id: before.deletion,
                existing: true,
            },
            false => Applied::KeyReused(before.other_use()),
        }))
    }

    fn remember_key(&self, wanted: &NewDeletion) -> Sql<()> {
        let Some(key) = &wanted.idempotency_key else {
            return Ok(());
        };
        let request = KeyedRequest {
            actor: wanted.actor.clone(),
            key: key.clone(),
            body: fingerprint(wanted)?,
        };
        self.remember_request(&request, &wanted.id, None, wanted.now)
    }

    fn remember_shown(&self, wanted: &NewDeletion) -> Sql<()> {
        for (key, shown) in &wanted.shown {
            self.run(
                "INSERT OR REPLACE INTO snapshots(record, shown)
                 SELECT record_id, ?4 FROM tombstones WHERE id = ?1 AND kind = ?2 AND site = ?3",
                params![
                    key.id,
                    key.kind.as_str(),
                    key.site.to_string(),
                    rows::json(shown)?
                ],
            )?;
        }
        Ok(())
    }

    /// The deletion whose tombstone covers this resource, if it may still move or be moved.
    pub(super) fn in_the_hands_of(&self, key: &ResourceKey) -> Sql<Option<String>> {
        self.first(
            "SELECT d.id FROM tombstones t JOIN deletions d ON d.num = t.deletion
                 WHERE t.id = ?1 AND t.kind = ?2 AND t.site = ?3
                   AND t.phase IN ('checking', 'deleting')
                   AND NOT (d.state IN ('refused', 'cancelled') AND d.finished_at IS NOT NULL)",
            params![key.id, key.kind.as_str(), key.site.to_string()],
            |row| row.get(0),
        )
    }

    /// A repeated request may wait for longer.
    fn prolong(&self, deletion_id: &str, deadline: Option<DateTime<Utc>>) -> Sql<()> {
        let Some(deadline) = deadline.map(rows::micros) else {
            return Ok(());
        };
        self.run(
            "UPDATE requests SET deadline = max(ifnull(deadline, 0), ?2)
             WHERE num = (SELECT num FROM deletions WHERE id = ?1)",
            params![deletion_id, deadline],
        )
        .map(drop)
    }

    pub(super) fn insert_deletion(&mut self, wanted: &NewDeletion) -> Sql<i64> {
        self.run(
            "INSERT INTO deletions(id, state, stops, requested_at) VALUES(?1, ?2, ?3, ?4)",
            params![
                wanted.id,
                DeletionState::Planning.as_str(),
                wanted.options.on_failure == OnFailure::Stop,
                rows::micros(wanted.now)
            ],
        )?;
        let num = self.db.last_insert_rowid();
        self.run(
            "INSERT INTO requests(num, targets, options, plan_hash, actor, reason, cause, copies,
                     root, deadline)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                num,
                rows::json(&wanted.targets)?,
                rows::json(&wanted.options)?,
                wanted.plan_hash,
                rows::json(&wanted.actor)?,
                wanted.reason,
                wanted.cause,
                rows::json(&wanted.copies)?,
                self.root_by(wanted.cause.as_deref())?,
                wanted.deadline.map(rows::micros)
            ],
        )?;
        self.set.adopt(num)?;
        Ok(num)
    }

    pub(super) fn raise_checking(
        &self,
        num: i64,
        targets: &[Target],
        copies: &[ResourceKey],
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let mut fences = Fences::prepare(self.db)?;
        let targets = targets.iter().map(|target| &target.key);
        for key in targets.chain(copies) {
            let identity = (key.id.as_str(), &key.kind, &*key.site.to_string());
            fences.raise(num, identity, Phase::Checking, now)?;
        }
        Ok(())
    }

    pub(super) fn refuse(
        &mut self,
        deletion_id: &str,
        refused: &[Refusal],
        note: &str,
        now: DateTime<Utc>,
    ) -> Apply {
        let num = self.before_start(deletion_id)?;
        self.set.release_checking(num, now)?;
        self.run(
            "UPDATE requests SET refused = ?2 WHERE num = ?1",
            params![num, rows::json(refused)?],
        )?;
        let why = refused.first().map_or(note, |first| first.reason.as_str());
        self.event(
            Some(num),
            None,
            events::refused(deletion_id, refused.len(), why, note),
            now,
        );
        note.clone_into(&mut self.deletion(num)?.note);
        self.move_deletion(num, deletion::Trigger::PlanRefused, now)?;
        Ok(Applied::Done)
    }

    pub(super) fn still_planning(
        &mut self,
        deletion_id: &str,
        note: &str,
        now: DateTime<Utc>,
    ) -> Apply {
        let num = self.before_start(deletion_id)?;
        if self.deletion(num)?.note == note {
            return Ok(Applied::Done);
        }
        note.clone_into(&mut self.deletion(num)?.note);
        self.event(Some(num), None, events::delayed(deletion_id, note), now);
        Ok(Applied::Done)
    }

    /// The deletion's number, if its plan may still start or be refused.
    pub(super) fn before_start(&mut self, deletion_id: &str) -> Apply<i64> {
        let num = self.found(deletion_id)?;
        self.check(num, deletion::Trigger::PlanStarted)?;
        Ok(num)
    }

    pub(super) fn keep_answer(
        &mut self,
        request: &KeyedRequest,
        answer: &Value,
        now: DateTime<Utc>,
    ) -> Apply {
        self.remember_request(request, "", Some(answer), now)?;
        Ok(Applied::Done)
    }

    /// `deletion`: the id of the deletion that the request asked for, or empty.
    fn remember_request(
        &self,
        request: &KeyedRequest,
        deletion: &str,
        answer: Option<&Value>,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let expired = rows::micros(now - KEPT);
        self.run("DELETE FROM idempotency WHERE at <= ?1", params![expired])?;
        let answer = answer.map(rows::json).transpose()?;
        self.run(
            "INSERT INTO idempotency(actor, key, body, deletion, answer, at)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                rows::json(&request.actor)?,
                request.key,
                request.body,
                deletion,
                answer,
                rows::micros(now)
            ],
        )
        .map(drop)
    }
}

/// A hash by which two requests count as the same.
fn fingerprint(wanted: &NewDeletion) -> Sql<String> {
    let body = rows::json(&json!({
        "targets": wanted.targets,
        "options": wanted.options,
        "plan_hash": wanted.plan_hash,
        "reason": wanted.reason,
    }))?;
    Ok(canonical::hash(body))
}
