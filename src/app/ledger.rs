//! Opens the ledger of an engine in this process.

use std::path::PathBuf;
use std::sync::Arc;

use super::Places;
use crate::frontends::cli::args::Global;
use crate::frontends::cli::{Exit, Failure};
use crate::ledger::LedgerError;
use crate::ledger::sqlite::{Options, SqliteLedger, is_held};
use crate::ledger::tombstones::Tombstones;

pub(super) async fn open_ledger(
    global: &Global,
    places: &Places,
    tombstones: Option<Arc<Tombstones>>,
) -> Result<Arc<SqliteLedger>, Failure> {
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
pub(super) async fn open_anew(path: PathBuf) -> Result<Arc<SqliteLedger>, Failure> {
    open(path, None, true, Vec::new()).await
}

async fn open(
    path: PathBuf,
    tombstones: Option<Arc<Tombstones>>,
    anew: bool,
    seal_keys: Vec<PathBuf>,
) -> Result<Arc<SqliteLedger>, Failure> {
    let opened = tokio::task::spawn_blocking(move || {
        if anew && !is_held(&path) {
            for suffix in ["", "-wal", "-shm", ".key"] {
                let mut file = path.clone().into_os_string();
                file.push(suffix);
                match std::fs::remove_file(&file) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(LedgerError::Io {
                            path: path.display().to_string(),
                            detail: error.to_string(),
                        });
                    }
                    _ => {}
                }
            }
        }
        let options = Options {
            tombstones,
            seal_keys,
            ..Options::default()
        };
        SqliteLedger::open(&path, options)
    });
    match opened.await {
        Ok(Ok(ledger)) => Ok(Arc::new(ledger)),
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
