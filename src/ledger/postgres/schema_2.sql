-- Version 2: several engines. Each has a lease, which it renews by this server's clock.
--
-- An engine is alive while its lease runs. One whose lease has ended is lost; a living one ends it (`ended`) in the
-- transaction that takes its steps over, and from then on the lost engine may not renew its lease.
ALTER TABLE engines
    ADD COLUMN name text NOT NULL DEFAULT '',
    ADD COLUMN version text NOT NULL DEFAULT '',
    -- The boot and the process namespace of the engine's machine, and when its process started there: an engine in
    -- the same namespace can find out whether the process still exists.
    ADD COLUMN machine text NOT NULL DEFAULT '',
    ADD COLUMN process text NOT NULL DEFAULT '',
    ADD COLUMN began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN renewed_at timestamptz NOT NULL DEFAULT to_timestamp(0),
    ADD COLUMN lease_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN ended boolean NOT NULL DEFAULT true,
    -- Whether the engine must be the only one.
    ADD COLUMN alone boolean NOT NULL DEFAULT false,
    ADD COLUMN works boolean NOT NULL DEFAULT false,
    ADD COLUMN drained boolean NOT NULL DEFAULT false,
    -- Whether gates answer from the engine's memory; the last change of a tombstone in that memory; and the last change
    -- for which all writes have ended that the gates let through before they had it.
    ADD COLUMN has_gates boolean NOT NULL DEFAULT false,
    ADD COLUMN applied bigint NOT NULL DEFAULT 0,
    ADD COLUMN passed bigint NOT NULL DEFAULT 0;
CREATE INDEX engines_alive ON engines(epoch) WHERE NOT ended;

-- The changes of tombstones, for the gates of other engines. None are kept while there is only one engine.
INSERT INTO numbers(name, last) VALUES ('tombstone', 0);
CREATE TABLE tombstone_changes(
    seq bigint PRIMARY KEY,
    site text NOT NULL,
    kind text NOT NULL,
    id text NOT NULL,
    -- None: the row was removed.
    phase text
);

CREATE FUNCTION is_shared_with_gates() RETURNS boolean LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT count(*) > 1 AND bool_or(has_gates) FROM engines WHERE NOT ended
$$;

CREATE FUNCTION keep_tombstone_changes() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    before bigint;
    many bigint;
BEGIN
    IF is_shared_with_gates() THEN
        SELECT count(*) INTO many FROM changed;
        UPDATE numbers SET last = last + many WHERE name = 'tombstone' RETURNING last - many INTO before;
        INSERT INTO tombstone_changes(seq, site, kind, id, phase)
            SELECT before + row_number() OVER (), site, kind, id,
                CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE phase END FROM changed;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tombstones_kept_inserted AFTER INSERT ON tombstones
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION keep_tombstone_changes();
CREATE TRIGGER tombstones_kept_updated AFTER UPDATE ON tombstones
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION keep_tombstone_changes();
CREATE TRIGGER tombstones_kept_deleted AFTER DELETE ON tombstones
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION keep_tombstone_changes();
