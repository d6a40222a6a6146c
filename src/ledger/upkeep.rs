//! Checks and reads a ledger as of one moment, in a file or on a server, whether or not an engine runs.

use std::io::Write;
use std::path::PathBuf;

#[cfg(feature = "postgres")]
use super::audit;
use super::audit::Head;
use super::invariants::RuleChecked;
use super::location::Location;
#[cfg(feature = "postgres")]
use super::postgres;
use super::sqlite::upkeep;
use super::store::sql::{ReadColumns as _, Statements};
use super::store::{LogReads as _, Stored};
use super::{AuditRow, LedgerError};

/// Checks every rule that a ledger must keep, and the audit's chain. In a file, also checks the pages and the audit's
/// seal, whose key is beside the file or one of `seal_keys`.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn check(location: &Location, seal_keys: &[PathBuf]) -> Result<Vec<RuleChecked>, LedgerError> {
    match location {
        Location::File(path) => upkeep::check(path, seal_keys),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::upkeep::check(address),
    }
}

/// Returns the end of the audit if its chain is whole and, in a file, its seal is right; otherwise what is wrong.
///
/// # Errors
/// The ledger cannot be read at all.
pub fn verify_audit(
    location: &Location,
    seal_keys: &[PathBuf],
) -> Result<Result<Head, String>, LedgerError> {
    match location {
        Location::File(path) => upkeep::verify_audit(path, seal_keys),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => {
            let chain = postgres::upkeep::read(address, audit::chain)?;
            Ok(chain.map_err(|broken| broken.to_string()))
        }
    }
}

/// Returns the number of the audit's last row; 0 if it has none.
///
/// # Errors
/// The ledger cannot be read.
pub fn audit_length(location: &Location) -> Result<i64, LedgerError> {
    match location {
        Location::File(path) => upkeep::read(path, length_of_audit),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::upkeep::read(address, length_of_audit),
    }
}

fn length_of_audit<S: Statements>(rows: &S) -> Stored<S, i64> {
    let sql = "SELECT coalesce(max(seq), 0) FROM audit";
    rows.read_one(sql, &[], |row| row.read(0))
}

/// Returns at most `limit` rows of the audit after row `after`, oldest first.
///
/// # Errors
/// The ledger cannot be read.
pub fn audit(location: &Location, after: i64, limit: usize) -> Result<Vec<AuditRow>, LedgerError> {
    match location {
        Location::File(path) => upkeep::read(path, |rows| rows.load_audit(after, limit)),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => {
            postgres::upkeep::read(address, |rows| rows.load_audit(after, limit))
        }
    }
}

/// Writes every row of every table as a line of JSON: `{"table": "edges", "dependency": 1, "dependent": 2}`. Returns
/// the number of lines.
///
/// # Errors
/// The ledger cannot be read, or the output cannot be written.
pub fn export(location: &Location, out: &mut dyn Write) -> Result<u64, LedgerError> {
    match location {
        Location::File(path) => upkeep::export(path, out),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::upkeep::export(address, out),
    }
}
