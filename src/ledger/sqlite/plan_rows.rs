//! The rows of requests and plans.

use chrono::{DateTime, Utc};
use rusqlite::params;
use serde_json::Value;

use super::sql::{Run, Sql};
use super::transaction::SqliteRows;
use super::{outline, rows};
use crate::domain::model::{DeletionState, OnFailure, Plan, Refusal};
use crate::domain::outline::Branch;
use crate::ledger::store::{KEPT, NewStep, OriginalCopies, PlanRows, StoredRequest};
use crate::ledger::{KeyedRequest, NewDeletion};

impl PlanRows for SqliteRows<'_> {
    fn save_plan(&self, plan: &Plan, now: DateTime<Utc>) -> Sql<()> {
        let expired = rows::micros(now - KEPT);
        let sql = "DELETE FROM plans WHERE saved_at <= ?1";
        self.run(sql, [expired])?;
        let sql = "INSERT OR REPLACE INTO plans(hash, body, saved_at) VALUES(?1, ?2, ?3)";
        let row = params![plan.hash, rows::json(plan)?, rows::micros(now)];
        self.run(sql, row).map(drop)
    }

    fn keep_request(
        &self,
        request: &KeyedRequest,
        deletion: &str,
        answer: Option<&Value>,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let expired = rows::micros(now - KEPT);
        let sql = "DELETE FROM idempotency WHERE at <= ?1";
        self.run(sql, [expired])?;
        let row = params![
            rows::json(&request.actor)?,
            request.key,
            request.body,
            deletion,
            answer.map(rows::json).transpose()?,
            rows::micros(now)
        ];
        let sql = "INSERT INTO idempotency(actor, key, body, deletion, answer, at)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
        self.run(sql, row).map(drop)
    }

    fn insert_deletion(&self, wanted: &NewDeletion, root: Option<&str>) -> Sql<i64> {
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
                root,
                wanted.deadline.map(rows::micros)
            ],
        )?;
        Ok(num)
    }

    fn save_request(&self, num: i64, request: &StoredRequest) -> Sql<()> {
        let (options, deadline) = (rows::json(&request.options)?, request.deadline);
        let row = params![num, options, request.reason, deadline.map(rows::micros)];
        let sql = "UPDATE requests SET options = ?2, reason = ?3, deadline = ?4 WHERE num = ?1";
        self.run(sql, row).map(drop)
    }

    fn save_refusals(&self, num: i64, refused: &[Refusal]) -> Sql<()> {
        let sql = "UPDATE requests SET refused = ?2 WHERE num = ?1";
        self.run(sql, params![num, rows::json(refused)?]).map(drop)
    }

    fn save_frozen(&self, num: i64, header: &Plan) -> Sql<()> {
        let sql = "UPDATE requests SET frozen = ?2, plan_hash = ?3 WHERE num = ?1";
        let row = params![num, rows::json(header)?, header.hash];
        self.run(sql, row).map(drop)
    }

    fn save_snapshot(&self, record: i64, shown: &Value) -> Sql<()> {
        let sql = "INSERT OR REPLACE INTO snapshots(record, shown) VALUES(?1, ?2)";
        self.run(sql, params![record, rows::json(shown)?]).map(drop)
    }

    fn first_free_step(&self) -> Sql<i64> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM steps";
        self.one(sql, (), |row| row.get(0))
    }

    fn insert_branches(&self, deletion: i64, first_step: i64, branches: &[Branch]) -> Sql<i64> {
        outline::insert(self.db, deletion, branches, |position| {
            Some(first_step + position)
        })
    }

    fn insert_steps(&self, new: &[NewStep<'_>]) -> Sql<()> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO steps(id, deletion, state, waits, rank, since, max_attempts, ended_at,
                 record, position, site, kind, resource, action, name, project, vars, why,
                 fingerprint, branch, left_to, last_error)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                 ?17, ?18, ?19, ?20, ?21)",
        )?;
        for step in new {
            let planned = step.planned;
            let vars = (!planned.vars.is_empty()).then(|| rows::json(&planned.vars));
            insert.execute(params![
                step.id,
                step.deletion,
                step.state.as_str(),
                step.waits as i64,
                step.rank,
                rows::micros(step.since),
                step.max_attempts,
                step.record,
                step.position as i64,
                planned.site.to_string(),
                planned.kind.as_str(),
                planned.resource_id,
                planned.action.as_str(),
                planned.name,
                planned.project_id,
                vars.transpose()?,
                planned.why,
                planned.fingerprint,
                step.branch,
                step.left_to,
                step.error.as_ref().map(rows::json).transpose()?
            ])?;
        }
        Ok(())
    }

    fn insert_edges(&self, edges: &[(i64, i64)]) -> Sql<()> {
        let sql = "INSERT OR IGNORE INTO edges(dependency, dependent) VALUES(?1, ?2)";
        let mut insert = self.db.prepare_cached(sql)?;
        for edge in edges {
            insert.execute(*edge)?;
        }
        Ok(())
    }

    fn remember_copies(&self, deletion: i64, copies: &[OriginalCopies]) -> Sql<()> {
        for of in copies {
            let (key, site) = (&of.original, of.original.site.to_string());
            let record: Option<i64> = self.first(
                "SELECT record_id FROM tombstones
                 WHERE id = ?1 AND kind = ?2 AND site = ?3 AND deletion = ?4",
                params![key.id, key.kind.as_str(), site, deletion],
                |row| row.get(0),
            )?;
            let Some(record) = record else {
                continue;
            };
            let sql = "UPDATE tombstones SET copies_at = ?2 WHERE record_id = ?1";
            self.run(sql, params![record, rows::json(&of.sites)?])?;
            for part in &of.parts {
                let sql =
                    "INSERT OR REPLACE INTO parts(site, kind, id, record) VALUES(?1, ?2, ?3, ?4)";
                let site = part.site.to_string();
                self.run(sql, params![site, part.kind.as_str(), part.id, record])?;
            }
            if let Some((name, project)) = &of.name {
                self.run(
                    "INSERT OR REPLACE INTO namesakes(record, site, kind, name, project)
                     VALUES(?1, ?2, ?3, ?4, ?5)",
                    params![record, site, key.kind.as_str(), name, project],
                )?;
            }
        }
        Ok(())
    }
}
