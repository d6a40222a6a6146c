//! Shows the results of `gone audit`: who did what, when and why, and whether the audit is complete and
//! unchanged.

use std::io;

use serde_json::Value;

use super::columns::text;
use super::exit::Exit;
use super::output::Printer;
use crate::present::columns;

columns! {
    /// Rows in the engine's form (`seq, at, actor, action, target, reason, detail, hash`).
    ROWS: Value, |row|
    "SEQ" 8 => row["seq"];
    "AT" 9 => text(&row["at"]).split('.').next().unwrap_or_default().replace('T', " ");
    "WHO" 9 => text(&row["actor"]["name"]);
    "FROM" 6 => text(&row["actor"]["origin"]);
    "ACTION" 9 => text(&row["action"]);
    "TARGET" 9 => text(&row["target"]);
    "REASON" 7 => text(&row["reason"]);
}

/// Writes rows of the audit.
///
/// # Errors
/// The output cannot be written.
pub fn list(out: &mut Printer<'_>, rows: &[Value]) -> io::Result<()> {
    out.list(ROWS, rows)
}

/// Writes the number of rows and the last hash, or what is wrong with the audit.
///
/// # Errors
/// The output cannot be written.
pub fn verified(
    out: &mut Printer<'_>,
    ledger: &str,
    found: &Result<(i64, String), String>,
) -> io::Result<Exit> {
    let value = match found {
        Ok((length, head)) => serde_json::json!({ "whole": true, "rows": length, "head": head }),
        Err(why) => serde_json::json!({ "whole": false, "why": why }),
    };
    let is_written = out.value(&value)?;
    match found {
        _ if is_written => {}
        Ok((length, head)) => {
            out.say(format!(
                "The audit of {ledger} is whole: {length} rows, head {head}"
            ))?;
        }
        Err(why) => {
            out.say(format!(
                "The audit of {ledger} is not what was written: {why}."
            ))?;
            out.say("Stop the engine, keep this ledger as it is, and compare it with a backup.")?;
        }
    }
    Ok(found.as_ref().map_or(Exit::Internal, |_| Exit::Done))
}
