//! Statements that are compiled once, and run in one call each.

use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::ledger::store::{self, Fallible};
use crate::ledger::transitions::Impossible;

pub(super) type Sql<T> = rusqlite::Result<T>;

pub(super) type Stop = store::Stop<rusqlite::Error>;

/// The result of a change, or of a part of one, that must not be refused. What the rows do not allow is an error
/// of the change that asked for it; see `fails_alone` of the store.
pub(super) fn unrefused<T>(done: Result<T, Stop>) -> Sql<T> {
    done.map_err(|stop| match stop {
        Stop::Failed(error) => error,
        Stop::Impossible(why) | Stop::Refused(why) => {
            rusqlite::Error::ToSqlConversionFailure(Box::new(Impossible(why)))
        }
    })
}

/// What runs statements: a connection, or the rows of one transaction.
pub(super) trait Run {
    fn db(&self) -> &Connection;

    /// Runs a statement that returns no rows, and returns how many rows it changed.
    fn run(&self, sql: &str, values: impl Params) -> Sql<usize> {
        self.db().prepare_cached(sql)?.execute(values)
    }

    /// Returns the only row.
    fn one<T>(&self, sql: &str, values: impl Params, read: impl FnOnce(&Row) -> Sql<T>) -> Sql<T> {
        self.db().prepare_cached(sql)?.query_row(values, read)
    }

    /// Returns the first row, if there is any.
    fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row) -> Sql<T>,
    ) -> Sql<Option<T>> {
        self.one(sql, values, read).optional()
    }

    /// Returns all rows.
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
