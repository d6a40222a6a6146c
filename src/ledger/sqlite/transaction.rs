//! The rows of one transaction, and the statements that read and write them.

use std::cell::RefCell;

use rusqlite::{Connection, params_from_iter};

use super::seal::Key;
use super::sql::{Run, Sql, numbered};
use crate::domain::model::ResourceKey;
use crate::ledger::store::sql::{SqlValue, Writes};
use crate::ledger::tombstones::Changed;

/// The rows of one transaction. Rows with known keys are read and written one by one, with statements that are
/// compiled once: SQLite is a library, so a statement for each row costs no more than one for all of them.
pub(super) struct SqliteRows<'c> {
    pub(super) db: &'c Connection,
    /// Epoch of the engine that owns this ledger.
    pub(super) epoch: i64,
    /// The key that seals the end of the audit; none if it was not found, for a ledger in memory, and while a person
    /// has the audit sealed anew.
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

    fn run_each<const N: usize>(&self, sql: &str, rows: Vec<[SqlValue<'_>; N]>) -> Sql<()> {
        let mut statement = self.db.prepare_cached(sql)?;
        for row in rows {
            statement.execute(params_from_iter(row))?;
        }
        Ok(())
    }
}

impl Writes for SqliteRows<'_> {
    fn write(&self, sql: &str, values: &[SqlValue<'_>]) -> Sql<u64> {
        let changed = self.run(&numbered(sql), params_from_iter(values))?;
        Ok(changed as u64)
    }

    fn write_all(&self, statements: &[(&str, &[SqlValue<'_>])]) -> Sql<()> {
        for (sql, values) in statements {
            self.write(sql, values)?;
        }
        Ok(())
    }

    fn insert_rows<const N: usize>(
        &self,
        into: &str,
        rows: Vec<[SqlValue<'_>; N]>,
        on_conflict: &str,
    ) -> Sql<()> {
        let places = vec!["?"; N].join(", ");
        self.run_each(
            &format!("INSERT INTO {into} VALUES({places}) {on_conflict}"),
            rows,
        )
    }

    fn write_each<const N: usize>(
        &self,
        change: &str,
        condition: &str,
        rows: Vec<[SqlValue<'_>; N]>,
    ) -> Sql<()> {
        self.run_each(&numbered(&format!("{change} WHERE {condition}")), rows)
    }

    fn note_removed(&self, keys: Vec<ResourceKey>) {
        let removed = keys.into_iter().map(|key| Changed::of(key, None));
        self.removed.borrow_mut().extend(removed);
    }
}
