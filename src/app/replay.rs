//! `gone replay`: copies a ledger, and shows its state at a time in a console or as a list.

use std::fmt::Display;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::clouds::connect;
use super::embedded::kinds;
use super::{EndSignals, LocalVerb, Process, console, located, runtime};
use crate::control::Control;
use crate::domain::moment;
use crate::engine::replay::Replay;
use crate::frontends::cli::{Exit, Failure, List, What};
use crate::ledger::Location;
use crate::ledger::migrate::{NotCopied, copy_to_file};
use crate::ledger::sqlite::rewind::{ReplayError, Rewind};
use crate::system::clock::Clock;
use crate::system::config::Settings;

const TRIED: &str = "replay the ledger";
const WHAT_TO_NAME: &str = "Name a ledger, or a backup of one.";

/// Show a ledger as it was at any time
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Opens the console on a copy: the ledger is only read, also while an engine has it. There , and .
go an event back and on, < and > a twentieth of the whole, { and } to its ends, and :at to a time.

A replay shows only what left an event: a call in flight is shown as ready, and a step whose retry was
due as blocked until it was answered.

Examples:
  gone replay /backup/gone.db           from its end
  gone replay ledger.db --from 03:12    of its last day; or 2026-11-24T03:12:07Z, or -1h
  gone replay ledger.db --from -1h -o json    its deletions as they stood then")]
pub struct ReplayLedger {
    /// A ledger, a backup of one, or a colleague's; or postgres://USER@HOST/DATABASE
    pub ledger: PathBuf,
    /// The time to begin with, such as 03:12 or -1h [default: the ledger's end]
    ///
    /// RFC 3339, `HH:MM[:SS]` of the ledger's last day, or a duration before its end.
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub from: Option<String>,
}

impl LocalVerb for ReplayLedger {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        let settings = process.settings()?;
        let ledger = located(process.around, &self.ledger, TRIED, WHAT_TO_NAME)?;
        if ledger.file().is_some_and(|file| !file.is_file()) {
            let why = format!("there is no file {ledger}");
            return Err(Failure::usage(TRIED, why, WHAT_TO_NAME));
        }
        if !console::fits(process.global) {
            process.log_to_stderr(false)?;
        }
        runtime()?.block_on(replay(process, settings, ledger, self.from.as_deref()))
    }
}

async fn replay(
    process: &Process<'_>,
    settings: Settings,
    ledger: Location,
    from_time: Option<&str>,
) -> Result<Exit, Failure> {
    // From here on every exit removes the copy.
    let mut end = EndSignals::listen()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let interrupted = || Failure::interrupted(TRIED, "");
    let name = ledger.to_string();
    let opening = tokio::task::spawn_blocking(move || open(&ledger));
    // The folder is dropped after the ledger, which has files in it.
    let (_folder, rewind) = tokio::select! {
        opened = opening => opened.map_err(io::Error::other)??,
        () = end.recv() => return Err(interrupted()),
        _ = hangup.recv() => return Err(interrupted()),
    };
    let span = rewind.span();
    let at = from(from_time, span)?;
    let cloud = connect(Vec::new(), Clock::system(), settings.engine.call_timeout);
    let kinds = Arc::new(kinds(process.around)?);
    let control = Replay::open(rewind, at, kinds, Arc::new(cloud), name).await;
    let control: Arc<dyn Control> = Arc::new(control.map_err(|error| Failure::of(TRIED, error))?);
    if console::fits(process.global) {
        return console::replay(process, settings, control, span).await;
    }
    // Lists the deletions as they were at the time `at`, in the format of `gone list`.
    let list = List {
        what: What::Deletions,
        older_than: None,
    };
    let (clock, interrupt) = (Clock::stopped_at(at), CancellationToken::new());
    tokio::select! {
        exit = process.run_verb(list, control, false, true, clock, interrupt) => Ok(exit),
        () = end.recv() => Err(interrupted()),
        _ = hangup.recv() => Err(interrupted()),
    }
}

fn from(
    text: Option<&str>,
    (first, last): (DateTime<Utc>, DateTime<Utc>),
) -> Result<DateTime<Utc>, Failure> {
    let Some(text) = text else {
        return Ok(last);
    };
    let at = moment::parse(text, last).and_then(|at| match (first..=last).contains(&at) {
        true => Ok(at),
        false => {
            let at = at.format("%F %T UTC");
            Err(format!(
                "{at} is outside of the time that the ledger covers"
            ))
        }
    });
    let (first, last) = (first.format("%F %T"), last.format("%F %T UTC"));
    let advice = format!("The ledger covers {first} to {last}.");
    at.map_err(Failure::usage_of("read --from", advice))
}

fn open(ledger: &Location) -> Result<(PrivateFolder, Rewind), Failure> {
    let folder = PrivateFolder::new()?;
    let unplayable = |error: &dyn Display| Failure::usage(TRIED, error.to_string(), WHAT_TO_NAME);
    let file = match ledger.file() {
        Some(file) => file.to_owned(),
        None => {
            let file = folder.path.join("of-the-server.db");
            copy_to_file(ledger, &file).map_err(|error| match error {
                NotCopied::Ledger(error) => error.into(),
                other => unplayable(&other),
            })?;
            file
        }
    };
    let rewind = Rewind::open(&file, &folder.path).map_err(|error| match error {
        ReplayError::Ledger(error) => error.into(),
        other => unplayable(&other),
    })?;
    Ok((folder, rewind))
}

/// A folder that only this user can read. Dropping the value removes the folder with everything in it.
struct PrivateFolder {
    path: PathBuf,
}

impl PrivateFolder {
    fn new() -> io::Result<Self> {
        let name = format!("gone-replay-{}", uuid::Uuid::new_v4());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // A file that cannot be removed is still private.
        let _ = fs::remove_dir_all(&self.path);
    }
}
