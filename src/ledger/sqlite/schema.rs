//! The tables, and the migrations that bring older ledgers up to them.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::outline;

/// The version of the tables that this program writes, as `PRAGMA user_version`.
pub(super) const KNOWN: i64 = 21;

/// Migrations, each from the version of its position to the next. Never edited once released: a change is one
/// more entry.
const MIGRATIONS: [&str; 21] = [
    FIRST,
    GROUPED_LOOKS,
    COPIES,
    TOLD,
    SITE_PAUSES,
    HELD_DOWN,
    RANKED_LOOKS,
    SNAPSHOTS,
    ONE_RECORD,
    OUTLINE,
    REGISTRY,
    PEERS,
    SEAL,
    LEFT_STEPS,
    WOKEN_STEPS,
    DEADLINES,
    NAMESAKES,
    ANSWERS,
    EXACT_IDS,
    EXACT_PARTS,
    LAST_DAY,
];

/// Hot columns (`deletions`) are apart from wide ones (`requests`), because SQLite rewrites whole rows, and
/// counts change with each step. Times are microseconds since 1970 (UTC).
///
/// `steps.waits` counts the dependencies that have not ended; `ended_at` is set with `gone`,
/// `skipped` and `purged`. `held_by` names the stuck step because of which another step is stuck too (N11, N12).
const FIRST: &str = "
CREATE TABLE engines(epoch INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL) STRICT;

CREATE TABLE counters(name TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE deletions(
    num INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0,
    stops INTEGER NOT NULL,
    waiting INTEGER NOT NULL DEFAULT 0,
    ready INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    verifying INTEGER NOT NULL DEFAULT 0,
    blocked INTEGER NOT NULL DEFAULT 0,
    stuck INTEGER NOT NULL DEFAULT 0,
    gone INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    purged INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL DEFAULT 0,
    requested_at INTEGER NOT NULL,
    finished_at INTEGER,
    woken_at INTEGER,
    moved_at INTEGER,
    pace_at INTEGER,
    pace_done INTEGER NOT NULL DEFAULT 0,
    pace_mid_at INTEGER,
    pace_mid_done INTEGER NOT NULL DEFAULT 0,
    note TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX deletions_by_state ON deletions(state);
CREATE INDEX deletions_by_short_id ON deletions(substr(id, -8));

CREATE TABLE requests(
    num INTEGER PRIMARY KEY,
    targets TEXT NOT NULL,
    options TEXT NOT NULL,
    plan_hash TEXT,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    cause TEXT,
    refused TEXT NOT NULL DEFAULT '[]',
    frozen TEXT
) STRICT;

CREATE TABLE steps(
    id INTEGER PRIMARY KEY,
    deletion INTEGER NOT NULL,
    state TEXT NOT NULL,
    claim INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    waits INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    since INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    next_attempt_at INTEGER,
    blocked_since INTEGER,
    looks INTEGER NOT NULL DEFAULT 0,
    sent INTEGER NOT NULL DEFAULT 0,
    held_by INTEGER,
    ended_at INTEGER,
    record INTEGER,
    position INTEGER NOT NULL,
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    resource TEXT NOT NULL,
    action TEXT NOT NULL,
    name TEXT NOT NULL,
    project TEXT NOT NULL,
    vars TEXT,
    blockers TEXT,
    last_error TEXT,
    why TEXT NOT NULL,
    fingerprint TEXT NOT NULL
) STRICT;
-- I9. The id first: it tells apart soonest.
CREATE UNIQUE INDEX steps_live ON steps(resource, kind, site, action) WHERE ended_at IS NULL;
CREATE INDEX steps_by_state ON steps(state, deletion);
CREATE INDEX steps_ready ON steps(site, deletion, rank DESC) WHERE state = 'ready';
CREATE INDEX steps_due ON steps(state, next_attempt_at)
    WHERE state = 'blocked' OR state = 'verifying';
CREATE INDEX steps_stuck ON steps(since) WHERE state = 'stuck' AND held_by IS NULL;

CREATE TABLE edges(
    dependency INTEGER NOT NULL,
    dependent INTEGER NOT NULL,
    PRIMARY KEY(dependency, dependent)
) STRICT, WITHOUT ROWID;
CREATE INDEX edges_by_dependent ON edges(dependent);

CREATE TABLE tombstones(
    record_id INTEGER PRIMARY KEY AUTOINCREMENT,
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    phase TEXT NOT NULL,
    deleted_at INTEGER NOT NULL,
    gone_at INTEGER,
    incarnation INTEGER NOT NULL DEFAULT 1,
    recreated INTEGER NOT NULL DEFAULT 0,
    deletion INTEGER NOT NULL,
    UNIQUE(id, kind, site)
) STRICT;
CREATE INDEX tombstones_checking ON tombstones(deletion) WHERE phase = 'checking';

CREATE TABLE plans(hash TEXT PRIMARY KEY, body TEXT NOT NULL, saved_at INTEGER NOT NULL) STRICT;

CREATE TABLE idempotency(
    actor TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    deletion TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY(actor, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE events(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    deletion INTEGER,
    step INTEGER,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_deletion ON events(deletion) WHERE deletion IS NOT NULL;
CREATE INDEX events_by_step ON events(step) WHERE step IS NOT NULL;

CREATE TABLE audit(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;
";

/// Due steps are counted by deletion, site and kind from the index alone.
const GROUPED_LOOKS: &str = "
DROP INDEX steps_due;
CREATE INDEX steps_due ON steps(state, next_attempt_at, deletion, site, kind)
    WHERE state = 'blocked' OR state = 'verifying';
";

/// `requests.copies`: the copies of the targets. `tombstones.copies_at`: the sites where copies of the resource may be
/// re-created.
const COPIES: &str = "
ALTER TABLE requests ADD COLUMN copies TEXT NOT NULL DEFAULT '[]';
ALTER TABLE tombstones ADD COLUMN copies_at TEXT;
CREATE INDEX tombstones_with_copies ON tombstones(record_id) WHERE copies_at IS NOT NULL;
";

/// People are notified once of each stuck step (I7): `steps.told` stays set until a person retries the step, or it
/// becomes stuck for a new reason, and `told` has each channel's cursor. Steps that are stuck already count as
/// notified. `sites` has the state of each site that ever failed, as the events say. The ledger's own id is part
/// of each message, so that two ledgers never send the same one.
const TOLD: &str = "
ALTER TABLE steps ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
UPDATE steps SET told = 1 WHERE state = 'stuck' AND held_by IS NULL;
CREATE TABLE told(channel TEXT PRIMARY KEY, mark TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE sites(site TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity(id TEXT NOT NULL) STRICT;
INSERT INTO identity(id) VALUES(lower(hex(randomblob(16))));
";

/// The sites that a person paused; a pause also applies to the next engine. The index finds the verifying steps whose
/// delete is delayed, which are few.
const SITE_PAUSES: &str = "
CREATE TABLE site_pauses(
    site TEXT PRIMARY KEY,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX steps_settling ON steps(blocked_since)
    WHERE state = 'verifying' AND blocked_since IS NOT NULL;
";

/// An index that finds the tombstones to sweep by the time since which their resource has been gone, without reading
/// other tombstones.
const HELD_DOWN: &str = "
CREATE INDEX tombstones_held_down ON tombstones(gone_at, record_id) WHERE phase = 'gone';
";

/// An index by which a search jumps from one group of verifying steps to the next, without reading the steps between.
const RANKED_LOOKS: &str = "
DROP INDEX steps_due;
CREATE INDEX steps_due ON steps(state, next_attempt_at)
    WHERE state = 'blocked' OR state = 'verifying';
CREATE INDEX steps_looks ON steps(deletion, site, kind, rank, next_attempt_at)
    WHERE state = 'verifying';
";

/// Targets as their cloud showed them when their deletion was accepted, until their tombstones end (T7).
const SNAPSHOTS: &str = "
CREATE TABLE snapshots(record INTEGER PRIMARY KEY, shown TEXT NOT NULL) STRICT;
";

/// One record for each identity, however its id is spelled: clouds take an id in any case (M1). If an older
/// ledger has several, they are merged in the order of their records, into the oldest (M4): incarnations and
/// re-creations add up, and of two phases the one that is still in progress wins, else the later one. `deleted_at`
/// is null while a resource that was deleted once exists again.
const ONE_RECORD: &str = "
CREATE TABLE merged(
    record_id INTEGER PRIMARY KEY AUTOINCREMENT,
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL COLLATE NOCASE,
    phase TEXT NOT NULL,
    deleted_at INTEGER,
    gone_at INTEGER,
    incarnation INTEGER NOT NULL DEFAULT 1,
    recreated INTEGER NOT NULL DEFAULT 0,
    deletion INTEGER NOT NULL,
    copies_at TEXT,
    UNIQUE(id, kind, site)
) STRICT;
-- The numbers of records that were pruned are not given again.
INSERT INTO sqlite_sequence(name, seq)
    SELECT 'merged', seq FROM sqlite_sequence WHERE name = 'tombstones';
INSERT INTO merged(record_id, site, kind, id, phase, deleted_at, gone_at, incarnation, recreated,
        deletion, copies_at)
    SELECT record_id, site, kind, id, phase, deleted_at, gone_at, incarnation, recreated, deletion,
        copies_at
    FROM tombstones WHERE true ORDER BY record_id
    ON CONFLICT(id, kind, site) DO UPDATE SET
        incarnation = incarnation + excluded.incarnation,
        recreated = recreated + excluded.recreated,
        copies_at = coalesce(excluded.copies_at, copies_at),
        (id, phase, deleted_at, gone_at, deletion) = (
            SELECT iif(stands, merged.id, excluded.id), iif(stands, phase, excluded.phase),
                iif(stands, deleted_at, excluded.deleted_at),
                iif(stands, gone_at, excluded.gone_at),
                iif(stands, deletion, excluded.deletion)
            FROM (SELECT CASE phase WHEN 'deleting' THEN 2 WHEN 'checking' THEN 1 ELSE 0 END
                > CASE excluded.phase WHEN 'deleting' THEN 2 WHEN 'checking' THEN 1 ELSE 0 END
                AS stands));
UPDATE steps SET record = (
        SELECT m.record_id FROM tombstones t
        JOIN merged m ON m.id = t.id AND m.kind = t.kind AND m.site = t.site
        WHERE t.record_id = steps.record)
    WHERE record IN (SELECT record_id FROM tombstones EXCEPT SELECT record_id FROM merged);
DELETE FROM snapshots WHERE record NOT IN (SELECT record_id FROM merged);
DROP TABLE tombstones;
ALTER TABLE merged RENAME TO tombstones;
CREATE INDEX tombstones_checking ON tombstones(deletion) WHERE phase = 'checking';
CREATE INDEX tombstones_with_copies ON tombstones(record_id) WHERE copies_at IS NOT NULL;
CREATE INDEX tombstones_held_down ON tombstones(gone_at, record_id) WHERE phase = 'gone';
";

/// The branches of each deletion's tree ([`crate::domain::outline`]): `below` is a step.
/// [`super::outline::write_all_outlines`] writes those of an older ledger.
const OUTLINE: &str = "
CREATE TABLE branches(
    id INTEGER PRIMARY KEY,
    deletion INTEGER NOT NULL,
    below INTEGER,
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    action TEXT NOT NULL,
    leaf INTEGER NOT NULL
) STRICT;
CREATE INDEX branches_below ON branches(deletion, below);
ALTER TABLE steps ADD COLUMN branch INTEGER NOT NULL DEFAULT 0;
CREATE INDEX steps_by_branch ON steps(branch, state);
";
/// The registry: resources of our own kinds, and their references. Their provider is this registry, which compares
/// ids without their case.
const REGISTRY: &str = "
CREATE TABLE native(
    num INTEGER PRIMARY KEY AUTOINCREMENT,
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL COLLATE NOCASE,
    incarnation INTEGER NOT NULL,
    name TEXT NOT NULL,
    fields TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE(id, kind, site)
) STRICT;
CREATE INDEX native_by_kind ON native(site, kind, num);
CREATE INDEX native_by_name ON native(name, kind, site) WHERE name <> '';
CREATE TABLE native_references(
    num INTEGER NOT NULL,
    field TEXT NOT NULL,
    id TEXT NOT NULL COLLATE NOCASE,
    kind TEXT NOT NULL,
    site TEXT NOT NULL,
    PRIMARY KEY(num, field, id, kind, site)
) STRICT, WITHOUT ROWID;
CREATE INDEX native_references_to ON native_references(id, kind, site);
";
/// Other deployments (G).
/// - `importers`, `importer_kinds`: the deployments that import from this one, and the kinds to which they refer.
/// - `awaited`: the pending clearances.
/// - `peer_changes`: the notices to importers, that is, each tombstone of a kind to which one of them refers. A notice
///   gets a new sequence number whenever a statement sets the phase of its tombstone.
/// - `watches`: how far this deployment has read the notices of the services that it imports.
/// - `foreign_going`: resources that those services are deleting. `handled_by` of each is the deletion that handles the
///   resources of this deployment that refer to it; 0: no resource refers to it.
/// - `requests.root`: the deletion that is the root cause of this one, if it is another one.
/// - `steps_live`: two deletions may delete two resources to which one resource refers, so steps also differ by the
///   reference that they unset (I9).
const PEERS: &str = "
ALTER TABLE requests ADD COLUMN root TEXT;
DROP INDEX steps_live;
CREATE UNIQUE INDEX steps_live
    ON steps(resource, kind, site, action, iif(action = 'unset', vars, '')) WHERE ended_at IS NULL;
CREATE TABLE importers(
    name TEXT PRIMARY KEY,
    service TEXT NOT NULL,
    region TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE importer_kinds(
    kind TEXT NOT NULL,
    importer TEXT NOT NULL,
    PRIMARY KEY(kind, importer)
) STRICT, WITHOUT ROWID;
CREATE TABLE awaited(
    importer TEXT NOT NULL,
    step INTEGER NOT NULL,
    said TEXT,
    PRIMARY KEY(importer, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX awaited_by_step ON awaited(step);
CREATE TABLE peer_changes(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    record INTEGER NOT NULL UNIQUE
) STRICT;
CREATE TRIGGER tombstones_made AFTER INSERT ON tombstones
WHEN EXISTS (SELECT 1 FROM importer_kinds WHERE kind = NEW.kind) BEGIN
    INSERT INTO peer_changes(record) VALUES(NEW.record_id);
END;
CREATE TRIGGER tombstones_changed AFTER UPDATE OF phase ON tombstones
WHEN EXISTS (SELECT 1 FROM importer_kinds WHERE kind = NEW.kind) BEGIN
    DELETE FROM peer_changes WHERE record = NEW.record_id;
    INSERT INTO peer_changes(record) VALUES(NEW.record_id);
END;
CREATE TABLE watches(
    service TEXT NOT NULL,
    region TEXT NOT NULL,
    name TEXT NOT NULL,
    ledger TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY(service, region)
) STRICT, WITHOUT ROWID;
CREATE TABLE foreign_going(
    num INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL COLLATE NOCASE,
    phase TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    deletion TEXT NOT NULL,
    root TEXT NOT NULL,
    handled_by INTEGER,
    UNIQUE(id, kind, site)
) STRICT;
CREATE INDEX foreign_going_unseen ON foreign_going(root, num) WHERE phase = 'deleting' AND handled_by IS NULL;
CREATE INDEX foreign_going_by_owner ON foreign_going(owner);
";
/// The end of the audit, signed with a key that is not in the ledger ([`super::seal`]); at most one row.
const SEAL: &str = "
CREATE TABLE audit_seal(
    one INTEGER PRIMARY KEY CHECK (one = 1),
    length INTEGER NOT NULL,
    hash TEXT NOT NULL,
    key TEXT NOT NULL,
    mac TEXT NOT NULL
) STRICT;
";
/// `steps.left_to`: the step of an earlier deletion that deletes the same resource (P9). That step is live for as long
/// as the step that is left to it. `owners_moved`: the steps to which other steps are left, if they ended, became
/// stuck or ceased to be stuck within the transaction, or if a step that is left to them waits again. The table is
/// empty between transactions.
const LEFT_STEPS: &str = "
ALTER TABLE steps ADD COLUMN left_to INTEGER;
DROP INDEX steps_live;
CREATE UNIQUE INDEX steps_live
    ON steps(resource, kind, site, action, iif(action = 'unset', vars, ''))
    WHERE ended_at IS NULL AND left_to IS NULL;
CREATE INDEX steps_left ON steps(left_to) WHERE left_to IS NOT NULL AND ended_at IS NULL;
CREATE TABLE owners_moved(step INTEGER PRIMARY KEY) STRICT;
CREATE TRIGGER steps_moved AFTER UPDATE OF state ON steps
WHEN (NEW.state IN ('gone', 'skipped', 'purged', 'stuck') OR OLD.state = 'stuck')
    AND EXISTS (SELECT 1 FROM steps INDEXED BY steps_left
        WHERE left_to = NEW.id AND left_to IS NOT NULL AND ended_at IS NULL) BEGIN
    INSERT OR IGNORE INTO owners_moved(step) VALUES(NEW.id);
END;
CREATE TRIGGER steps_left_moved AFTER UPDATE OF state ON steps
WHEN NEW.left_to IS NOT NULL AND OLD.state = 'stuck' AND NEW.state = 'waiting' BEGIN
    INSERT OR IGNORE INTO owners_moved(step) VALUES(NEW.left_to);
END;
";
/// `steps.own_attempt_at`: when the engine's own schedule would have made the next attempt (I14).
const WOKEN_STEPS: &str = "
ALTER TABLE steps ADD COLUMN own_attempt_at INTEGER;
";
/// `requests.deadline`: until then the deletion is planned again if a cloud does not answer (N16).
const DEADLINES: &str = "
ALTER TABLE requests ADD COLUMN deadline INTEGER;
";
/// `namesakes`: the name and project of each original whose copies are known by these alone, so that a gate
/// refuses creates by that name and the sweep searches for it (T14). `parts`: the resources that the cloud removes with
/// an original, without a tombstone of their own; copies of them are swept and refused like the original's (T20).
/// `foreign_going` also keeps the resources of other deployments that are gone, and the time `gone_at`: no resource
/// may newly refer to them.
const NAMESAKES: &str = "
CREATE TABLE namesakes(
    record INTEGER PRIMARY KEY,
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    project TEXT NOT NULL
) STRICT;
CREATE INDEX namesakes_by_name ON namesakes(name, kind, site);
CREATE TABLE parts(
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL COLLATE NOCASE,
    record INTEGER NOT NULL,
    PRIMARY KEY(id, kind, site)
) STRICT, WITHOUT ROWID;
CREATE INDEX parts_of ON parts(record);
ALTER TABLE foreign_going ADD COLUMN gone_at INTEGER;
";
/// `answer`: the answer, as JSON, to a request that asked for no deletion; its `deletion` is empty.
const ANSWERS: &str = "ALTER TABLE idempotency ADD COLUMN answer TEXT;";
/// Ids compare as their cloud's provider says: two ids that differ only in case may name two resources. Older ledgers
/// knew OpenStack alone, whose UUIDs are in lower case, also as parts of an id (`IMAGE,PROJECT`).
const EXACT_IDS: &str = "
CREATE TABLE exact(
    record_id INTEGER PRIMARY KEY AUTOINCREMENT,
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    phase TEXT NOT NULL,
    deleted_at INTEGER,
    gone_at INTEGER,
    incarnation INTEGER NOT NULL DEFAULT 1,
    recreated INTEGER NOT NULL DEFAULT 0,
    deletion INTEGER NOT NULL,
    copies_at TEXT,
    UNIQUE(id, kind, site)
) STRICT;
-- The numbers of records that were pruned are not given again.
INSERT INTO sqlite_sequence(name, seq)
    SELECT 'exact', seq FROM sqlite_sequence WHERE name = 'tombstones';
INSERT INTO exact SELECT record_id, site, kind,
    iif(length(id) >= 36 AND id NOT GLOB '*[^0-9A-Fa-f,-]*', lower(id), id),
    phase, deleted_at, gone_at, incarnation, recreated, deletion, copies_at FROM tombstones;
DROP TABLE tombstones;
ALTER TABLE exact RENAME TO tombstones;
CREATE INDEX tombstones_checking ON tombstones(deletion) WHERE phase = 'checking';
CREATE INDEX tombstones_with_copies ON tombstones(record_id) WHERE copies_at IS NOT NULL;
CREATE INDEX tombstones_held_down ON tombstones(gone_at, record_id) WHERE phase = 'gone';
CREATE TRIGGER tombstones_made AFTER INSERT ON tombstones
WHEN EXISTS (SELECT 1 FROM importer_kinds WHERE kind = NEW.kind) BEGIN
    INSERT INTO peer_changes(record) VALUES(NEW.record_id);
END;
CREATE TRIGGER tombstones_changed AFTER UPDATE OF phase ON tombstones
WHEN EXISTS (SELECT 1 FROM importer_kinds WHERE kind = NEW.kind) BEGIN
    DELETE FROM peer_changes WHERE record = NEW.record_id;
    INSERT INTO peer_changes(record) VALUES(NEW.record_id);
END;
CREATE TABLE exact(
    num INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    phase TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    deletion TEXT NOT NULL,
    root TEXT NOT NULL,
    handled_by INTEGER,
    gone_at INTEGER,
    UNIQUE(id, kind, site)
) STRICT;
INSERT INTO exact SELECT num, owner, site, kind,
    iif(length(id) >= 36 AND id NOT GLOB '*[^0-9A-Fa-f,-]*', lower(id), id),
    phase, incarnation, deletion, root, handled_by, gone_at FROM foreign_going;
DROP TABLE foreign_going;
ALTER TABLE exact RENAME TO foreign_going;
CREATE INDEX foreign_going_unseen ON foreign_going(root, num) WHERE phase = 'deleting' AND handled_by IS NULL;
CREATE INDEX foreign_going_by_owner ON foreign_going(owner);
";
/// Ids of parts compare as those of tombstones do. The table `owners_moved` is dropped, because the working set has its
/// steps in memory.
const EXACT_PARTS: &str = "
DROP TRIGGER steps_moved;
DROP TRIGGER steps_left_moved;
DROP TABLE owners_moved;
CREATE TABLE exact(
    site TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    record INTEGER NOT NULL,
    PRIMARY KEY(id, kind, site)
) STRICT, WITHOUT ROWID;
INSERT INTO exact SELECT site, kind,
    iif(length(id) >= 36 AND id NOT GLOB '*[^0-9A-Fa-f,-]*', lower(id), id), record FROM parts;
DROP TABLE parts;
ALTER TABLE exact RENAME TO parts;
CREATE INDEX parts_of ON parts(record);
";
/// An index for the count of the deletions that ended in the last day.
const LAST_DAY: &str =
    "CREATE INDEX deletions_by_end ON deletions(finished_at) WHERE finished_at IS NOT NULL;";
/// The version that introduced branches.
const WITH_BRANCHES: i64 = 10;

/// The schema version that the file has; 0 for a file that is empty or not a ledger.
pub(super) fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA user_version", (), |row| row.get(0))
}

/// Brings the file up to [`KNOWN`], each migration in its own transaction: a crash in between leaves a ledger
/// of an older version, not a broken one.
pub(super) fn migrate(db: &mut Connection) -> rusqlite::Result<()> {
    let found = version(db)?;
    for (next, sql) in (1..).zip(MIGRATIONS).filter(|(next, _)| *next > found) {
        let tx = Transaction::new(db, TransactionBehavior::Immediate)?;
        tx.execute_batch(sql)?;
        if next == WITH_BRANCHES {
            outline::write_all_outlines(&tx)?;
        }
        tx.pragma_update(None, "user_version", next)?;
        tx.commit()?;
    }
    Ok(())
}
