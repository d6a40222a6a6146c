//! Maintenance beside a running engine, or without one: checking, copying and exporting the ledger.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::Value;

use super::connection::{fault, open_reader};
use super::sql::Sql;
use super::{schema, seal};
use crate::ledger::LedgerError;
use crate::ledger::audit::{self, Head};
use crate::ledger::invariants::{self, RuleChecked};
use crate::ledger::store::tables::export_row;
use crate::system::private;

/// The last numbers that were given, by the names that they have in every store.
const NUMBERS: &str =
    "(SELECT CASE name WHEN 'events' THEN 'event' WHEN 'peer_changes' THEN 'notice'
         WHEN 'tombstones' THEN 'record' ELSE name END AS name, seq AS last
     FROM sqlite_sequence)";

/// The rules for a version of the tables, in their order, each with its statement.
pub fn rules(version: i64) -> impl Iterator<Item = (&'static str, String)> {
    invariants::rules(version, NUMBERS)
}

/// Checks the file, every rule of [`rules`], the audit's chain and its seal, all as of one moment. Searches for
/// the seal's key beside the ledger, and in `seal_keys`: a backup has none beside it.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn check(path: &Path, seal_keys: &[PathBuf]) -> Result<Vec<RuleChecked>, LedgerError> {
    let (db, name) = open(path)?;
    let failed = |error: rusqlite::Error| fault(&name, &error);
    let mut checked = Vec::new();
    let mut add = |rule: &str, broken, detail| checked.push(RuleChecked::new(rule, broken, detail));
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
    let (chain, sealed) = (invariants::CHAIN, "p6: the audit ends where it was sealed");
    match audit::chain(&*tx).map_err(failed)? {
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

/// Returns the end of the audit if its chain is whole and its seal confirms it; otherwise a description of the
/// fault.
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
    let head = match audit::chain(&*tx).map_err(failed)? {
        Ok(head) => head,
        Err(broken) => return Ok(Err(broken.to_string())),
    };
    let sealed = seal::check(&tx, path, seal_keys, &head).map_err(failed)?;
    Ok(sealed.map(|()| head).map_err(|why| why.to_string()))
}

/// Reads the ledger as of one moment.
///
/// # Errors
/// The ledger cannot be read.
pub(in crate::ledger) fn read<T>(
    path: &Path,
    read: impl FnOnce(&Connection) -> Sql<T>,
) -> Result<T, LedgerError> {
    let (db, name) = open(path)?;
    let tx = db.unchecked_transaction();
    tx.and_then(|tx| read(&tx))
        .map_err(|error| fault(&name, &error))
}

/// Copies the ledger as it is at one moment into a new private file, even while an engine writes it. Returns the copy's
/// size in bytes.
///
/// # Errors
/// The file exists already, cannot be written, or lies where others could replace it; or the ledger cannot be read.
pub fn backup(path: &Path, to: &Path) -> Result<u64, LedgerError> {
    let (db, name) = open(path)?;
    let copy = to.display().to_string();
    let failed = |error: io::Error| LedgerError::io(&copy, error);
    // SQLite takes an empty file for a missing one, so the file is private from its first byte. If SQLite
    // created it by its name, it would follow a link that somebody put there meanwhile.
    private::check_way(to, private::Trusted::us()).map_err(failed)?;
    drop(private::create_new(to).map_err(failed)?);
    let copied = db.execute("VACUUM INTO ?1", [&copy]);
    if let Err(error) = copied {
        // A partial copy is useless, and the error of the copy matters more than one of its removal.
        let _ = std::fs::remove_file(to);
        return Err(fault(&name, &error));
    }
    let file = std::fs::File::open(to).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    Ok(file.metadata().map_err(failed)?.len())
}

/// Writes every row of every table as a line of JSON, as of one moment: `{"table": "edges", "dependency": 1,
/// "dependent": 2}`. Returns the number of lines.
///
/// # Errors
/// The ledger cannot be read, or the output cannot be written.
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
        let cells = columns.iter().enumerate().map(|(at, column)| {
            let cell = row.get_ref(at).map_err(failed)?;
            Ok((column.clone(), json(cell)))
        });
        export_row(out, table, cells.collect::<Result<_, LedgerError>>()?)?;
        lines += 1;
    }
    Ok(lines)
}

/// The ledger's columns contain only integers, texts and nulls.
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
    Ok((open_reader(path)?, path.display().to_string()))
}
