//! Checks and reads a ledger as of one moment, in a file or on a server, while an engine runs or not.

use std::io::Write;
use std::path::PathBuf;

use super::audit::Head;
use super::invariants::RuleChecked;
use super::location::Location;
#[cfg(feature = "postgres")]
use super::postgres;
use super::sqlite::upkeep;
use super::{AuditRow, LedgerError};

/// Checks every rule that a ledger must keep, and the audit's chain. Of a file, also checks its pages and the audit's
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
        Location::Postgres(address) => postgres::upkeep::verify_audit(address),
    }
}

/// Returns the number of the audit's last row; 0 if it has none.
///
/// # Errors
/// The ledger cannot be read.
pub fn audit_length(location: &Location) -> Result<i64, LedgerError> {
    match location {
        Location::File(path) => upkeep::audit_length(path),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::upkeep::audit_length(address),
    }
}

/// Returns at most `limit` rows of the audit after row `after`, oldest first.
///
/// # Errors
/// The ledger cannot be read.
pub fn audit(location: &Location, after: i64, limit: usize) -> Result<Vec<AuditRow>, LedgerError> {
    match location {
        Location::File(path) => upkeep::audit(path, after, limit),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => postgres::upkeep::audit(address, after, limit),
    }
}

/// Writes every row of every table as a line of JSON, `{"table": …, …columns}`. Returns the number of lines.
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
