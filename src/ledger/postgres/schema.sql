-- The tables of a ledger, in a schema of their own. They have the names and columns that they have in a file
-- (`src/ledger/sqlite/schema.rs`, which says what each column means), so that exports of both can be compared.
-- Times are microseconds since 1970 (UTC). Lists and objects are JSON as text, because the audit's hashes cover
-- the order of their keys. Columns that order rows compare byte by byte, whatever the database's language.
--
-- Nothing checks foreign keys: nothing deletes rows that others refer to, and each of 100,000 steps would pay
-- for the checks.

CREATE TABLE version(number bigint NOT NULL);

CREATE TABLE identity(id text NOT NULL);
INSERT INTO identity(id) VALUES(replace(gen_random_uuid()::text, '-', ''));

-- Each engine that had the ledger open. `groups` counts its transactions: after a lost connection it tells
-- whether the last of them was committed.
CREATE TABLE engines(
    epoch bigint PRIMARY KEY,
    pid bigint NOT NULL,
    host text NOT NULL,
    socket text,
    groups bigint NOT NULL DEFAULT 0
);

-- The last number that was given to an event, a tombstone's record and so on. Unlike a value of a sequence, it is
-- undone with its transaction: numbers have no gaps, and are in the order of commits.
CREATE TABLE numbers(name text PRIMARY KEY, last bigint NOT NULL);
INSERT INTO numbers(name, last)
    VALUES ('deletion', 0), ('event', 0), ('foreign', 0), ('native', 0), ('notice', 0), ('record', 0);

CREATE TABLE counters(name text PRIMARY KEY, n bigint NOT NULL);

CREATE TABLE deletions(
    num bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    state text COLLATE "C" NOT NULL,
    cancelled boolean NOT NULL DEFAULT false,
    paused boolean NOT NULL DEFAULT false,
    stops boolean NOT NULL,
    waiting bigint NOT NULL DEFAULT 0,
    ready bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    verifying bigint NOT NULL DEFAULT 0,
    blocked bigint NOT NULL DEFAULT 0,
    stuck bigint NOT NULL DEFAULT 0,
    gone bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    purged bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    requested_at bigint NOT NULL,
    finished_at bigint,
    woken_at bigint,
    moved_at bigint,
    pace_at bigint,
    pace_done bigint NOT NULL DEFAULT 0,
    pace_mid_at bigint,
    pace_mid_done bigint NOT NULL DEFAULT 0,
    note text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
CREATE INDEX deletions_by_state ON deletions(state, num);
CREATE INDEX deletions_by_short_id ON deletions(right(id, 8));

CREATE TABLE requests(
    num bigint PRIMARY KEY,
    targets text NOT NULL,
    copies text NOT NULL,
    options text NOT NULL,
    plan_hash text,
    actor text NOT NULL,
    reason text NOT NULL,
    cause text,
    root text,
    deadline bigint,
    refused text NOT NULL DEFAULT '[]',
    frozen text
);

CREATE TABLE steps(
    id bigint PRIMARY KEY,
    deletion bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    claim bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0,
    waits bigint NOT NULL,
    rank bigint NOT NULL,
    since bigint NOT NULL,
    attempts bigint NOT NULL DEFAULT 0,
    max_attempts bigint NOT NULL,
    next_attempt_at bigint,
    own_attempt_at bigint,
    blocked_since bigint,
    looks bigint NOT NULL DEFAULT 0,
    sent boolean NOT NULL DEFAULT false,
    told boolean NOT NULL DEFAULT false,
    held_by bigint,
    left_to bigint,
    ended_at bigint,
    record bigint,
    position bigint NOT NULL,
    branch bigint NOT NULL,
    site text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    name text NOT NULL,
    project text NOT NULL,
    vars text,
    blockers text,
    last_error text,
    why text NOT NULL,
    fingerprint text NOT NULL
) WITH (fillfactor = 70);
-- I9. Steps also differ by the reference that they unset: one resource may refer to two that are being deleted.
CREATE UNIQUE INDEX steps_live
    ON steps(resource, kind, site, action, (CASE WHEN action = 'unset' THEN md5(vars) ELSE '' END))
    WHERE ended_at IS NULL AND left_to IS NULL;
CREATE INDEX steps_by_state ON steps(state, deletion, id);
CREATE INDEX steps_by_branch ON steps(branch, state, id);
CREATE INDEX steps_ready ON steps(site, deletion, rank DESC, id) WHERE state = 'ready';
CREATE INDEX steps_due ON steps(state, next_attempt_at) WHERE state IN ('blocked', 'verifying');
CREATE INDEX steps_looks ON steps(deletion, site, kind, rank, next_attempt_at) WHERE state = 'verifying';
CREATE INDEX steps_settling ON steps(blocked_since) WHERE state = 'verifying' AND blocked_since IS NOT NULL;
CREATE INDEX steps_stuck ON steps(since) WHERE state = 'stuck' AND held_by IS NULL;
CREATE INDEX steps_left ON steps(left_to) WHERE left_to IS NOT NULL AND ended_at IS NULL;

CREATE TABLE edges(
    dependency bigint NOT NULL,
    dependent bigint NOT NULL,
    PRIMARY KEY(dependency, dependent)
);
CREATE INDEX edges_by_dependent ON edges(dependent, dependency);

CREATE TABLE branches(
    id bigint PRIMARY KEY,
    deletion bigint NOT NULL,
    below bigint,
    site text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    leaf boolean NOT NULL
);
CREATE INDEX branches_below ON branches(deletion, below);

CREATE TABLE tombstones(
    record_id bigint PRIMARY KEY,
    site text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    phase text COLLATE "C" NOT NULL,
    deleted_at bigint,
    gone_at bigint,
    incarnation bigint NOT NULL DEFAULT 1,
    recreated bigint NOT NULL DEFAULT 0,
    deletion bigint NOT NULL,
    copies_at text,
    UNIQUE(id, kind, site)
) WITH (fillfactor = 80);
CREATE INDEX tombstones_checking ON tombstones(deletion) WHERE phase = 'checking';
CREATE INDEX tombstones_with_copies ON tombstones(record_id) WHERE copies_at IS NOT NULL;
CREATE INDEX tombstones_held_down ON tombstones(gone_at, record_id) WHERE phase = 'gone';

CREATE TABLE snapshots(record bigint PRIMARY KEY, shown text NOT NULL);

CREATE TABLE namesakes(
    record bigint PRIMARY KEY,
    site text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    project text NOT NULL
);
CREATE INDEX namesakes_by_name ON namesakes(name, kind, site);

CREATE TABLE parts(
    site text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    record bigint NOT NULL,
    PRIMARY KEY(id, kind, site)
);
CREATE INDEX parts_of ON parts(record);

CREATE TABLE plans(hash text PRIMARY KEY, body text NOT NULL, saved_at bigint NOT NULL);

CREATE TABLE idempotency(
    actor text NOT NULL,
    key text NOT NULL,
    body text NOT NULL,
    deletion text NOT NULL,
    answer text,
    at bigint NOT NULL,
    PRIMARY KEY(actor, key)
);

CREATE TABLE events(
    seq bigint PRIMARY KEY,
    at bigint NOT NULL,
    deletion bigint,
    step bigint,
    kind text NOT NULL,
    message text NOT NULL,
    data text NOT NULL
);
CREATE INDEX events_by_deletion ON events(deletion, seq) WHERE deletion IS NOT NULL;
CREATE INDEX events_by_step ON events(step, seq) WHERE step IS NOT NULL;

CREATE TABLE audit(
    seq bigint PRIMARY KEY,
    at bigint NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    hash text NOT NULL
);

CREATE TABLE told(channel text PRIMARY KEY, mark text NOT NULL);
CREATE TABLE sites(site text PRIMARY KEY, state text NOT NULL);
CREATE TABLE site_pauses(
    site text COLLATE "C" PRIMARY KEY,
    actor text NOT NULL,
    reason text NOT NULL,
    at bigint NOT NULL
);

-- Our registry, as its own provider, says that ids compare without their case.
CREATE TABLE native(
    num bigint PRIMARY KEY,
    site text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    incarnation bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    fields text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE UNIQUE INDEX native_by_id ON native(lower(id), kind, site);
CREATE INDEX native_by_kind ON native(site, kind, num);
CREATE INDEX native_by_name ON native(name, kind, site) WHERE name <> '';
CREATE TABLE native_references(
    num bigint NOT NULL,
    field text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    site text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX native_references_of ON native_references(num, field, lower(id), kind, site);
CREATE INDEX native_references_to ON native_references(lower(id), kind, site);

CREATE TABLE importers(
    name text COLLATE "C" PRIMARY KEY,
    service text NOT NULL,
    region text NOT NULL,
    since bigint NOT NULL
);
CREATE TABLE importer_kinds(
    kind text COLLATE "C" NOT NULL,
    importer text COLLATE "C" NOT NULL,
    PRIMARY KEY(kind, importer)
);
CREATE TABLE awaited(
    importer text COLLATE "C" NOT NULL,
    step bigint NOT NULL,
    said text,
    PRIMARY KEY(importer, step)
);
CREATE INDEX awaited_by_step ON awaited(step);
CREATE TABLE peer_changes(seq bigint PRIMARY KEY, record bigint NOT NULL UNIQUE);
CREATE TABLE watches(
    service text NOT NULL,
    region text NOT NULL,
    name text NOT NULL,
    ledger text NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY(service, region)
);
CREATE TABLE foreign_going(
    num bigint PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    site text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    phase text COLLATE "C" NOT NULL,
    incarnation bigint NOT NULL,
    deletion text NOT NULL,
    root text COLLATE "C" NOT NULL,
    handled_by bigint,
    gone_at bigint,
    UNIQUE(id, kind, site)
);
CREATE INDEX foreign_going_unseen ON foreign_going(root, num) WHERE phase = 'deleting' AND handled_by IS NULL;
CREATE INDEX foreign_going_by_owner ON foreign_going(owner);

-- Gives the notices to importers about these tombstones new sequence numbers, in the order of the records.
CREATE FUNCTION notify_importers(records bigint[]) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    before bigint;
BEGIN
    UPDATE numbers SET last = last + cardinality(records) WHERE name = 'notice'
        RETURNING last - cardinality(records) INTO before;
    INSERT INTO peer_changes(seq, record)
        SELECT before + row_number() OVER (ORDER BY record), record FROM unnest(records) AS record
        ON CONFLICT(record) DO UPDATE SET seq = excluded.seq;
END $$;

-- Importers of a tombstone's kind are notified of its new phase, whichever statement writes it.
CREATE FUNCTION tombstones_were_made() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM importer_kinds) THEN
        PERFORM notify_importers(array_agg(made.record_id)) FROM made
            WHERE made.kind IN (SELECT kind FROM importer_kinds) HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tombstones_made AFTER INSERT ON tombstones
    REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION tombstones_were_made();

CREATE FUNCTION tombstones_were_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM importer_kinds) THEN
        PERFORM notify_importers(array_agg(now.record_id))
            FROM now JOIN before ON before.record_id = now.record_id
            WHERE now.phase <> before.phase AND now.kind IN (SELECT kind FROM importer_kinds)
            HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tombstones_changed AFTER UPDATE ON tombstones
    REFERENCING OLD TABLE AS before NEW TABLE AS now
    FOR EACH STATEMENT EXECUTE FUNCTION tombstones_were_changed();
