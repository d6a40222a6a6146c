//! `gone ledger migrate`: copies a ledger from a file to a server, or back.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::ledger::ledger_failure;
use super::{Process, paths, settings};
use crate::frontends::cli::output::{Style, Tolerant};
use crate::frontends::cli::{self, Exit, Failure};
use crate::ledger::Location;
use crate::ledger::migrate::{self, CopyWork, NotCopied, Progress};

const TRIED: &str = "copy the ledger";
/// How often a long copy reports its progress.
const SAID_EVERY: Duration = Duration::from_secs(2);

/// Copy the ledger from a file to a server, or back
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
No engine may have either ledger open. The copy has everything: deletions, tombstones, events, the audit
and all numbers. After an interruption, run the same command again: it goes on where it was, and until the
copy is whole no engine opens it. At the end both are read again and must have the same rows.

FROM stays as it is. Start no engine on it any more: it would work on the same deletions as the engine
of the copy.

Examples:
  gone ledger migrate ledger.db postgres://gone@db.example/gone
  gone ledger migrate postgres://gone@db.example/gone ledger.db
  gone ledger migrate ledger.db postgres://gone@db.example/gone --dry-run    counts only, beside an engine")]
pub struct Migrate {
    /// A file, or postgres://USER@HOST/DATABASE
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// A file or URL where there is no ledger yet
    #[arg(value_name = "TO")]
    pub to: PathBuf,
    /// Only count what would be copied, and check whether TO could be written
    #[arg(long)]
    pub dry_run: bool,
}

impl Migrate {
    pub(super) fn run(&self, process: &Process<'_>) -> Result<Exit, Failure> {
        cli::no_drawing(process.global.output)?;
        let settings = settings(process.global, process.around)?;
        let paths = paths(process.global, &settings, process.around, Path::exists)?;
        let located = |url: &Path| {
            Location::parse(url, process.around.passfile.clone()).map_err(|error| {
                let advice = "Name a file, or postgres://USER@HOST/DATABASE.";
                Failure::usage(TRIED, error.to_string(), advice)
            })
        };
        let (from, to) = (located(&self.from)?, located(&self.to)?);
        if from.file().is_some_and(|path| !path.exists()) {
            let why = format!("there is no ledger at {from}");
            return Err(Failure::usage(TRIED, why, "Name the ledger to copy first."));
        }
        let (tables, end) = match self.dry_run {
            true => (migrate::count(&from, &to).map_err(failure)?, None),
            false => {
                let mut said = Said::new(process.style);
                let copied = migrate::migrate(&from, &to, &paths.seal_keys, &mut |progress| {
                    said.say(progress);
                });
                let copied = copied.map_err(failure)?;
                (copied.tables, Some(copied.audit.to_string()))
            }
        };
        let report = serde_json::json!({
            "from": from.to_string(),
            "to": to.to_string(),
            "dry_run": self.dry_run,
            "tables": tables,
            "audit_head": end,
        });
        process.print(|out| cli::copied::report(out, &report))?;
        Ok(Exit::Done)
    }
}

/// Reports the progress of a copy on standard error.
struct Said {
    style: Style,
    last: Instant,
}

impl Said {
    fn new(style: Style) -> Self {
        Self {
            style,
            last: Instant::now(),
        }
    }

    fn say(&mut self, progress: Progress) {
        if self.last.elapsed() < SAID_EVERY {
            return;
        }
        self.last = Instant::now();
        let Progress {
            work,
            table,
            rows,
            of,
        } = progress;
        let work = match work {
            CopyWork::Copying => "copied",
            CopyWork::Comparing => "compared",
        };
        let line = format!("{work} {rows} of {of} rows of {table}");
        // Standard error may have no reader.
        let _ = writeln!(Tolerant(io::stderr()), "{}", self.style.safe(&line));
    }
}

fn failure(error: NotCopied) -> Failure {
    let advice = match &error {
        NotCopied::Ledger(error) => return ledger_failure(error),
        NotCopied::Same { .. } => "Name two different ledgers.",
        NotCopied::InUse { .. } => {
            "Name a location without a ledger: another file, or another schema with ?schema=NAME."
        }
        NotCopied::AnotherSource { .. } => {
            "Run the copy of that ledger again, remove the unfinished copy, or name another location."
        }
        NotCopied::Audit { .. } => {
            "`gone audit verify` says more. A copy on a server could no longer show the damage: seal the audit anew with \
             `gone audit seal` once you know why, or copy a backup."
        }
        NotCopied::Differs { .. } => {
            return Failure::new(
                Exit::Internal,
                "ledger",
                TRIED,
                error.to_string(),
                "Run the command again: it starts the copy from the beginning.",
            );
        }
    };
    Failure::usage(TRIED, error.to_string(), advice)
}
