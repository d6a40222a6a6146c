//! `gone audit`: shows who did what, when and why, and whether the audit is complete and unchanged.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::args::Format;
use super::exit::Exit;
use super::output::{Sheet, Style, write_json, write_rows, write_value};

/// Writes rows of the audit in the engine's form (`seq, at, actor, action, target, reason, detail, hash`).
///
/// # Errors
/// The output cannot be written.
pub fn list(out: &mut dyn Write, style: Style, format: Format, rows: &[Value]) -> io::Result<()> {
    let mut sheet = Sheet::new(["SEQ", "AT", "WHO", "FROM", "ACTION", "TARGET", "REASON"]);
    for row in rows {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let at = text(&row["at"]);
        sheet.push([
            text(&row["seq"]),
            at.split('.').next().unwrap_or(&at).replace('T', " "),
            text(&row["actor"]["name"]),
            text(&row["actor"]["origin"]),
            text(&row["action"]),
            text(&row["target"]),
            text(&row["reason"]),
        ]);
    }
    write_rows(out, style, format, &sheet, rows)
}

/// Writes one row as a line of JSON.
///
/// # Errors
/// The output cannot be written.
pub fn line<T: Serialize>(out: &mut dyn Write, style: Style, row: &T) -> io::Result<()> {
    write_json(out, style, row, false)
}

/// Writes the number of rows and the last hash, or what is wrong with the audit.
///
/// # Errors
/// The output cannot be written.
pub fn verified(
    out: &mut dyn Write,
    style: Style,
    format: Format,
    ledger: &Path,
    found: &Result<(i64, String), String>,
) -> io::Result<Exit> {
    let value = match found {
        Ok((length, head)) => serde_json::json!({ "whole": true, "rows": length, "head": head }),
        Err(why) => serde_json::json!({ "whole": false, "why": why }),
    };
    if !write_value(out, style, format, &value)? {
        let ledger = ledger.display();
        let line = match found {
            Ok((length, head)) => {
                format!("The audit of {ledger} is whole: {length} rows, head {head}")
            }
            Err(why) => format!(
                "The audit of {ledger} is not what was written: {why}.\nStop the engine, keep this \
                 file, and compare it with a backup."
            ),
        };
        for line in line.lines() {
            writeln!(out, "{}", style.safe(line))?;
        }
    }
    Ok(match found {
        Ok(_) => Exit::Done,
        Err(_) => Exit::Internal,
    })
}
