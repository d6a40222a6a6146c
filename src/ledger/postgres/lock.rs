//! The lock of a ledger. Each transaction that writes takes it, so that they run one after the other, whatever engine
//! they are of: what a transaction decides from the rows that it has read is still true when it commits. It ends with
//! the transaction, however that ends.

use super::client::{Connection, Settings};
use super::failed::Sql;

/// The key of the advisory lock, from the schema's name.
const KEY: &str = "hashtextextended('gone ledger ' || $1, 0)";

/// How long to wait for who has the lock: transactions take less, engines of version 1 have it for as long as they run.
const WAIT_MAX: &str = "'5s'";

/// How the session of whoever may find it held is set up.
pub(super) const PATIENT: Settings<'_> = &[("lock_timeout", WAIT_MAX)];

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
