//! Reads of deletions, of their requests, and of the identities frozen in their plans.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, params};

use super::pages;
use super::sql::{Run, Sql};
use crate::domain::model::Identity;
use crate::ledger::DeletionFilter;
use crate::ledger::store::decode::{self, DELETION, REQUEST};
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{DeletionReads, StoredDeletion, StoredRequest};

impl<R: Run> DeletionReads for R {
    fn find_deletions_ending(&self, suffix: &str, limit: usize) -> Sql<Vec<i64>> {
        // The index covers only the last 8 characters of an id.
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

    fn load_deletions(&self, nums: &[i64]) -> Sql<Vec<StoredDeletion>> {
        let sql = format!("SELECT {DELETION} FROM deletions d WHERE d.num = ?1");
        let mut one = self.db().prepare_cached(&sql)?;
        let mut found = Vec::with_capacity(nums.len());
        for num in nums {
            found.extend(
                one.query_row([num], |row| Ok(decode::deletion(row)?))
                    .optional()?,
            );
        }
        Ok(found)
    }

    fn load_requests(&self, nums: &[i64]) -> Sql<Vec<(i64, StoredRequest)>> {
        let mut one = self.db().prepare_cached(&format!(
            "SELECT {REQUEST} FROM requests r JOIN deletions d ON d.num = r.num WHERE r.num = ?1"
        ))?;
        let mut found = Vec::with_capacity(nums.len());
        for num in nums {
            found.extend(
                one.query_row([num], |row| Ok(decode::request(row)?))
                    .optional()?,
            );
        }
        Ok(found)
    }

    fn load_identities(&self, num: i64) -> Sql<Option<BTreeMap<String, Identity>>> {
        let sql = "SELECT frozen -> '$.identities' FROM requests WHERE num = ?1";
        self.first(sql, [num], |row| Ok(row.json_or_default(0)?))
    }
}
