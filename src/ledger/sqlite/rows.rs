//! Conversions between columns and domain types.

use chrono::{DateTime, Utc};
use rusqlite::Row;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

use super::sql::Sql;
use crate::domain::attention::{Cause, CauseGroup};
use crate::domain::model::{Counts, KindName, ResourceKey, Site, StepState};

/// Microseconds since 1970; finer fractions are lost.
pub(super) fn micros(at: DateTime<Utc>) -> i64 {
    at.timestamp_micros()
}

pub(super) fn time(row: &Row, column: usize) -> Sql<DateTime<Utc>> {
    let at: i64 = row.get(column)?;
    DateTime::from_timestamp_micros(at).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, at))
}

pub(super) fn time_opt(row: &Row, column: usize) -> Sql<Option<DateTime<Utc>>> {
    Ok(row
        .get::<_, Option<i64>>(column)?
        .and_then(DateTime::from_timestamp_micros))
}

/// A number that is never negative; one that does not fit (a damaged row) reads as 0.
pub(super) fn number<T: TryFrom<i64> + Default>(row: &Row, column: usize) -> Sql<T> {
    Ok(T::try_from(row.get::<_, i64>(column)?).unwrap_or_default())
}

pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Sql<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
}

pub(super) fn from_json<T: DeserializeOwned>(row: &Row, column: usize) -> Sql<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|e| damaged(column, e))
}

/// Empty columns read as the type's default: most steps have no blockers, no error, no vars.
pub(super) fn from_json_opt<T: DeserializeOwned + Default>(row: &Row, column: usize) -> Sql<T> {
    match row.get_ref(column)?.as_str_or_null()? {
        None => Ok(T::default()),
        Some(text) => serde_json::from_str(text).map_err(|e| damaged(column, e)),
    }
}

/// A variant by its serialised name (`deleting`).
pub(super) fn word<T: DeserializeOwned>(row: &Row, column: usize) -> Sql<T> {
    let text = row.get_ref(column)?.as_str()?;
    let words: StrDeserializer<'_, WordError> = text.into_deserializer();
    T::deserialize(words).map_err(|e| damaged(column, e))
}

fn damaged(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

pub(super) fn site(row: &Row, column: usize) -> Sql<Site> {
    Ok(site_of(row.get_ref(column)?.as_str()?))
}

pub(super) fn site_of(text: &str) -> Site {
    match text.parse::<Site>() {
        Ok(site) => site,
        Err(never) => match never {},
    }
}

/// A row of the grouping query, with the message of one step.
pub(super) fn triage(row: &Row) -> Sql<CauseGroup> {
    let class = row.get_ref(2)?.as_str_or_null()?.is_some();
    Ok(CauseGroup {
        cause: Cause {
            state: word(row, 0)?,
            kind: KindName::new(row.get_ref(1)?.as_str()?),
            class: class.then(|| word(row, 2)).transpose()?,
            status: row.get(3)?,
            error_type: row.get(4)?,
        },
        steps: number(row, 5)?,
        since: time(row, 6)?,
        message: row.get::<_, Option<String>>(8)?.unwrap_or_default(),
    })
}

/// A key, from three neighbouring columns: site, kind, id.
pub(super) fn key(row: &Row, first: usize) -> Sql<ResourceKey> {
    Ok(ResourceKey {
        site: site(row, first)?,
        kind: KindName::new(row.get_ref(first + 1)?.as_str()?),
        id: row.get(first + 2)?,
    })
}

/// Counts, from ten neighbouring columns: the states in the order of [`StepState::ALL`], then the total.
pub(super) fn counts(row: &Row, first: usize) -> Sql<Counts> {
    let mut counts = Counts::default();
    for (offset, state) in StepState::ALL.into_iter().enumerate() {
        *counts.of_mut(state) = number(row, first + offset)?;
    }
    counts.total = number(row, first + StepState::ALL.len())?;
    Ok(counts)
}

/// The columns that make up a cause, besides state and kind ([`Cause`]).
pub(super) const CAUSE: &str =
    "last_error ->> 'class', last_error ->> 'status', last_error ->> 'type'";

/// The condition of [`crate::domain::attention::needs_person`].
pub(super) const NEEDS_PERSON: &str = "(state = 'stuck' OR state = 'blocked' AND EXISTS(
    SELECT 1 FROM json_each(blockers) b WHERE NOT b.value ->> 'in_plan'))";
