//! Reads of tombstones, and of the sites where copies of their resources may come back.

use rusqlite::{OptionalExtension, params};

use super::pages;
use super::sql::{Run, Sql};
use crate::domain::model::ResourceKey;
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
}
