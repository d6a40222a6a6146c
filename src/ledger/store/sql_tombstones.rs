//! Reads of tombstones, of the snapshots of their resources, and of the sites where copies may be re-created, in the
//! SQL of all stores.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::decode::{self, TOMBSTONE};
use super::plans::OriginalCopies;
use super::reads::{TombstoneReads, TombstoneRow};
use super::sql::{Each, ReadColumns as _, Statements, key_values, numbers};
use super::{Stored, StoredTombstone, sql_pages};
use crate::domain::model::{KindName, ResourceKey, Site};
use crate::ledger::TombstoneFilter;

impl<S: Statements> TombstoneReads for S {
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

    fn load_tombstones(&self, keys: &[ResourceKey]) -> Stored<Self, Vec<Option<StoredTombstone>>> {
        let each = Each {
            columns: TOMBSTONE,
            from: "tombstones t WHERE t.id = $1 AND t.kind = $2 AND t.site = $3",
            ..Each::default()
        };
        let values = keys.iter().map(key_values).collect();
        let mut all = vec![None; keys.len()];
        self.visit_each(&each, values, &mut |place, row| {
            all[place] = Some(decode::stored_tombstone(row)?);
            Ok(())
        })?;
        Ok(all)
    }

    fn load_records(&self, records: &[i64]) -> Stored<Self, Vec<TombstoneRow>> {
        let from = "tombstones t WHERE t.record_id = $1";
        self.read_numbered((TOMBSTONE, from), records, decode::tombstone)
    }

    fn find_tombstones(
        &self,
        filter: &TombstoneFilter,
        after: i64,
        limit: usize,
    ) -> Stored<Self, Vec<TombstoneRow>> {
        sql_pages::tombstones(self, filter, after, limit)
    }

    fn load_copies(&self, records: &[i64]) -> Stored<Self, Vec<(i64, OriginalCopies)>> {
        let columns = "t.site, t.kind, t.id, t.copies_at, n.name, n.project, t.record_id";
        let from = "tombstones t LEFT JOIN namesakes n ON n.record = t.record_id
             WHERE t.record_id = $1 AND t.copies_at IS NOT NULL";
        let mut found = self.read_numbered((columns, from), records, |row| {
            Ok((row.read::<i64>(6)?, decode::copies(row)?))
        })?;
        let parts = Each {
            columns: "site, kind, id",
            from: "parts WHERE record = $1",
            ..Each::default()
        };
        let values = numbers(found.iter().map(|(record, _)| *record));
        self.visit_each(&parts, values, &mut |place, row| {
            found[place].1.parts.insert(row.key(0)?);
            Ok(())
        })?;
        Ok(found)
    }
}
