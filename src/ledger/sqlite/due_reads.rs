//! Steps that fall due: those to observe, and those whose next attempt is due.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows;
use super::sql::{Run, Sql};
use crate::domain::model::{KindName, StepState};
use crate::domain::policy::{PendingObservations, WORTH_A_LIST};
use crate::ledger::ObservationsDue;
use crate::ledger::store::decode;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{DueCount, StepRow};

pub(super) fn observations(db: &Connection, now: DateTime<Utc>) -> Sql<Vec<ObservationsDue>> {
    let mut due = Vec::new();
    let mut behind = db.prepare_cached(
        "SELECT deletion, site, kind, rank FROM steps INDEXED BY steps_looks
         WHERE state = 'verifying'
             AND (deletion, site, kind, rank, next_attempt_at) > (?1, ?2, ?3, ?4, ?5)
         ORDER BY deletion, site, kind, rank LIMIT 1",
    )?;
    let mut of_group = db.prepare_cached(
        "SELECT (SELECT min(v.next_attempt_at) FROM steps v INDEXED BY steps_looks
                 WHERE v.state = 'verifying' AND v.deletion = ?1 AND v.site = ?2
                     AND v.kind = ?3 AND v.rank = ?4) AS oldest,
             ?6 = (SELECT count(*) FROM (SELECT 1 FROM steps v INDEXED BY steps_looks
                 WHERE v.state = 'verifying' AND v.deletion = ?1 AND v.site = ?2
                     AND v.kind = ?3 AND v.rank = ?4 AND v.next_attempt_at <= ?5 LIMIT ?6)),
             (SELECT s.rank FROM steps s INDEXED BY steps_ready
                 WHERE s.state = 'ready' AND s.site = ?2 AND s.deletion = ?1
                     AND d.paused = 0 AND d.cancelled = 0 ORDER BY s.rank DESC LIMIT 1),
             (SELECT max(s.rank) FROM steps s INDEXED BY steps_by_state
                 WHERE s.state = 'running' AND s.deletion = ?1 AND s.site = ?2),
             d.verifying, d.ready + d.running, d.requested_at
         FROM deletions d WHERE d.num = ?1 AND oldest <= ?5",
    )?;
    let full = WORTH_A_LIST as i64;
    let mut group = (0_i64, String::new(), String::new(), 0_u32);
    while let Some(next) = behind
        // The search starts after the group's last entry; from the first one, SQLite would read the whole group.
        .query_row(
            params![group.0, group.1, group.2, group.3, i64::MAX],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .optional()?
    {
        group = next;
        let (deletion, site, kind, rank) = &group;
        let values = params![deletion, site, kind, rank, rows::micros(now), full];
        let gathered = of_group
            .query_row(values, |row| {
                Ok(PendingObservations {
                    oldest: row.read(0)?,
                    fills_a_list: row.get(1)?,
                    rank: *rank,
                    ready: row.get(2)?,
                    running: row.get(3)?,
                    verifying: row.read(4)?,
                    unsent: row.read(5)?,
                    since: row.read(6)?,
                })
            })
            .optional()?;
        due.extend(gathered.map(|gathered| ObservationsDue {
            deletion: *deletion,
            site: rows::site_of(site),
            kind: KindName::new(kind),
            gathered,
        }));
    }
    Ok(due)
}

pub(super) fn observed(
    db: &Connection,
    of: &[ObservationsDue],
    now: DateTime<Utc>,
    limit: usize,
) -> Sql<Vec<StepRow>> {
    let mut select = db.prepare_cached(&decode::select_steps(
        "FROM steps s INDEXED BY steps_looks
         WHERE state = 'verifying' AND next_attempt_at <= ?1
             AND deletion = ?2 AND site = ?3 AND kind = ?4 AND rank = ?5
         ORDER BY next_attempt_at LIMIT ?6",
    ))?;
    let mut due = Vec::new();
    for group in of {
        let left = i64::try_from(limit - due.len()).unwrap_or(i64::MAX);
        let steps = select.query_map(
            params![
                rows::micros(now),
                group.deletion,
                group.site.to_string(),
                group.kind.as_str(),
                group.gathered.rank,
                left
            ],
            |row| Ok(decode::step_row(row)?),
        )?;
        for step in steps {
            due.push(step?);
        }
    }
    Ok(due)
}

pub(super) fn first(
    db: &Connection,
    state: StepState,
    after: Option<DateTime<Utc>>,
) -> Sql<Option<DateTime<Utc>>> {
    db.one(
        "SELECT min(next_attempt_at) FROM steps INDEXED BY steps_due
         WHERE (state = 'blocked' OR state = 'verifying') AND state = ?1
             AND next_attempt_at > ?2",
        params![state.as_str(), after.map_or(i64::MIN, rows::micros)],
        |row| Ok(row.read(0)?),
    )
}

pub(super) fn count(db: &Connection, ends: &[DateTime<Utc>]) -> Sql<Vec<DueCount>> {
    let mut between = db.prepare_cached(
        "SELECT count(*), min(next_attempt_at) FROM steps
         WHERE state = 'blocked' AND next_attempt_at > ?1 AND next_attempt_at <= ?2",
    )?;
    let (mut counted, mut after) = (Vec::with_capacity(ends.len() + 1), i64::MIN);
    for until in ends.iter().map(|end| rows::micros(*end)).chain([i64::MAX]) {
        counted.push(between.query_row([after, until], |row| {
            Ok(DueCount {
                steps: row.read(0)?,
                first: row.read(1)?,
            })
        })?);
        after = until;
    }
    Ok(counted)
}
