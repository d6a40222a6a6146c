//! The rows of requests and plans, in the SQL of all stores.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Stored;
use super::plans::{KEPT, NewStep, OriginalCopies, PlanRows, StoredRequest};
use super::sql::{Decoded, Each, ReadColumns as _, SqlValue, Writes, json, json_opt, key_values};
use crate::domain::model::{DeletionState, OnFailure, Plan, Refusal, ResourceKey};
use crate::domain::outline::Branch;
use crate::ledger::{KeyedRequest, NewDeletion};

/// Number of steps that are inserted together: a store on a server has their columns in memory twice, as values and as
/// a message.
const INSERTED_TOGETHER: usize = 5_000;

impl<S: Writes> PlanRows for S {
    fn save_plan(&self, plan: &Plan, now: DateTime<Utc>) -> Stored<Self> {
        self.write_all(&[
            (
                "DELETE FROM plans WHERE saved_at <= $1",
                &[(now - KEPT).into()],
            ),
            (
                "INSERT INTO plans(hash, body, saved_at) VALUES($1, $2, $3)
                 ON CONFLICT(hash) DO UPDATE
                 SET body = excluded.body, saved_at = excluded.saved_at",
                &[(&plan.hash).into(), json(plan)?.into(), now.into()],
            ),
        ])
    }

    fn keep_request(
        &self,
        request: &KeyedRequest,
        deletion: &str,
        answer: Option<&Value>,
        now: DateTime<Utc>,
    ) -> Stored<Self> {
        let answer = answer.map(json).transpose()?;
        self.write_all(&[
            (
                "DELETE FROM idempotency WHERE at <= $1",
                &[(now - KEPT).into()],
            ),
            (
                "INSERT INTO idempotency(actor, key, body, deletion, answer, at)
                 VALUES($1, $2, $3, $4, $5, $6)",
                &[
                    json(&request.actor)?.into(),
                    (&request.key).into(),
                    (&request.body).into(),
                    deletion.into(),
                    answer.as_deref().into(),
                    now.into(),
                ],
            ),
        ])
    }

    fn save_request(&self, num: i64, request: &StoredRequest) -> Stored<Self> {
        let sql = "UPDATE requests SET options = $2, reason = $3, deadline = $4 WHERE num = $1";
        let values = [
            num.into(),
            json(&request.options)?.into(),
            (&request.reason).into(),
            request.deadline.into(),
        ];
        self.write(sql, &values).map(drop)
    }

    fn save_refusals(&self, num: i64, refused: &[Refusal]) -> Stored<Self> {
        let sql = "UPDATE requests SET refused = $2 WHERE num = $1";
        self.write(sql, &[num.into(), json(refused)?.into()])
            .map(drop)
    }

    fn save_frozen(&self, num: i64, header: &Plan) -> Stored<Self> {
        let sql = "UPDATE requests SET frozen = $2, plan_hash = $3 WHERE num = $1";
        let values = [num.into(), json(header)?.into(), (&header.hash).into()];
        self.write(sql, &values).map(drop)
    }

    fn save_snapshot(&self, record: i64, shown: &Value) -> Stored<Self> {
        let sql = "INSERT INTO snapshots(record, shown) VALUES($1, $2)
             ON CONFLICT(record) DO UPDATE SET shown = excluded.shown";
        self.write(sql, &[record.into(), json(shown)?.into()])
            .map(drop)
    }

    fn first_free_step(&self) -> Stored<Self, i64> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM steps";
        self.read_one(sql, &[], |row| row.read(0))
    }

    fn insert_deletion(&self, wanted: &NewDeletion, root: Option<&str>) -> Stored<Self, i64> {
        let num: i64 = self.read_one(Self::DIALECT.next_deletion, &[], |row| row.read(0))?;
        self.write_all(&[
            (
                "INSERT INTO deletions(num, id, state, stops, requested_at)
                 VALUES($1, $2, $3, $4, $5)",
                &[
                    num.into(),
                    (&wanted.id).into(),
                    DeletionState::Planning.into(),
                    (wanted.options.on_failure == OnFailure::Stop).into(),
                    wanted.now.into(),
                ],
            ),
            (
                "INSERT INTO requests(num, targets, options, plan_hash, actor, reason, cause,
                     copies, root, deadline)
                 VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                &[
                    num.into(),
                    json(&wanted.targets)?.into(),
                    json(&wanted.options)?.into(),
                    wanted.plan_hash.as_deref().into(),
                    json(&wanted.actor)?.into(),
                    (&wanted.reason).into(),
                    wanted.cause.as_deref().into(),
                    json(&wanted.copies)?.into(),
                    root.into(),
                    wanted.deadline.into(),
                ],
            ),
        ])?;
        Ok(num)
    }

    fn insert_branches(
        &self,
        deletion: i64,
        first_step: i64,
        branches: &[Branch],
    ) -> Stored<Self, i64> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM branches";
        let first: i64 = self.read_one(sql, &[], |row| row.read(0))?;
        let rows = branches.iter().map(|branch| {
            [
                (first + branch.id).into(),
                deletion.into(),
                branch.below.map(|position| first_step + position).into(),
                (&branch.site).into(),
                (&branch.kind).into(),
                branch.action.into(),
                branch.leaf.into(),
            ]
        });
        let into = "branches(id, deletion, below, site, kind, action, leaf)";
        self.insert_rows(into, rows.collect(), "")?;
        Ok(first)
    }

    fn insert_steps(&self, new: &[NewStep<'_>]) -> Stored<Self> {
        for some in new.chunks(INSERTED_TOGETHER) {
            let rows = some.iter().map(|step| -> Decoded<[SqlValue<'_>; 21]> {
                let planned = step.planned;
                let vars = (!planned.vars.is_empty()).then_some(&*planned.vars);
                Ok([
                    step.id.into(),
                    step.deletion.into(),
                    step.state.into(),
                    step.waits.into(),
                    step.rank.into(),
                    step.since.into(),
                    step.max_attempts.into(),
                    step.record.into(),
                    step.position.into(),
                    (&planned.site).into(),
                    (&planned.kind).into(),
                    (&planned.resource_id).into(),
                    planned.action.into(),
                    (&planned.name).into(),
                    (&*planned.project_id).into(),
                    json_opt(vars)?.into(),
                    (&*planned.why).into(),
                    (&planned.fingerprint).into(),
                    step.branch.into(),
                    step.left_to.into(),
                    json_opt(step.error.as_ref())?.into(),
                ])
            });
            let rows = rows.collect::<Decoded<_>>()?;
            let into = "steps(id, deletion, state, waits, rank, since, max_attempts, record,
                 position, site, kind, resource, action, name, project, vars, why, fingerprint,
                 branch, left_to, last_error)";
            self.insert_rows(into, rows, "")?;
        }
        Ok(())
    }

    fn insert_edges(&self, edges: &[(i64, i64)]) -> Stored<Self> {
        let rows = edges
            .iter()
            .map(|(from, to)| [(*from).into(), (*to).into()]);
        let into = "edges(dependency, dependent)";
        self.insert_rows(into, rows.collect(), "ON CONFLICT DO NOTHING")
    }

    fn remember_copies(&self, deletion: i64, copies: &[OriginalCopies]) -> Stored<Self> {
        let each = Each {
            columns: "record_id",
            from: "tombstones WHERE id = $1 AND kind = $2 AND site = $3 AND deletion = $4",
            ..Each::default()
        };
        let originals = copies.iter().map(|of| {
            let [id, kind, site] = key_values(&of.original);
            [id, kind, site, deletion.into()]
        });
        let (mut sites, mut named) = (Vec::new(), Vec::new());
        // The last original counts, if several have the same part.
        let mut parts: BTreeMap<&ResourceKey, i64> = BTreeMap::new();
        self.visit_each(&each, originals.collect(), &mut |place, row| {
            let (of, record): (_, i64) = (&copies[place], row.read(0)?);
            sites.push([record.into(), json(&of.sites)?.into()]);
            parts.extend(of.parts.iter().map(|part| (part, record)));
            if let Some((name, project)) = &of.name {
                let [_, kind, site] = key_values(&of.original);
                named.push([record.into(), site, kind, name.into(), project.into()]);
            }
            Ok(())
        })?;
        let parts = parts.into_iter().map(|(part, record)| {
            let [id, kind, site] = key_values(part);
            [id, kind, site, record.into()]
        });
        let change = "UPDATE tombstones SET copies_at = $2";
        self.write_each(change, "record_id = $1", sites)?;
        self.insert_rows(
            "parts(id, kind, site, record)",
            parts.collect(),
            "ON CONFLICT(id, kind, site) DO UPDATE SET record = excluded.record",
        )?;
        self.insert_rows(
            "namesakes(record, site, kind, name, project)",
            named,
            "ON CONFLICT(record) DO UPDATE SET site = excluded.site, kind = excluded.kind,
                 name = excluded.name, project = excluded.project",
        )
    }
}
