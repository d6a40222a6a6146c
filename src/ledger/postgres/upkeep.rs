//! Maintenance beside a running engine, or without one: checking and exporting a ledger on a server, and reading its
//! audit.

use std::io::Write;

use serde_json::{Map, Value};

use super::address::Address;
use super::failed::Failed;
use super::schema::fault;
use super::tables::ServerTables;
use crate::domain::text::inert_json;
use crate::ledger::audit::{self, Head};
use crate::ledger::invariants::{self, LATEST, RuleChecked};
use crate::ledger::store::LogReads as _;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::tables::{TABLES, TableReads as _};
use crate::ledger::{AuditRow, LedgerError};

/// The table with the last numbers that were given.
const NUMBERS: &str = "numbers";

/// Checks every rule that holds in a ledger, and the audit's chain.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn check(address: &Address) -> Result<Vec<RuleChecked>, LedgerError> {
    let failed = |error: Failed| fault(address, &error);
    let reads = ServerTables::open(address)?.reads();
    let mut checked = Vec::new();
    for (rule, sql) in invariants::rules(LATEST, NUMBERS) {
        let broken: i64 = reads
            .db
            .one(&sql, &[], |row| Ok(row.read(0)?))
            .map_err(failed)?;
        checked.push(RuleChecked::new(rule, broken.unsigned_abs(), String::new()));
    }
    checked.push(match audit::chain(&reads).map_err(failed)? {
        Ok(_) => RuleChecked::new(invariants::CHAIN, 0, String::new()),
        Err(broken) => RuleChecked::new(invariants::CHAIN, 1, broken.to_string()),
    });
    Ok(checked)
}

/// Returns the end of the audit if its chain holds; otherwise what is wrong.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn verify_audit(address: &Address) -> Result<Result<Head, String>, LedgerError> {
    let reads = ServerTables::open(address)?.reads();
    let chain = audit::chain(&reads).map_err(|error| fault(address, &error))?;
    Ok(chain.map_err(|broken| broken.to_string()))
}

/// Returns the number of the audit's last row; 0 if it has none.
///
/// # Errors
/// The ledger cannot be read.
pub fn audit_length(address: &Address) -> Result<i64, LedgerError> {
    let reads = ServerTables::open(address)?.reads();
    let sql = "SELECT coalesce(max(seq), 0) FROM audit";
    let length = reads.db.one(sql, &[], |row| Ok(row.read(0)?));
    length.map_err(|error| fault(address, &error))
}

/// Returns at most `limit` rows of the audit after row `after`, oldest first.
///
/// # Errors
/// The ledger cannot be read.
pub fn audit(address: &Address, after: i64, limit: usize) -> Result<Vec<AuditRow>, LedgerError> {
    let reads = ServerTables::open(address)?.reads();
    let rows = reads.load_audit(after, limit);
    rows.map_err(|error| fault(address, &error))
}

/// Writes every row of every table as a line of JSON, in the form that a file's export has. Returns the number of
/// lines.
///
/// # Errors
/// The ledger cannot be read, or the output not be written.
pub fn export(address: &Address, out: &mut dyn Write) -> Result<u64, LedgerError> {
    let ledger = ServerTables::open(address)?;
    let mut lines = 0;
    let mut tables: Vec<_> = TABLES.iter().collect();
    tables.sort_by_key(|table| table.name);
    for table in tables {
        ledger.each_batch(table, 0, &mut |rows| {
            for row in rows {
                let mut line = Map::from_iter([("table".to_owned(), Value::from(table.name))]);
                for ((column, _), cell) in table.columns.iter().zip(row) {
                    let value = serde_json::to_value(cell).unwrap_or_default();
                    line.insert((*column).to_owned(), value);
                }
                let line = Value::Object(line).to_string();
                writeln!(out, "{}", inert_json(&line, false)).map_err(|error| {
                    LedgerError::Output {
                        detail: error.to_string(),
                    }
                })?;
                lines += 1;
            }
            Ok(())
        })?;
    }
    Ok(lines)
}
