//! Conversions between columns and domain types.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::failed::{Failed, Sql};
use crate::domain::model::ResourceKey;

/// Microseconds since 1970 (UTC); finer fractions are lost.
pub(super) fn micros(at: DateTime<Utc>) -> i64 {
    at.timestamp_micros()
}

pub(super) fn micros_opt(at: Option<DateTime<Utc>>) -> Option<i64> {
    at.map(micros)
}

/// The limit of a statement's rows. None for a number beyond `i64`; the server reads it as no limit.
pub(super) fn limit(most: usize) -> Option<i64> {
    i64::try_from(most).ok()
}

pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Sql<String> {
    serde_json::to_string(value).map_err(|error| Failed::Impossible(error.to_string()))
}

pub(super) fn json_opt<T: Serialize>(value: Option<&T>) -> Sql<Option<String>> {
    value.map(json).transpose()
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
