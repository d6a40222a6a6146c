//! Derives the rest of the copy from the steps at the time that is shown: the deletions with their counts, their
//! requests, the tombstones, and the counters of all deletions and steps.

use rusqlite::Transaction;

use super::super::sql::Sql;
use crate::ledger::derived;

pub(super) const SCRATCH: &str = "
CREATE TEMP TABLE sums(num INTEGER PRIMARY KEY, waiting INTEGER, ready INTEGER, running INTEGER,
    verifying INTEGER, blocked INTEGER, stuck INTEGER, gone INTEGER, skipped INTEGER, purged INTEGER,
    total INTEGER, ended_at INTEGER, root INTEGER) STRICT;
CREATE TEMP TABLE fallen(record INTEGER PRIMARY KEY, num INTEGER NOT NULL, phase TEXT NOT NULL,
    deleted_at INTEGER, gone_at INTEGER, incarnation INTEGER NOT NULL, recreated INTEGER NOT NULL
) STRICT;
CREATE TEMP TABLE records(record INTEGER PRIMARY KEY) STRICT;
";

pub(super) fn write(tx: &Transaction) -> Sql<()> {
    tx.execute_batch(&derived::fill(DELETIONS))?;
    tx.execute_batch(REQUESTS)?;
    tx.execute_batch(TOMBSTONES)?;
    tx.execute_batch(COUNTERS)
}

/// The state of a deletion comes from its events, or from its steps if the events are no longer kept. Its pace is not
/// known.
const DELETIONS: &str = "
DELETE FROM sums;
INSERT INTO sums SELECT deletion, count(*) FILTER (WHERE state = 'waiting'),
        count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state = 'running'),
        count(*) FILTER (WHERE state = 'verifying'), count(*) FILTER (WHERE state = 'blocked'),
        count(*) FILTER (WHERE state = 'stuck'), count(*) FILTER (WHERE state = 'gone'),
        count(*) FILTER (WHERE state = 'skipped'), count(*) FILTER (WHERE state = 'purged'),
        count(*), max(ended_at), min(id) FILTER (WHERE state = 'stuck' AND held_by IS NULL)
    FROM stands GROUP BY deletion;
DELETE FROM deletions WHERE num IN (SELECT num FROM touched WHERE NOT is_last OR NOT is_accepted);
INSERT OR REPLACE INTO deletions SELECT * FROM last_deletions
    WHERE num IN (SELECT num FROM touched WHERE is_last AND is_accepted);
INSERT INTO deletions(num, id, state, cancelled, paused, stops, waiting, ready, running, verifying,
        blocked, stuck, gone, skipped, purged, total, requested_at, finished_at, note)
    SELECT num, id, state, state = 'cancelled', state = 'paused', stops, waiting, ready, running,
        verifying, blocked, stuck, gone, skipped, purged, total, requested_at,
        iif({live} = 0 AND state IN {finished},
            iif(state = 'cancelled', max(at, ended_at), at), NULL),
        CASE state
            WHEN 'stuck' THEN iif(stuck = 1, '', stuck || ' steps; ') || coalesce((
                SELECT l.kind || ' ' || iif(l.name = '', l.resource, l.name) || ': '
                    || coalesce(s.last_error ->> 'message', '')
                FROM stands s JOIN last_steps l ON l.id = s.id WHERE s.id = root), '')
            WHEN 'refused' THEN iif(is_last_turn, note, coalesce((
                SELECT note FROM turns WHERE num = stood.num AND seq <= turn AND note IS NOT NULL
                ORDER BY seq DESC LIMIT 1), ''))
            ELSE '' END
    FROM (SELECT *, coalesce(told, iif(is_planned, {state}, 'planning')) AS state FROM (
        SELECT d.num, d.id, d.stops, d.requested_at, d.note, s.root, u.seq AS turn, u.state AS told,
            t.is_planned, 0 AS cancelled, 0 AS paused,
            coalesce(s.waiting, 0) AS waiting, coalesce(s.ready, 0) AS ready,
            coalesce(s.running, 0) AS running, coalesce(s.verifying, 0) AS verifying,
            coalesce(s.blocked, 0) AS blocked, coalesce(s.stuck, 0) AS stuck,
            coalesce(s.gone, 0) AS gone, coalesce(s.skipped, 0) AS skipped,
            coalesce(s.purged, 0) AS purged, coalesce(s.total, 0) AS total,
            coalesce(s.ended_at, 0) AS ended_at, coalesce(u.at, s.ended_at, d.requested_at) AS at,
            NOT EXISTS (SELECT 1 FROM turns WHERE num = d.num AND seq > u.seq) AS is_last_turn
        FROM touched t JOIN last_deletions d ON d.num = t.num
        LEFT JOIN sums s ON s.num = t.num
        LEFT JOIN turns u ON u.num = t.num AND u.seq = (SELECT max(seq) FROM turns
            WHERE num = t.num AND seq <= (SELECT seq FROM shown))
        WHERE t.is_accepted AND NOT t.is_last)) stood;
";

/// The plan is shown once the deletion has started, and the refusals are shown while the deletion is refused.
const REQUESTS: &str = "
UPDATE requests SET frozen = NULL, plan_hash = NULL
    WHERE frozen IS NOT NULL AND num IN (SELECT num FROM touched WHERE NOT is_planned);
UPDATE requests SET frozen = l.frozen, plan_hash = l.plan_hash FROM last_requests l
    WHERE l.num = requests.num AND requests.frozen IS NULL AND l.frozen IS NOT NULL
        AND l.num IN (SELECT num FROM touched WHERE is_planned);
UPDATE requests SET refused = iif(EXISTS (SELECT 1 FROM deletions d WHERE d.num = requests.num
        AND d.state = 'refused' AND (SELECT max(seq) FROM turns WHERE num = requests.num)
            <= (SELECT seq FROM shown)), l.refused, '[]')
    FROM last_requests l WHERE l.num = requests.num AND l.refused <> '[]'
        AND l.num IN (SELECT num FROM touched);
";

/// A record belongs to the deletion that raised its tombstone last. If another deletion deletes or has deleted the
/// resource, a deletion raises no tombstone before its own plan has a step for the resource. Phase and step end
/// together (T9). Only these records are examined:
/// - those whose step has moved;
/// - in deletions that have changed, those without a step; or all, if the deletion was planned, or changed for the last
///   time, between the time that is shown and the one shown before;
/// - those with an event between these two times.
const TOMBSTONES: &str = "
DELETE FROM records;
INSERT OR IGNORE INTO records SELECT l.record FROM moved m JOIN last_steps l ON l.id = m.id
    WHERE l.record IS NOT NULL;
INSERT OR IGNORE INTO records SELECT f.record FROM touched t JOIN fences f ON f.num = t.num
    WHERE f.step IS NULL OR t.is_last <> t.was_last OR t.is_planned <> t.was_planned;
INSERT OR IGNORE INTO records SELECT record FROM shown, fences
    WHERE fences.seq > min(shown.seq, before_seq) AND fences.seq <= max(shown.seq, before_seq);
INSERT OR IGNORE INTO records SELECT record FROM shown, returns
    WHERE returns.seq > min(shown.seq, before_seq) AND returns.seq <= max(shown.seq, before_seq);
DELETE FROM fallen;
INSERT INTO fallen
    SELECT record, num, phase,
        CASE WHEN stays THEN deleted_at WHEN is_let_go THEN NULL
            ELSE coalesce(iif(deletion = num, deleted_at, NULL), at) END,
        CASE WHEN stays THEN gone_at WHEN phase = 'gone' THEN coalesce(ended_at, gone_at) END,
        iif(stays, incarnation, max(1, incarnation - later)), iif(stays, recreated, times)
    FROM (
        SELECT f.record, f.num, f.at, s.ended_at, l.deletion, l.deleted_at, l.gone_at, l.incarnation,
            l.recreated, z.is_last AND l.deletion = f.num AS stays, is_let_go,
            CASE WHEN z.is_last AND l.deletion = f.num THEN l.phase
                WHEN is_let_go THEN 'released'
                WHEN s.state = 'gone' THEN 'gone'
                WHEN s.state = 'skipped' THEN 'released'
                WHEN s.state = 'purged' THEN 'purged'
                WHEN s.state IS NOT NULL THEN 'deleting'
                WHEN d.state IN ('planning', 'awaiting_approval') THEN 'checking'
                WHEN l.deletion = f.num AND l.phase = 'gone' AND d.state NOT IN ('refused', 'cancelled')
                    THEN 'gone'
                ELSE 'released' END AS phase,
            (SELECT count(DISTINCT num) FROM fences
                    WHERE record = f.record AND seq > shown.seq AND num <> f.num AND step IS NOT NULL)
                + (SELECT count(*) FROM returns WHERE record = f.record AND times IS NULL
                    AND seq > shown.seq) AS later,
            coalesce((SELECT times FROM returns WHERE record = f.record AND seq <= shown.seq
                ORDER BY seq DESC LIMIT 1), 0) AS times
        FROM shown, (
            SELECT f.*, EXISTS (SELECT 1 FROM returns WHERE record = f.record AND times IS NULL
                AND seq > f.seq AND seq <= (SELECT seq FROM shown)) AS is_let_go
            FROM records r JOIN fences f ON f.record = r.record AND (f.seq, f.num) = (SELECT seq, num FROM fences c
                WHERE record = r.record AND seq <= (SELECT seq FROM shown)
                    AND (c.step IN (SELECT id FROM steps) OR NOT EXISTS (SELECT 1
                        FROM fences e JOIN steps s ON s.id = e.step
                        WHERE e.record = c.record AND e.seq < c.seq AND s.state NOT IN ('skipped', 'purged')
                            AND NOT EXISTS (SELECT 1 FROM returns WHERE record = e.record AND times IS NULL
                                AND seq > e.seq AND seq < c.seq)))
                ORDER BY seq DESC, num DESC LIMIT 1)) f
        JOIN last_tombstones l ON l.record_id = f.record
        JOIN deletions d ON d.num = f.num
        JOIN (SELECT num, last_seq <= seq AND last_at <= at AS is_last FROM spans, shown) z
            ON z.num = f.num
        LEFT JOIN steps s ON s.id = f.step);
DELETE FROM tombstones WHERE record_id IN (SELECT record FROM records EXCEPT SELECT record FROM fallen);
UPDATE tombstones SET phase = f.phase, deleted_at = f.deleted_at, gone_at = f.gone_at,
        incarnation = f.incarnation, recreated = f.recreated, deletion = f.num
    FROM fallen f WHERE f.record = record_id AND (tombstones.phase, tombstones.deleted_at,
            tombstones.gone_at, tombstones.incarnation, tombstones.recreated, tombstones.deletion)
        IS NOT (f.phase, f.deleted_at, f.gone_at, f.incarnation, f.recreated, f.num);
INSERT INTO tombstones(record_id, site, kind, id, phase, deleted_at, gone_at, incarnation, recreated,
        deletion, copies_at)
    SELECT l.record_id, l.site, l.kind, l.id, f.phase, f.deleted_at, f.gone_at, f.incarnation,
        f.recreated, f.num, l.copies_at
    FROM fallen f JOIN last_tombstones l ON l.record_id = f.record
    WHERE f.record NOT IN (SELECT record_id FROM tombstones);
";

const COUNTERS: &str = "
DELETE FROM counters WHERE name LIKE 'step\\_%' ESCAPE '\\' OR name LIKE 'deletion\\_%' ESCAPE '\\';
INSERT INTO counters SELECT 'step_' || state, count(*) FROM steps GROUP BY state;
INSERT INTO counters SELECT 'deletion_' || state, count(*) FROM deletions GROUP BY state;
";
