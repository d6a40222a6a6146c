//! Requests, plans without their steps, and sums over all deletions, in the SQL of all stores.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Stored;
use super::decode;
use super::plans::{KEPT, RequestRows, StoredRequest};
use super::reads::{RequestReads, Totals};
use super::sql::{ReadColumns as _, Statements, Writes, json};
use crate::domain::last_day::LastDay;
use crate::domain::model::{Actor, Plan, Refusal};
use crate::ledger::{KeptRequest, KeyedRequest};

impl<S: Statements> RequestReads for S {
    fn find_deletion(&self, id: &str) -> Stored<Self, Option<i64>> {
        let sql = "SELECT num FROM deletions WHERE id = $1";
        self.read_first(sql, &[id.into()], |row| row.read(0))
    }

    fn count_ended(&self, since: DateTime<Utc>) -> Stored<Self, LastDay> {
        let sql = "SELECT count(*), CAST(coalesce(sum(gone), 0) AS bigint) FROM deletions
             WHERE finished_at > $1 AND state <> 'stuck'";
        self.read_one(sql, &[since.into()], |row| {
            Ok(LastDay {
                deletions: row.read(0)?,
                gone: row.read(1)?,
            })
        })
    }

    fn load_frozen(&self, num: i64) -> Stored<Self, Option<Plan>> {
        let sql = "SELECT frozen FROM requests WHERE num = $1 AND frozen IS NOT NULL";
        self.read_first(sql, &[num.into()], |row| row.json(0))
    }

    fn load_plan(&self, hash: &str, since: DateTime<Utc>) -> Stored<Self, Option<Plan>> {
        let sql = "SELECT body FROM plans WHERE hash = $1 AND saved_at > $2";
        self.read_first(sql, &[hash.into(), since.into()], |row| row.json(0))
    }

    fn find_request(
        &self,
        actor: &Actor,
        key: &str,
        since: DateTime<Utc>,
    ) -> Stored<Self, Option<KeptRequest>> {
        let sql = "SELECT body, deletion, answer FROM idempotency
             WHERE actor = $1 AND key = $2 AND at > $3";
        let values = [json(actor)?.into(), key.into(), since.into()];
        self.read_first(sql, &values, decode::kept_request)
    }

    fn load_totals(&self) -> Stored<Self, Totals> {
        let sql = "SELECT name, n FROM counters";
        let counters = self.read_all(sql, &[], |row| Ok((row.read(0)?, row.read(1)?)))?;
        Ok(Totals::from_counters(&counters.into_iter().collect()))
    }
}

impl<S: Writes> RequestRows for S {
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
}
