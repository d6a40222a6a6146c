//! Opens a ledger, whatever keeps it.

use std::path::PathBuf;
use std::sync::Arc;

use super::location::{Hold, Holder, Location};
use super::sqlite::{self, Options, SqliteLedger};
use super::tombstones::Tombstones;
use super::{Ledger, LedgerError, Views};

/// A ledger that this process holds.
pub struct Opened {
    pub ledger: Arc<dyn Ledger>,
    /// The epoch of this opening, greater than all before it.
    pub epoch: i64,
    pub hold: Arc<dyn Hold>,
}

/// Opens the ledger as its engine, and creates it if there is none. Blocks for as long as its store does.
///
/// `tombstones`: those in memory that follow the ledger's, for gates. `seal_keys`: other files that may hold
/// the key of the audit's seal.
///
/// # Errors
/// Another process holds the ledger, or it cannot be read or written.
pub fn open(
    location: &Location,
    tombstones: Option<Arc<Tombstones>>,
    seal_keys: Vec<PathBuf>,
) -> Result<Opened, LedgerError> {
    let Location::File(path) = location;
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

/// Opens the ledger for reading only, also beside the process that holds it.
///
/// # Errors
/// There is no ledger, or it cannot be read.
pub fn open_reader(location: &Location) -> Result<Arc<dyn Views>, LedgerError> {
    let Location::File(path) = location;
    Ok(Arc::new(SqliteLedger::open_reader(path)?))
}

/// Returns the process that holds the ledger now.
pub fn holder(location: &Location) -> Option<Holder> {
    let Location::File(path) = location;
    sqlite::holder(path)
}

/// Removes the ledger, unless a process holds it.
///
/// # Errors
/// It cannot be removed.
pub fn remove_unless_held(location: &Location) -> Result<(), LedgerError> {
    let Location::File(path) = location;
    sqlite::remove_unless_held(path)
}
