-- A ledger of version 1: a network whose ports went but for one, which is blocked. Never edited.
BEGIN TRANSACTION;
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
INSERT INTO "audit" VALUES(1,1795281721220378,'{"name":"uid 0","origin":"cli"}','delete','network/ee6d8d25-7a3c-44eb-9295-da7c9d5348ce@sandbox/RegionOne','','{"options":{"cascade":true,"on_failure":"continue","drift":"ask","release_floating_ips":false},"plan_hash":null}','f3529b91f720ae9b669e8ab3e4227be34bed24978069d530271a5cd74ed07c78');
CREATE TABLE counters(name TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "counters" VALUES('deletion_planning',0);
INSERT INTO "counters" VALUES('deletion_running',1);
INSERT INTO "counters" VALUES('step_blocked',1);
INSERT INTO "counters" VALUES('step_gone',2);
INSERT INTO "counters" VALUES('step_ready',0);
INSERT INTO "counters" VALUES('step_running',0);
INSERT INTO "counters" VALUES('step_verifying',0);
INSERT INTO "counters" VALUES('step_waiting',1);
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
INSERT INTO "deletions" VALUES(1,'01a1ff21-1784-7306-8c91-c1cbaaefaf08','running',0,0,0,1,0,0,0,1,0,2,0,0,4,1795281721220378,NULL,NULL,1795281721276361,1795281721275640,0,1795281721275640,0,'');
CREATE TABLE edges(
    dependency INTEGER NOT NULL,
    dependent INTEGER NOT NULL,
    PRIMARY KEY(dependency, dependent)
) STRICT, WITHOUT ROWID;
INSERT INTO "edges" VALUES(1,4);
INSERT INTO "edges" VALUES(2,4);
INSERT INTO "edges" VALUES(3,4);
CREATE TABLE engines(epoch INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL) STRICT;
INSERT INTO "engines" VALUES(1,8238);
CREATE TABLE events(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    deletion INTEGER,
    step INTEGER,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
INSERT INTO "events" VALUES(1,1795281721220378,1,NULL,'deletion_accepted','deletion aaefaf08 accepted','{"state":"planning","targets":1}');
INSERT INTO "events" VALUES(2,1795281721240409,1,NULL,'deletion_planned','deletion aaefaf08 planned: 4 steps','{"steps":4,"skipped":0}');
INSERT INTO "events" VALUES(3,1795281721240409,1,NULL,'deletion_state','deletion aaefaf08: running','{"state":"running"}');
INSERT INTO "events" VALUES(4,1795281721250896,1,3,'attempt','DELETE /v2.0/ports/7a07b1ae-f121-475a-b71e-530fe2b74c1b 204 (req-4563b89f-df61-47c5-af29-53d8853ac848)','{"state":"verifying","attempts":0}');
INSERT INTO "events" VALUES(5,1795281721250926,1,1,'attempt','DELETE /v2.0/ports/0c7bf79b-64c4-4ad9-a0a3-1059a152d7d3 204 (req-701f022c-5ad3-4edd-a3c2-0a5bdd1c17d9)','{"state":"verifying","attempts":0}');
INSERT INTO "events" VALUES(6,1795281721257435,1,2,'attempt','DELETE /v2.0/ports/27bded44-41c2-4aea-8bee-3f2894bc3daa 409 PortInUse (req-24e8267f-b7f2-49ae-9394-1f2cfde6599b)','{"state":"blocked","attempts":1,"status":409,"request_id":"req-24e8267f-b7f2-49ae-9394-1f2cfde6599b"}');
INSERT INTO "events" VALUES(7,1795281721275640,1,3,'step_state','looked: gone','{"state":"gone","attempts":0}');
INSERT INTO "events" VALUES(8,1795281721276361,1,1,'step_state','looked: gone','{"state":"gone","attempts":0}');
CREATE TABLE idempotency(
    actor TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    deletion TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY(actor, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE plans(hash TEXT PRIMARY KEY, body TEXT NOT NULL, saved_at INTEGER NOT NULL) STRICT;
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
INSERT INTO "requests" VALUES(1,'[{"site":"sandbox/RegionOne","kind":"network","id":"ee6d8d25-7a3c-44eb-9295-da7c9d5348ce","name":"seed-net-0"}]','{"cascade":true,"on_failure":"continue","drift":"ask","release_floating_ips":false}','6ae3a8943e8388ad2ea71e3b4de04627b58eb5047d2436d4aaedddda45a98046','{"name":"uid 0","origin":"cli"}','',NULL,'[]','{"hash":"6ae3a8943e8388ad2ea71e3b4de04627b58eb5047d2436d4aaedddda45a98046","targets":[{"site":"sandbox/RegionOne","kind":"network","id":"ee6d8d25-7a3c-44eb-9295-da7c9d5348ce","name":"seed-net-0"}],"options":{"cascade":true,"on_failure":"continue","drift":"ask","release_floating_ips":false},"endpoints":{"sandbox/RegionOne":"http://127.0.0.1:34895/RegionOne/network"},"identities":{"sandbox/RegionOne":{"user_id":"d13ccc969a8e46a1a8f151cd19f11300","project_id":"d250203aaa984b58a35becb21a4fd989","roles":["admin","manager","member","reader"]}},"steps":[],"automatic":[{"id":4,"site":"sandbox/RegionOne","kind":"port","resource_id":"d9e394ca-b88b-4411-b524-7f473c0dd5fe","name":"","project_id":"d250203aaa984b58a35becb21a4fd989","action":"delete","depends_on":[],"automatic":true,"why":"on network seed-net-0 (ee6d8d25-7a3c-44eb-9295-da7c9d5348ce)","fingerprint":"f51a00ad809a55058aa2f64b74023da9dcad415f72eef8bae8ddc6a34d108aea"},{"id":5,"site":"sandbox/RegionOne","kind":"subnet","resource_id":"13aaa631-8b9c-4d96-9a53-ba9b234c9e08","name":"seed-subnet-0","project_id":"d250203aaa984b58a35becb21a4fd989","action":"delete","depends_on":[],"automatic":true,"why":"of network seed-net-0 (ee6d8d25-7a3c-44eb-9295-da7c9d5348ce)","fingerprint":"84623ace1355793d4160e02be21406527b6e2decc218d9e06e968259ed7fab2d"}],"unset":[],"refused":[],"warnings":[],"calls_estimate":25}');
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
INSERT INTO "steps" VALUES(1,1,'gone',1,1,0,1,1795281721276361,0,8,NULL,NULL,0,1,NULL,1795281721276361,2,0,'sandbox/RegionOne','port','0c7bf79b-64c4-4ad9-a0a3-1059a152d7d3','delete','seed-port-0-2','d250203aaa984b58a35becb21a4fd989',NULL,NULL,NULL,'on network seed-net-0 (ee6d8d25-7a3c-44eb-9295-da7c9d5348ce)','96b9b137bd20e38fff07f6886c8725e4562c296fa17aa6df54f21e289b02f68d');
INSERT INTO "steps" VALUES(2,1,'blocked',1,1,0,1,1795281721257435,1,8,1795281786823871,1795281721257432,0,1,NULL,NULL,3,1,'sandbox/RegionOne','port','27bded44-41c2-4aea-8bee-3f2894bc3daa','delete','seed-port-0-0','d250203aaa984b58a35becb21a4fd989',NULL,NULL,'{"class":"blocked","status":409,"type":"PortInUse","message":"held","request_id":"req-24e8267f-b7f2-49ae-9394-1f2cfde6599b","at":"2026-11-21T17:22:01.250752197Z"}','on network seed-net-0 (ee6d8d25-7a3c-44eb-9295-da7c9d5348ce)','04be6dc0644cef94ffe7a714314e9f6524f94f491edd5529b00ad364ce0f38bd');
INSERT INTO "steps" VALUES(3,1,'gone',1,1,0,1,1795281721275640,0,8,NULL,NULL,0,1,NULL,1795281721275640,4,2,'sandbox/RegionOne','port','7a07b1ae-f121-475a-b71e-530fe2b74c1b','delete','seed-port-0-1','d250203aaa984b58a35becb21a4fd989',NULL,NULL,NULL,'on network seed-net-0 (ee6d8d25-7a3c-44eb-9295-da7c9d5348ce)','c83045e25110b1ee4d8ba45950c6b0b381a3ea9c52bd93df0986e7c06b02592e');
INSERT INTO "steps" VALUES(4,1,'waiting',0,0,1,0,1795281721240409,0,8,NULL,NULL,0,0,NULL,NULL,1,3,'sandbox/RegionOne','network','ee6d8d25-7a3c-44eb-9295-da7c9d5348ce','delete','seed-net-0','d250203aaa984b58a35becb21a4fd989',NULL,NULL,NULL,'target','281acbefa7ad628b8dd4b31af7dcfbe7b1d3026504575ef97240a83c5238d8f4');
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
INSERT INTO "tombstones" VALUES(1,'sandbox/RegionOne','network','ee6d8d25-7a3c-44eb-9295-da7c9d5348ce','deleting',1795281721220378,NULL,1,0,1);
INSERT INTO "tombstones" VALUES(2,'sandbox/RegionOne','port','0c7bf79b-64c4-4ad9-a0a3-1059a152d7d3','gone',1795281721240409,1795281721276361,1,0,1);
INSERT INTO "tombstones" VALUES(3,'sandbox/RegionOne','port','27bded44-41c2-4aea-8bee-3f2894bc3daa','deleting',1795281721240409,NULL,1,0,1);
INSERT INTO "tombstones" VALUES(4,'sandbox/RegionOne','port','7a07b1ae-f121-475a-b71e-530fe2b74c1b','gone',1795281721240409,1795281721275640,1,0,1);
CREATE INDEX deletions_by_state ON deletions(state);
CREATE INDEX deletions_by_short_id ON deletions(substr(id, -8));
CREATE UNIQUE INDEX steps_live ON steps(resource, kind, site, action) WHERE ended_at IS NULL;
CREATE INDEX steps_by_state ON steps(state, deletion);
CREATE INDEX steps_ready ON steps(site, deletion, rank DESC) WHERE state = 'ready';
CREATE INDEX steps_due ON steps(state, next_attempt_at)
    WHERE state = 'blocked' OR state = 'verifying';
CREATE INDEX steps_stuck ON steps(since) WHERE state = 'stuck' AND held_by IS NULL;
CREATE INDEX edges_by_dependent ON edges(dependent);
CREATE INDEX tombstones_checking ON tombstones(deletion) WHERE phase = 'checking';
CREATE INDEX events_by_deletion ON events(deletion) WHERE deletion IS NOT NULL;
CREATE INDEX events_by_step ON events(step) WHERE step IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('engines',1);
INSERT INTO "sqlite_sequence" VALUES('tombstones',5);
INSERT INTO "sqlite_sequence" VALUES('audit',1);
INSERT INTO "sqlite_sequence" VALUES('events',8);
COMMIT;
PRAGMA user_version = 1;
