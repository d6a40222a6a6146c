//! Rows of values as arrays, one for each column, and statements that read or write table rows for all of these values
//! in one round trip.

use tokio_postgres::types::ToSql;

use super::client::Columns;
use crate::ledger::store::sql::{Each, SqlValue};

/// The values of a column.
#[derive(Debug)]
enum Column {
    Integers(Vec<Option<i64>>),
    Flags(Vec<bool>),
    Texts(Vec<Option<String>>),
}

impl Column {
    fn of(value: &SqlValue<'_>) -> Self {
        match value {
            SqlValue::Integer(_) => Self::Integers(Vec::new()),
            SqlValue::Flag(_) => Self::Flags(Vec::new()),
            SqlValue::Text(_) => Self::Texts(Vec::new()),
        }
    }

    /// Adds a value. A value whose type is not the column's becomes NULL, or false in a column of flags.
    fn push(&mut self, value: SqlValue<'_>) {
        match (self, value) {
            (Self::Integers(all), SqlValue::Integer(value)) => all.push(value),
            (Self::Integers(all), _) => all.push(None),
            (Self::Flags(all), value) => all.push(matches!(value, SqlValue::Flag(true))),
            (Self::Texts(all), SqlValue::Text(text)) => all.push(text.map(Into::into)),
            (Self::Texts(all), _) => all.push(None),
        }
    }

    fn sql_type(&self) -> &'static str {
        match self {
            Self::Integers(_) => "bigint[]",
            Self::Flags(_) => "boolean[]",
            Self::Texts(_) => "text[]",
        }
    }

    fn values(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Integers(all) => all,
            Self::Flags(all) => all,
            Self::Texts(all) => all,
        }
    }
}

/// A statement whose values are arrays.
#[derive(Debug)]
pub(super) struct Batch {
    sql: String,
    columns: Vec<Column>,
    limit: Option<Option<i64>>,
}

impl Batch {
    /// A statement on these rows; none if there are no rows. `sql` makes the statement from the rows as a set:
    /// `unnest($1::bigint[], $2::text[])`.
    pub(super) fn of<'v, R: IntoIterator<Item = SqlValue<'v>>>(
        rows: impl IntoIterator<Item = R>,
        sql: impl FnOnce(&str) -> String,
    ) -> Option<Self> {
        let mut columns: Vec<Column> = Vec::new();
        for row in rows {
            for (at, value) in row.into_iter().enumerate() {
                if at == columns.len() {
                    columns.push(Column::of(&value));
                }
                columns[at].push(value);
            }
        }
        if columns.is_empty() {
            return None;
        }
        let places = (1..).zip(&columns);
        let places = places.map(|(place, column)| format!("${place}::{}", column.sql_type()));
        let places = places.collect::<Vec<_>>().join(", ");
        Some(Self {
            sql: sql(&format!("unnest({places})")),
            columns,
            limit: None,
        })
    }

    /// Inserts rows: see [`crate::ledger::store::sql::Writes::insert_rows`].
    pub(super) fn insert<'v, const N: usize>(
        into: &str,
        rows: impl IntoIterator<Item = [SqlValue<'v>; N]>,
        on_conflict: &str,
    ) -> Option<Self> {
        Self::of(rows, |rows| {
            format!("INSERT INTO {into} SELECT * FROM {rows} {on_conflict}")
        })
    }

    /// Changes rows: see [`crate::ledger::store::sql::Writes::write_each`].
    pub(super) fn change<'v, const N: usize>(
        change: &str,
        condition: &str,
        rows: impl IntoIterator<Item = [SqlValue<'v>; N]>,
    ) -> Option<Self> {
        let joined = match change.starts_with("DELETE") {
            true => "USING",
            false => "FROM",
        };
        let (change, condition) = (of_row(change, N), of_row(condition, N));
        Self::of(rows, |rows| {
            let names = names(N);
            format!("{change} {joined} {rows} AS k({names}) WHERE {condition}")
        })
    }

    /// Reads rows for each of these values. The last column of the answer is the position of the values, from 1 on.
    pub(super) fn read<'v, const N: usize>(
        each: &Each<'_>,
        values: impl IntoIterator<Item = [SqlValue<'v>; N]>,
    ) -> Option<Self> {
        let Each {
            columns,
            from,
            order,
            limit,
        } = each;
        let (mut place, mut ordered, mut then) = (String::new(), String::new(), "");
        if !order.is_empty() {
            place = format!(", row_number() OVER (ORDER BY {order}) AS place");
            ordered = format!("ORDER BY {order}");
            then = ", found.place";
        }
        let limited = limit.map(|_| format!("LIMIT ${}", N + 1));
        let batch = Self::of(values, |rows| {
            format!(
                "SELECT found.*, k.n FROM {rows} WITH ORDINALITY AS k({}, n), LATERAL (
                     SELECT {columns}{place} FROM {} {ordered} {}) AS found
                 ORDER BY k.n{then}",
                names(N),
                of_row(from, N),
                limited.unwrap_or_default()
            )
        });
        batch.map(|batch| Self {
            limit: limit.map(|most| i64::try_from(most).ok()),
            ..batch
        })
    }

    pub(super) fn statement(&self) -> (&str, Columns<'_>) {
        let columns = self.columns.iter().map(Column::values);
        let limit = self.limit.as_ref().map(|most| most as &(dyn ToSql + Sync));
        (&self.sql, columns.chain(limit).collect())
    }
}

/// The names of the columns of a row: `v1, v2`.
fn names(columns: usize) -> String {
    let names: Vec<String> = (1..=columns).map(|n| format!("v{n}")).collect();
    names.join(", ")
}

/// Replaces the names of the values by those of the columns of a row: `$1` by `k.v1`.
fn of_row(sql: &str, columns: usize) -> String {
    (1..=columns).rev().fold(sql.to_owned(), |sql, n| {
        sql.replace(&format!("${n}"), &format!("k.v{n}"))
    })
}
