//! Shows the result of `gone ledger migrate`: what was copied, by table.

use std::io;

use serde_json::Value;

use super::columns::text;
use super::output::Printer;
use crate::present::columns;

columns! {
    /// The tables of a report (`table, rows, hash`).
    TABLES: Value, |row|
    "TABLE" 9 => text(&row["table"]);
    "ROWS" 9 => row["rows"];
    "SHA-256" 5 => text(&row["hash"]);
}

/// Writes a report (`from, to, dry_run, tables, audit_head`).
///
/// # Errors
/// The output cannot be written.
pub fn report(out: &mut Printer<'_>, report: &Value) -> io::Result<()> {
    if out.value(report)? {
        return Ok(());
    }
    let tables = report["tables"].as_array().map_or(&[][..], Vec::as_slice);
    out.list(TABLES, tables)?;
    if !out.format.is_table() {
        return Ok(());
    }
    let rows: u64 = tables.iter().filter_map(|it| it["rows"].as_u64()).sum();
    let (from, to) = (text(&report["from"]), text(&report["to"]));
    match report["audit_head"].as_str() {
        None => out.title(&format!(
            "{rows} rows would be copied from {from} to {to}. Nothing was written."
        )),
        Some(head) => {
            out.title(&format!("{rows} rows were copied from {from} to {to}."))?;
            out.say(format!(
                "The audit has the same length and last hash in both ledgers: {head}."
            ))?;
            out.say(format!(
                "Use {to} from now on: --ledger, or [ledger] path in the settings. Start no engine on {from} any more: \
                 it would work on the same deletions."
            ))
        }
    }
}
