//! `gone ledger`: what is done beside an engine at work, or without one.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use super::embedded::ledger_failure;
use super::{places, settings};
use crate::faces::cli::args::{Format, Global, LedgerWork};
use crate::faces::cli::output::{Style, Tolerant};
use crate::faces::cli::{Exit, Failure, doctor};
use crate::faces::offline::ledger;
use crate::ledger::sqlite::upkeep;
use crate::system::config::Surroundings;

pub(super) fn run(
    global: &Global,
    around: &Surroundings,
    style: Style,
    work: &LedgerWork,
) -> Result<Exit, Failure> {
    let settings = settings(global, around)?;
    let path = places(global, &settings, around, Path::exists)?.ledger;
    if !path.exists() {
        let why = format!("there is none at {}", path.display());
        let advice = "Name it with --ledger; an engine makes one when it starts.";
        return Err(Failure::usage("open the ledger", why, advice));
    }
    let mut out = Tolerant::new(BufWriter::new(io::stdout().lock()));
    let exit = match work {
        LedgerWork::Check => {
            let checks = ledger::check(&path).map_err(|error| ledger_failure(&error))?;
            let well = format!("{} is whole, and every rule holds.", path.display());
            doctor::report(&mut out, style, global.output, &checks, &well)?
        }
        LedgerWork::Backup { to } => {
            let bytes = upkeep::backup(&path, to).map_err(|error| {
                let tried = format!("copy the ledger {} to {}", path.display(), to.display());
                Failure::usage(
                    tried,
                    error.to_string(),
                    "Name a new file in a folder that is writable.",
                )
            })?;
            match global.output {
                Format::Table => writeln!(out, "copied {bytes} bytes to {}", to.display())?,
                _ => writeln!(out, "{}", serde_json::json!({ "file": to, "bytes": bytes }))?,
            }
            Exit::Done
        }
        LedgerWork::Prune(_) => return Err(Failure::unexpected("run by an engine")),
        LedgerWork::Export => {
            upkeep::export(&path, &mut out).map_err(|error| ledger_failure(&error))?;
            Exit::Done
        }
    };
    out.flush()?;
    Ok(exit)
}
