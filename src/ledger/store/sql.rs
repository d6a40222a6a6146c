//! The common parts of all SQL stores: how columns become values, and statements that each store understands.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use strum::VariantArray as _;

use super::{Fallible, Stored};
use crate::domain::model::{
    Action, Counts, DeletionState, KindName, Phase, ResourceKey, Site, StepState,
};

/// A column has a value that no ledger writes, or the statement did not return the column or any row.
#[derive(Debug, thiserror::Error)]
#[error("column {column} has a value that no ledger writes: {why}")]
pub struct Damaged {
    pub column: usize,
    pub why: String,
}

pub type Decoded<T> = Result<T, Damaged>;

/// A row that a statement returned. Columns are counted from 0.
pub trait SqlRow {
    /// # Errors
    /// The column is not a whole number.
    fn integer(&self, column: usize) -> Decoded<Option<i64>>;

    /// # Errors
    /// The column is not a text.
    fn text(&self, column: usize) -> Decoded<Option<&str>>;

    /// # Errors
    /// The column is neither true nor false.
    fn flag(&self, column: usize) -> Decoded<Option<bool>>;
}

/// A type that one column holds.
pub trait Column: Sized {
    /// # Errors
    /// The column holds no value of this type.
    fn of<R: SqlRow + ?Sized>(row: &R, column: usize) -> Decoded<Self>;
}

/// Reads the columns of a row as values of Rust types.
pub trait ReadColumns: SqlRow {
    /// # Errors
    /// The column holds no value of this type.
    fn read<T: Column>(&self, column: usize) -> Decoded<T> {
        T::of(self, column)
    }

    /// # Errors
    /// The column is empty, or not a text.
    fn some_text(&self, column: usize) -> Decoded<&str> {
        present(self.text(column)?, column)
    }

    /// Reads a variant of an enum by its serialised name (`deleting`).
    ///
    /// # Errors
    /// The column is empty or not a text, or no variant has this name.
    fn word<T: DeserializeOwned>(&self, column: usize) -> Decoded<T> {
        let words: StrDeserializer<'_, WordError> = self.some_text(column)?.into_deserializer();
        T::deserialize(words).map_err(|error| damaged(column, &error))
    }

    /// # Errors
    /// The column is empty or not a text, or the text is not JSON of this type.
    fn json<T: DeserializeOwned>(&self, column: usize) -> Decoded<T> {
        serde_json::from_str(self.some_text(column)?).map_err(|error| damaged(column, &error))
    }

    /// An empty column reads as the type's default: most steps have no blockers, no error and no variables.
    ///
    /// # Errors
    /// The column is not a text, or the text is not JSON of this type.
    fn json_or_default<T: DeserializeOwned + Default>(&self, column: usize) -> Decoded<T> {
        match self.text(column)? {
            None => Ok(T::default()),
            Some(_) => self.json(column),
        }
    }

    /// A key, from three neighbouring columns: site, kind, id.
    ///
    /// # Errors
    /// One of the columns is empty or not a text.
    fn key(&self, first: usize) -> Decoded<ResourceKey> {
        Ok(ResourceKey {
            site: self.read(first)?,
            kind: self.read(first + 1)?,
            id: self.read(first + 2)?,
        })
    }

    /// Counts, from ten neighbouring columns: the states in the order of [`StepState::ALL`], then the total.
    ///
    /// # Errors
    /// One of the columns is not a number.
    fn counts(&self, first: usize) -> Decoded<Counts> {
        let mut counts = Counts::default();
        for (offset, state) in StepState::ALL.into_iter().enumerate() {
            *counts.of_mut(state) = self.read(first + offset)?;
        }
        counts.total = self.read(first + StepState::ALL.len())?;
        Ok(counts)
    }
}

impl<R: SqlRow + ?Sized> ReadColumns for R {}

fn damaged(column: usize, why: &dyn std::fmt::Display) -> Damaged {
    Damaged {
        column,
        why: why.to_string(),
    }
}

fn present<T>(value: Option<T>, column: usize) -> Decoded<T> {
    value.ok_or_else(|| damaged(column, &"it is empty"))
}

/// Implements [`Column`] for types, and for an option of each: None where the column is empty.
macro_rules! columns {
    ($($type:ty: |$row:ident, $column:ident| $value:expr;)*) => {$(
        impl Column for Option<$type> {
            fn of<R: SqlRow + ?Sized>($row: &R, $column: usize) -> Decoded<Self> {
                $value
            }
        }

        impl Column for $type {
            fn of<R: SqlRow + ?Sized>(row: &R, column: usize) -> Decoded<Self> {
                present(Option::<Self>::of(row, column)?, column)
            }
        }
    )*};
}

columns! {
    bool: |row, column| row.flag(column);
    i64: |row, column| row.integer(column);
    // Numbers that are never negative; one that does not fit (a damaged row) reads as 0.
    u16: |row, column| Ok(row.integer(column)?.map(|it| it.try_into().unwrap_or_default()));
    u32: |row, column| Ok(row.integer(column)?.map(|it| it.try_into().unwrap_or_default()));
    u64: |row, column| Ok(row.integer(column)?.map(|it| it.try_into().unwrap_or_default()));
    usize: |row, column| Ok(row.integer(column)?.map(|it| it.try_into().unwrap_or_default()));
    String: |row, column| Ok(row.text(column)?.map(str::to_owned));
    KindName: |row, column| Ok(row.text(column)?.map(KindName::new));
    Site: |row, column| Ok(row.text(column)?.map(|text| match text.parse::<Site>() {
        Ok(site) => site,
        Err(never) => match never {},
    }));
    // Microseconds since 1970.
    DateTime<Utc>: |row, column| {
        let time = |at: i64| DateTime::from_timestamp_micros(at).ok_or_else(|| damaged(column, &format!("{at} is not a time")));
        row.integer(column)?.map(time).transpose()
    };
}

/// A value of a statement; None is NULL.
#[derive(Clone, Debug)]
pub enum SqlValue<'v> {
    Integer(Option<i64>),
    Flag(bool),
    Text(Option<Cow<'v, str>>),
}

/// Implements `From` for types that are a number, a truth value or a text.
macro_rules! values {
    ($($of:ident, $type:ty: |$value:ident| $column:expr;)*) => {$(
        impl<'v> From<$type> for SqlValue<'v> {
            fn from($value: $type) -> Self {
                Self::$of($column)
            }
        }
    )*};
}

values! {
    Integer, i64: |value| Some(value);
    Integer, u32: |value| Some(value.into());
    // A limit beyond `i64` is no limit.
    Integer, u64: |value| Some(i64::try_from(value).unwrap_or(i64::MAX));
    Integer, usize: |value| Some(i64::try_from(value).unwrap_or(i64::MAX));
    Integer, Option<i64>: |value| value;
    Integer, DateTime<Utc>: |at| Some(at.timestamp_micros());
    Integer, Option<DateTime<Utc>>: |at| at.map(|at| at.timestamp_micros());
    Flag, bool: |value| value;
    Text, &'v str: |text| Some(Cow::Borrowed(text));
    Text, &'v String: |text| Some(Cow::Borrowed(text.as_str()));
    Text, String: |text| Some(Cow::Owned(text));
    Text, Option<&'v str>: |text| text.map(Cow::Borrowed);
    Text, Option<String>: |text| text.map(Cow::Owned);
    Text, &'v KindName: |kind| Some(Cow::Borrowed(kind.as_str()));
    Text, &'v Site: |site| Some(Cow::Owned(site.to_string()));
    Text, Action: |action| Some(Cow::Borrowed(action.as_str()));
    Text, DeletionState: |state| Some(Cow::Borrowed(state.as_str()));
    Text, Phase: |phase| Some(Cow::Borrowed(phase.as_str()));
    Text, StepState: |state| Some(Cow::Borrowed(state.as_str()));
}

/// The values of a key, in the order of the index: id, kind, site.
pub fn key_values(key: &ResourceKey) -> [SqlValue<'_>; 3] {
    [(&key.id).into(), (&key.kind).into(), (&key.site).into()]
}

/// Rows of values for a statement that has one value, a number.
pub fn numbers(all: impl IntoIterator<Item = i64>) -> Vec<[SqlValue<'static>; 1]> {
    all.into_iter().map(|number| [number.into()]).collect()
}

/// The text of a JSON column. Never fails for a saved value, because all saved maps have texts as keys.
pub fn json<T: Serialize + ?Sized>(value: &T) -> Decoded<String> {
    serde_json::to_string(value).map_err(|error| damaged(0, &error))
}

/// The text of a JSON column; none, which is NULL, without a value: most steps have no error.
pub fn json_opt<T: Serialize>(value: Option<&T>) -> Decoded<Option<String>> {
    value.map(json).transpose()
}

/// The parts of statements that differ between stores. A function gets the name of a value (`$1`) or of a column.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// Whether a statement names the index that it needs. SQLite has no statistics by which it would choose one.
    pub names_indexes: bool,
    /// The SQL after a column with a JSON text, which makes the text JSON for `->` and `->>`.
    pub as_json: &'static str,
    /// The texts of a JSON list as rows with the column `value`.
    pub texts: fn(&str) -> String,
    /// The elements of a JSON list as rows with the column `value`.
    pub elements: fn(&str) -> String,
    /// An id of our registry in the form in which ids are compared, without regard to case.
    pub native_id: fn(&str) -> String,
    /// The last 8 characters of a deletion's id, as they are indexed.
    pub short_id: &'static str,
    /// In a group of steps `s`: the id of one that has not ended, else of the one that ended last.
    pub last_of_group: &'static str,
    /// The next number of a deletion.
    pub next_deletion: &'static str,
    /// The number of the last event that was ever written.
    pub last_event: &'static str,
    /// The number of the last notice to importers that was ever written.
    pub last_notice: &'static str,
    /// Notifies importers of all resources of the kind `$1` that are being checked or deleted or are gone.
    pub notify_of_kind: &'static str,
    /// Saves a notice: owner, site, kind, id, phase, incarnation, deletion, root, and when the resource was gone.
    pub save_notice: &'static str,
    /// Inserts a resource of the registry and returns its number: site, kind, id, incarnation, name, fields, and when
    /// it was created.
    pub insert_native: &'static str,
    /// Removes old rows of a table that only this store has.
    pub prune_own: Option<&'static str>,
}

impl Dialect {
    /// The SQL after a table's name that chooses this index.
    pub fn by_index(&self, index: &str) -> String {
        match self.names_indexes {
            true => format!("INDEXED BY {index}"),
            false => String::new(),
        }
    }
}

/// A statement that reads rows for each of several lists of values. It calls the values of a list `$1` and so on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Each<'s> {
    pub columns: &'s str,
    /// The statement between its columns and its order: `steps s WHERE s.id = $1`.
    pub from: &'s str,
    /// The order of the rows for one list of values; empty if there is at most one row.
    pub order: &'s str,
    /// Maximum number of rows for one list of values; none: all.
    pub limit: Option<usize>,
}

/// A store that runs statements in SQL, whose values are called `$1`, `$2` and so on. Each method fails if its
/// statement does, or if a row is damaged.
pub trait Statements: Fallible<Error: From<Damaged>> {
    const DIALECT: Dialect;

    /// Passes each row of a statement to `visit`, until it returns false.
    fn visit_rows(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        visit: &mut dyn FnMut(&dyn SqlRow) -> Decoded<bool>,
    ) -> Stored<Self>;

    /// Passes to `visit` the rows for each list of `values`, in the order of the lists, each row with the position of
    /// its list. A store on a server sends all lists in one round trip.
    fn visit_each<const N: usize>(
        &self,
        each: &Each<'_>,
        values: Vec<[SqlValue<'_>; N]>,
        visit: &mut dyn FnMut(usize, &dyn SqlRow) -> Decoded<()>,
    ) -> Stored<Self>;

    /// Returns the rows for each list of `values`, in the order of the lists.
    fn read_each<const N: usize, T>(
        &self,
        each: &Each<'_>,
        values: Vec<[SqlValue<'_>; N]>,
        read: impl Fn(&dyn SqlRow) -> Decoded<T>,
    ) -> Stored<Self, Vec<T>> {
        let mut all = Vec::with_capacity(values.len());
        self.visit_each(each, values, &mut |_, row| {
            all.push(read(row)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Returns the row for each of these numbers; numbers without a row are left out. `from`: as [`Each::from`].
    fn read_numbered<T>(
        &self,
        (columns, from): (&str, &str),
        of: &[i64],
        read: impl Fn(&dyn SqlRow) -> Decoded<T>,
    ) -> Stored<Self, Vec<T>> {
        let each = Each {
            columns,
            from,
            ..Each::default()
        };
        self.read_each(&each, numbers(of.iter().copied()), read)
    }

    /// Returns all rows.
    fn read_all<T>(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        read: impl Fn(&dyn SqlRow) -> Decoded<T>,
    ) -> Stored<Self, Vec<T>> {
        let mut all = Vec::new();
        self.visit_rows(sql, values, &mut |row| {
            all.push(read(row)?);
            Ok(true)
        })?;
        Ok(all)
    }

    /// Returns the first row, if there is any. All rows are read, so the statement must return few.
    fn read_first<T>(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        read: impl Fn(&dyn SqlRow) -> Decoded<T>,
    ) -> Stored<Self, Option<T>> {
        Ok(self.read_all(sql, values, read)?.into_iter().next())
    }

    /// Returns the only row. Fails if there is none.
    fn read_one<T>(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        read: impl Fn(&dyn SqlRow) -> Decoded<T>,
    ) -> Stored<Self, T> {
        let first = self.read_first(sql, values, read)?;
        Ok(first.ok_or_else(|| damaged(0, &format!("there is no row of: {sql}")))?)
    }
}

/// A store that writes by statements in SQL, within one transaction.
pub trait Writes: Statements {
    /// Runs a statement that returns no rows, and returns how many rows it changed.
    fn write(&self, sql: &str, values: &[SqlValue<'_>]) -> Stored<Self, u64>;

    /// Runs statements in this order; those after one that failed do not run. A store on a server sends them in one
    /// round trip.
    fn write_all(&self, statements: &[(&str, &[SqlValue<'_>])]) -> Stored<Self>;

    /// Inserts rows. `into`: the table with its columns; `on_conflict`: empty, or the clause that says what happens to
    /// rows that exist. A store on a server inserts all of them by one statement.
    fn insert_rows<const N: usize>(
        &self,
        into: &str,
        rows: Vec<[SqlValue<'_>; N]>,
        on_conflict: &str,
    ) -> Stored<Self>;

    /// Changes the rows of a table for each list of values in `rows`: `change` is `DELETE FROM …` or `UPDATE … SET …`.
    /// A store on a server does so by one statement.
    fn write_each<const N: usize>(
        &self,
        change: &str,
        condition: &str,
        rows: Vec<[SqlValue<'_>; N]>,
    ) -> Stored<Self>;

    /// Notes the tombstones whose rows were removed, so that they are removed from memory, too.
    fn note_removed(&self, keys: Vec<ResourceKey>);
}

/// A condition on the action of a step: the resource or edge is gone after it.
pub fn takes_away() -> String {
    let actions = Action::VARIANTS.iter().filter(|it| it.takes_away());
    let actions: Vec<String> = actions.map(|it| format!("'{}'", it.as_str())).collect();
    format!("action IN ({})", actions.join(", "))
}

/// An expression for the action that the plan has for a step, which a rung of the ladder may have replaced.
pub fn planned_action(column: &str) -> String {
    let replaced = Action::VARIANTS.iter().filter(|it| it.planned() != **it);
    let cases =
        replaced.map(|it| format!(" WHEN '{}' THEN '{}'", it.as_str(), it.planned().as_str()));
    format!(
        "CASE {column}{} ELSE {column} END",
        cases.collect::<String>()
    )
}
