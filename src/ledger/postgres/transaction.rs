//! The rows of one transaction or snapshot.

use std::cell::RefCell;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use super::arrays::Batch;
use super::client::{Columns, Connection};
use super::failed::{Failed, Sql};
use crate::domain::model::ResourceKey;
use crate::ledger::store::sql::{
    Damaged, Decoded, Dialect, Each, ReadColumns as _, SqlRow, SqlValue, Statements, Writes,
};
use crate::ledger::store::{Fallible, OutcomeRows, OutcomeSteps};
use crate::ledger::tombstones::Changed;

/// The kind of a transaction that reads the ledger as of one moment.
pub(super) const SNAPSHOT: &str = "ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The rows of one transaction or snapshot. They are loaded and saved by sets, because each statement is a round trip
/// to the server: keys are sent as arrays (`unnest`), and statements that do not wait for each other are sent together.
pub struct PostgresRows {
    pub(super) db: Arc<Connection>,
    /// Epoch of this engine; 0 for reads.
    pub(super) epoch: i64,
    /// Tombstones that this transaction wrote or removed, for the tombstones in memory.
    changed: RefCell<Vec<Changed>>,
    /// Number of entries in `changed` at each open savepoint.
    savepoints: RefCell<Vec<usize>>,
    /// The rows that were loaded when the transaction began, and the steps whose outcomes need them.
    loaded: RefCell<Option<(OutcomeSteps, OutcomeRows)>>,
    /// Statements that are sent with the `COMMIT`.
    last: RefCell<Vec<Batch>>,
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

    /// Returns the rows that were loaded for exactly these steps. Returns them only once, because a later change may
    /// write them.
    pub(super) fn take_loaded(&self, steps: &OutcomeSteps) -> Option<OutcomeRows> {
        let loaded = self.loaded.take();
        loaded.and_then(|(of, rows)| (of == *steps).then_some(rows))
    }

    pub(super) fn save_last(&self, batches: Vec<Batch>) {
        self.last.borrow_mut().extend(batches);
    }

    pub(super) fn take_last(&self) -> Vec<Batch> {
        self.last.take()
    }

    fn run_batch(&self, batch: Option<Batch>) -> Sql<()> {
        let Some(batch) = batch else {
            return Ok(());
        };
        let (sql, columns) = batch.statement();
        self.db.run(sql, &columns).map(drop)
    }

    pub(super) fn mark_savepoint(&self) {
        let length = self.changed.borrow().len();
        self.savepoints.borrow_mut().push(length);
    }

    /// Ends the latest savepoint. If it was undone, drops the tombstones that were noted since it began.
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
        SqlValue::Flag(flag) => flag,
        SqlValue::Text(text) => text,
    });
    columns.collect()
}

impl Statements for PostgresRows {
    const DIALECT: Dialect = Dialect {
        names_indexes: false,
        as_json: "::json",
        texts: |value| format!("json_array_elements_text({value}::text::json)"),
        elements: |column| format!("json_array_elements({column}::text::json)"),
        native_id: |id| format!("lower(({id}) COLLATE \"C\")"),
        short_id: "right(id, 8)",
        last_of_group: "(array_agg(s.id ORDER BY s.ended_at DESC NULLS FIRST, s.id))[1]",
        next_deletion: "UPDATE numbers SET last = last + 1 WHERE name = 'deletion' RETURNING last",
        last_event: "(SELECT last FROM numbers WHERE name = 'event')",
        last_notice: "(SELECT last FROM numbers WHERE name = 'notice')",
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
        insert_native: "WITH given AS (UPDATE numbers SET last = last + 1 WHERE name = 'native'
                 RETURNING last)
             INSERT INTO native(num, site, kind, id, incarnation, name, fields, created_at,
                 updated_at)
             SELECT last, $1::text, $2::text, $3::text, $4::bigint, $5::text, $6::text, $7::bigint,
                 $7::bigint FROM given RETURNING num",
        // Removes the changes of tombstones that every engine with gates has applied.
        prune_own: Some(
            "DELETE FROM tombstone_changes WHERE seq <= coalesce(
                 (SELECT min(applied) FROM engines WHERE NOT ended AND has_gates),
                 9223372036854775807)",
        ),
    };

    fn visit_rows(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        visit: &mut dyn FnMut(&dyn SqlRow) -> Decoded<bool>,
    ) -> Sql<()> {
        self.db
            .each(sql, &columns(values), &mut |row| Ok(visit(row)?))
    }

    fn visit_each<const N: usize>(
        &self,
        each: &Each<'_>,
        values: Vec<[SqlValue<'_>; N]>,
        visit: &mut dyn FnMut(usize, &dyn SqlRow) -> Decoded<()>,
    ) -> Sql<()> {
        let Some(batch) = Batch::read(each, values) else {
            return Ok(());
        };
        let (sql, columns) = batch.statement();
        self.db.each(sql, &columns, &mut |row| {
            let place: usize = row.read(row.len() - 1)?;
            visit(place - 1, row)?;
            Ok(true)
        })
    }
}

impl Writes for PostgresRows {
    fn write(&self, sql: &str, values: &[SqlValue<'_>]) -> Sql<u64> {
        self.db.run(sql, &columns(values))
    }

    fn write_all(&self, statements: &[(&str, &[SqlValue<'_>])]) -> Sql<()> {
        let statements = statements
            .iter()
            .map(|(sql, values)| (*sql, columns(values)));
        let statements: Vec<(&str, Columns<'_>)> = statements.collect();
        let statements: Vec<_> = statements
            .iter()
            .map(|(sql, values)| (*sql, &values[..]))
            .collect();
        self.db.together(&statements).map(drop)
    }

    fn insert_rows<const N: usize>(
        &self,
        into: &str,
        rows: Vec<[SqlValue<'_>; N]>,
        on_conflict: &str,
    ) -> Sql<()> {
        self.run_batch(Batch::insert(into, rows, on_conflict))
    }

    fn write_each<const N: usize>(
        &self,
        change: &str,
        condition: &str,
        rows: Vec<[SqlValue<'_>; N]>,
    ) -> Sql<()> {
        self.run_batch(Batch::change(change, condition, rows))
    }

    fn note_removed(&self, keys: Vec<ResourceKey>) {
        self.note(keys.into_iter().map(|key| Changed::of(key, None)));
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
