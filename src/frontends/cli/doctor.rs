//! Shows the results of `gone doctor`, `gone ledger check` and `gone notify test`.

use std::io::{self, Write};

use super::args::Format;
use super::exit::Exit;
use super::output::{Column, ListContext, Sheet, Style, columns, say, write_rows};
use crate::frontends::offline::doctor::{Check, CheckFailure, Health};

columns! {
    CHECKS: Check, |row, list|
    "STATE" 9 => row.health.as_str();
    "CHECK" 9 => row.name;
    "FOUND" 9 => row.found;
}

/// Writes the checks, and `next` if all is well; the exit code says whether one failed.
///
/// # Errors
/// The output cannot be written.
pub fn report(
    out: &mut dyn Write,
    style: Style,
    format: Format,
    checks: &[Check],
    next: &str,
) -> io::Result<Exit> {
    // The table is not cut to the terminal's width, because the end of a finding matters.
    let sheet = Sheet::of(CHECKS, checks, &ListContext::default());
    write_rows(out, style.whole(), format, &sheet, checks)?;
    let exit = exit(checks);
    if !format.is_table() {
        return Ok(exit);
    }
    // Checks that are not well are repeated, with what to do.
    for check in checks.iter().filter(|check| check.health != Health::Ok) {
        writeln!(out)?;
        say(
            out,
            style,
            format!("{} {}: {}", check.health.as_str(), check.name, check.found),
        )?;
        if !check.advice.is_empty() {
            say(out, style, format!("  {}", check.advice))?;
        }
    }
    if exit == Exit::Done {
        writeln!(out, "\n{next}")?;
    }
    Ok(exit)
}

/// Returns the exit code, which is 0 unless a check failed.
pub fn exit(checks: &[Check]) -> Exit {
    let exit = |check: &Check| match (check.health, check.trouble) {
        (Health::Ok | Health::Warn, _) => Exit::Done,
        (Health::Fail, Some(CheckFailure::Auth)) => Exit::Auth,
        (Health::Fail, Some(CheckFailure::Unreachable)) => Exit::Unreachable,
        (Health::Fail, Some(CheckFailure::Damage)) => Exit::Internal,
        (Health::Fail, Some(CheckFailure::Configuration) | None) => Exit::Usage,
    };
    Exit::first_of(checks.iter().map(exit))
}
