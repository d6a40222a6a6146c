//! Opens the ledger of an engine in this process.

use std::path::PathBuf;
use std::sync::Arc;

use super::Places;
use crate::frontends::cli::args::Global;
use crate::frontends::cli::{Exit, Failure};
use crate::ledger::tombstones::Tombstones;
use crate::ledger::{self, LedgerError, Location, Opened};

pub(super) async fn open_ledger(
    global: &Global,
    places: &Places,
    tombstones: Option<Arc<Tombstones>>,
) -> Result<Opened, Failure> {
    // The practice cloud starts empty each time, so an earlier practice ledger would only mislead.
    let anew = global.sandbox.is_some() && global.ledger.is_none();
    open(
        places.ledger.clone(),
        tombstones,
        anew,
        places.seal_keys.clone(),
    )
    .await
}

/// Opens a ledger of the practice cloud. It starts empty, unless an engine holds it.
#[cfg(feature = "sandbox")]
pub(super) async fn open_anew(location: Location) -> Result<Opened, Failure> {
    open(location, None, true, Vec::new()).await
}

async fn open(
    location: Location,
    tombstones: Option<Arc<Tombstones>>,
    anew: bool,
    seal_keys: Vec<PathBuf>,
) -> Result<Opened, Failure> {
    let opened = tokio::task::spawn_blocking(move || {
        if anew {
            ledger::remove_unless_held(&location)?;
        }
        ledger::open(&location, tombstones, seal_keys)
    });
    match opened.await {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) => Err(ledger_failure(&error)),
        Err(error) => Err(Failure::from(std::io::Error::other(error))),
    }
}

pub(super) fn ledger_failure(error: &LedgerError) -> Failure {
    let exit = match error {
        LedgerError::Held { .. } => Exit::Unreachable,
        LedgerError::Newer { .. }
        | LedgerError::Corrupt { .. }
        | LedgerError::Empty { .. }
        | LedgerError::Foreign { .. }
        | LedgerError::Io { .. } => Exit::Usage,
        LedgerError::Closed | LedgerError::ReadOnly { .. } | LedgerError::Cursor { .. } => {
            Exit::Internal
        }
    };
    let advice = match error {
        LedgerError::Held {
            socket: Some(socket),
            ..
        } => format!("It serves {socket}: `gone` and its verbs attach there by themselves."),
        _ => "`gone doctor` says more.".to_owned(),
    };
    Failure::new(exit, "ledger", "open the ledger", error.to_string(), advice)
}
