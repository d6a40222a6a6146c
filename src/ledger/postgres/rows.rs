//! Conversions between columns and domain types.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::failed::{Failed, Sql};
use crate::domain::model::{Counts, KindName, ResourceKey, Site, StepState};

pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Sql<T> {
    Ok(row.try_get(column)?)
}

/// Microseconds since 1970; finer fractions are lost.
pub(super) fn micros(at: DateTime<Utc>) -> i64 {
    at.timestamp_micros()
}

pub(super) fn micros_opt(at: Option<DateTime<Utc>>) -> Option<i64> {
    at.map(micros)
}

pub(super) fn time(row: &Row, column: usize) -> Sql<DateTime<Utc>> {
    let at: i64 = get(row, column)?;
    let time = DateTime::from_timestamp_micros(at);
    time.ok_or_else(|| damaged(column, format!("{at} is no time")))
}

pub(super) fn time_opt(row: &Row, column: usize) -> Sql<Option<DateTime<Utc>>> {
    let at: Option<i64> = get(row, column)?;
    Ok(at.and_then(DateTime::from_timestamp_micros))
}

/// A number that is never negative; one that does not fit (a damaged row) reads as 0.
pub(super) fn number<T: TryFrom<i64> + Default>(row: &Row, column: usize) -> Sql<T> {
    Ok(T::try_from(get::<i64>(row, column)?).unwrap_or_default())
}

/// The most rows that a statement may return; the server takes none as no limit.
pub(super) fn limit(most: usize) -> Option<i64> {
    i64::try_from(most).ok()
}

pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Sql<String> {
    serde_json::to_string(value).map_err(|error| Failed::Impossible(error.to_string()))
}

pub(super) fn json_opt<T: Serialize>(value: Option<&T>) -> Sql<Option<String>> {
    value.map(json).transpose()
}

pub(super) fn from_json<T: DeserializeOwned>(row: &Row, column: usize) -> Sql<T> {
    let text: &str = get(row, column)?;
    serde_json::from_str(text).map_err(|error| damaged(column, error.to_string()))
}

/// Empty columns read as the type's default: most steps have no blockers, no error, no vars.
pub(super) fn from_json_opt<T: DeserializeOwned + Default>(row: &Row, column: usize) -> Sql<T> {
    match get::<Option<&str>>(row, column)? {
        None => Ok(T::default()),
        Some(text) => {
            serde_json::from_str(text).map_err(|error| damaged(column, error.to_string()))
        }
    }
}

/// A variant by its serialised name (`deleting`).
pub(super) fn word<T: DeserializeOwned>(row: &Row, column: usize) -> Sql<T> {
    let text: &str = get(row, column)?;
    let words: StrDeserializer<'_, WordError> = text.into_deserializer();
    T::deserialize(words).map_err(|error| damaged(column, error.to_string()))
}

fn damaged(column: usize, why: String) -> Failed {
    Failed::Damaged { column, why }
}

pub(super) fn site(row: &Row, column: usize) -> Sql<Site> {
    match get::<&str>(row, column)?.parse::<Site>() {
        Ok(site) => Ok(site),
        Err(never) => match never {},
    }
}

pub(super) fn kind(row: &Row, column: usize) -> Sql<KindName> {
    Ok(KindName::new(get::<&str>(row, column)?))
}

/// A key, from three neighbouring columns: site, kind, id.
pub(super) fn key(row: &Row, first: usize) -> Sql<ResourceKey> {
    Ok(ResourceKey {
        site: site(row, first)?,
        kind: kind(row, first + 1)?,
        id: get(row, first + 2)?,
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

/// Keys as three columns of a set.
pub(super) struct Keys {
    pub(super) ids: Vec<String>,
    pub(super) kinds: Vec<String>,
    pub(super) sites: Vec<String>,
}

impl Keys {
    pub(super) fn of<'k>(keys: impl IntoIterator<Item = &'k ResourceKey>) -> Self {
        let (mut ids, mut kinds, mut sites) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            ids.push(key.id.clone());
            kinds.push(key.kind.as_str().to_owned());
            sites.push(key.site.to_string());
        }
        Self { ids, kinds, sites }
    }
}

/// The columns that make up a cause, besides state and kind ([`crate::domain::attention::Cause`]).
pub(super) const CAUSE: &str = "last_error::json ->> 'class', \
     (last_error::json ->> 'status')::bigint, last_error::json ->> 'type'";

/// The condition of [`crate::domain::attention::needs_person`].
pub(super) const NEEDS_PERSON: &str = "(state = 'stuck' OR state = 'blocked' AND EXISTS(
    SELECT FROM json_array_elements(blockers::json) b WHERE NOT (b ->> 'in_plan')::boolean))";
