//! Shows the results of `gone doctor` and `gone ledger check`.

use std::io::{self, Write};

use super::args::Format;
use super::exit::Exit;
use super::output::{Sheet, Style, write_rows};
use crate::frontends::offline::doctor::{Check, CheckFailure, Health};

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
    let mut sheet = Sheet::new(["STATE", "CHECK", "FOUND"]);
    for check in checks {
        sheet.push([
            check.health.as_str().to_owned(),
            check.name.clone(),
            check.found.clone(),
        ]);
    }
    // The table is not cut to the terminal's width, because the end of a finding matters.
    let whole = Style {
        width: None,
        ..style
    };
    write_rows(out, whole, format, &sheet, checks)?;
    let exit = exit(checks);
    if format == Format::Table {
        // Checks that are not well are repeated, with what to do.
        for check in checks.iter().filter(|check| check.health != Health::Ok) {
            let head = format!("{} {}: {}", check.health.as_str(), check.name, check.found);
            writeln!(out, "\n{}", style.safe(&head))?;
            if !check.advice.is_empty() {
                writeln!(out, "  {}", style.safe(&check.advice))?;
            }
        }
        if exit == Exit::Done {
            writeln!(out, "\n{next}")?;
        }
    }
    Ok(exit)
}

/// Returns the exit code, which is 0 unless a check failed.
pub fn exit(checks: &[Check]) -> Exit {
    Exit::first_of(
        checks
            .iter()
            .map(|check| match (check.health, check.trouble) {
                (Health::Ok | Health::Warn, _) => Exit::Done,
                (Health::Fail, Some(CheckFailure::Auth)) => Exit::Auth,
                (Health::Fail, Some(CheckFailure::Unreachable)) => Exit::Unreachable,
                (Health::Fail, Some(CheckFailure::Damage)) => Exit::Internal,
                (Health::Fail, Some(CheckFailure::Configuration) | None) => Exit::Usage,
            }),
    )
}
