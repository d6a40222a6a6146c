//! `gone ledger migrate`: copies a ledger from a file to a server, or back.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use super::{Process, located};
use crate::frontends::cli::output::{Style, Tolerant};
use crate::frontends::cli::{Exit, Failure};
use crate::ledger::migrate::{self, CopiedTable, CopyWork, NotCopied, Progress};
use crate::present::columns;

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
    /// Only count the rows to copy, and check that no engine has used TO and, on a server, that TO can be written
    #[arg(long)]
    pub dry_run: bool,
}

impl Migrate {
    pub(super) fn run(&self, process: &Process<'_>) -> Result<Exit, Failure> {
        let (_, paths) = process.settings_and_paths()?;
        let advice = "Name a file, or postgres://USER@HOST/DATABASE.";
        let from = located(process.around, &self.from, TRIED, advice)?;
        let to = located(process.around, &self.to, TRIED, advice)?;
        if from.file().is_some_and(|path| !path.exists()) {
            let why = format!("there is no ledger at {from}");
            let advice = "FROM must be the ledger to copy, and TO the file or URL of the copy.";
            return Err(Failure::usage(TRIED, why, advice));
        }
        let (tables, head) = match self.dry_run {
            true => (migrate::count(&from, &to)?, None),
            false => {
                let mut last = Instant::now();
                let copied = migrate::migrate(&from, &to, &paths.seal_keys, &mut |progress| {
                    if last.elapsed() >= SAID_EVERY {
                        last = Instant::now();
                        say(process.style, progress);
                    }
                })?;
                (copied.tables, Some(copied.audit.to_string()))
            }
        };
        process.print(|out| {
            let report = serde_json::json!({
                "from": from.to_string(),
                "to": to.to_string(),
                "dry_run": self.dry_run,
                "tables": tables,
                "audit_head": head,
            });
            if !out.value(&report)? {
                out.list(TABLES, &tables)?;
            }
            if !out.format.is_table() {
                return Ok(());
            }
            let rows: u64 = tables.iter().map(|table| table.rows).sum();
            let Some(head) = head else {
                return out.title(&format!(
                    "{rows} rows would be copied from {from} to {to}. Nothing was written."
                ));
            };
            out.title(&format!("{rows} rows were copied from {from} to {to}."))?;
            out.say(format!(
                "The audit has the same length and last hash in both ledgers: {head}."
            ))?;
            out.say(format!(
                "Use {to} from now on: --ledger, or [ledger] path in the settings. Start no engine on {from} any more: \
                 it would work on the same deletions."
            ))
        })?;
        Ok(Exit::Done)
    }
}

columns! {
    TABLES: CopiedTable, |row|
    "TABLE" 9 => row.table;
    "ROWS" 9 => row.rows;
    "SHA-256" 5 => row.hash;
}

/// Reports the progress of a copy on standard error.
fn say(style: Style, progress: Progress) {
    let work = match progress.work {
        CopyWork::Copying => "copied",
        CopyWork::Comparing => "compared",
    };
    let (rows, of, table) = (progress.rows, progress.of, progress.table);
    let line = format!("{work} {rows} of {of} rows of {table}");
    // Standard error may have no reader.
    let _ = writeln!(Tolerant(io::stderr()), "{}", style.safe(&line));
}

impl From<NotCopied> for Failure {
    fn from(error: NotCopied) -> Self {
        let why = error.to_string();
        let advice = match error {
            NotCopied::Ledger(error) => return error.into(),
            NotCopied::Same { .. } => "Name two different ledgers.",
            NotCopied::InUse { .. } => {
                "Name a location without a ledger: another file, or another schema with ?schema=NAME."
            }
            NotCopied::AnotherSource { .. } => {
                "Run the copy of that ledger again, remove the unfinished copy, or name another location."
            }
            NotCopied::Audit { .. } => {
                "`gone audit verify` says more. A copy on a server could no longer show the damage: seal the audit anew \
                 with `gone audit seal` once you know why, or copy a backup."
            }
            NotCopied::Differs { .. } => {
                let advice = "Run the command again: it starts the copy from the beginning.";
                return Self::new(Exit::Internal, "ledger", TRIED, why, advice);
            }
        };
        Self::usage(TRIED, why, advice)
    }
}
