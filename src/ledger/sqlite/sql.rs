//! Statements that are compiled once, and run in one call each.

use rusqlite::{Connection, OptionalExtension, Params, Row};

pub(super) type Sql<T> = rusqlite::Result<T>;

pub(super) trait Run {
    /// Runs a statement that returns no rows, and returns how many rows it changed.
    fn run(&self, sql: &str, values: impl Params) -> Sql<usize>;

    /// Returns the only row.
    fn one<T>(&self, sql: &str, values: impl Params, read: impl FnOnce(&Row) -> Sql<T>) -> Sql<T>;

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
    ) -> Sql<Vec<T>>;
}

impl Run for Connection {
    fn run(&self, sql: &str, values: impl Params) -> Sql<usize> {
        self.prepare_cached(sql)?.execute(values)
    }

    fn one<T>(&self, sql: &str, values: impl Params, read: impl FnOnce(&Row) -> Sql<T>) -> Sql<T> {
        self.prepare_cached(sql)?.query_row(values, read)
    }

    fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row) -> Sql<T>,
    ) -> Sql<Vec<T>> {
        self.prepare_cached(sql)?.query_map(values, read)?.collect()
    }
}
