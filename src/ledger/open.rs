//! Opens a ledger, whatever keeps it.

use std::path::PathBuf;
use std::sync::Arc;

use super::location::{Hold, Holder, Location};
#[cfg(feature = "postgres")]
use super::postgres::{self, PostgresLedger};
use super::sqlite::{self, Options, SqliteLedger};
use super::tombstones::Tombstones;
use super::{EngineTerms, Ledger, LedgerError, Views};

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
/// the key of the audit's seal. `terms`: for a ledger that several engines may open.
///
/// # Errors
/// Another process holds the ledger, or it cannot be read or written.
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

/// Opens the ledger for reading only, also beside the process that holds it.
///
/// # Errors
/// There is no ledger, or it cannot be read.
pub fn open_reader(location: &Location) -> Result<Arc<dyn Views>, LedgerError> {
    Ok(match location {
        Location::File(path) => Arc::new(SqliteLedger::open_reader(path)?),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => Arc::new(PostgresLedger::open_reader(address)?),
    })
}

/// Returns the process that holds the ledger now. Blocks for as long as its store does.
pub fn holder(location: &Location) -> Option<Holder> {
    match location {
        Location::File(path) => sqlite::holder(path),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::holder(address),
    }
}

/// Removes the ledger, unless a process holds it.
///
/// # Errors
/// It cannot be removed, or is on a server: there nothing is removed that others may need.
pub fn remove_unless_held(location: &Location) -> Result<(), LedgerError> {
    match location {
        Location::File(path) => sqlite::remove_unless_held(path),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => Err(LedgerError::Io {
            name: address.to_string(),
            detail: "a ledger on a server is not removed from here".to_owned(),
        }),
    }
}

/// Checks whether an engine could write this ledger, if it is on a server. Writes nothing. A file is checked where
/// files are.
///
/// # Errors
/// The server cannot be reached, or this role may not write there.
pub fn can_write_at_server(location: &Location) -> Result<(), LedgerError> {
    match location {
        Location::File(_) => Ok(()),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::can_write(address),
    }
}
