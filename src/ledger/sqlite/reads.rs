//! Reads of the ledger, apart from its pages by filter.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::deletion_rows::{self, DELETION};
use super::rows::{self, STEP, TOMBSTONE};
use super::sql::{Run, Sql};
use crate::domain::attention::CauseGroup;
use crate::domain::estimate;
use crate::domain::model::{
    Actor, Counts, Deletion, DeletionState, Event, Identity, KindName, Phase, Plan, PlanStep,
    ResourceKey, Site, Step, StepState, Tombstone,
};
use crate::ledger::{AuditRow, EventFilter, EventPage, KeptRequest, Original, OriginalName};

/// Plans and clients' own keys are kept for this long.
pub(super) const KEPT: TimeDelta = TimeDelta::hours(24);

/// The next attempt is looked for among so many blocked steps: each snapshot pays for it.
const BLOCKED_READ_MAX: u64 = 1_000;

/// The shortest suffix that names a deletion.
const SHORT_ID: usize = 8;

pub(super) fn find(db: &Connection, id: &str) -> Sql<Option<i64>> {
    db.first("SELECT num FROM deletions WHERE id = ?1", [id], |row| {
        row.get(0)
    })
}

/// Finds a deletion by its full id, or by a suffix that only one deletion has.
pub(super) fn deletion(db: &Connection, id: &str) -> Sql<Option<Deletion>> {
    if let Some(num) = find(db, id)? {
        return deletion_by_num(db, num).map(Some);
    }
    let Some(tail) = id.len().checked_sub(SHORT_ID).and_then(|at| id.get(at..)) else {
        return Ok(None);
    };
    let length = i64::try_from(id.len()).unwrap_or(i64::MAX);
    let found = db.all(
        "SELECT num FROM deletions WHERE substr(id, -8) = ?1 AND substr(id, ?2) = ?3 LIMIT 2",
        params![tail, -length, id],
        |row| row.get(0),
    )?;
    match found.as_slice() {
        [num] => deletion_by_num(db, *num).map(Some),
        _ => Ok(None),
    }
}

pub(super) fn deletion_by_num(db: &Connection, num: i64) -> Sql<Deletion> {
    let sql = format!(
        "SELECT {}, r.targets, r.actor, requested_at, r.reason, r.cause, r.options, r.plan_hash,
             r.refused, r.deadline
         FROM deletions JOIN requests r USING (num) WHERE num = ?1",
        DELETION
    );
    let latest = latest_event(db)?;
    let mut deletion = db.one(&sql, [num], |row| {
        let hot = deletion_rows::deletion(row)?;
        let counts = hot.counts;
        let is_under_way = hot.state == DeletionState::Running
            && counts.ready + counts.running + counts.verifying > 0;
        let rate_per_second = latest
            .filter(|_| is_under_way)
            .map_or(0.0, |latest| hot.pace.rate_per_second(&counts, latest));
        let left = (counts.live() - counts.verifying).max(1) as f64;
        let has_end = rate_per_second > 0.0 && counts.blocked == 0;
        // A cast of a float saturates.
        let eta_seconds = has_end.then(|| (left / rate_per_second).ceil() as u64);
        Ok(Deletion {
            id: hot.id,
            targets: rows::from_json(row, 24)?,
            state: hot.state,
            requested_by: rows::from_json(row, 25)?,
            requested_at: rows::time(row, 26)?,
            reason: row.get(27)?,
            cause: row.get(28)?,
            options: rows::from_json(row, 29)?,
            plan_hash: row.get(30)?,
            counts,
            rate_per_second,
            eta_seconds,
            next_attempt_at: None,
            finished_at: hot.finished_at,
            refused: rows::from_json(row, 31)?,
            note: hot.note,
            deadline: rows::time_opt(row, 32)?,
        })
    })?;
    if estimate::is_blocked(&deletion) && deletion.counts.blocked <= BLOCKED_READ_MAX {
        deletion.next_attempt_at = db.one(
            "SELECT min(next_attempt_at) FROM steps INDEXED BY steps_by_state
             WHERE state = 'blocked' AND deletion = ?1",
            [num],
            |row| rows::time_opt(row, 0),
        )?;
    }
    Ok(deletion)
}

/// The time of the newest event serves as now: readers have no clock that a simulation could set.
fn latest_event(db: &Connection) -> Sql<Option<DateTime<Utc>>> {
    db.first(
        "SELECT at FROM events ORDER BY seq DESC LIMIT 1",
        (),
        |row| rows::time(row, 0),
    )
}

/// Reads a step with at most `edges_max` of its dependencies; none: with all.
pub(super) fn step(db: &Connection, id: i64, edges_max: Option<usize>) -> Sql<Option<Step>> {
    let Some(mut step) = db.first(&format!("{STEP} WHERE s.id = ?1"), [id], rows::step)? else {
        return Ok(None);
    };
    // SQLite takes a negative limit as none.
    let limit = edges_max.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
    step.depends_on = db.all(
        "SELECT dependency FROM edges WHERE dependent = ?1 ORDER BY dependency LIMIT ?2",
        [id, limit],
        |row| row.get(0),
    )?;
    Ok(Some(step))
}

/// The columns that make up a cause, besides state and kind ([`attention::Cause`]).
pub(super) const CAUSE: &str =
    "last_error ->> 'class', last_error ->> 'status', last_error ->> 'type'";

/// The condition of [`crate::domain::attention::needs_person`].
pub(super) const NEEDS_PERSON: &str = "(state = 'stuck' OR state = 'blocked' AND EXISTS(
    SELECT 1 FROM json_each(blockers) b WHERE NOT b.value ->> 'in_plan'))";

pub(super) fn causes(db: &Connection, sites: &[Site]) -> Sql<Vec<CauseGroup>> {
    let sites = rows::json(&sites.iter().map(Site::to_string).collect::<Vec<_>>())?;
    db.all(
        &format!(
            "SELECT g.*, s.last_error ->> 'message' FROM (
             SELECT state, kind, {CAUSE}, count(*) AS steps, min(since), min(id) AS example
             FROM steps INDEXED BY steps_by_state
             WHERE state IN ('stuck', 'blocked') AND {NEEDS_PERSON}
                 AND (?1 = '[]' OR site IN (SELECT value FROM json_each(?1)))
             GROUP BY 1, 2, 3, 4, 5
         ) g JOIN steps s ON s.id = g.example ORDER BY g.steps DESC, g.example"
        ),
        [sites],
        rows::triage,
    )
}

pub(super) fn tombstones_of(db: &Connection, keys: &[ResourceKey]) -> Sql<Vec<Tombstone>> {
    let mut one = db.prepare_cached(&format!(
        "{TOMBSTONE} WHERE t.id = ?1 AND t.kind = ?2 AND t.site = ?3 AND t.phase <> 'released'"
    ))?;
    keys.iter()
        .filter_map(|key| {
            one.query_row(
                params![key.id, key.kind.as_str(), key.site.to_string()],
                rows::tombstone,
            )
            .optional()
            .transpose()
        })
        .collect()
}

pub(super) fn shown_before(db: &Connection, key: &ResourceKey) -> Sql<Option<serde_json::Value>> {
    db.first(
        "SELECT s.shown FROM tombstones t JOIN snapshots s ON s.record = t.record_id
         WHERE t.id = ?1 AND t.kind = ?2 AND t.site = ?3 AND t.phase IN ('checking', 'deleting')",
        params![key.id, key.kind.as_str(), key.site.to_string()],
        |row| rows::from_json(row, 0),
    )
}

pub(super) fn held_down(
    db: &Connection,
    since: DateTime<Utc>,
    after_record: i64,
    limit: usize,
) -> Sql<Vec<Tombstone>> {
    db.all(
        &format!(
            "{TOMBSTONE} WHERE t.phase = 'gone' AND (t.gone_at, t.record_id) > (?2, ?1)
         ORDER BY t.gone_at, t.record_id LIMIT ?3"
        ),
        params![after_record, rows::micros(since), limit as i64],
        rows::tombstone,
    )
}

pub(super) fn originals(
    db: &Connection,
    since: DateTime<Utc>,
    after_record: i64,
    limit: usize,
) -> Sql<Vec<Original>> {
    db.all(
        &format!(
            "{TOMBSTONE} WHERE t.copies_at IS NOT NULL AND t.record_id > ?1
             AND (t.phase = 'deleting' AND d.paused = 0
                 OR t.phase = 'gone' AND t.gone_at >= ?2)
         ORDER BY t.record_id LIMIT ?3"
        ),
        params![after_record, rows::micros(since), limit as i64],
        |row| {
            let tombstone = rows::tombstone(row)?;
            Ok(Original {
                name: name_of(db, tombstone.record_id)?,
                parts: parts_of(db, tombstone.record_id)?,
                tombstone,
                locals: rows::from_json(row, 10)?,
            })
        },
    )
}

fn parts_of(db: &Connection, record_id: i64) -> Sql<Vec<ResourceKey>> {
    db.all(
        "SELECT site, kind, id FROM parts WHERE record = ?1 ORDER BY kind, id",
        [record_id],
        |row| rows::key(row, 0),
    )
}

/// The tombstone of the original with which this part goes, without one of its own.
pub(super) fn whole_of(db: &Connection, part: &ResourceKey) -> Sql<Option<Tombstone>> {
    db.first(
        &format!(
            "{TOMBSTONE} WHERE t.phase <> 'released' AND t.record_id = (
             SELECT record FROM parts WHERE id = ?1 AND kind = ?2 AND site = ?3)"
        ),
        params![part.id, part.kind.as_str(), part.site.to_string()],
        rows::tombstone,
    )
}

fn name_of(db: &Connection, record_id: i64) -> Sql<Option<OriginalName>> {
    db.first(
        "SELECT name, project FROM namesakes WHERE record = ?1",
        [record_id],
        |row| {
            Ok(OriginalName {
                name: row.get(0)?,
                project_id: row.get(1)?,
            })
        },
    )
}

/// While an original is being checked, its project is not kept yet.
pub(super) fn namesakes(
    db: &Connection,
    site: &Site,
    kind: &KindName,
    name: &str,
) -> Sql<Vec<(Tombstone, Option<OriginalName>)>> {
    let known = format!(
        "{TOMBSTONE} WHERE t.phase IN ('deleting', 'gone', 'purged') AND t.record_id IN (
             SELECT record FROM namesakes WHERE name = ?1 AND kind = ?2 AND site = ?3)"
    );
    let checked = format!(
        "{TOMBSTONE} WHERE t.phase = 'checking' AND t.kind = ?2 AND t.site = ?3 AND t.id IN (
             SELECT j.value ->> 'id' FROM deletions p JOIN requests r USING (num), json_each(r.targets) j
             WHERE p.state = 'planning' AND j.value ->> 'name' = ?1
                 AND j.value ->> 'kind' = ?2 AND j.value ->> 'site' = ?3)"
    );
    let mut found = Vec::new();
    for sql in [known, checked] {
        let wanted = params![name, kind.as_str(), site.to_string()];
        let rows = db.all(&sql, wanted, rows::tombstone)?;
        for tombstone in rows {
            let name = name_of(db, tombstone.record_id)?;
            let is_checked = tombstone.phase == Phase::Checking;
            found.push((tombstone, name.filter(|_| !is_checked)));
        }
    }
    Ok(found)
}

pub(super) fn events(
    db: &Connection,
    after: i64,
    filter: &EventFilter,
    limit: usize,
) -> Sql<EventPage> {
    // The narrowest filter leads, with its index.
    let (condition, value) = match (filter.step_id, &filter.deletion_id) {
        (Some(step), _) => ("e.step = ?3", step),
        (None, Some(id)) => match find(db, id)? {
            Some(num) => ("e.deletion = ?3", num),
            None => ("?3 = 1", 0),
        },
        (None, None) => ("?3 = 0", 0),
    };
    let events = db.all(
        &format!(
            "SELECT e.seq, e.at, d.id, e.step, e.kind, e.message, e.data
             FROM events e LEFT JOIN deletions d ON d.num = e.deletion
             WHERE e.seq > ?1 AND {condition} ORDER BY e.seq LIMIT ?2"
        ),
        params![after, limit as i64, value],
        event,
    )?;
    let (oldest, newest) = db.one(
        // Events that were pruned had numbers, too.
        "SELECT coalesce((SELECT min(seq) FROM events), last + 1), last FROM (SELECT coalesce(
             (SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0) AS last)",
        (),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(EventPage {
        events,
        oldest,
        newest,
    })
}

fn event(row: &Row) -> Sql<Event> {
    Ok(Event {
        seq: row.get(0)?,
        at: rows::time(row, 1)?,
        deletion_id: row.get(2)?,
        step_id: row.get(3)?,
        kind: rows::word(row, 4)?,
        message: row.get(5)?,
        data: rows::from_json(row, 6)?,
    })
}

pub(super) fn audit(db: &Connection, after: i64, limit: usize) -> Sql<Vec<AuditRow>> {
    db.all(
        "SELECT seq, at, actor, action, target, reason, detail, hash FROM audit
         WHERE seq > ?1 ORDER BY seq LIMIT ?2",
        params![after, limit as i64],
        |row| {
            Ok(AuditRow {
                seq: row.get(0)?,
                at: rows::time(row, 1)?,
                actor: rows::from_json(row, 2)?,
                action: row.get(3)?,
                target: row.get(4)?,
                reason: row.get(5)?,
                detail: rows::from_json(row, 6)?,
                hash: row.get(7)?,
            })
        },
    )
}

pub(super) fn plan(db: &Connection, hash: &str, now: DateTime<Utc>) -> Sql<Option<Plan>> {
    db.first(
        "SELECT body FROM plans WHERE hash = ?1 AND saved_at > ?2",
        params![hash, rows::micros(now - KEPT)],
        |row| rows::from_json(row, 0),
    )
}

/// The request that this actor made under this key within the last 24 h.
pub(super) fn kept_request(
    db: &Connection,
    actor: &Actor,
    key: &str,
    now: DateTime<Utc>,
) -> Sql<Option<KeptRequest>> {
    db.first(
        "SELECT body, deletion, answer FROM idempotency WHERE actor = ?1 AND key = ?2 AND at > ?3",
        params![rows::json(actor)?, key, rows::micros(now - KEPT)],
        |row| {
            Ok(KeptRequest {
                body: row.get(0)?,
                deletion: row.get(1)?,
                answer: rows::from_json_opt(row, 2)?,
            })
        },
    )
}

/// The frozen plan, from its header and its steps.
pub(super) fn frozen(db: &Connection, deletion_id: &str, with_steps: bool) -> Sql<Option<Plan>> {
    let found = db.first(
        "SELECT d.num, r.frozen FROM deletions d JOIN requests r USING (num)
             WHERE d.id = ?1 AND r.frozen IS NOT NULL",
        [deletion_id],
        |row| Ok((row.get::<_, i64>(0)?, rows::from_json::<Plan>(row, 1)?)),
    )?;
    let Some((num, mut plan)) = found else {
        return Ok(None);
    };
    if with_steps {
        (_, plan.steps) = planned_steps(db, num)?;
    }
    Ok(Some(plan))
}

pub(super) fn progress(db: &Connection, deletion_id: &str) -> Sql<Vec<(Site, Counts)>> {
    let counted: Vec<(Site, StepState, u64)> = db.all(
        "SELECT b.site, s.state, count(*) FROM branches b
         CROSS JOIN steps s INDEXED BY steps_by_branch ON s.branch = b.id
         WHERE b.deletion = (SELECT num FROM deletions WHERE id = ?1)
         GROUP BY b.site, s.state ORDER BY b.site",
        [deletion_id],
        |row| {
            Ok((
                rows::word(row, 0)?,
                rows::word(row, 1)?,
                rows::number(row, 2)?,
            ))
        },
    )?;
    let mut progress: Vec<(Site, Counts)> = Vec::new();
    for (site, state, number) in counted {
        if progress.last().is_none_or(|(last, _)| *last != site) {
            progress.push((site, Counts::default()));
        }
        if let Some((_, counts)) = progress.last_mut() {
            *counts.of_mut(state) += number;
            counts.total += number;
        }
    }
    Ok(progress)
}

/// The identities in the plan's header, without reading the rest of it.
pub(super) fn identities(db: &Connection, deletion_id: &str) -> Sql<BTreeMap<String, Identity>> {
    let found = db.first(
        "SELECT r.frozen -> '$.identities' FROM deletions d JOIN requests r USING (num)
             WHERE d.id = ?1",
        [deletion_id],
        |row| rows::from_json_opt(row, 0),
    )?;
    Ok(found.unwrap_or_default())
}

/// The planned steps, ordered by id, and their ids; without steps that were pruned.
pub(super) fn planned_steps(db: &Connection, num: i64) -> Sql<(Vec<i64>, Vec<PlanStep>)> {
    let mut found = db.all(
        "SELECT id, position, site, kind, resource, action, name, project, why, fingerprint,
                 vars
             FROM steps WHERE state IN (SELECT value FROM json_each(?2)) AND deletion = ?1",
        params![num, rows::json(&StepState::ALL)?],
        |row| {
            let key = rows::key(row, 2)?;
            let id: i64 = row.get(0)?;
            Ok((
                id,
                PlanStep {
                    id: rows::number(row, 1)?,
                    site: key.site,
                    kind: key.kind,
                    resource_id: key.id,
                    action: rows::word(row, 5)?,
                    name: row.get(6)?,
                    project_id: row.get(7)?,
                    depends_on: Vec::new(),
                    // Resources that the cloud removes by itself are not steps.
                    automatic: false,
                    why: row.get(8)?,
                    fingerprint: row.get(9)?,
                    vars: rows::from_json_opt(row, 10)?,
                    compared: Default::default(),
                },
            ))
        },
    )?;
    found.sort_unstable_by_key(|(id, _)| *id);
    let mut edges = db.prepare_cached("SELECT dependency FROM edges WHERE dependent = ?1")?;
    for (id, step) in &mut found {
        let first = *id - i64::from(step.id);
        step.depends_on = edges
            .query_map([*id], |row| row.get::<_, i64>(0))?
            .map(|id| id.map(|id| u32::try_from(id - first).unwrap_or_default()))
            .collect::<Sql<_>>()?;
        step.depends_on.sort_unstable();
    }
    Ok(found.into_iter().unzip())
}
