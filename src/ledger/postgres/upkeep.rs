//! Maintenance beside a running engine, or without one: checking, reading and exporting a ledger on a server.

use std::io::Write;

use super::address::Address;
use super::failed::Sql;
use super::schema::fault;
use super::tables::ServerTables;
use super::transaction::PostgresRows;
use crate::ledger::LedgerError;
use crate::ledger::audit;
use crate::ledger::invariants::{self, LATEST, RuleChecked};
use crate::ledger::store::sql::{ReadColumns as _, Statements as _};
use crate::ledger::store::tables::{TABLES, TableReads as _, export_row};

/// The table with the last numbers that were given.
const NUMBERS: &str = "numbers";

/// Checks every rule that holds in a ledger, and the audit's chain.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn check(address: &Address) -> Result<Vec<RuleChecked>, LedgerError> {
    read(address, |rows| {
        let mut checked = Vec::new();
        for (rule, sql) in invariants::rules(LATEST, NUMBERS) {
            let broken: i64 = rows.read_one(&sql, &[], |row| row.read(0))?;
            checked.push(RuleChecked::new(rule, broken.unsigned_abs(), String::new()));
        }
        checked.push(match audit::chain(rows)? {
            Ok(_) => RuleChecked::new(invariants::CHAIN, 0, String::new()),
            Err(broken) => RuleChecked::new(invariants::CHAIN, 1, broken.to_string()),
        });
        Ok(checked)
    })
}

/// Reads the ledger as of one moment.
///
/// # Errors
/// The ledger cannot be read.
pub(in crate::ledger) fn read<T>(
    address: &Address,
    read: impl FnOnce(&PostgresRows) -> Sql<T>,
) -> Result<T, LedgerError> {
    let rows = ServerTables::open(address)?.reads();
    read(&rows).map_err(|error| fault(address, &error))
}

/// Writes the rows of [`TABLES`] as lines of JSON, in the form that a file's export has. Returns the number of lines.
///
/// # Errors
/// The ledger cannot be read, or the output cannot be written.
pub fn export(address: &Address, out: &mut dyn Write) -> Result<u64, LedgerError> {
    let ledger = ServerTables::open(address)?;
    let mut lines = 0;
    let mut tables: Vec<_> = TABLES.iter().collect();
    tables.sort_by_key(|table| table.name);
    for table in tables {
        ledger.each_batch(table, 0, &mut |rows| {
            for row in rows {
                let cells = table.columns.iter().zip(row).map(|((column, _), cell)| {
                    let value = serde_json::to_value(cell).unwrap_or_default();
                    ((*column).to_owned(), value)
                });
                export_row(out, table.name, cells.collect())?;
                lines += 1;
            }
            Ok(())
        })?;
    }
    Ok(lines)
}
