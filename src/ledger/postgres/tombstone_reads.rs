//! Reads of tombstones, and of the sites where copies of their resources may come back.

use std::collections::BTreeSet;

use super::conditions::Conditions;
use super::failed::Sql;
use super::rows;
use super::transaction::PostgresRows;
use crate::domain::model::ResourceKey;
use crate::ledger::TombstoneFilter;
use crate::ledger::store::decode::{self, TOMBSTONE};
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{OriginalCopies, StoredTombstone, TombstoneReads, TombstoneRow};

impl TombstoneReads for PostgresRows {
    fn load_tombstones(&self, keys: &[ResourceKey]) -> Sql<Vec<Option<StoredTombstone>>> {
        let columns = rows::Keys::of(keys);
        let sql = format!(
            "SELECT {TOMBSTONE}, k.n FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY
                 AS k(id, kind, site, n)
             JOIN tombstones t ON t.id = k.id AND t.kind = k.kind AND t.site = k.site"
        );
        let values: super::client::Values<'_> = &[&columns.ids, &columns.kinds, &columns.sites];
        let found = self.db.all(&sql, values, |row| {
            Ok((row.read::<usize>(10)?, decode::stored_tombstone(row)?))
        })?;
        let mut all = vec![None; keys.len()];
        for (place, tombstone) in found {
            if let Some(slot) = all.get_mut(place - 1) {
                *slot = Some(tombstone);
            }
        }
        Ok(all)
    }

    fn load_records(&self, records: &[i64]) -> Sql<Vec<TombstoneRow>> {
        let sql = format!(
            "SELECT {TOMBSTONE} FROM unnest($1::bigint[]) WITH ORDINALITY AS k(record, n)
             JOIN tombstones t ON t.record_id = k.record ORDER BY k.n"
        );
        self.db
            .all(&sql, &[&records], |row| Ok(decode::tombstone(row)?))
    }

    fn find_tombstones(
        &self,
        filter: &TombstoneFilter,
        after: i64,
        most: usize,
    ) -> Sql<Vec<TombstoneRow>> {
        let mut conditions = Conditions::default();
        conditions.and("t.record_id > ?", [Box::new(after)]);
        if let Some(id) = &filter.id {
            conditions.and("t.id = ?", [Box::new(id.clone())]);
        }
        if let Some(site) = &filter.site {
            conditions.and("t.site = ?", [Box::new(site.to_string())]);
        }
        if let Some(kind) = &filter.kind {
            conditions.and("t.kind = ?", [Box::new(kind.to_string())]);
        }
        if !filter.phases.is_empty() {
            let phases = filter.phases.iter().map(|phase| phase.as_str().to_owned());
            conditions.and("t.phase = ANY(?)", [Box::new(phases.collect::<Vec<_>>())]);
        }
        let sql = format!(
            "SELECT {TOMBSTONE} FROM tombstones t WHERE true{} ORDER BY t.record_id LIMIT {most}",
            conditions.sql
        );
        self.db.all(&sql, &conditions.values(), |row| {
            Ok(decode::tombstone(row)?)
        })
    }

    fn load_copies(&self, records: &[i64]) -> Sql<Vec<(i64, OriginalCopies)>> {
        let parts = self.db.all(
            "SELECT record, site, kind, id FROM parts WHERE record = ANY($1)",
            &[&records],
            |row| Ok((row.read::<i64>(0)?, row.key(1)?)),
        )?;
        let mut found = self.db.all(
            "SELECT t.site, t.kind, t.id, t.copies_at, n.name, n.project, t.record_id
             FROM unnest($1::bigint[]) WITH ORDINALITY AS k(record, n)
             JOIN tombstones t ON t.record_id = k.record
             LEFT JOIN namesakes n ON n.record = t.record_id
             WHERE t.copies_at IS NOT NULL ORDER BY k.n",
            &[&records],
            |row| Ok((row.read::<i64>(6)?, decode::copies(row)?)),
        )?;
        for (record, copies) in &mut found {
            let its = parts.iter().filter(|(of, _)| of == record);
            let its: BTreeSet<ResourceKey> = its.map(|(_, part)| part.clone()).collect();
            copies.parts = its;
        }
        Ok(found)
    }
}
