//! Opens the ledger of an engine in this process.

use std::path::Path;
use std::sync::Arc;

use super::Paths;
use crate::frontends::cli::{Exit, Failure};
use crate::ledger::tombstones::Tombstones;
use crate::ledger::{self, EngineTerms, LedgerError, Location, Opened};
use crate::system::config::Settings;

pub(super) async fn open_ledger(
    paths: &Paths,
    tombstones: Option<Arc<Tombstones>>,
    settings: &Settings,
) -> Result<Opened, Failure> {
    let terms = EngineTerms {
        name: settings.engine.name.clone(),
        lease: settings.engine.lease(),
        call_timeout: settings.engine.call_timeout,
        is_alone: settings.deployment.is_some(),
    };
    let (location, seal_keys) = (paths.ledger.clone(), paths.seal_keys.clone());
    off_the_runtime(move || ledger::open(&location, tombstones, seal_keys, terms)).await
}

/// Removes a ledger of the practice cloud, if it exists, and opens a new and empty one.
///
/// # Errors
/// An engine holds the ledger, or the ledger cannot be removed or created.
#[cfg(feature = "sandbox")]
pub(super) async fn open_anew(location: Location) -> Result<Opened, Failure> {
    remove_ledger(&location).await?;
    let terms = EngineTerms::default();
    off_the_runtime(move || ledger::open(&location, None, Vec::new(), terms)).await
}

/// Removes a ledger, unless an engine holds it.
pub(super) async fn remove_ledger(location: &Location) -> Result<(), Failure> {
    let location = location.clone();
    off_the_runtime(move || ledger::remove_if_unused(&location)).await
}

/// Returns the file of a ledger.
///
/// # Errors
/// The ledger is on a server, so it has no file.
pub(super) fn file_of<'l>(
    location: &'l Location,
    action_words: &str,
    advice: &str,
) -> Result<&'l Path, Failure> {
    location.file().ok_or_else(|| {
        let why =
            format!("{location} is on a server, and only a ledger in a file can be used here");
        Failure::usage(action_words, why, advice)
    })
}

/// Runs work that waits for the store, on a thread that may block.
async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(error) => Err(std::io::Error::other(error).into()),
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        let exit = match error {
            LedgerError::Held { .. } => Exit::Unreachable,
            LedgerError::Newer { .. }
            | LedgerError::Older { .. }
            | LedgerError::Unfinished { .. }
            | LedgerError::Corrupt { .. }
            | LedgerError::Empty { .. }
            | LedgerError::Foreign { .. }
            | LedgerError::Io { .. }
            | LedgerError::Output { .. } => Exit::Usage,
            LedgerError::Closed | LedgerError::ReadOnly { .. } | LedgerError::Cursor { .. } => {
                Exit::Internal
            }
        };
        let advice = match &error {
            LedgerError::Held {
                socket: Some(socket),
                ..
            } => {
                format!(
                    "That engine serves {socket}: `gone` and its verbs attach to it by themselves."
                )
            }
            _ => "`gone doctor` says more.".to_owned(),
        };
        Self::new(exit, "ledger", "open the ledger", error.to_string(), advice)
    }
}
