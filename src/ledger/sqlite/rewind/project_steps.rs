//! Derives the state of each step at the time that is shown; [`super::project_deletions`] derives the other tables.

use rusqlite::{Transaction, params};

use super::super::sql::{Run, Sql};
use super::project_deletions;
use crate::ledger::derived::step_state;
use crate::ledger::transitions::step::{Facts, Trigger};

/// Scratch tables, computed again for each time. SQLite keeps the rows that its cache cannot hold in temporary files.
pub(super) const SCRATCH: &str = "
CREATE TEMP TABLE touched(num INTEGER PRIMARY KEY, is_accepted INTEGER NOT NULL, is_planned INTEGER NOT NULL,
    was_planned INTEGER NOT NULL, is_last INTEGER NOT NULL, was_last INTEGER NOT NULL) STRICT;
CREATE TEMP TABLE moved(id INTEGER PRIMARY KEY) STRICT;
CREATE TEMP TABLE stands(id INTEGER PRIMARY KEY, deletion INTEGER NOT NULL, fixed INTEGER NOT NULL,
    left_to INTEGER,
    state TEXT NOT NULL, since INTEGER NOT NULL, waits INTEGER NOT NULL, attempts INTEGER NOT NULL,
    next_attempt_at INTEGER, blocked_since INTEGER, sent INTEGER NOT NULL, held_by INTEGER,
    ended_at INTEGER, blockers TEXT, last_error TEXT, told INTEGER NOT NULL) STRICT;
CREATE TEMP TABLE held(id INTEGER PRIMARY KEY, root INTEGER NOT NULL, level INTEGER NOT NULL) STRICT;
CREATE TEMP TABLE flying(id INTEGER PRIMARY KEY, deletion INTEGER NOT NULL, is_unsure INTEGER NOT NULL) STRICT;
";

/// Sets the tables to the time in `shown`.
pub(super) fn write(tx: &Transaction) -> Sql<()> {
    tx.execute_batch(TOUCHED)?;
    tx.execute_batch(&fill(STANDS))?;
    propagate_stuck(tx)?;
    tx.execute_batch(STEPS)?;
    project_deletions::write(tx)
}

/// Fills in the states after moves that have no event: `{cancelled}`, `{retried}`, `{freed}`, `{held}`.
fn fill(sql: &str) -> String {
    let sent = Facts {
        sent: true,
        waits: true,
        ..Facts::default()
    };
    let unsent = Facts::default();
    sql.replace(
        "{cancelled}",
        &step_state("moved", Trigger::DeletionCancelled, sent),
    )
    .replace("{retried}", &step_state("moved", Trigger::Retried, sent))
    .replace(
        "{freed}",
        &step_state("state", Trigger::DependenciesEnded, unsent),
    )
    .replace(
        "{held}",
        &step_state("stands.state", Trigger::DeletionStopped, unsent),
    )
}

/// The deletions that existed at either of two times: the time that is shown, and the one shown before. For each
/// deletion: whether it exists at the time that is shown; and for each time, whether its steps existed, and whether it
/// had changed for the last time. A deletion that has not moved since the earlier of the two times is left out.
const TOUCHED: &str = "
DELETE FROM touched;
INSERT INTO touched
    SELECT num, accepted <= seq, coalesce(planned <= seq, 0), coalesce(planned <= before_seq, 0),
        last_seq <= seq AND last_at <= at, last_seq <= before_seq AND last_at <= before_at
    FROM shown, spans
    WHERE accepted <= max(seq, before_seq)
        AND NOT (last_seq <= min(seq, before_seq) AND last_at <= min(at, before_at));
";

/// The state after a step's last move, or the state at the end if nothing has moved it since. A waiting step
/// is ready if all its dependencies have ended. In a cancelled deletion, steps that were sent are observed,
/// and the other live steps are in flight (P8).
const STANDS: &str = "
DELETE FROM stands;
INSERT INTO stands
    SELECT id, deletion, is_last, left_owner,
        CASE WHEN stays THEN state
            WHEN moved IS NULL THEN 'waiting'
            WHEN moved IN ('gone', 'skipped', 'purged') THEN moved
            WHEN is_cancelled THEN {cancelled}
            WHEN moved = 'ready' THEN 'waiting'
            WHEN retried THEN {retried}
            ELSE moved END,
        CASE WHEN stays THEN since ELSE coalesce(moved_at, planned_at) END,
        iif(stays, waits, 0),
        CASE WHEN stays THEN attempts WHEN retried = 2 AND moved = 'stuck' THEN 0
            ELSE coalesce(moved_attempts, 0) END,
        CASE WHEN stays THEN next_attempt_at WHEN retried OR is_cancelled THEN NULL
            ELSE moved_next END,
        CASE WHEN stays THEN blocked_since WHEN retried = 2 AND moved = 'stuck' THEN NULL
            ELSE moved_blocked END,
        iif(stays, sent, coalesce(moved_sent, 0)),
        iif(is_last, held_by, NULL),
        CASE WHEN stays THEN ended_at WHEN moved IN ('gone', 'skipped', 'purged') THEN moved_at END,
        iif(stays, blockers, moved_blockers),
        iif(stays, last_error, moved_error),
        told
    FROM (
        SELECT l.*, t.is_last, s.planned_at, m.state AS moved, m.at AS moved_at,
            m.attempts AS moved_attempts, m.next_attempt_at AS moved_next,
            m.blocked_since AS moved_blocked, m.sent AS moved_sent, m.blockers AS moved_blockers,
            m.error AS moved_error,
            t.is_last OR l.since <= shown.at AND l.held_by IS NULL AND CASE
                WHEN m.step IS NULL THEN NOT EXISTS (SELECT 1 FROM moves WHERE step = l.id)
                ELSE m.next_at IS NULL END AS stays,
            s.cancelled > m.seq AND s.cancelled <= shown.seq AS is_cancelled,
            coalesce((SELECT owner FROM lefts WHERE step = l.id AND lefts.seq > shown.seq
                ORDER BY lefts.seq LIMIT 1), l.left_to) AS left_owner,
            iif(m.state IN ('stuck', 'blocked') AND coalesce(m.error ->> 'type', '') <> 'LeftToAnotherDeletion', (SELECT max(by_person) + 1 FROM retries r
                WHERE r.at > m.at AND r.at <= shown.at AND (
                    r.num = l.deletion AND coalesce(r.step, l.id) = l.id AND (by_person
                        OR m.error ->> 'class' NOT IN ('fatal', 'drift', 'guard'))
                    OR r.num IS NULL AND m.next_kind = 'attempt' AND r.at <= m.next_at)), NULL) AS retried
        FROM shown, touched t JOIN last_steps l ON l.deletion = t.num JOIN spans s ON s.num = t.num
        LEFT JOIN moves m ON m.step = l.id AND m.seq = (SELECT max(seq) FROM moves
            WHERE step = l.id AND seq <= (SELECT seq FROM shown))
        WHERE t.is_planned);
UPDATE stands SET waits = (SELECT count(*) FROM edges e JOIN stands d ON d.id = e.dependency
        WHERE e.dependent = stands.id AND d.ended_at IS NULL)
    WHERE NOT fixed AND ended_at IS NULL;
UPDATE stands SET since = max(since, coalesce((SELECT max(d.ended_at) FROM edges e
            JOIN stands d ON d.id = e.dependency WHERE e.dependent = stands.id), 0)),
        state = {freed}
    WHERE NOT fixed AND state = 'waiting' AND waits = 0 AND left_to IS NULL;
UPDATE stands SET state = iif(sent, 'verifying', 'running'), sent = 1
    WHERE NOT fixed AND state = 'ready' AND deletion IN (
        SELECT num FROM spans WHERE cancelled <= (SELECT seq FROM shown));
";

/// Makes the dependents of stuck steps stuck too, and theirs in turn; with `on_failure = stop`, all steps
/// that were not sent (N11, N12). The function works level by level and handles each step once, so the number of edges
/// bounds the work.
fn propagate_stuck(tx: &Transaction) -> Sql<()> {
    tx.execute("DELETE FROM held", ())?;
    let mut level = 0;
    let mut found = tx.execute(
        "INSERT INTO held SELECT e.dependent, min(s.id), 0
         FROM stands s JOIN edges e ON e.dependency = s.id JOIN stands d ON d.id = e.dependent
         WHERE s.state = 'stuck' AND NOT s.fixed AND d.state = 'waiting' GROUP BY e.dependent",
        (),
    )?;
    while found > 0 {
        found = tx.run(
            "INSERT OR IGNORE INTO held SELECT e.dependent, min(h.root), ?1 + 1
                 FROM held h JOIN edges e ON e.dependency = h.id JOIN stands d ON d.id = e.dependent
                 WHERE h.level = ?1 AND d.state = 'waiting' GROUP BY e.dependent",
            params![level],
        )?;
        level += 1;
    }
    tx.execute_batch(STOPPED)?;
    tx.run(&fill(
        "UPDATE stands SET state = {held}, held_by = h.root, since = max(stands.since, r.since),
             last_error = json_object('class', 'blocked', 'status', NULL, 'type', ?1,
                 'message', 'waits for step ' || h.root || ', ' || l.kind || ' '
                     || iif(l.name = '', l.resource, l.name || ' (' || l.resource || ')')
                     || ', which is stuck',
                 'request_id', '', 'at', strftime('%FT%H:%M:%fZ', r.since / 1e6, 'unixepoch'))
         FROM held h JOIN stands r ON r.id = h.root JOIN last_steps l ON l.id = h.root
         WHERE h.id = stands.id",
    ), [crate::domain::ladder::DEPENDENCY_STUCK])
    .map(drop)
}

/// If a deletion stops at a failure, the steps that were not sent become stuck because of the failed step. But while
/// the deletion was still running, steps that were answered later were in flight, unless a retry in between may have
/// sent them.
const STOPPED: &str = "
INSERT OR IGNORE INTO held SELECT s.id, r.root, 0 FROM (
        SELECT deletion, min(id) AS root FROM stands WHERE state = 'stuck' AND NOT fixed
        GROUP BY deletion) r
    JOIN last_deletions d ON d.num = r.deletion AND d.stops
    JOIN spans c ON c.num = r.deletion AND coalesce(c.cancelled > (SELECT seq FROM shown), 1)
    JOIN stands s ON s.deletion = r.deletion AND s.state IN ('waiting', 'ready') AND NOT s.sent;
DELETE FROM flying;
INSERT INTO flying SELECT s.id, s.deletion, EXISTS (SELECT 1 FROM retries r WHERE r.at > shown.at
            AND r.at <= coalesce(m.at, l.since) AND coalesce(r.num, s.deletion) = s.deletion)
    FROM shown, held h JOIN stands s ON s.id = h.id AND s.state = 'ready' JOIN last_steps l ON l.id = h.id
    JOIN turns u ON u.num = s.deletion AND u.state IN ('running', 'paused') AND u.seq = (
        SELECT max(seq) FROM turns WHERE num = s.deletion AND seq <= (SELECT seq FROM shown))
    LEFT JOIN moves m ON m.step = h.id AND m.seq = (SELECT min(seq) FROM moves WHERE step = h.id
        AND seq > (SELECT seq FROM shown))
    WHERE iif(m.step IS NULL, l.sent, m.kind = 'attempt'
        OR m.kind = 'step_state' AND m.state NOT IN ('purged', 'ready'));
DELETE FROM flying WHERE is_unsure AND deletion IN (SELECT deletion FROM stands
    WHERE state IN ('waiting', 'ready', 'verifying', 'blocked') AND id NOT IN (
        SELECT id FROM held WHERE id NOT IN (SELECT id FROM flying WHERE NOT is_unsure)));
DELETE FROM held WHERE id IN (SELECT id FROM flying);
UPDATE stands SET state = 'running', sent = 1 WHERE id IN (SELECT id FROM flying);
";

/// Writes only the rows that differ, and notes them in `moved`.
const STEPS: &str = "
UPDATE stands SET told = 1 WHERE state = 'stuck' AND held_by IS NULL;
DELETE FROM moved;
INSERT INTO moved SELECT id FROM steps
    WHERE deletion IN (SELECT num FROM touched WHERE was_planned AND NOT is_planned);
INSERT INTO moved SELECT s.id FROM stands s LEFT JOIN steps t ON t.id = s.id
    WHERE t.id IS NULL OR (t.left_to, t.state, t.since, t.waits, t.attempts, t.next_attempt_at, t.blocked_since,
            t.sent, t.held_by, t.ended_at, t.blockers, t.last_error, t.told)
        IS NOT (s.left_to, s.state, s.since, s.waits, s.attempts, s.next_attempt_at, s.blocked_since,
            s.sent, s.held_by, s.ended_at, s.blockers, s.last_error, s.told);
DELETE FROM steps WHERE deletion IN (SELECT num FROM touched WHERE was_planned AND NOT is_planned);
INSERT INTO steps SELECT * FROM last_steps
    WHERE deletion IN (SELECT num FROM touched WHERE is_planned AND NOT was_planned);
UPDATE steps SET left_to = s.left_to, state = s.state, since = s.since, waits = s.waits, attempts = s.attempts,
        next_attempt_at = s.next_attempt_at, blocked_since = s.blocked_since, sent = s.sent,
        held_by = s.held_by, ended_at = s.ended_at, blockers = s.blockers, last_error = s.last_error,
        told = s.told
    FROM moved m JOIN stands s ON s.id = m.id WHERE s.id = steps.id;
";
