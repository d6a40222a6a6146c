//! Statements that are compiled once, and run in one call each.

use rusqlite::types::{FromSqlError, ToSqlOutput, Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row, ToSql, params_from_iter};

use crate::ledger::store::sql::{Damaged, Decoded, Dialect, Each, SqlRow, SqlValue, Statements};
use crate::ledger::store::{self, Fallible};
use crate::ledger::transitions::Impossible;

pub(super) type Sql<T> = rusqlite::Result<T>;

pub(super) type Stop = store::Stop<rusqlite::Error>;

/// Turns the [`Stop`] of a group of requests into an error of SQLite. A change that the rows do not allow is refused
/// alone (see `fails_alone`), so a refusal that remains here is an error of the whole group.
pub(super) fn unrefused<T>(done: Result<T, Stop>) -> Sql<T> {
    done.map_err(|stop| match stop {
        Stop::Failed(error) => error,
        Stop::Impossible(why) | Stop::Refused(why) => {
            rusqlite::Error::ToSqlConversionFailure(Box::new(Impossible(why)))
        }
    })
}

/// Runs statements on a connection, or in a transaction.
pub(super) trait Run {
    fn db(&self) -> &Connection;

    /// Runs a statement that returns no rows, and returns how many rows it changed.
    fn run(&self, sql: &str, values: impl Params) -> Sql<usize> {
        self.db().prepare_cached(sql)?.execute(values)
    }

    /// Returns the row of a statement that must return one.
    fn one<T>(&self, sql: &str, values: impl Params, read: impl FnOnce(&Row) -> Sql<T>) -> Sql<T> {
        self.db().prepare_cached(sql)?.query_row(values, read)
    }

    /// Returns the first row of a statement, if there is any.
    fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row) -> Sql<T>,
    ) -> Sql<Option<T>> {
        self.one(sql, values, read).optional()
    }

    /// Returns all rows of a statement, in its order, as `read` converts them.
    fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row) -> Sql<T>,
    ) -> Sql<Vec<T>> {
        let mut statement = self.db().prepare_cached(sql)?;
        statement.query_map(values, read)?.collect()
    }
}

impl<R: Run> Fallible for R {
    type Error = rusqlite::Error;
}

impl Run for Connection {
    fn db(&self) -> &Connection {
        self
    }
}

impl From<Damaged> for rusqlite::Error {
    fn from(damaged: Damaged) -> Self {
        Self::FromSqlConversionFailure(damaged.column, Type::Text, Box::new(damaged))
    }
}

/// Reads a column. In a damaged row, its value may be of another type.
fn column<'r, T>(
    row: &'r Row<'_>,
    column: usize,
    read: impl FnOnce(ValueRef<'r>) -> Result<T, FromSqlError>,
) -> Decoded<T> {
    let value = row.get_ref(column).map_err(|error| error.to_string());
    let read = value.and_then(|value| read(value).map_err(|error| error.to_string()));
    read.map_err(|why| Damaged { column, why })
}

impl SqlRow for Row<'_> {
    fn integer(&self, at: usize) -> Decoded<Option<i64>> {
        column(self, at, |value| value.as_i64_or_null())
    }

    fn text(&self, at: usize) -> Decoded<Option<&str>> {
        column(self, at, |value| value.as_str_or_null())
    }

    fn flag(&self, at: usize) -> Decoded<Option<bool>> {
        Ok(self.integer(at)?.map(|value| value != 0))
    }
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self) -> Sql<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Integer(Some(value)) => ValueRef::Integer(*value),
            Self::Flag(value) => ValueRef::Integer((*value).into()),
            Self::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Self::Integer(None) | Self::Text(None) => ValueRef::Null,
        }))
    }
}

/// Returns a statement whose values SQLite finds by their numbers, not by their names.
pub(super) fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

impl<R: Run> Statements for R {
    const DIALECT: Dialect = Dialect {
        names_indexes: true,
        as_json: "",
        texts: |value| format!("json_each({value})"),
        elements: |column| format!("json_each({column})"),
        // The columns of these ids compare without case.
        native_id: str::to_owned,
        short_id: "substr(id, -8)",
        // SQLite takes the columns that are in no aggregate from the row with the maximum.
        last_of_group: "s.id, max(coalesce(s.ended_at, 9e18))",
        next_deletion: "SELECT coalesce(max(num), 0) + 1 FROM deletions",
        // In a replay `events` is a view, which has no sequence.
        last_event: "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'),
             (SELECT max(seq) FROM events), 0)",
        last_notice: "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'peer_changes'), 0)",
        notify_of_kind:
            "INSERT OR IGNORE INTO peer_changes(record) SELECT record_id FROM tombstones
             WHERE kind = $1 AND phase IN ('checking', 'deleting', 'gone') ORDER BY record_id",
        save_notice:
            "INSERT INTO foreign_going(owner, site, kind, id, phase, incarnation, deletion, root,
                 gone_at)
             VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT(id, kind, site) DO UPDATE SET
                 phase = excluded.phase, incarnation = excluded.incarnation,
                 root = excluded.root, gone_at = excluded.gone_at, deletion = excluded.deletion,
                 handled_by = iif(deletion = excluded.deletion, handled_by, NULL)
             WHERE owner = excluded.owner",
        insert_native:
            "INSERT INTO native(site, kind, id, incarnation, name, fields, created_at, updated_at)
             VALUES($1, $2, $3, $4, $5, $6, $7, $7) RETURNING num",
        prune_own: None,
    };

    fn visit_rows(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        visit: &mut dyn FnMut(&dyn SqlRow) -> Decoded<bool>,
    ) -> Sql<()> {
        let mut statement = self.db().prepare_cached(&numbered(sql))?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            if !visit(row)? {
                break;
            }
        }
        Ok(())
    }

    fn visit_each<const N: usize>(
        &self,
        each: &Each<'_>,
        values: Vec<[SqlValue<'_>; N]>,
        visit: &mut dyn FnMut(usize, &dyn SqlRow) -> Decoded<()>,
    ) -> Sql<()> {
        let mut sql = format!("SELECT {} FROM {}", each.columns, each.from);
        if !each.order.is_empty() {
            sql.push_str(&format!(" ORDER BY {}", each.order));
        }
        let limit = each.limit.map(SqlValue::from);
        if limit.is_some() {
            sql.push_str(&format!(" LIMIT ${}", N + 1));
        }
        let mut statement = self.db().prepare_cached(&numbered(&sql))?;
        for (place, values) in values.iter().enumerate() {
            let mut rows = statement.query(params_from_iter(values.iter().chain(&limit)))?;
            while let Some(row) = rows.next()? {
                visit(place, row)?;
            }
        }
        Ok(())
    }
}
