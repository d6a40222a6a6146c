//! `gone ledger` and `gone audit`: work on a ledger, beside a running engine or without one.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ledger::file_of;
use super::migrate::Migrate;
use super::{LocalVerb, Paths, Process, client};
use crate::domain::model::Origin;
use crate::frontends::cli::args::Why;
use crate::frontends::cli::output::Printer;
use crate::frontends::cli::{Exit, Failure, Prune, doctor};
use crate::frontends::offline::doctor::{self as offline, Check, CheckFailure};
use crate::ledger::audit::Head;
use crate::ledger::invariants::RuleChecked;
#[cfg(feature = "postgres")]
use crate::ledger::postgres::Address;
use crate::ledger::sqlite::{self, Options, Store};
use crate::ledger::{AuditEntry, AuditRow, Location, upkeep};
use crate::present::{columns, time_or_empty};
use crate::system::clock::Clock;
use crate::system::config::Surroundings;

/// Check, copy, move or write out the ledger
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone ledger check                     every rule that must hold; exit 1 if one does not
  gone ledger prune --older-than 30d    by the running engine, or else by one for this call
  gone ledger backup /backup/gone.db    whole and consistent; use it with --ledger. Keep the
                                        ledger's key (ledger.db.key) too, but not beside the copy
  gone ledger export > ledger.jsonl     each row of each table as a line of JSON
  gone ledger migrate ledger.db postgres://gone@db.example/gone    to a server; back the same way")]
pub struct Ledger {
    #[command(subcommand)]
    pub work: LedgerWork,
}

#[derive(Clone, Debug, Subcommand)]
pub enum LedgerWork {
    /// Check every rule that must hold and the audit's chain; in a ledger file, also its pages and the audit's seal
    Check,
    /// Copy the ledger, as it is at one moment, into a new file
    Backup {
        #[arg(value_name = "FILE")]
        to: PathBuf,
    },
    /// Write the rows of the tables as lines of JSON; for a ledger on a server, without the tables that only its engines use
    Export,
    Prune(Prune),
    Migrate(Migrate),
}

/// Show, verify and export the audit: who did what, when and why
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Each row's hash covers the row before it, and a seal covers the last one, under a key that is not in
the ledger (FILE.key beside it). So `verify` finds rows that were changed, removed or added by hand,
also at the end. It does not find that the whole ledger is an older copy, or was sealed by somebody
who can read the key: against these, keep the last row's LENGTH:HASH elsewhere and compare. The engine
logs it with each row, and `verify` prints it.

Examples:
  gone audit list --last 20
  gone audit verify                     exit 1 if a row is missing or was changed
  gone audit verify --head 117:0b6e…    and the first 117 rows are those of that time
  gone audit export > audit.jsonl       each row as a line of JSON, with its hash
  gone audit seal --reason \"moved to another machine, the key was lost\"")]
pub struct Audit {
    #[command(subcommand)]
    pub work: AuditWork,
}

#[derive(Clone, Debug, Subcommand)]
pub enum AuditWork {
    /// Show the latest rows, oldest first
    List {
        /// How many rows
        #[arg(long, value_name = "N", default_value_t = 100)]
        last: usize,
    },
    /// Check that each row is what was written, and that none is missing
    Verify {
        /// LENGTH:HASH of an earlier `verify`: the rows of that time must still be there
        #[arg(long, value_name = "LENGTH:HASH")]
        head: Option<String>,
    },
    /// Write every row as a line of JSON
    Export,
    /// Seal the rows as they are, after the key was lost, or once you know why `verify` failed
    Seal(Why),
}

impl LocalVerb for Ledger {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        match self.work {
            LedgerWork::Prune(prune) => client(process, prune),
            LedgerWork::Check => check(process),
            LedgerWork::Backup { to } => backup(process, &to),
            LedgerWork::Migrate(migrate) => migrate.run(process),
            LedgerWork::Export => {
                let paths = found(process)?;
                process.print(|to| upkeep::export(&paths.ledger, &mut to.stream))?;
                Ok(Exit::Done)
            }
        }
    }
}

fn check(process: &Process<'_>) -> Result<Exit, Failure> {
    let paths = found(process)?;
    let checked = upkeep::check(&paths.ledger, &paths.seal_keys)?;
    let checks: Vec<Check> = checked.iter().map(rule_check).collect();
    let well = format!("{} is whole, and every rule holds.", paths.ledger);
    process.print(|to| doctor::report(to, &checks, &well))
}

/// Returns the result for a rule that must hold in every ledger, in the form of the doctor's checks.
fn rule_check(checked: &RuleChecked) -> Check {
    let found = match (checked.broken, checked.detail.as_str()) {
        (0, _) => return offline::ok(&checked.rule, "holds"),
        (times, "") => format!("broken {times} times"),
        (_, detail) => detail.to_owned(),
    };
    let advice = "Stop the engine, keep this ledger as it is, and continue with a backup.";
    offline::fail(&checked.rule, CheckFailure::Damage, &found, advice)
}

fn backup(process: &Process<'_>, to: &Path) -> Result<Exit, Failure> {
    let paths = found(process)?;
    let path = match &paths.ledger {
        Location::File(path) => path,
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => return Err(by_the_server(address, to)),
    };
    let action_words = format!("copy the ledger {} to {}", path.display(), to.display());
    let advice = "Name a new file in a folder that is writable.";
    let bytes = sqlite::upkeep::backup(path, to);
    let bytes = bytes.map_err(Failure::usage_of(action_words, advice))?;
    process.print(|out| match out.format.is_table() {
        true => out.say(format!("copied {bytes} bytes to {}", to.display())),
        false => {
            let done = json!({ "file": to, "bytes": bytes });
            writeln!(out.stream, "{done}")
        }
    })?;
    Ok(Exit::Done)
}

/// Says how to copy a ledger on a server.
#[cfg(feature = "postgres")]
fn by_the_server(address: &Address, to: &Path) -> Failure {
    let action_words = format!("copy the ledger to {}", to.display());
    let why =
        format!("{address} is on a server, which makes its own copies, also while an engine works");
    let not_pooled = match address.is_pooled {
        true => "\nIn both commands, name the server itself, not its pooler.",
        false => "",
    };
    let advice = format!(
        "Run: {}\nTo restore it into a database without that schema, run: {}{not_pooled}",
        address.dump_command(to),
        address.restore_command(to)
    );
    Failure::usage(action_words, why, advice)
}

/// Returns the paths of this process, among them that of an existing ledger.
///
/// # Errors
/// The settings are wrong, or the ledger's file does not exist.
fn found(process: &Process<'_>) -> Result<Paths, Failure> {
    let (_, paths) = process.settings_and_paths()?;
    paths.require_ledger()?;
    Ok(paths)
}

/// Number of audit rows that are read at a time.
const AUDIT_ROWS: usize = 1_000;

impl LocalVerb for Audit {
    /// Runs the verb, also beside a running engine, except for `seal`.
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        let paths = found(process)?;
        process.print(|to| self.write(to, &paths, process.around))
    }
}

impl Audit {
    fn write(
        self,
        to: &mut Printer<'_>,
        paths: &Paths,
        around: &Surroundings,
    ) -> Result<Exit, Failure> {
        let ledger = &paths.ledger;
        let found = match self.work {
            AuditWork::List { last } => {
                let mut rows = Vec::new();
                let latest = upkeep::audit_length(ledger)?;
                let first = latest.saturating_sub(i64::try_from(last).unwrap_or(i64::MAX));
                each_row(ledger, first, |row| {
                    rows.push(serde_json::to_value(row)?);
                    Ok(())
                })?;
                to.list(AUDIT_COLUMNS, &rows)?;
                return Ok(Exit::Done);
            }
            AuditWork::Export => {
                each_row(ledger, 0, |row| to.json(row, false))?;
                return Ok(Exit::Done);
            }
            AuditWork::Verify { head } => verify(paths, head.as_deref())?,
            AuditWork::Seal(why) => Ok(seal(paths, around, &why.reason)?),
        };
        let value = match &found {
            Ok(head) => json!({ "whole": true, "rows": head.length, "head": head.to_string() }),
            Err(why) => json!({ "whole": false, "why": why }),
        };
        let is_written = to.value(&value)?;
        match &found {
            _ if is_written => {}
            Ok(head) => {
                let rows = format!("{} rows, head {head}", head.length);
                to.say(format!("The audit of {ledger} is whole: {rows}"))?;
            }
            Err(why) => {
                let advice =
                    "Stop the engine, keep this ledger as it is, and compare it with a backup.";
                let why = format!("The audit of {ledger} is not confirmed: {why}.");
                to.say(why)?;
                to.say(advice)?;
            }
        }
        Ok(found.map_or(Exit::Internal, |_| Exit::Done))
    }
}

columns! {
    /// Rows of the audit, each as a JSON object.
    AUDIT_COLUMNS: Value, |row|
    "SEQ" 8 => row["seq"];
    "AT" 9 => time_or_empty(text(&row["at"]).parse().ok());
    "WHO" 9 => text(&row["actor"]["name"]);
    "FROM" 6 => text(&row["actor"]["origin"]);
    "ACTION" 9 => text(&row["action"]);
    "TARGET" 9 => text(&row["target"]);
    "REASON" 7 => text(&row["reason"]);
}

/// Returns the text of a field; empty if it has none.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn each_row(
    ledger: &Location,
    mut after: i64,
    mut take: impl FnMut(&AuditRow) -> io::Result<()>,
) -> Result<(), Failure> {
    loop {
        let rows = upkeep::audit(ledger, after, AUDIT_ROWS)?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after = last.seq;
        rows.iter().try_for_each(&mut take)?;
    }
}

/// Returns the head of the audit, or the fault that was found in the audit.
fn verify(paths: &Paths, head: Option<&str>) -> Result<Result<Head, String>, Failure> {
    let found = match upkeep::verify_audit(&paths.ledger, &paths.seal_keys)? {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let Some(head) = head else {
        return Ok(Ok(found));
    };
    let then = head.split_once(':').and_then(|(length, hash)| {
        let length: i64 = length.parse().ok().filter(|length| *length > 0)?;
        Some((length, hash))
    });
    let Some((length, hash)) = then else {
        let why = format!("{head:?} is not LENGTH:HASH, such as 117:0b6e41…");
        let advice = "Copy it from an earlier `gone audit verify`, or from the engine's log.";
        return Err(Failure::usage("verify the audit", why, advice));
    };
    let row = upkeep::audit(&paths.ledger, length - 1, 1)?;
    Ok(match row.first() {
        Some(row) if row.seq == length && row.hash == hash => Ok(found),
        Some(row) if row.seq == length => Err(format!(
            "row {length} differs from that head: the audit was rewritten, or this is not the same \
             ledger"
        )),
        _ => Err(format!(
            "the audit has {} rows, fewer than the {length} of that head: rows were removed, or an older copy \
             of the ledger was restored",
            found.length
        )),
    })
}

/// Writes a new seal for the audit. This command writes to the ledger itself, so no engine may hold the
/// ledger.
fn seal(paths: &Paths, around: &Surroundings, reason: &str) -> Result<Head, Failure> {
    let path = file_of(
        &paths.ledger,
        "seal the audit",
        "An audit on a server has a chain and no seal: keep the output of `gone audit verify` on another machine, and compare later outputs with it (--head).",
    )?;
    let before = verify(paths, None)?.map_or_else(|why| why, |head| head.to_string());
    let options = Options {
        seal_keys: paths.seal_keys.clone(),
        ..Options::default()
    };
    let mut store = Store::open(path, options)?;
    let entry = AuditEntry {
        actor: around.actor(Origin::Cli),
        action: "seal".to_owned(),
        target: "audit".to_owned(),
        reason: reason.to_owned(),
        detail: json!({ "before": before }),
    };
    let sealed = store.reseal(path, &entry, Clock::system().now())?;
    sealed.map_err(|broken| {
        let why = broken.to_string();
        let advice = "Continue with a backup: a new seal would not repair a broken audit.";
        Failure::new(Exit::Internal, "ledger", "seal the audit", why, advice)
    })
}
