//! The rows of one transaction, and the values that their statements share.

use std::cell::RefCell;

use rusqlite::Connection;

use super::seal::Key;
use super::sql::{Run, named};
use crate::ledger::store::Stored;
use crate::ledger::store::sql::{SqlValue, Writes};
use crate::ledger::tombstones::Changed;

/// The rows of one transaction. They are read and written one by one, with statements that are compiled once:
/// SQLite is a library, so a statement costs no more than a row of a set.
pub(super) struct SqliteRows<'c> {
    pub(super) db: &'c Connection,
    /// Epoch of the engine that owns this ledger.
    pub(super) epoch: i64,
    /// The key that seals the end of the audit; none if it was not found.
    pub(super) seal: Option<&'c Key>,
    /// Tombstones whose rows were removed, for the tombstones in memory.
    pub(super) removed: RefCell<Vec<Changed>>,
}

impl Run for SqliteRows<'_> {
    fn db(&self) -> &Connection {
        self.db
    }
}

impl<'c> SqliteRows<'c> {
    pub(super) fn new(db: &'c Connection, epoch: i64, seal: Option<&'c Key>) -> Self {
        Self {
            db,
            epoch,
            seal,
            removed: RefCell::default(),
        }
    }
}

impl Writes for SqliteRows<'_> {
    fn write(&self, sql: &str, values: &[SqlValue<'_>]) -> Stored<Self, u64> {
        let changed = self.run(sql, named(values)?.as_slice())?;
        Ok(changed as u64)
    }

    fn write_all(&self, statements: &[(&str, &[SqlValue<'_>])]) -> Stored<Self> {
        for (sql, values) in statements {
            self.write(sql, values)?;
        }
        Ok(())
    }
}
