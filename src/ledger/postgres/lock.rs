//! The lock of a ledger. Each transaction that writes takes it, except those that write only the engine's own row, so
//! that the transactions of all engines run one after the other: the rows that a transaction has read are still the
//! same when it commits. The lock ends with the transaction.

use super::client::{Connection, Settings};
use super::failed::Sql;

/// The key of the advisory lock, from the schema's name.
const KEY: &str = "hashtextextended('gone ledger ' || $1, 0)";

/// How long to wait for the lock. Transactions hold the lock for less; an engine of version 1 and a copy hold it for as
/// long as they run.
const WAIT_MAX: &str = "'5s'";

/// Settings of a session that waits only [`WAIT_MAX`] for the lock, because an engine of version 1 or a copy may hold
/// it.
pub(super) const SHORT_WAIT: Settings<'_> = &[("lock_timeout", WAIT_MAX)];

/// The statement that waits for the lock, within a transaction. Its value is the schema's name.
pub(super) fn statement() -> String {
    format!("SELECT pg_advisory_xact_lock({KEY})")
}

/// Does work in a transaction that holds the lock.
pub(super) fn within<T>(db: &Connection, schema: &String, work: impl FnOnce() -> Sql<T>) -> Sql<T> {
    let begun = db.begin_with(&[(&statement(), &[schema])]);
    db.finish(|| begun.and_then(|_| work()))
}

/// Waits for the lock, and keeps it for as long as the session lives.
pub(super) fn keep(db: &Connection, schema: &String) -> Sql<()> {
    let sql = format!("SELECT pg_advisory_lock({KEY})");
    db.all(&sql, &[schema], |_| Ok(())).map(drop)
}
