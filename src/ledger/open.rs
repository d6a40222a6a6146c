//! Opens a ledger in a file or on a server.

use std::path::PathBuf;
use std::sync::Arc;

use super::location::{Hold, Holder, Location};
#[cfg(feature = "postgres")]
use super::postgres::{self, PostgresLedger};
use super::sqlite::{self, Options, SqliteLedger};
use super::tombstones::Tombstones;
use super::{EngineTerms, Ledger, LedgerError, Views};

/// A ledger that this process has opened as its engine.
pub struct Opened {
    pub ledger: Arc<dyn Ledger>,
    /// The epoch of this opening, greater than every earlier one.
    pub epoch: i64,
    pub hold: Arc<dyn Hold>,
}

/// Opens the ledger as its engine: creates it if there is none, and upgrades it if it is of an older version. Blocks
/// the thread.
///
/// `tombstones`: the tombstones in memory that the ledger keeps up to date for gates. `seal_keys`: other files
/// that may hold the key of the audit's seal, for a ledger in a file. `terms`: how this engine shares a ledger on a
/// server with others.
///
/// # Errors
/// Another process holds the ledger; the ledger is empty, damaged, an unfinished copy, of a newer version or not a
/// ledger; or it cannot be read or written.
#[cfg_attr(not(feature = "postgres"), expect(unused_variables))]
pub fn open(
    location: &Location,
    tombstones: Option<Arc<Tombstones>>,
    seal_keys: Vec<PathBuf>,
    terms: EngineTerms,
) -> Result<Opened, LedgerError> {
    match location {
        Location::File(path) => {
            let options = Options {
                tombstones,
                seal_keys,
                ..Options::default()
            };
            let ledger = Arc::new(SqliteLedger::open(path, options)?);
            Ok(Opened {
                epoch: ledger.epoch(),
                hold: ledger.clone(),
                ledger,
            })
        }
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => {
            let ledger = Arc::new(PostgresLedger::open(address, tombstones, terms)?);
            Ok(Opened {
                epoch: ledger.epoch(),
                hold: ledger.clone(),
                ledger,
            })
        }
    }
}

/// Opens the ledger for reading only, even while an engine writes it.
///
/// # Errors
/// There is no ledger; the ledger is damaged, an unfinished copy or of a newer version (on a server, of any other
/// version); or it cannot be read.
pub fn open_reader(location: &Location) -> Result<Arc<dyn Views>, LedgerError> {
    Ok(match location {
        Location::File(path) => Arc::new(SqliteLedger::open_reader(path)?),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => Arc::new(PostgresLedger::open_reader(address)?),
    })
}

/// Returns a process that has the ledger open as its engine; none if no process has, or if the lock file cannot be
/// trusted or the server does not answer. Blocks the thread. On a server, finds only engines on this machine.
pub fn holder(location: &Location) -> Option<Holder> {
    match location {
        Location::File(path) => sqlite::holder(path),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::holder(address),
    }
}

/// Removes the file of a ledger, its log and its key; the lock file stays. Does nothing while a process holds the
/// ledger.
///
/// # Errors
/// A file cannot be removed; or the ledger is on a server, where others may need it.
pub fn remove_if_unused(location: &Location) -> Result<(), LedgerError> {
    match location {
        Location::File(path) => sqlite::remove_if_unused(path),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => Err(LedgerError::io(
            address,
            "gone does not remove a ledger on a server; drop its schema there",
        )),
    }
}

/// Checks that an engine could write this ledger on a server, or create it there. Writes nothing. Does not check
/// files.
///
/// # Errors
/// The server cannot be reached, its schema is not a ledger of this version, or this role may not write there.
pub fn can_write_at_server(location: &Location) -> Result<(), LedgerError> {
    match location {
        Location::File(_) => Ok(()),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::can_write(address),
    }
}
