//! Maintenance beside a running engine, or without one: checking, copying and exporting the ledger.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value};

use super::connection::{check_content, check_version, fault};
use super::seal::Head;
use super::sql::Sql;
use super::{derived, schema, seal};
use crate::domain::text::inert_json;
use crate::ledger::store::LogReads as _;
use crate::ledger::{AuditRow, LedgerError};
use crate::system::private;

/// Rules that hold in every ledger at any time: the first version of the tables that has the rule, its name,
/// and a statement that counts the violations, with the places of [`derived::fill`]. Of two rules with one name the later one holds, from its
/// version on.
const RULES: [(i64, &str, &str); 23] = [
    (1, "counts sum to the total",
     "SELECT count(*) FROM deletions WHERE total <> waiting + ready + running + verifying + blocked
          + stuck + gone + skipped + purged
"),
    (1, "each total equals a recount",
     "SELECT count(*) FROM deletions
          LEFT JOIN (SELECT deletion, count(*) AS found FROM steps GROUP BY deletion) ON deletion = num
          WHERE total <> coalesce(found, 0)"),
    (1, "counts equal a recount",
     "SELECT count(*) FROM deletions d WHERE EXISTS (
          SELECT 1 FROM json_each(json_object('waiting', waiting, 'ready', ready,
              'running', running, 'verifying', verifying, 'blocked', blocked, 'stuck', stuck,
              'gone', gone, 'skipped', skipped, 'purged', purged)) c
          WHERE c.value <> (SELECT count(*) FROM steps WHERE deletion = d.num AND state = c.key))"),
    (1, "the sums over all steps equal a recount",
     "SELECT count(*) FROM counters WHERE name LIKE 'step\\_%' ESCAPE '\\'
          AND n <> (SELECT count(*) FROM steps WHERE 'step_' || state = counters.name)"),
    (1, "the sums over all deletions equal a recount",
     "SELECT count(*) FROM counters WHERE name LIKE 'deletion\\_%' ESCAPE '\\'
          AND n <> (SELECT count(*) FROM deletions WHERE 'deletion_' || state = counters.name)"),
    (1, "the counts of unfinished dependencies equal a recount",
     "SELECT count(*) FROM steps s WHERE ended_at IS NULL AND waits <> (
          SELECT count(*) FROM edges JOIN steps t ON t.id = dependency
          WHERE dependent = s.id AND t.ended_at IS NULL)"),
    (1, "waiting steps have an unfinished dependency, and active steps have none",
     "SELECT count(*) FROM steps WHERE (state = 'waiting' AND waits = 0)
          OR (state IN ('ready', 'running', 'verifying', 'blocked') AND waits > 0)"),
    (1, "n12: no waiting step depends on a stuck step",
     "SELECT count(*) FROM steps s WHERE state = 'waiting' AND EXISTS (
          SELECT 1 FROM edges JOIN steps t ON t.id = dependency
          WHERE dependent = s.id AND t.state = 'stuck')"),
    (1, "a step stuck because of another names a stuck step of its deletion that is stuck by \
         itself",
     "SELECT count(*) FROM steps s WHERE held_by IS NOT NULL AND (state <> 'stuck'
          OR NOT EXISTS (SELECT 1 FROM steps t WHERE t.id = s.held_by AND t.state = 'stuck'
              AND t.held_by IS NULL AND t.deletion = s.deletion))"),
    (1, "n11: a deletion that a stuck step stopped has no unsent steps",
     "SELECT count(*) FROM steps s JOIN deletions d ON d.num = deletion WHERE stops
          AND s.state IN ('waiting', 'ready') AND sent = 0 AND EXISTS (
          SELECT 1 FROM steps t WHERE t.deletion = d.num AND t.state = 'stuck')"),
    (10, "each step is in a branch of its deletion, site, kind and action",
     "SELECT count(*) FROM steps s WHERE NOT EXISTS (
          SELECT 1 FROM branches b WHERE b.id = s.branch
              AND (b.deletion, b.site, b.kind, b.action) = (s.deletion, s.site, s.kind, s.action))"),
    (1, "a step has an end time exactly when its state is terminal",
     "SELECT count(*) FROM steps
          WHERE (ended_at IS NOT NULL) <> (state IN ('gone', 'skipped', 'purged'))"),
    (1, "m1: one tombstone per resource",
     "SELECT count(*) FROM (SELECT 1 FROM tombstones GROUP BY site, kind, id HAVING count(*) > 1)"),
    // Two deletions may take away two resources to which one resource refers.
    (1, "i9: one live step per resource and action",
     "SELECT count(*) FROM (SELECT 1 FROM steps WHERE ended_at IS NULL
          GROUP BY site, kind, resource, action, iif(action = 'unset', vars, '')
          HAVING count(*) > 1)"),
    // A resource that is enabled or loses a reference stays, and has no tombstone.
    (1, "t1: each resource that is being deleted has a tombstone",
     "SELECT count(*) FROM steps s WHERE ended_at IS NULL AND action IN ('delete', 'detach')
          AND NOT EXISTS (
          SELECT 1 FROM tombstones t WHERE t.record_id = s.record AND t.phase = 'deleting'
              AND t.deletion = s.deletion AND t.id = s.resource)"),
    (1, "t9: no tombstone in phase deleting outlives its step",
     "SELECT count(*) FROM tombstones WHERE phase = 'deleting' AND (record_id, deletion) NOT IN (
          SELECT record, deletion FROM steps WHERE ended_at IS NULL AND record IS NOT NULL)"),
    (1, "t3: a tombstone in phase checking belongs to a deletion in planning",
     "SELECT count(*) FROM tombstones t JOIN deletions d ON d.num = t.deletion
          WHERE phase = 'checking' AND d.state <> 'planning'"),
    (1, "the state of each deletion follows from its counts",
     "SELECT count(*) FROM deletions
          WHERE state <> iif(state IN ('planning', 'refused') AND NOT cancelled, state, {state})
              OR (finished_at IS NOT NULL) <> ({live} = 0 AND state IN {finished})"),
    (4, "i7: a person was notified of each step that is stuck by itself",
     "SELECT count(*) FROM steps WHERE state = 'stuck' AND held_by IS NULL AND told = 0"),
    (LEFT, "waiting steps have an unfinished dependency, and active steps have none",
     "SELECT count(*) FROM steps WHERE (state = 'waiting' AND waits = 0 AND left_to IS NULL)
          OR (state IN ('ready', 'running', 'verifying', 'blocked')
              AND (waits > 0 OR left_to IS NOT NULL))"),
    (LEFT, "i9: one live step per resource and action",
     "SELECT count(*) FROM (SELECT 1 FROM steps WHERE ended_at IS NULL AND left_to IS NULL
          GROUP BY site, kind, resource, action, iif(action = 'unset', vars, '')
          HAVING count(*) > 1)"),
    (LEFT, "t1: each resource that is being deleted has a tombstone",
     "SELECT count(*) FROM steps s WHERE ended_at IS NULL AND action IN ('delete', 'detach')
          AND left_to IS NULL AND NOT EXISTS (
          SELECT 1 FROM tombstones t WHERE t.record_id = s.record AND t.phase = 'deleting'
              AND t.deletion = s.deletion AND t.id = s.resource)"),
    (LEFT, "p9: a step left to another deletion follows the step there",
     "SELECT count(*) FROM steps s LEFT JOIN steps o ON o.id = s.left_to
          WHERE s.left_to IS NOT NULL AND s.ended_at IS NULL AND (o.id IS NULL
              OR o.ended_at IS NOT NULL OR o.left_to IS NOT NULL
              OR (o.resource, o.kind, o.site, o.action) <> (s.resource, s.kind, s.site, s.action)
              OR o.state = 'stuck' AND s.state <> 'stuck'
              OR o.state <> 'stuck' AND s.state = 'stuck' AND s.held_by IS NULL)"),
];

/// The first version of the tables in which a step may be left to another deletion.
const LEFT: i64 = 14;

/// The rules for a version of the tables, in their order, each with its statement.
pub fn rules(version: i64) -> impl Iterator<Item = (&'static str, String)> {
    let known = move |(since, ..): &(i64, &str, &str)| *since <= version;
    RULES.into_iter().enumerate().filter_map(move |(at, rule)| {
        let is_replaced = RULES[at + 1..]
            .iter()
            .any(|later| known(later) && later.1 == rule.1);
        let (_, name, sql) = rule;
        (known(&rule) && !is_replaced).then(|| (name, derived::fill(sql)))
    })
}

/// A rule, and how many violations of it were found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RuleChecked {
    pub rule: String,
    pub broken: u64,
    /// A description of the fault; empty if only the number of violations is known.
    pub detail: String,
}

/// Checks the file, every rule of `RULES`, the audit's chain and its seal, all as of one moment. Looks for
/// the seal's key beside the ledger, and in `seal_keys`: a backup has none beside it.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn check(path: &Path, seal_keys: &[PathBuf]) -> Result<Vec<RuleChecked>, LedgerError> {
    let (db, name) = open(path)?;
    let failed = |error: rusqlite::Error| fault(&name, &error);
    let mut checked = Vec::with_capacity(RULES.len() + 2);
    let mut add = |rule: &str, broken: u64, detail: String| {
        checked.push(RuleChecked {
            rule: rule.to_owned(),
            broken,
            detail,
        });
    };
    let tx = db.unchecked_transaction().map_err(failed)?;
    let damage: Vec<String> = strings(&tx, "PRAGMA integrity_check(20)").map_err(failed)?;
    match damage.as_slice() {
        [one] if one == "ok" => add("the file is intact", 0, String::new()),
        found => add("the file is intact", found.len() as u64, found.join("; ")),
    }
    let version = schema::version(&tx).map_err(failed)?;
    for (rule, sql) in rules(version) {
        let broken = tx
            .query_row(&sql, (), |row| row.get::<_, i64>(0))
            .map_err(failed)?;
        add(rule, broken.unsigned_abs(), String::new());
    }
    let (chain, sealed) = (
        "p6: the audit's hash chain is intact",
        "p6: the audit ends where it was sealed",
    );
    match seal::chain(&tx).map_err(failed)? {
        Ok(head) => {
            add(chain, 0, String::new());
            match seal::check(&tx, path, seal_keys, &head).map_err(failed)? {
                Ok(()) => add(sealed, 0, String::new()),
                Err(why) => add(sealed, 1, why.to_string()),
            }
        }
        Err(broken) => {
            add(chain, 1, broken.to_string());
            add(
                sealed,
                1,
                "not checked: the hash chain is broken".to_owned(),
            );
        }
    }
    Ok(checked)
}

/// Returns the end of the audit if the chain and the seal hold; otherwise what is wrong.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn verify_audit(
    path: &Path,
    seal_keys: &[PathBuf],
) -> Result<Result<Head, String>, LedgerError> {
    let (db, name) = open(path)?;
    let failed = |error: rusqlite::Error| fault(&name, &error);
    let tx = db.unchecked_transaction().map_err(failed)?;
    let head = match seal::chain(&tx).map_err(failed)? {
        Ok(head) => head,
        Err(broken) => return Ok(Err(broken.to_string())),
    };
    let sealed = seal::check(&tx, path, seal_keys, &head).map_err(failed)?;
    Ok(sealed.map(|()| head).map_err(|why| why.to_string()))
}

/// Returns the number of the audit's last row; 0 if it has none.
///
/// # Errors
/// The ledger cannot be read.
pub fn audit_length(path: &Path) -> Result<i64, LedgerError> {
    let (db, name) = open(path)?;
    db.query_row("SELECT coalesce(max(seq), 0) FROM audit", (), |row| {
        row.get(0)
    })
    .map_err(|error| fault(&name, &error))
}

/// Returns at most `limit` rows of the audit after row `after`, oldest first.
///
/// # Errors
/// The ledger cannot be read.
pub fn audit(path: &Path, after: i64, limit: usize) -> Result<Vec<AuditRow>, LedgerError> {
    let (db, name) = open(path)?;
    db.load_audit(after, limit)
        .map_err(|error| fault(&name, &error))
}

/// Copies the ledger as it is at one moment into a new private file, also while an engine writes it.
/// Returns the copy's size in bytes.
///
/// # Errors
/// The file is there already, or cannot be written; the ledger cannot be read.
pub fn backup(path: &Path, to: &Path) -> Result<u64, LedgerError> {
    let (db, name) = open(path)?;
    let copy = to.display().to_string();
    let failed = |error: io::Error| LedgerError::Io {
        name: copy.clone(),
        detail: error.to_string(),
    };
    // SQLite takes an empty file for a missing one, so the file is private from its first byte. If SQLite
    // created it by its name, it would follow a link that somebody put there meanwhile.
    private::check_way(to, private::Trusted::us()).map_err(failed)?;
    drop(private::create_new(to).map_err(failed)?);
    let copied = db.execute("VACUUM INTO ?1", [&copy]);
    if let Err(error) = copied {
        // A partial copy is useless; what matters is why.
        let _ = std::fs::remove_file(to);
        return Err(fault(&name, &error));
    }
    let file = std::fs::File::open(to).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    Ok(file.metadata().map_err(failed)?.len())
}

/// Writes every row of every table as a line of JSON, `{"table": …, …columns}`, all as of one moment.
/// Returns the number of lines.
///
/// # Errors
/// The ledger cannot be read, or the output not be written.
pub fn export(path: &Path, out: &mut dyn Write) -> Result<u64, LedgerError> {
    let (db, name) = open(path)?;
    let failed = |error: rusqlite::Error| fault(&name, &error);
    let tx = db.unchecked_transaction().map_err(failed)?;
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let mut lines = 0;
    for table in strings(&tx, tables).map_err(failed)? {
        lines += export_table(&tx, &table, out, &name)?;
    }
    Ok(lines)
}

fn export_table(
    db: &Connection,
    table: &str,
    out: &mut dyn Write,
    ledger: &str,
) -> Result<u64, LedgerError> {
    let failed = |error: rusqlite::Error| fault(ledger, &error);
    let mut all = db
        .prepare(&format!("SELECT * FROM \"{table}\""))
        .map_err(failed)?;
    let columns: Vec<String> = all.column_names().map(str::to_owned).collect();
    let mut rows = all.query(()).map_err(failed)?;
    let mut lines = 0;
    while let Some(row) = rows.next().map_err(failed)? {
        let mut line = Map::from_iter([("table".to_owned(), Value::from(table))]);
        for (at, column) in columns.iter().enumerate() {
            line.insert(column.clone(), json(row.get_ref(at).map_err(failed)?));
        }
        let line = Value::Object(line).to_string();
        writeln!(out, "{}", inert_json(&line, false)).map_err(|error| LedgerError::Io {
            name: "the output".to_owned(),
            detail: error.to_string(),
        })?;
        lines += 1;
    }
    Ok(lines)
}

/// The ledger's columns hold numbers and texts only.
fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
    }
}

fn strings(db: &Connection, sql: &str) -> Sql<Vec<String>> {
    db.prepare(sql)?.query_map((), |row| row.get(0))?.collect()
}

fn open(path: &Path) -> Result<(Connection, String), LedgerError> {
    let name = path.display().to_string();
    check_content(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(|error| fault(&name, &error))?;
    check_version(&db, &name)?;
    match schema::version(&db).map_err(|error| fault(&name, &error))? {
        0 => Err(LedgerError::Foreign { name }),
        _ => Ok((db, name)),
    }
}
