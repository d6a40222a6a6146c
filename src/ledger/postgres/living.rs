//! Reads from the rows of the engines which of them are alive.

use super::address::Address;
use super::client::Connection;
use super::failed::Sql;
use super::process::Process;
use crate::ledger::LedgerError;
use crate::ledger::store::sql::ReadColumns as _;

/// How long ago a lease was last renewed, by the server's clock, in milliseconds.
pub(super) const RENEWED_AGO: &str =
    "(extract(epoch FROM clock_timestamp() - renewed_at) * 1000)::bigint";

/// The process id and the socket of an engine.
pub(super) type Living = (u32, Option<String>);

/// Finds an engine that is alive. Without `is_any`, finds only an engine that must be the only one of the ledger.
pub(super) fn find_living(db: &Connection, is_any: bool) -> Sql<Option<Living>> {
    let sql = format!(
        "SELECT machine, pid, process, socket FROM engines
         WHERE NOT ended AND {RENEWED_AGO} < lease_ms AND (alone OR $1) ORDER BY epoch"
    );
    let engines = db.all(&sql, &[&is_any], |row| Ok((process(row, 0)?, row.read(3)?)))?;
    let mut living = engines
        .into_iter()
        .filter(|(process, _)| !process.has_ended());
    Ok(living.next().map(|(process, socket)| (process.pid, socket)))
}

/// Reads the columns `machine, pid, process`.
pub(super) fn process(row: &tokio_postgres::Row, first: usize) -> Sql<Process> {
    Ok(Process {
        machine: row.read(first)?,
        pid: row.read(first + 1)?,
        started: row.read(first + 2)?,
    })
}

/// The error if an engine or a copy cannot open the ledger because this engine is alive.
pub(super) fn held(address: &Address, (pid, socket): Living) -> LedgerError {
    LedgerError::Held {
        name: address.to_string(),
        pid,
        socket,
    }
}
