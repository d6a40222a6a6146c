//! The lock of a ledger: an advisory lock of its schema, which the server releases when the session of its holder
//! ends. The newest row of `engines` says which process that is.

use std::time::{Duration, Instant};

use super::address::Address;
use super::client::Connection;
use super::failed::Sql;
use super::rows::get;
use super::schema;
use crate::ledger::{Holder, LedgerError};

/// The key of the advisory lock, from the schema's name.
const KEY: &str = "hashtextextended('gone ledger ' || $1, 0)";
/// How long to wait for a session to end that was ended.
const ENDING_MAX: Duration = Duration::from_secs(5);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// A session of the server, which no other ever is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pid: i32,
    began: String,
}

impl Session {
    pub(super) fn of(db: &Connection) -> Sql<Self> {
        db.one(
            "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()",
            &[],
            |row| {
                Ok(Self {
                    pid: get(row, 0)?,
                    began: get(row, 1)?,
                })
            },
        )
    }

    /// Ends the session, if it still lives.
    fn end(&self, db: &Connection) -> Sql<()> {
        db.all(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE pid = $1 AND backend_start::text = $2",
            &[&self.pid, &self.began],
            |_| Ok(()),
        )
        .map(drop)
    }
}

/// Takes the lock for this session. `before`: the session that we had before, which the server may not know to have
/// ended: it is ended first, so that nothing which it was told can happen later.
pub(super) fn acquire(
    db: &Connection,
    address: &Address,
    before: Option<&Session>,
) -> Result<(), LedgerError> {
    let failed = |error| schema::fault(address, &error);
    if let Some(before) = before {
        before.end(db).map_err(failed)?;
    }
    let since = Instant::now();
    loop {
        let sql = format!("SELECT pg_try_advisory_lock({KEY})");
        let taken = db.one(&sql, &[&address.schema], |row| get(row, 0));
        if taken.map_err(failed)? {
            return Ok(());
        }
        if before.is_none() || since.elapsed() >= ENDING_MAX {
            let holder = newest(db).ok().flatten();
            return Err(held(address, holder));
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}

/// The error of a ledger that this engine holds.
pub(super) fn held(address: &Address, holder: Option<Engine>) -> LedgerError {
    LedgerError::Held {
        name: address.to_string(),
        pid: holder.as_ref().map_or(0, |engine| engine.pid),
        socket: holder.and_then(Engine::socket_here),
    }
}

/// An engine that had the ledger open.
pub(super) struct Engine {
    pub(super) epoch: i64,
    pid: u32,
    host: String,
    socket: Option<String>,
}

impl Engine {
    /// Its socket, if that can be reached from here.
    fn socket_here(self) -> Option<String> {
        self.socket.filter(|_| self.host == host())
    }
}

/// The engine that opened the ledger last.
pub(super) fn newest(db: &Connection) -> Sql<Option<Engine>> {
    let sql = "SELECT epoch, pid, host, socket FROM engines ORDER BY epoch DESC LIMIT 1";
    db.first(sql, &[], |row| {
        Ok(Engine {
            epoch: get(row, 0)?,
            pid: u32::try_from(get::<i64>(row, 1)?).unwrap_or_default(),
            host: get(row, 2)?,
            socket: get(row, 3)?,
        })
    })
}

/// The name of this machine.
pub(super) fn host() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}

/// The process that holds this ledger now; none if there is none, or the server does not say.
pub fn holder(address: &Address) -> Option<Holder> {
    schema::on_a_thread(|| find_holder(address)).flatten()
}

fn find_holder(address: &Address) -> Option<Holder> {
    let db = schema::connect(address).ok()?;
    schema::check(&db, address).ok()?;
    // An advisory lock's key is in two halves.
    let sql = format!(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
             AND (classid::bigint << 32 | objid::bigint) = {KEY})"
    );
    let is_held: bool = db.one(&sql, &[&address.schema], |row| get(row, 0)).ok()?;
    let engine = newest(&db).ok()?.filter(|_| is_held)?;
    Some(Holder {
        pid: engine.pid,
        socket: engine.socket_here(),
    })
}
