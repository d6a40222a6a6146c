//! Conversions between columns and domain types.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::sql::Sql;
use crate::domain::model::Site;

/// Microseconds since 1970 (UTC); finer fractions are lost.
pub(super) fn micros(at: DateTime<Utc>) -> i64 {
    at.timestamp_micros()
}

pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Sql<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
}

pub(super) fn site_of(text: &str) -> Site {
    match text.parse::<Site>() {
        Ok(site) => site,
        Err(never) => match never {},
    }
}

/// The columns that make up a cause, besides state and kind ([`crate::domain::attention::Cause`]).
pub(super) const CAUSE: &str =
    "last_error ->> 'class', last_error ->> 'status', last_error ->> 'type'";

/// The condition of [`crate::domain::attention::needs_person`].
pub(super) const NEEDS_PERSON: &str = "(state = 'stuck' OR state = 'blocked' AND EXISTS(
    SELECT 1 FROM json_each(blockers) b WHERE NOT b.value ->> 'in_plan'))";
