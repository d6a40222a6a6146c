//! The rows of requests and plans.

use rusqlite::params;

use super::sql::{Run, Sql};
use super::transaction::SqliteRows;
use super::{outline, rows};
use crate::domain::model::{DeletionState, OnFailure};
use crate::domain::outline::Branch;
use crate::ledger::NewDeletion;
use crate::ledger::store::{NewStep, OriginalCopies, PlanRows};

impl PlanRows for SqliteRows<'_> {
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
