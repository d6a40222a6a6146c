//! Side tables of the copy: its state at the end, and the facts that its events and its audit give, by deletion, step
//! and record.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::old_messages::TRANSLATED;

use super::super::sql::Sql;

use crate::ledger::store::sql::ReadColumns as _;
/// The tables whose state at the end is kept, because they are set to other times.
const KEPT: [&str; 4] = ["steps", "deletions", "requests", "tombstones"];

/// Prepares the copy, and returns the times of its first event and of its last change; none if there is no event.
/// Nothing is durable: the copy is of no use once its process has ended.
pub(super) fn prepare(db: &mut Connection) -> Sql<Option<(DateTime<Utc>, DateTime<Utc>)>> {
    db.pragma_update(None, "synchronous", "off")?;
    let tx = Transaction::new(db, TransactionBehavior::Immediate)?;
    let events: i64 = tx.query_row(
        "SELECT count(*) FROM (SELECT 1 FROM events LIMIT 1)",
        (),
        |row| row.get(0),
    )?;
    if events == 0 {
        return Ok(None);
    }
    for table in KEPT {
        keep(&tx, table)?;
    }
    tx.execute_batch(VIEWS)?;
    tx.execute_batch(TRANSLATED)?;
    tx.execute_batch(TURNS)?;
    tx.execute_batch(MOVES)?;
    tx.execute_batch(SHOWN)?;
    let span = tx.query_row(
        "SELECT (SELECT min(at) FROM all_events), at FROM shown",
        (),
        |row| Ok((row.read(0)?, row.read(1)?)),
    )?;
    tx.commit()?;
    db.execute_batch(super::project_steps::SCRATCH)?;
    db.execute_batch(super::project_deletions::SCRATCH)?;
    Ok(Some(span))
}

/// Copies a table under the name `last_…`, with the same columns and key.
fn keep(tx: &Transaction, table: &str) -> Sql<()> {
    let sql: String = tx.query_row(
        "SELECT substr(sql, instr(sql, '(')) FROM sqlite_master WHERE type = 'table' AND name = ?1",
        [table],
        |row| row.get(0),
    )?;
    tx.execute_batch(&format!(
        "CREATE TABLE last_{table}{sql}; INSERT INTO last_{table} SELECT * FROM {table};"
    ))
}

/// Readers of events and of the audit use the views. No engine works on the copy, so indexes that only an engine needs
/// are dropped: with fewer indexes a time is shown sooner.
const VIEWS: &str = "
DROP INDEX steps_live;
DROP INDEX steps_ready;
DROP INDEX steps_due;
DROP INDEX steps_looks;
CREATE INDEX last_steps_by_deletion ON last_steps(deletion);
CREATE TABLE shown(seq INTEGER NOT NULL, at INTEGER NOT NULL,
    before_seq INTEGER NOT NULL, before_at INTEGER NOT NULL) STRICT;
ALTER TABLE events RENAME TO all_events;
CREATE INDEX all_events_by_time ON all_events(at);
CREATE VIEW events AS SELECT * FROM all_events WHERE seq <= (SELECT seq FROM shown);
ALTER TABLE audit RENAME TO all_audit;
CREATE VIEW audit AS SELECT * FROM all_audit WHERE at <= (SELECT at FROM shown);
";

/// The facts that the events and the audit give, by deletion, step and record.
const TURNS: &str = "
-- The states that a deletion went through.
CREATE TABLE turns(num INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, state TEXT NOT NULL,
    note TEXT, PRIMARY KEY(num, seq)) STRICT, WITHOUT ROWID;
INSERT INTO turns
    SELECT deletion, seq, at, data ->> 'state', data ->> 'note' FROM all_events
    WHERE deletion IS NOT NULL AND data ->> 'state' IS NOT NULL
        AND kind IN ('deletion_accepted', 'deletion_refused', 'deletion_state')
    ORDER BY deletion, seq;

-- When a deletion was accepted, planned and cancelled: 0 if no event says so any more, null if it never was. And
-- the last event of the deletion, and the time of its last change.
CREATE TABLE spans(num INTEGER PRIMARY KEY, accepted INTEGER NOT NULL, planned INTEGER,
    planned_at INTEGER NOT NULL, cancelled INTEGER, last_seq INTEGER NOT NULL, last_at INTEGER NOT NULL
) STRICT;
INSERT INTO spans
    SELECT num, coalesce(e.accepted, 0), coalesce(e.planned, iif(s.since IS NULL, NULL, 0)),
        coalesce(e.planned_at, d.requested_at), iif(d.cancelled, coalesce(e.cancelled, 0), NULL),
        coalesce(e.seq, 0), max(coalesce(e.at, 0), coalesce(s.since, 0), d.requested_at)
    FROM last_deletions d
    LEFT JOIN (SELECT deletion, max(seq) AS seq, max(at) AS at,
            max(seq) FILTER (WHERE kind = 'deletion_accepted') AS accepted,
            max(seq) FILTER (WHERE kind = 'deletion_planned') AS planned,
            max(at) FILTER (WHERE kind = 'deletion_planned') AS planned_at,
            min(seq) FILTER (WHERE kind = 'deletion_state' AND data ->> 'state' = 'cancelled') AS cancelled
        FROM all_events WHERE deletion IS NOT NULL GROUP BY deletion) e ON e.deletion = num
    LEFT JOIN (SELECT deletion, max(since) AS since FROM last_steps GROUP BY deletion) s
        ON s.deletion = num;

-- The step of another deletion to which a step was left, until this event; and when the step took the resource over.
CREATE TABLE lefts(step INTEGER NOT NULL, seq INTEGER NOT NULL, owner INTEGER NOT NULL,
    PRIMARY KEY(step, seq)) STRICT, WITHOUT ROWID;
INSERT INTO lefts SELECT step, seq, data ->> 'was_left_to' FROM all_events
    WHERE step IS NOT NULL AND kind = 'step_state' AND data ->> 'was_left_to' IS NOT NULL;
CREATE TABLE taken(step INTEGER PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL) STRICT;
INSERT INTO taken SELECT step, max(seq), max(at) FROM all_events
    WHERE step IS NOT NULL AND kind = 'step_state' AND data ->> 'taken_over' GROUP BY step;

-- When a deletion raised a tombstone: those of its targets and their copies when it was accepted or planned again, and
-- the others when its plan started. `step`: the step that deletes the resource, if there is one. `at`: the time of T15.
CREATE TABLE fences(record INTEGER NOT NULL, seq INTEGER NOT NULL, num INTEGER NOT NULL, step INTEGER,
    at INTEGER NOT NULL, PRIMARY KEY(record, seq, num)) STRICT, WITHOUT ROWID;
INSERT INTO fences
    SELECT t.record_id, coalesce(u.seq, s.accepted), d.num, NULL, coalesce(u.at, d.requested_at)
    FROM last_requests r, json_each(json_array(json(r.targets), json(r.copies))) AS list,
        json_each(list.value) AS key
    JOIN last_tombstones t ON t.id = key.value ->> 'id' AND t.kind = key.value ->> 'kind'
        AND t.site = key.value ->> 'site'
    JOIN last_deletions d ON d.num = r.num
    JOIN spans s ON s.num = r.num
    LEFT JOIN turns u ON u.num = r.num AND u.state = 'planning'
    WHERE true ON CONFLICT DO NOTHING;
INSERT INTO fences
    SELECT record, coalesce(max(taken.seq), planned), deletion, max(id),
        coalesce(max(taken.at), planned_at)
    FROM last_steps JOIN spans ON num = deletion LEFT JOIN taken ON taken.step = id
    WHERE record IS NOT NULL GROUP BY record, deletion
    ON CONFLICT DO NOTHING;
CREATE INDEX fences_by_deletion ON fences(num, record);
UPDATE fences SET step = s.step, at = f.at FROM
    (SELECT record, num, step FROM fences WHERE step IS NOT NULL) s
    JOIN (SELECT record, num, max(at) AS at FROM fences WHERE step IS NULL GROUP BY record, num) f
        USING(record, num)
    WHERE fences.record = s.record AND fences.num = s.num;

-- Tombstones that were released after their deletion had ended, and re-creations of their resources.
CREATE TABLE returns(record INTEGER NOT NULL, seq INTEGER NOT NULL, times INTEGER,
    PRIMARY KEY(record, seq)) STRICT, WITHOUT ROWID;
INSERT INTO returns
    SELECT t.record_id, e.seq, e.data ->> 'recreated'
    FROM all_events e JOIN last_tombstones t ON t.id = e.data ->> 'id'
        AND t.kind = e.data ->> 'kind' AND t.site = e.data ->> 'site'
    WHERE e.kind IN ('recreated', 'revived') OR e.kind = 'purge' AND e.data ->> 'phase' = 'released';

-- Retries of a deletion, of one step of it, or (neither) of many steps: by a person, or by a repeated DELETE, which
-- does not retry steps that wait for a person, and resets no counter (T6).
CREATE TABLE retries(at INTEGER NOT NULL, num INTEGER, step INTEGER, by_person INTEGER NOT NULL) STRICT;
INSERT INTO retries
    SELECT a.at, d.num, a.detail ->> 'step_id', a.action <> 'delete again'
    FROM all_audit a JOIN last_deletions d ON d.id = a.target
    WHERE a.action IN ('retry', 'purge retry', 'purge unpin', 'delete again');
INSERT INTO retries
    SELECT a.at, s.deletion, s.id, 1 FROM last_steps s CROSS JOIN all_audit a
        ON a.target = s.kind || '/' || s.resource || '@' || s.site
    WHERE a.action = 'retry' AND instr(a.target, '/') > 0;
INSERT INTO retries
    SELECT at, NULL, NULL, 1 FROM all_audit WHERE action = 'retry' AND target LIKE '% steps';
CREATE INDEX retries_by_deletion ON retries(num, at);
";

/// The moves of each step: its state at each of its events. An event that only says that other steps wait for the step,
/// or that people were notified, is not a move. But if a step became stuck by a move without an event, the
/// notification counts as the move.
const MOVES: &str = "
CREATE TABLE moves(step INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL,
    state TEXT NOT NULL, attempts INTEGER, sent INTEGER NOT NULL, next_attempt_at INTEGER, blocked_since INTEGER,
    blockers TEXT, error TEXT, next_at INTEGER, next_kind TEXT, PRIMARY KEY(step, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO moves
    WITH told AS (
        SELECT seq, at, step, kind, data, data ->> 'state' AS state,
            lag(data ->> 'state') OVER (PARTITION BY step ORDER BY seq) AS before
        FROM all_events
        WHERE step IS NOT NULL AND kind IN ('attempt', 'step_state', 'needs_person')
            AND data ->> 'state' IS NOT NULL AND data ->> 'held' IS NULL)
    SELECT step, seq, at, kind, state, data ->> 'attempts',
        max(kind = 'attempt' OR kind = 'step_state' AND data ->> 'attempts' IS NOT NULL) OVER w,
        CAST(round(unixepoch(data ->> 'next_attempt_at', 'subsec') * 1000) AS INTEGER) * 1000,
        CASE WHEN data ->> 'blocked_since' IS NOT NULL
            THEN CAST(round(unixepoch(data ->> 'blocked_since', 'subsec') * 1000) AS INTEGER) * 1000
            WHEN state IN ('blocked', 'stuck')
            THEN min(iif(state IN ('blocked', 'stuck'), at, NULL)) OVER w END,
        data -> 'blockers',
        nullif(data -> 'error', 'null'),
        lead(at) OVER w, lead(kind) OVER w
    FROM told WHERE kind <> 'needs_person' OR before IS NOT 'stuck'
    WINDOW w AS (PARTITION BY step ORDER BY seq);
UPDATE moves SET attempts = coalesce((SELECT attempts FROM moves m
        WHERE m.step = moves.step AND m.seq < moves.seq AND m.attempts IS NOT NULL
        ORDER BY m.seq DESC LIMIT 1), 0)
    WHERE attempts IS NULL;
";

/// The copy first shows its end: the last event, or a later change that has no event.
const SHOWN: &str = "
INSERT INTO shown SELECT seq, at, seq, at FROM (SELECT max(seq) AS seq, max(max(at),
    coalesce((SELECT max(since) FROM last_steps), 0), coalesce((SELECT max(at) FROM all_audit), 0)) AS at
    FROM all_events);
";
