//! The statements of the ledger on SQLite alone, for comparison with the ledger's own code around them.
use std::path::Path;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use gone::domain::model::Plan;
use gone::ledger::ClaimedStep;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};

fn open(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.set_prepared_statement_cache_capacity(64);
    db.pragma_update(None, "synchronous", "full").unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .unwrap();
    db.pragma_update(None, "cache_size", -65_536).unwrap();
    db
}

/// Runs the statements that end steps, one step after the other. Returns the steps per second.
pub(crate) fn transitions(
    path: &Path,
    claimed: &[ClaimedStep],
    batch: usize,
    now: DateTime<Utc>,
) -> f64 {
    let mut db = open(path);
    let now = now.timestamp_micros();
    let before = Instant::now();
    for batch in claimed.chunks(batch) {
        let tx = db.transaction().unwrap();
        for step in batch {
            end(&tx, step, now);
        }
        tx.execute(
            "UPDATE deletions SET running = running - ?1, gone = gone + ?1 WHERE num = 1",
            [batch.len() as i64],
        )
        .unwrap();
        tx.commit().unwrap();
    }
    claimed.len() as f64 / before.elapsed().as_secs_f64()
}

/// Ends one step.
fn end(db: &Connection, step: &ClaimedStep, now: i64) {
    let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
        db.prepare_cached(sql).unwrap().execute(values).unwrap()
    };
    let (deletion, record): (i64, i64) = db
        .prepare_cached(
            "SELECT deletion, record FROM steps
             WHERE id = ?1 AND state = 'running' AND claim = ?2 AND epoch = ?3",
        )
        .unwrap()
        .query_row(
            params![step.id, step.fence.claim, step.fence.epoch],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    run(
        "UPDATE steps SET state = 'gone', since = ?2, attempts = 1, looks = 0 WHERE id = ?1",
        &[&step.id, &now],
    );
    run(
        "UPDATE steps SET ended_at = ?2 WHERE id = ?1",
        &[&step.id, &now],
    );
    run(
        "UPDATE tombstones SET phase = 'gone', gone_at = ?3
         WHERE record_id = ?1 AND deletion = ?2",
        &[&record, &deletion, &now],
    );
    run(
        "INSERT INTO events(at, deletion, step, kind, message, data)
         VALUES(?1, ?2, ?3, 'attempt', 'DELETE 204', '{\"state\":\"gone\",\"attempts\":1}')",
        &[&now, &deletion, &step.id],
    );
    let dependents: Vec<i64> = db
        .prepare_cached("SELECT dependent FROM edges WHERE dependency = ?1")
        .unwrap()
        .query_map([step.id], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for dependent in dependents {
        run(
            "UPDATE steps SET waits = waits - 1 WHERE id = ?1",
            &[&dependent],
        );
    }
}

/// Inserts the rows of a plan's start into an empty ledger, in one transaction: tombstones, steps and edges, with
/// their indexes. Reads, checks and counts nothing. Returns the time that it took.
pub(crate) fn start(path: &Path, plan: &Plan, now: DateTime<Utc>) -> Duration {
    let mut db = open(path);
    let now = now.timestamp_micros();
    let before = Instant::now();
    let tx = db.transaction().unwrap();
    {
        let mut tombstone = tx
            .prepare(
                "INSERT INTO tombstones(site, kind, id, phase, deleted_at, deletion)
                 VALUES(?1, ?2, ?3, 'deleting', ?4, 1)",
            )
            .unwrap();
        let mut edge = tx
            .prepare("INSERT INTO edges(dependency, dependent) VALUES(?1, ?2)")
            .unwrap();
        let mut insert = tx
            .prepare(
                "INSERT INTO steps(id, deletion, state, waits, rank, since, max_attempts, record,
                     position, site, kind, resource, action, name, project, why, fingerprint)
                 VALUES(?1, 1, ?2, ?3, 1, ?4, 8, ?5, ?1 - 1, ?6, ?7, ?8, 'delete', ?9, ?10, ?11,
                     ?12)",
            )
            .unwrap();
        for step in &plan.steps {
            let (id, site) = (i64::from(step.id) + 1, step.site.to_string());
            let (kind, resource) = (step.kind.as_str(), &step.resource_id);
            tombstone
                .execute(params![site, kind, resource, now])
                .unwrap();
            let record = tx.last_insert_rowid();
            for dependency in &step.depends_on {
                edge.execute(params![i64::from(*dependency) + 1, id])
                    .unwrap();
            }
            let waits = step.depends_on.len() as i64;
            let state = if waits > 0 { "waiting" } else { "ready" };
            insert
                .execute(params![
                    id,
                    state,
                    waits,
                    now,
                    record,
                    site,
                    kind,
                    resource,
                    step.name,
                    step.project_id,
                    step.why,
                    step.fingerprint
                ])
                .unwrap();
        }
    }
    tx.commit().unwrap();
    before.elapsed()
}
