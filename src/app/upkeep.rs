//! `gone ledger` and `gone audit`: work on a ledger, beside a running engine or without one.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use super::ledger::ledger_failure;
use super::{Places, places, settings};
use crate::domain::model::Origin;
use crate::frontends::cli::args::{AuditWork, Format, Global, LedgerFileWork};
use crate::frontends::cli::output::{Style, Tolerant};
use crate::frontends::cli::{self, Exit, Failure, doctor};
use crate::frontends::offline::ledger;
use crate::ledger::sqlite::{Options, Store, upkeep};
use crate::ledger::{AuditEntry, AuditRow};
use crate::system::clock::Clock;
use crate::system::config::Surroundings;

pub(super) fn run(
    global: &Global,
    around: &Surroundings,
    style: Style,
    work: &LedgerFileWork,
) -> Result<Exit, Failure> {
    let places = found(global, around)?;
    let path = places.ledger;
    let mut out = Tolerant::new(BufWriter::new(io::stdout().lock()));
    let exit = match work {
        LedgerFileWork::Check => {
            let checks =
                ledger::check(&path, &places.seal_keys).map_err(|error| ledger_failure(&error))?;
            let well = format!("{} is whole, and every rule holds.", path.display());
            doctor::report(&mut out, style, global.output, &checks, &well)?
        }
        LedgerFileWork::Backup { to } => {
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
        LedgerFileWork::Export => {
            upkeep::export(&path, &mut out).map_err(|error| ledger_failure(&error))?;
            Exit::Done
        }
    };
    out.flush()?;
    Ok(exit)
}

/// Returns the places of an existing ledger.
fn found(global: &Global, around: &Surroundings) -> Result<Places, Failure> {
    let settings = settings(global, around)?;
    let places = places(global, &settings, around, Path::exists)?;
    if !places.ledger.exists() {
        let why = format!("there is none at {}", places.ledger.display());
        let advice = "Name it with --ledger; an engine makes one when it starts.";
        return Err(Failure::usage("open the ledger", why, advice));
    }
    Ok(places)
}

/// Number of audit rows that are read at a time.
const AUDIT_ROWS: usize = 1_000;

/// Runs `gone audit`: also beside a running engine, except for `seal`.
pub(super) fn audit(
    global: &Global,
    around: &Surroundings,
    style: Style,
    work: &AuditWork,
) -> Result<Exit, Failure> {
    cli::no_drawing(global.output)?;
    let places = found(global, around)?;
    let path = places.ledger.as_path();
    let mut out = Tolerant::new(BufWriter::new(io::stdout().lock()));
    let exit = match work {
        AuditWork::List { last } => {
            let mut rows = Vec::new();
            let latest = upkeep::audit_length(path).map_err(|error| ledger_failure(&error))?;
            let first = latest.saturating_sub(i64::try_from(*last).unwrap_or(i64::MAX));
            each_row(path, first, |row| rows.push(row.clone()))?;
            cli::audit::list(&mut out, style, global.output, &values(&rows)?)?;
            Exit::Done
        }
        AuditWork::Export => {
            let mut written = Ok(());
            each_row(path, 0, |row| {
                if written.is_ok() {
                    written = cli::audit::line(&mut out, style, row);
                }
            })?;
            written?;
            Exit::Done
        }
        AuditWork::Verify { head } => {
            let verified = verify(&places, head.as_deref())?;
            cli::audit::verified(&mut out, style, global.output, path, &verified)?
        }
        AuditWork::Seal(why) => {
            let head = seal(&places, around, &why.reason)?;
            let verified = Ok((head.length, head.to_string()));
            cli::audit::verified(&mut out, style, global.output, path, &verified)?
        }
    };
    out.flush()?;
    Ok(exit)
}

fn values(rows: &[AuditRow]) -> Result<Vec<serde_json::Value>, Failure> {
    let values = rows.iter().map(serde_json::to_value);
    let values: Result<_, serde_json::Error> = values.collect();
    values.map_err(|error| Failure::from(io::Error::from(error)))
}

fn each_row(path: &Path, after: i64, mut take: impl FnMut(&AuditRow)) -> Result<(), Failure> {
    let mut after = after;
    loop {
        let rows = upkeep::audit(path, after, AUDIT_ROWS);
        let rows = rows.map_err(|error| ledger_failure(&error))?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after = last.seq;
        rows.iter().for_each(&mut take);
    }
}

/// Returns the number of rows and the head, or what is wrong with the audit.
fn verify(places: &Places, head: Option<&str>) -> Result<Result<(i64, String), String>, Failure> {
    let path = places.ledger.as_path();
    let found = upkeep::verify_audit(path, &places.seal_keys);
    let found = match found.map_err(|error| ledger_failure(&error))? {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let Some(head) = head else {
        return Ok(Ok((found.length, found.to_string())));
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
    let row = upkeep::audit(path, length - 1, 1).map_err(|error| ledger_failure(&error))?;
    Ok(match row.first() {
        Some(row) if row.seq == length && row.hash == hash => Ok((found.length, found.to_string())),
        Some(row) if row.seq == length => Err(format!(
            "row {length} is another than it was then: the audit was written anew, or this is not the \
             same ledger"
        )),
        _ => Err(format!(
            "it has {} rows, and had {length} then: rows were removed, or an older copy of the ledger \
             was given back",
            found.length
        )),
    })
}

/// Seals the audit anew. Only this work writes, so it needs the ledger for itself.
fn seal(
    places: &Places,
    around: &Surroundings,
    reason: &str,
) -> Result<crate::ledger::sqlite::Head, Failure> {
    let path = places.ledger.as_path();
    let before = verify(places, None)?.map_or_else(|why| why, |(_, head)| head);
    let options = Options {
        seal_keys: places.seal_keys.clone(),
        ..Options::default()
    };
    let mut store = Store::open(path, options).map_err(|error| ledger_failure(&error))?;
    let entry = AuditEntry {
        actor: around.actor(Origin::Cli),
        action: "seal".to_owned(),
        target: "audit".to_owned(),
        reason: reason.to_owned(),
        detail: serde_json::json!({ "before": before }),
    };
    let sealed = store.seal_anew(path, &entry, Clock::system().now());
    sealed
        .map_err(|error| ledger_failure(&error))?
        .map_err(|broken| {
            let advice = "Go on with a backup: a seal would not mend what is broken inside.";
            Failure::new(
                Exit::Internal,
                "ledger",
                "seal the audit",
                broken.to_string(),
                advice,
            )
        })
}
