//! Reads of tombstones, and of what is kept with them.

use chrono::{DateTime, Utc};
use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use super::sql::{Run, Sql};
use super::{pages, rows};
use crate::domain::model::{KindName, ResourceKey, Site};
use crate::ledger::TombstoneFilter;
use crate::ledger::store::decode::{self, TOMBSTONE};

use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{OriginalCopies, StoredTombstone, TombstoneReads, TombstoneRow};

impl<R: Run> TombstoneReads for R {
    fn load_tombstones(&self, keys: &[ResourceKey]) -> Sql<Vec<Option<StoredTombstone>>> {
        let mut find = self.db().prepare_cached(
            "SELECT record_id, deletion, phase, deleted_at, gone_at, incarnation, recreated
             FROM tombstones WHERE id = ?1 AND kind = ?2 AND site = ?3",
        )?;
        let found = keys.iter().map(|key| {
            let identity = params![key.id, key.kind.as_str(), key.site.to_string()];
            find.query_row(identity, |row| Ok(decode::stored_tombstone(row)?))
                .optional()
        });
        found.collect()
    }

    fn load_records(&self, records: &[i64]) -> Sql<Vec<TombstoneRow>> {
        let sql = format!("SELECT {TOMBSTONE} FROM tombstones t WHERE t.record_id = ?1");
        let mut one = self.db().prepare_cached(&sql)?;
        let mut found = Vec::with_capacity(records.len());
        for record in records {
            found.extend(
                one.query_row([record], |row| Ok(decode::tombstone(row)?))
                    .optional()?,
            );
        }
        Ok(found)
    }

    fn find_tombstones(
        &self,
        filter: &TombstoneFilter,
        after: i64,
        limit: usize,
    ) -> Sql<Vec<TombstoneRow>> {
        pages::tombstones(self.db(), filter, after, limit)
    }

    fn find_held_down(
        &self,
        (since, record): (DateTime<Utc>, i64),
        limit: usize,
    ) -> Sql<Vec<TombstoneRow>> {
        self.all(
            &format!(
                "SELECT {TOMBSTONE} FROM tombstones t
                 WHERE t.phase = 'gone' AND (t.gone_at, t.record_id) > (?2, ?1)
                 ORDER BY t.gone_at, t.record_id LIMIT ?3"
            ),
            params![record, rows::micros(since), limit as i64],
            |row| Ok(decode::tombstone(row)?),
        )
    }

    fn find_originals(
        &self,
        since: DateTime<Utc>,
        after: i64,
        limit: usize,
    ) -> Sql<Vec<TombstoneRow>> {
        self.all(
            &format!(
                "SELECT {TOMBSTONE} FROM tombstones t LEFT JOIN deletions d ON d.num = t.deletion
                 WHERE t.copies_at IS NOT NULL AND t.record_id > ?1
             AND (t.phase = 'deleting' AND d.paused = 0
                 OR t.phase = 'gone' AND t.gone_at >= ?2)
                 ORDER BY t.record_id LIMIT ?3"
            ),
            params![after, rows::micros(since), limit as i64],
            |row| Ok(decode::tombstone(row)?),
        )
    }

    fn load_copies(&self, records: &[i64]) -> Sql<Vec<(i64, OriginalCopies)>> {
        let mut found = Vec::with_capacity(records.len());
        for record in records {
            let copies = self.first(
                "SELECT t.site, t.kind, t.id, t.copies_at, n.name, n.project
                 FROM tombstones t LEFT JOIN namesakes n ON n.record = t.record_id
                 WHERE t.record_id = ?1 AND t.copies_at IS NOT NULL",
                [record],
                |row| Ok(decode::copies(row)?),
            )?;
            let Some(mut copies) = copies else {
                continue;
            };
            let parts = "SELECT site, kind, id FROM parts WHERE record = ?1";
            let parts = self.all(parts, [record], |row| Ok(row.key(0)?))?;
            copies.parts.extend(parts);
            found.push((*record, copies));
        }
        Ok(found)
    }

    fn find_whole(&self, part: &ResourceKey) -> Sql<Option<i64>> {
        self.first(
            "SELECT record FROM parts WHERE id = ?1 AND kind = ?2 AND site = ?3",
            params![part.id, part.kind.as_str(), part.site.to_string()],
            |row| row.get(0),
        )
    }

    fn find_namesakes(&self, site: &Site, kind: &KindName, name: &str) -> Sql<Vec<i64>> {
        self.all(
            "SELECT record FROM namesakes WHERE name = ?1 AND kind = ?2 AND site = ?3
             ORDER BY record",
            params![name, kind.as_str(), site.to_string()],
            |row| row.get(0),
        )
    }

    fn load_snapshot(&self, record: i64) -> Sql<Option<Value>> {
        let sql = "SELECT shown FROM snapshots WHERE record = ?1";
        self.first(sql, [record], |row| Ok(row.json(0)?))
    }
}
