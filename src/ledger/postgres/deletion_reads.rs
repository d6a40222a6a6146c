//! Reads of deletions, requests and plans.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use tokio_postgres::Row;

use super::conditions::Conditions;
use super::deletion_rows::{self, DELETION};
use super::failed::Sql;
use super::rows::{self, get, limit, micros};
use super::transaction::PostgresRows;
use crate::domain::last_day::LastDay;
use crate::domain::model::{Actor, Identity, Plan};
use crate::ledger::store::{DeletionReads, StoredDeletion, StoredRequest, Totals};
use crate::ledger::{DeletionFilter, KeptRequest};

impl DeletionReads for PostgresRows {
    fn find_deletion(&self, id: &str) -> Sql<Option<i64>> {
        let sql = "SELECT num FROM deletions WHERE id = $1";
        self.db.first(sql, &[&id], |row| get(row, 0))
    }

    fn find_deletions_ending(&self, suffix: &str, most: usize) -> Sql<Vec<i64>> {
        // The index has the last 8 characters.
        let Some(indexed) = suffix.len().checked_sub(8).and_then(|at| suffix.get(at..)) else {
            return Ok(Vec::new());
        };
        self.db.all(
            "SELECT num FROM deletions WHERE right(id, 8) = $1 AND right(id, length($2)) = $2
             ORDER BY num LIMIT $3",
            &[&indexed, &suffix, &limit(most)],
            |row| get(row, 0),
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
        self.db.all(&sql, &conditions.values(), |row| get(row, 0))
    }

    fn count_ended(&self, since: DateTime<Utc>) -> Sql<LastDay> {
        self.db.one(
            "SELECT count(*), coalesce(sum(gone), 0)::bigint FROM deletions
             WHERE finished_at > $1 AND state <> 'stuck'",
            &[&rows::micros(since)],
            |row| {
                Ok(LastDay {
                    deletions: rows::number(row, 0)?,
                    gone: rows::number(row, 1)?,
                })
            },
        )
    }

    fn load_deletions(&self, nums: &[i64]) -> Sql<Vec<StoredDeletion>> {
        let sql = format!(
            "SELECT {DELETION} FROM unnest($1::bigint[]) WITH ORDINALITY AS k(num, n)
             JOIN deletions d ON d.num = k.num ORDER BY k.n"
        );
        self.db.all(&sql, &[&nums], deletion_rows::deletion)
    }

    fn load_requests(&self, nums: &[i64]) -> Sql<Vec<(i64, StoredRequest)>> {
        self.db.all(
            "SELECT r.num, r.targets, r.copies, r.options, r.plan_hash, r.reason, r.root, r.deadline,
                 r.actor, r.cause, r.refused, d.requested_at
             FROM unnest($1::bigint[]) WITH ORDINALITY AS k(num, n)
             JOIN requests r ON r.num = k.num JOIN deletions d ON d.num = k.num ORDER BY k.n",
            &[&nums],
            request,
        )
    }

    fn load_frozen(&self, num: i64) -> Sql<Option<Plan>> {
        let sql = "SELECT frozen FROM requests WHERE num = $1 AND frozen IS NOT NULL";
        self.db.first(sql, &[&num], |row| rows::from_json(row, 0))
    }

    fn load_identities(&self, num: i64) -> Sql<Option<BTreeMap<String, Identity>>> {
        let sql = "SELECT (frozen::json -> 'identities')::text FROM requests WHERE num = $1";
        self.db
            .first(sql, &[&num], |row| rows::from_json_opt(row, 0))
    }

    fn load_plan(&self, hash: &str, since: DateTime<Utc>) -> Sql<Option<Plan>> {
        let sql = "SELECT body FROM plans WHERE hash = $1 AND saved_at > $2";
        self.db
            .first(sql, &[&hash, &micros(since)], |row| rows::from_json(row, 0))
    }

    fn find_request(
        &self,
        actor: &Actor,
        key: &str,
        since: DateTime<Utc>,
    ) -> Sql<Option<KeptRequest>> {
        self.db.first(
            "SELECT body, deletion, answer FROM idempotency
             WHERE actor = $1 AND key = $2 AND at > $3",
            &[&rows::json(actor)?, &key, &micros(since)],
            |row| {
                Ok(KeptRequest {
                    body: get(row, 0)?,
                    deletion: get(row, 1)?,
                    answer: rows::from_json_opt(row, 2)?,
                })
            },
        )
    }

    fn load_totals(&self) -> Sql<Totals> {
        let counters = self.db.all("SELECT name, n FROM counters", &[], |row| {
            Ok((get(row, 0)?, rows::number(row, 1)?))
        })?;
        Ok(Totals::from_counters(&counters.into_iter().collect()))
    }
}

fn request(row: &Row) -> Sql<(i64, StoredRequest)> {
    let request = StoredRequest {
        targets: rows::from_json(row, 1)?,
        copies: rows::from_json(row, 2)?,
        options: rows::from_json(row, 3)?,
        plan_hash: get(row, 4)?,
        reason: get(row, 5)?,
        root: get(row, 6)?,
        deadline: rows::time_opt(row, 7)?,
        actor: rows::from_json(row, 8)?,
        cause: get(row, 9)?,
        refused: rows::from_json(row, 10)?,
        requested_at: rows::time(row, 11)?,
    };
    Ok((get(row, 0)?, request))
}
