//! Reads of deletions, of their requests and plans, and sums over all deletions, in the SQL of all stores.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::decode::{self, DELETION, REQUEST};
use super::plans::StoredRequest;
use super::reads::{DeletionReads, Totals};
use super::sql::{ReadColumns as _, Statements, json};
use super::{Stored, StoredDeletion, sql_pages};
use crate::domain::last_day::LastDay;
use crate::domain::model::{Actor, Identity, Plan};
use crate::ledger::{DeletionFilter, KeptRequest};

impl<S: Statements> DeletionReads for S {
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

    fn find_deletions_ending(&self, suffix: &str, limit: usize) -> Stored<Self, Vec<i64>> {
        // The index covers only the last 8 characters of an id.
        let Some(indexed) = suffix.len().checked_sub(8).and_then(|at| suffix.get(at..)) else {
            return Ok(Vec::new());
        };
        let sql = format!(
            "SELECT num FROM deletions WHERE {} = $1
                 AND substr(id, length(id) - length($2) + 1) = $2
             ORDER BY num LIMIT $3",
            Self::DIALECT.short_id
        );
        let values = [indexed.into(), suffix.into(), limit.into()];
        self.read_all(&sql, &values, |row| row.read(0))
    }

    fn find_deletions(
        &self,
        filter: &DeletionFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Stored<Self, Vec<i64>> {
        sql_pages::deletions(self, filter, after, limit)
    }

    fn load_deletions(&self, nums: &[i64]) -> Stored<Self, Vec<StoredDeletion>> {
        let from = "deletions d WHERE d.num = $1";
        self.read_numbered((DELETION, from), nums, decode::deletion)
    }

    fn load_requests(&self, nums: &[i64]) -> Stored<Self, Vec<(i64, StoredRequest)>> {
        let from = "requests r JOIN deletions d ON d.num = r.num WHERE r.num = $1";
        self.read_numbered((REQUEST, from), nums, decode::request)
    }

    fn load_identities(&self, num: i64) -> Stored<Self, Option<BTreeMap<String, Identity>>> {
        let sql = format!(
            "SELECT CAST(frozen{} -> 'identities' AS text) FROM requests WHERE num = $1",
            Self::DIALECT.as_json
        );
        self.read_first(&sql, &[num.into()], |row| row.json_or_default(0))
    }
}
