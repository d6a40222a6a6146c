//! Reads of deletions, of their requests, and of the identities frozen in their plans.

use std::collections::BTreeMap;

use super::conditions::Conditions;
use super::failed::Sql;
use super::rows::{limit, micros};
use super::transaction::PostgresRows;
use crate::domain::model::Identity;
use crate::ledger::DeletionFilter;
use crate::ledger::store::decode::{self, DELETION, REQUEST};
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{DeletionReads, StoredDeletion, StoredRequest};

impl DeletionReads for PostgresRows {
    fn find_deletions_ending(&self, suffix: &str, most: usize) -> Sql<Vec<i64>> {
        // The index covers only the last 8 characters of an id.
        let Some(indexed) = suffix.len().checked_sub(8).and_then(|at| suffix.get(at..)) else {
            return Ok(Vec::new());
        };
        self.db.all(
            "SELECT num FROM deletions WHERE right(id, 8) = $1 AND right(id, length($2)) = $2
             ORDER BY num LIMIT $3",
            &[&indexed, &suffix, &limit(most)],
            |row| Ok(row.read(0)?),
        )
    }

    fn find_deletions(
        &self,
        filter: &DeletionFilter,
        after: Option<i64>,
        most: usize,
    ) -> Sql<Vec<i64>> {
        let mut conditions = Conditions::default();
        let (beyond, order) = match filter.oldest_first {
            true => ("d.num > ?", "ASC"),
            false => ("d.num < ?", "DESC"),
        };
        if !filter.states.is_empty() {
            let states = filter.states.iter().map(|state| state.as_str().to_owned());
            conditions.and("d.state = ANY(?)", [Box::new(states.collect::<Vec<_>>())]);
        }
        if let Some(num) = after {
            conditions.and(beyond, [Box::new(num)]);
        }
        if let Some(time) = filter.older_than {
            conditions.and("d.requested_at < ?", [Box::new(micros(time))]);
        }
        let site = filter.site.as_ref().map(ToString::to_string);
        let kind = filter.kind.as_ref().map(ToString::to_string);
        if site.is_some() || kind.is_some() {
            conditions.and(
                "EXISTS (SELECT FROM requests r, json_array_elements(r.targets::json) t
                     WHERE r.num = d.num AND t ->> 'site' = coalesce(?::text, t ->> 'site')
                         AND t ->> 'kind' = coalesce(?::text, t ->> 'kind'))",
                [Box::new(site), Box::new(kind)],
            );
        }
        let sql = format!(
            "SELECT d.num FROM deletions d WHERE true{} ORDER BY d.num {order} LIMIT {}",
            conditions.sql,
            limit(most).map_or("ALL".to_owned(), |most| most.to_string())
        );
        self.db
            .all(&sql, &conditions.values(), |row| Ok(row.read(0)?))
    }

    fn load_deletions(&self, nums: &[i64]) -> Sql<Vec<StoredDeletion>> {
        let sql = format!(
            "SELECT {DELETION} FROM unnest($1::bigint[]) WITH ORDINALITY AS k(num, n)
             JOIN deletions d ON d.num = k.num ORDER BY k.n"
        );
        self.db
            .all(&sql, &[&nums], |row| Ok(decode::deletion(row)?))
    }

    fn load_requests(&self, nums: &[i64]) -> Sql<Vec<(i64, StoredRequest)>> {
        self.db.all(
            &format!(
                "SELECT {REQUEST} FROM unnest($1::bigint[]) WITH ORDINALITY AS k(num, n)
                 JOIN requests r ON r.num = k.num JOIN deletions d ON d.num = k.num ORDER BY k.n"
            ),
            &[&nums],
            |row| Ok(decode::request(row)?),
        )
    }

    fn load_identities(&self, num: i64) -> Sql<Option<BTreeMap<String, Identity>>> {
        let sql = "SELECT (frozen::json -> 'identities')::text FROM requests WHERE num = $1";
        self.db
            .first(sql, &[&num], |row| Ok(row.json_or_default(0)?))
    }
}
