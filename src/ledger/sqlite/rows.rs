//! Conversions between columns and domain types.

use chrono::{DateTime, Utc};
use rusqlite::Row;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

use super::sql::Sql;
use crate::domain::attention::{Cause, CauseGroup};
use crate::domain::model::{
    Action, Counts, KindName, Paged, ResourceKey, Site, Step, StepResource, StepState, Tombstone,
};
use crate::ledger::{ClaimedStep, Fence};

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

/// What an engine needs of a step, from `steps s` alone.
pub(super) const CLAIMED: &str = "s.id, s.deletion, s.site, s.kind, s.resource, s.name, s.action, \
     s.vars, s.state, s.claim, s.epoch, s.attempts, s.max_attempts, s.blocked_since, s.blockers, \
     s.last_error, s.looks, s.since, s.project, s.own_attempt_at";

pub(super) fn claimed(row: &Row, deletion_id: &str, cancelled: bool) -> Sql<ClaimedStep> {
    Ok(ClaimedStep {
        id: row.get(0)?,
        deletion_id: deletion_id.to_owned(),
        key: key(row, 2)?,
        name: row.get(5)?,
        action: word::<Action>(row, 6)?,
        vars: from_json_opt(row, 7)?,
        fence: Fence {
            state: word(row, 8)?,
            claim: row.get(9)?,
            epoch: row.get(10)?,
        },
        attempts: number(row, 11)?,
        max_attempts: number(row, 12)?,
        blocked_since: time_opt(row, 13)?,
        blockers: from_json_opt(row, 14)?,
        last_error: from_json_opt(row, 15)?,
        looks: number(row, 16)?,
        since: time(row, 17)?,
        project_id: row.get(18)?,
        own_attempt_at: time_opt(row, 19)?,
        cancelled,
    })
}

/// The rows of a page, from one more row than it may have; each comes with its position, which is the cursor.
pub(super) fn page<T>(mut found: Vec<(impl ToString, T)>, limit: usize) -> Paged<T> {
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().map(|(cursor, _)| cursor.to_string());
    Paged {
        next: last.filter(|_| more),
        rows: found.into_iter().map(|(_, row)| row).collect(),
    }
}

pub(super) const STEP: &str = "SELECT s.id, d.id, s.site, s.kind, s.resource, s.name, s.action, \
     s.state, s.attempts, s.max_attempts, s.next_attempt_at, s.blocked_since, s.blockers, \
     s.last_error, s.held_by, coalesce(t.recreated, 0), s.project, s.why \
     FROM steps s JOIN deletions d ON d.num = s.deletion \
     LEFT JOIN tombstones t ON t.record_id = s.record";

/// A step from [`STEP`], without its dependencies.
pub(super) fn step(row: &Row) -> Sql<Step> {
    Ok(Step {
        id: row.get(0)?,
        deletion_id: row.get(1)?,
        resource: StepResource {
            key: key(row, 2)?,
            name: row.get(5)?,
        },
        action: word(row, 6)?,
        state: word(row, 7)?,
        depends_on: Vec::new(),
        attempts: number(row, 8)?,
        max_attempts: number(row, 9)?,
        next_attempt_at: time_opt(row, 10)?,
        blocked_since: time_opt(row, 11)?,
        blockers: from_json_opt(row, 12)?,
        last_error: from_json_opt(row, 13)?,
        held_by: row.get(14)?,
        recreated: number(row, 15)?,
        project_id: row.get(16)?,
        why: row.get(17)?,
    })
}

pub(super) const TOMBSTONE: &str = "SELECT t.record_id, t.site, t.kind, t.id, t.phase, \
     t.deleted_at, t.gone_at, t.incarnation, t.recreated, coalesce(d.id, ''), t.copies_at \
     FROM tombstones t LEFT JOIN deletions d ON d.num = t.deletion";

pub(super) fn tombstone(row: &Row) -> Sql<Tombstone> {
    Ok(Tombstone {
        record_id: row.get(0)?,
        key: key(row, 1)?,
        phase: word(row, 4)?,
        deleted_at: time_opt(row, 5)?,
        gone_at: time_opt(row, 6)?,
        incarnation: number(row, 7)?,
        recreated: number(row, 8)?,
        deletion_id: row.get(9)?,
    })
}
