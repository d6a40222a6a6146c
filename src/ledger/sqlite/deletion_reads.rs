//! Reads of deletions, requests and plans.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{OptionalExtension, Row, params};

use super::deletion_rows::{self, DELETION};
use super::pages;
use super::rows;
use super::sql::{Run, Sql};
use crate::domain::last_day::LastDay;
use crate::domain::model::{Actor, Identity, Plan};
use crate::ledger::store::{DeletionReads, StoredDeletion, StoredRequest, Totals};
use crate::ledger::{DeletionFilter, KeptRequest};

impl<R: Run> DeletionReads for R {
    fn find_deletion(&self, id: &str) -> Sql<Option<i64>> {
        let sql = "SELECT num FROM deletions WHERE id = ?1";
        self.first(sql, [id], |row| row.get(0))
    }

    fn find_deletions_ending(&self, suffix: &str, limit: usize) -> Sql<Vec<i64>> {
        // The index has the last 8 characters.
        let Some(indexed) = suffix.len().checked_sub(8).and_then(|at| suffix.get(at..)) else {
            return Ok(Vec::new());
        };
        let length = i64::try_from(suffix.len()).unwrap_or(i64::MAX);
        self.all(
            "SELECT num FROM deletions WHERE substr(id, -8) = ?1 AND substr(id, ?2) = ?3 LIMIT ?4",
            params![indexed, -length, suffix, limit as i64],
            |row| row.get(0),
        )
    }

    fn find_deletions(
        &self,
        filter: &DeletionFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Sql<Vec<i64>> {
        pages::deletions(self.db(), filter, after, limit)
    }

    fn count_ended(&self, since: DateTime<Utc>) -> Sql<LastDay> {
        self.one(
            "SELECT count(*), coalesce(sum(gone), 0) FROM deletions
             WHERE finished_at > ?1 AND state <> 'stuck'",
            [rows::micros(since)],
            |row| {
                Ok(LastDay {
                    deletions: rows::number(row, 0)?,
                    gone: rows::number(row, 1)?,
                })
            },
        )
    }

    fn load_deletions(&self, nums: &[i64]) -> Sql<Vec<StoredDeletion>> {
        let sql = format!("SELECT {DELETION} FROM deletions WHERE num = ?1");
        let mut one = self.db().prepare_cached(&sql)?;
        let mut found = Vec::with_capacity(nums.len());
        for num in nums {
            found.extend(one.query_row([num], deletion_rows::deletion).optional()?);
        }
        Ok(found)
    }

    fn load_requests(&self, nums: &[i64]) -> Sql<Vec<(i64, StoredRequest)>> {
        let mut one = self.db().prepare_cached(
            "SELECT num, targets, copies, options, plan_hash, reason, root, deadline, actor, cause,
                 refused, (SELECT requested_at FROM deletions d WHERE d.num = requests.num)
             FROM requests WHERE num = ?1",
        )?;
        let mut found = Vec::with_capacity(nums.len());
        for num in nums {
            found.extend(one.query_row([num], request).optional()?);
        }
        Ok(found)
    }

    fn load_frozen(&self, num: i64) -> Sql<Option<Plan>> {
        let sql = "SELECT frozen FROM requests WHERE num = ?1 AND frozen IS NOT NULL";
        self.first(sql, [num], |row| rows::from_json(row, 0))
    }

    fn load_identities(&self, num: i64) -> Sql<Option<BTreeMap<String, Identity>>> {
        let sql = "SELECT frozen -> '$.identities' FROM requests WHERE num = ?1";
        self.first(sql, [num], |row| rows::from_json_opt(row, 0))
    }

    fn load_plan(&self, hash: &str, since: DateTime<Utc>) -> Sql<Option<Plan>> {
        self.first(
            "SELECT body FROM plans WHERE hash = ?1 AND saved_at > ?2",
            params![hash, rows::micros(since)],
            |row| rows::from_json(row, 0),
        )
    }

    fn find_request(
        &self,
        actor: &Actor,
        key: &str,
        since: DateTime<Utc>,
    ) -> Sql<Option<KeptRequest>> {
        self.first(
            "SELECT body, deletion, answer FROM idempotency
             WHERE actor = ?1 AND key = ?2 AND at > ?3",
            params![rows::json(actor)?, key, rows::micros(since)],
            |row| {
                Ok(KeptRequest {
                    body: row.get(0)?,
                    deletion: row.get(1)?,
                    answer: rows::from_json_opt(row, 2)?,
                })
            },
        )
    }

    fn load_totals(&self) -> Sql<Totals> {
        let counters = self.all("SELECT name, n FROM counters", (), |row| {
            Ok((row.get(0)?, rows::number(row, 1)?))
        })?;
        Ok(Totals::from_counters(&counters.into_iter().collect()))
    }
}

fn request(row: &Row) -> Sql<(i64, StoredRequest)> {
    let request = StoredRequest {
        targets: rows::from_json(row, 1)?,
        copies: rows::from_json(row, 2)?,
        options: rows::from_json(row, 3)?,
        plan_hash: row.get(4)?,
        reason: row.get(5)?,
        root: row.get(6)?,
        deadline: rows::time_opt(row, 7)?,
        actor: rows::from_json(row, 8)?,
        cause: row.get(9)?,
        refused: rows::from_json(row, 10)?,
        requested_at: rows::time(row, 11)?,
    };
    Ok((row.get(0)?, request))
}
