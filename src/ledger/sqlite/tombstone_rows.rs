//! The rows of tombstones.

use rusqlite::Row;

use super::rows;
use super::sql::Sql;
use crate::ledger::store::{StoredTombstone, TombstoneRow};

/// The columns of a tombstone, then those of its resource.
pub(super) const TOMBSTONE: &str = "t.record_id, t.deletion, t.phase, t.deleted_at, t.gone_at, \
     t.incarnation, t.recreated, t.site, t.kind, t.id";

/// A tombstone with its resource, from [`TOMBSTONE`].
pub(super) fn tombstone(row: &Row) -> Sql<TombstoneRow> {
    Ok(TombstoneRow {
        now: stored(row)?,
        key: rows::key(row, 7)?,
    })
}

/// A tombstone, from the first columns of [`TOMBSTONE`].
pub(super) fn stored(row: &Row) -> Sql<StoredTombstone> {
    Ok(StoredTombstone {
        record: row.get(0)?,
        deletion: row.get(1)?,
        phase: rows::word(row, 2)?,
        deleted_at: rows::time_opt(row, 3)?,
        gone_at: rows::time_opt(row, 4)?,
        incarnation: rows::number(row, 5)?,
        recreated: rows::number(row, 6)?,
    })
}
