//! Reads of tombstones whose resource or whose copies may come back, in the SQL of all stores.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Stored;
use super::decode::{self, TOMBSTONE};
use super::reads::{OriginalReads, TombstoneRow};
use super::sql::{ReadColumns as _, Statements, key_values};
use crate::domain::model::{KindName, ResourceKey, Site};

impl<S: Statements> OriginalReads for S {
    fn find_held_down(
        &self,
        (since, record): (DateTime<Utc>, i64),
        limit: usize,
    ) -> Stored<Self, Vec<TombstoneRow>> {
        let sql = format!(
            "SELECT {TOMBSTONE} FROM tombstones t
             WHERE t.phase = 'gone' AND (t.gone_at, t.record_id) > ($1, $2)
             ORDER BY t.gone_at, t.record_id LIMIT $3"
        );
        let values = [since.into(), record.into(), limit.into()];
        self.read_all(&sql, &values, decode::tombstone)
    }

    fn find_originals(
        &self,
        since: DateTime<Utc>,
        after: i64,
        limit: usize,
    ) -> Stored<Self, Vec<TombstoneRow>> {
        let sql = format!(
            "SELECT {TOMBSTONE} FROM tombstones t LEFT JOIN deletions d ON d.num = t.deletion
             WHERE t.copies_at IS NOT NULL AND t.record_id > $1
                 AND (t.phase = 'deleting' AND NOT d.paused
                     OR t.phase = 'gone' AND t.gone_at >= $2)
             ORDER BY t.record_id LIMIT $3"
        );
        let values = [after.into(), since.into(), limit.into()];
        self.read_all(&sql, &values, decode::tombstone)
    }

    fn find_whole(&self, part: &ResourceKey) -> Stored<Self, Option<i64>> {
        let sql = "SELECT record FROM parts WHERE id = $1 AND kind = $2 AND site = $3";
        self.read_first(sql, &key_values(part), |row| row.read(0))
    }

    fn find_namesakes(&self, site: &Site, kind: &KindName, name: &str) -> Stored<Self, Vec<i64>> {
        let sql = "SELECT record FROM namesakes WHERE name = $1 AND kind = $2 AND site = $3
             ORDER BY record";
        self.read_all(sql, &[name.into(), kind.into(), site.into()], |row| {
            row.read(0)
        })
    }

    fn load_snapshot(&self, record: i64) -> Stored<Self, Option<Value>> {
        let sql = "SELECT shown FROM snapshots WHERE record = $1";
        self.read_first(sql, &[record.into()], |row| row.json(0))
    }
}
