//! Shows the results of `gone doctor`, `gone ledger check` and `gone notify test`.

use std::io;

use super::args::Format;
use super::exit::Exit;
use super::output::Printer;
use crate::frontends::offline::doctor::{Check, CheckFailure, Health};
use crate::present::columns;

columns! {
    CHECKS: Check, |row|
    "STATE" 9 => row.health;
    "CHECK" 9 => row.name;
    "FOUND" 9 => row.found;
}

/// Writes the checks. Below a table, also writes `next` if no check failed. The exit code says whether one failed.
pub fn report(out: &mut Printer<'_>, checks: &[Check], next: &str) -> io::Result<Exit> {
    // The table is not cut to the terminal's width, because the end of a finding matters.
    let format = match out.format {
        Format::Table => Format::Wide,
        other => other,
    };
    out.formatted(format).list(CHECKS, checks)?;
    let exit = exit(checks);
    if !out.format.is_table() {
        return Ok(exit);
    }
    // Checks whose health is not `Ok` are repeated, with what to do.
    for check in checks.iter().filter(|check| check.health != Health::Ok) {
        let (health, name, found) = (check.health, &check.name, &check.found);
        out.title(&format!("{health} {name}: {found}"))?;
        if !check.advice.is_empty() {
            out.say(format!("  {}", check.advice))?;
        }
    }
    if exit == Exit::Done {
        out.title(next)?;
    }
    Ok(exit)
}

/// Returns the exit code, which is 0 unless a check failed.
pub fn exit(checks: &[Check]) -> Exit {
    let exit = |check: &Check| match (check.health, check.failure) {
        (Health::Ok | Health::Warn, _) => Exit::Done,
        (Health::Fail, Some(CheckFailure::Auth)) => Exit::Auth,
        (Health::Fail, Some(CheckFailure::Unreachable)) => Exit::Unreachable,
        (Health::Fail, Some(CheckFailure::Damage)) => Exit::Internal,
        (Health::Fail, Some(CheckFailure::Configuration) | None) => Exit::Usage,
    };
    Exit::first_of(checks.iter().map(exit))
}
