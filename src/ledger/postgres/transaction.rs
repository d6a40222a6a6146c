//! The rows of one transaction or snapshot.

use std::cell::RefCell;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use super::client::Connection;
use super::deletion_rows;
use super::failed::Failed;
use crate::ledger::store::sql::{Damaged, Decoded, Dialect, SqlRow, SqlValue, Statements, Writes};
use crate::ledger::store::{Fallible, OutcomeRows, OutcomeSteps, Stored};
use crate::ledger::tombstones::Changed;

/// The kind of a transaction that reads the ledger as of one moment.
pub(super) const SNAPSHOT: &str = "ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The rows of one transaction or snapshot. They are loaded and saved by sets, because each statement is a round trip
/// to the server: keys go there as arrays (`unnest`), and statements that do not wait for each other go together.
pub struct PostgresRows {
    pub(super) db: Arc<Connection>,
    /// Epoch of this engine; 0 for reads.
    pub(super) epoch: i64,
    /// Tombstones that this transaction wrote or removed, for the tombstones in memory.
    changed: RefCell<Vec<Changed>>,
    /// How many of them there were at each open savepoint.
    savepoints: RefCell<Vec<usize>>,
    /// The rows that were loaded when the transaction began, and the steps whose outcomes need them.
    loaded: RefCell<Option<(OutcomeSteps, OutcomeRows)>>,
    /// Deletions that are saved with the `COMMIT`.
    last: RefCell<Option<deletion_rows::Saved>>,
}

impl PostgresRows {
    pub(super) fn new(db: Arc<Connection>, epoch: i64) -> Self {
        Self {
            db,
            epoch,
            changed: RefCell::default(),
            savepoints: RefCell::default(),
            loaded: RefCell::default(),
            last: RefCell::default(),
        }
    }

    /// Notes tombstones whose phase is written, or that are removed.
    pub(super) fn note(&self, changed: impl IntoIterator<Item = Changed>) {
        self.changed.borrow_mut().extend(changed);
    }

    pub(super) fn take_changed(&self) -> Vec<Changed> {
        self.changed.take()
    }

    /// Keeps the rows that the outcomes of these steps need, until they are taken.
    pub(super) fn give(&self, steps: OutcomeSteps, rows: OutcomeRows) {
        self.loaded.replace(Some((steps, rows)));
    }

    /// Returns the rows that were loaded for just these steps, once: a later change may have written them.
    pub(super) fn take_loaded(&self, steps: &OutcomeSteps) -> Option<OutcomeRows> {
        let loaded = self.loaded.take();
        loaded.and_then(|(of, rows)| (of == *steps).then_some(rows))
    }

    pub(super) fn save_last(&self, deletions: deletion_rows::Saved) {
        self.last.replace(Some(deletions));
    }

    pub(super) fn take_last(&self) -> Option<deletion_rows::Saved> {
        self.last.take()
    }

    pub(super) fn mark_savepoint(&self) {
        let length = self.changed.borrow().len();
        self.savepoints.borrow_mut().push(length);
    }

    /// Ends the latest savepoint. If it was undone, forgets the tombstones that were noted since it began.
    pub(super) fn end_savepoint(&self, undone: bool) {
        let length = self.savepoints.borrow_mut().pop();
        if let (true, Some(length)) = (undone, length) {
            self.changed.borrow_mut().truncate(length);
        }
    }
}

impl Fallible for PostgresRows {
    type Error = Failed;
}

fn columns<'v>(values: &'v [SqlValue<'_>]) -> Vec<&'v (dyn ToSql + Sync)> {
    let columns = values.iter().map(|value| match value {
        SqlValue::Integer(number) => number as &(dyn ToSql + Sync),
        SqlValue::Text(text) => text,
    });
    columns.collect()
}

impl Statements for PostgresRows {
    const DIALECT: Dialect = Dialect {
        names_indexes: false,
        last_event: "(SELECT last FROM numbers WHERE name = 'event')",
        last_notice: "(SELECT last FROM numbers WHERE name = 'notice')",
        texts_of_2: "(SELECT json_array_elements_text($2::text::json))",
        keys_of_1: "(SELECT key ->> 0, key ->> 1, key ->> 2
             FROM json_array_elements($1::text::json) AS key)",
        notify_of_kind: "SELECT notify_importers(array_agg(record_id)) FROM tombstones t
             WHERE kind = $1 AND phase IN ('checking', 'deleting', 'gone')
                 AND NOT EXISTS (SELECT FROM peer_changes WHERE record = t.record_id)
             HAVING count(*) > 0",
        save_notice: "WITH given AS (UPDATE numbers SET last = last + 1 WHERE name = 'foreign'
                 RETURNING last)
             INSERT INTO foreign_going AS f(num, owner, site, kind, id, phase, incarnation,
                 deletion, root, gone_at)
             SELECT last, $1::text, $2::text, $3::text, $4::text, $5::text, $6::bigint,
                 $7::text, $8::text, $9::bigint FROM given
             ON CONFLICT(id, kind, site) DO UPDATE SET
                 phase = excluded.phase, incarnation = excluded.incarnation,
                 root = excluded.root, gone_at = excluded.gone_at,
                 deletion = excluded.deletion,
                 handled_by = CASE WHEN f.deletion = excluded.deletion THEN f.handled_by END
             WHERE f.owner = excluded.owner",
    };

    fn visit_rows(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        visit: &mut dyn FnMut(&dyn SqlRow) -> Decoded<()>,
    ) -> Stored<Self, ()> {
        self.db.each(sql, &columns(values), &mut |row| {
            visit(row)?;
            Ok(true)
        })
    }
}

impl Writes for PostgresRows {
    fn write(&self, sql: &str, values: &[SqlValue<'_>]) -> Stored<Self, u64> {
        self.db.run(sql, &columns(values))
    }

    fn write_all(&self, statements: &[(&str, &[SqlValue<'_>])]) -> Stored<Self> {
        let statements: Vec<_> = statements
            .iter()
            .map(|(sql, values)| (*sql, columns(values)))
            .collect();
        let statements: Vec<_> = statements
            .iter()
            .map(|(sql, values)| (*sql, &values[..]))
            .collect();
        self.db.together(&statements).map(drop)
    }
}

fn read<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Decoded<T> {
    row.try_get(column).map_err(|error| Damaged {
        column,
        why: error.to_string(),
    })
}

impl SqlRow for Row {
    fn integer(&self, column: usize) -> Decoded<Option<i64>> {
        read(self, column)
    }

    fn text(&self, column: usize) -> Decoded<Option<&str>> {
        read(self, column)
    }

    fn flag(&self, column: usize) -> Decoded<Option<bool>> {
        read(self, column)
    }
}
