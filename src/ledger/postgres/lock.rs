//! The lock of a ledger. Each transaction that writes takes it, so that they run one after the other, whatever engine
//! they are of: what a transaction decides from the rows that it has read is still true when it commits. It ends with
//! the transaction, so it also works through a pooler that gives each transaction another session.

use tokio_postgres::error::SqlState;

use super::address::Address;
use super::client::{Connection, Values};
use super::engines;
use super::failed::{Failed, Sql};
use super::schema::{self, fault};
use crate::ledger::LedgerError;

/// The key of the advisory lock, from the schema's name.
const KEY: &str = "hashtextextended('gone ledger ' || $1, 0)";

/// The statement that waits for the lock, within a transaction. Its value is the schema's name.
pub(super) fn statement() -> String {
    format!("SELECT pg_advisory_xact_lock({KEY})")
}

/// Does work in a transaction that holds the lock.
pub(super) fn within<T>(db: &Connection, schema: &String, work: impl FnOnce() -> Sql<T>) -> Sql<T> {
    let lock = statement();
    let values: Values<'_> = &[schema];
    let begun = db.together(&[("BEGIN", &[]), (&lock, values)]);
    let done = begun.and_then(|_| work()).and_then(|done| {
        db.batch("COMMIT")?;
        Ok(done)
    });
    if done.is_err() {
        // A connection that is lost has undone it already.
        let _ = db.batch("ROLLBACK");
    }
    done
}

/// Waits for the lock within a transaction.
pub(super) fn take(db: &Connection, schema: &String) -> Sql<()> {
    db.all(&statement(), &[schema], |_| Ok(())).map(drop)
}

/// Takes the lock for as long as the session lives: no engine writes, or begins, meanwhile.
///
/// # Errors
/// An engine has the ledger, or the server fails.
pub(super) fn hold(db: &Connection, address: &Address) -> Result<(), LedgerError> {
    let taken = db
        .batch(&format!("SET lock_timeout = '{WAIT_MAX}'"))
        .and_then(|()| {
            let sql = format!("SELECT pg_advisory_lock({KEY})");
            db.all(&sql, &[&address.schema], |_| Ok(()))
        });
    taken.map_err(|error| held_or_fault(address, &error))?;
    match schema::has_engines(db, address)? {
        true => engines::find_living(db).map_err(|error| fault(address, &error)),
        false => Ok(None),
    }?
    .map_or(Ok(()), |(pid, socket)| {
        Err(LedgerError::Held {
            name: address.to_string(),
            pid,
            socket,
        })
    })
}

/// How long to wait for who has the lock: transactions take less, engines of version 1 have it for as long as they run.
pub(super) const WAIT_MAX: &str = "5s";

/// The error of a ledger whose lock was waited for in vain.
pub(super) fn held_or_fault(address: &Address, error: &Failed) -> LedgerError {
    match error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
        true => LedgerError::Held {
            name: address.to_string(),
            pid: 0,
            socket: None,
        },
        false => fault(address, error),
    }
}
