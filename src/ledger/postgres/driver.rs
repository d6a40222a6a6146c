//! Drives a [`Store`] by one thread that writes; a few other sessions read.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::address::Address;
use super::client::Connection;
use super::engines;
use super::failed::{Failed, Sql};
use super::lease_thread::LeaseThread;
use super::schema::{self, fault};
use super::store::Store;
use super::transaction::{PostgresRows, SNAPSHOT};
use crate::domain::engines::EngineRow;
use crate::ledger::engines::Member;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::threads::{Readers, Writer};
use crate::ledger::tombstones::Tombstones;
use crate::ledger::{
    Drive, EngineTerms, Engines, Hold, LedgerError, Membership, Outcome, WriteRequest,
};

/// A ledger on a server.
pub struct PostgresLedger {
    address: Address,
    /// None if the ledger was opened for reading only.
    engine: Option<Engine>,
    readers: Arc<Readers<Reader>>,
}

/// The parts that make a process one of the ledger's engines.
struct Engine {
    member: Arc<Member>,
    writer: Arc<Writer>,
    lease_thread: Arc<LeaseThread>,
}

impl Debug for PostgresLedger {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLedger")
            .field("address", &self.address.to_string())
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

/// A session for reading; none before its first use, and after it was lost.
type Reader = Option<Arc<Connection>>;

impl PostgresLedger {
    /// Opens the ledger as one of its engines, and creates it if there is none. `tombstones`: the tombstones in memory,
    /// which follow those of the ledger. Blocks for as long as the server does.
    ///
    /// # Errors
    /// A living engine needs another version of the tables; another engine is alive, and it or this engine must be the
    /// only one; the schema has other tables, an unfinished copy or a ledger of a newer version; the ledger cannot be
    /// reached, read or written; or a thread cannot be started.
    pub fn open(
        address: &Address,
        tombstones: Option<Arc<Tombstones>>,
        terms: EngineTerms,
    ) -> Result<Self, LedgerError> {
        let failed = |error| fault(address, &Failed::Io(error));
        let member = Arc::new(Member::new(terms, tombstones));
        let mut store = Store::open(address, member.clone())?;
        let writer =
            Arc::new(Writer::start(move |requests| store.group(requests)).map_err(failed)?);
        let lease_thread = LeaseThread::start(address, &member, writer.clone()).map_err(failed)?;
        Ok(Self {
            address: address.clone(),
            engine: Some(Engine {
                member,
                writer,
                lease_thread: Arc::new(lease_thread),
            }),
            readers: Arc::new(Readers::open(&address.to_string(), || Ok(None))?),
        })
    }

    /// Opens the ledger for reading only, even while an engine writes it.
    ///
    /// # Errors
    /// There is no ledger of this version, or it cannot be reached or read.
    pub fn open_reader(address: &Address) -> Result<Self, LedgerError> {
        let first = schema::on_a_thread(|| open_session(address));
        let mut first = Some(Arc::new(first.unwrap_or(Err(LedgerError::Closed))?));
        Ok(Self {
            address: address.clone(),
            engine: None,
            readers: Arc::new(Readers::open(&address.to_string(), || Ok(first.take()))?),
        })
    }

    /// The epoch of this engine; 0 if the ledger was opened for reading only.
    pub fn epoch(&self) -> i64 {
        self.engine
            .as_ref()
            .map_or(0, |engine| engine.member.epoch())
    }

    /// Answers the queued requests, and ends the writer's session and the lease. Later writes are answered with
    /// [`LedgerError::Closed`].
    pub async fn close(&self) {
        if let Some(Engine {
            member,
            writer,
            lease_thread,
        }) = &self.engine
        {
            // From here on, no request waits for the gates of other engines, nor for a server that does not answer.
            member.close();
            writer.close().await;
            let lease_thread = lease_thread.clone();
            let _ = tokio::task::spawn_blocking(move || lease_thread.stop()).await;
        }
    }
}

fn open_session(address: &Address) -> Result<Connection, LedgerError> {
    let db = schema::connect(address)?;
    schema::check(&db, address)?;
    Ok(db)
}

#[async_trait]
impl Hold for PostgresLedger {
    /// Writes the socket into the row of this engine.
    fn announce(&self, socket: Option<&str>) -> Result<(), LedgerError> {
        let say = || {
            let db = open_session(&self.address)?;
            let sql = "UPDATE engines SET socket = $1 WHERE epoch = $2";
            let said = db.run(sql, &[&socket, &self.epoch()]);
            said.map(drop).map_err(|error| fault(&self.address, &error))
        };
        schema::on_a_thread(say).unwrap_or(Err(LedgerError::Closed))
    }

    async fn release(&self) {
        self.close().await;
    }
}

#[async_trait]
impl Drive for PostgresLedger {
    type Reader = PostgresRows;

    /// Answers a request that raises tombstones only when the gates of the other engines have applied them or may no
    /// longer answer, or when this engine is closing.
    async fn write(&self, request: WriteRequest) -> Result<Outcome, LedgerError> {
        let Some(engine) = &self.engine else {
            return Err(LedgerError::ReadOnly {
                name: self.address.to_string(),
            });
        };
        let effects = engine.member.begin(&request);
        let outcome = engine.writer.write(request).await?;
        engine.member.end(effects).await;
        Ok(outcome)
    }

    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&PostgresRows) -> Sql<T> + Send + 'static,
    {
        let address = self.address.clone();
        self.readers
            .read(move |reader| {
                let db = begin_snapshot(&address, reader)?;
                let answer = read(&PostgresRows::new(db.clone(), 0));
                let ended = db.commit();
                if ended.is_err() {
                    *reader = None;
                }
                let answer = answer.and_then(|answer| ended.map(|()| answer));
                answer.map_err(|error| fault(&address, &error))
            })
            .await
    }
}

#[async_trait]
impl Engines for PostgresLedger {
    fn membership(&self) -> Membership {
        match &self.engine {
            Some(engine) => engine.member.membership(),
            None => Membership::alone(0),
        }
    }

    fn follow_others(&self) -> watch::Receiver<u64> {
        match &self.engine {
            Some(engine) => engine.member.follow_others(),
            None => watch::Sender::new(0).subscribe(),
        }
    }

    fn begin_work(&self) {
        if let Some(engine) = &self.engine {
            engine.member.begin_work();
        }
    }

    async fn engines(&self) -> Result<Vec<EngineRow>, LedgerError> {
        self.read(|rows| engines::list(&rows.db)).await
    }

    async fn guards_reached_gates(&self) -> Result<(), LedgerError> {
        let Some(engine) = &self.engine else {
            return Ok(());
        };
        let sql = "SELECT last FROM numbers WHERE name = 'tombstone'";
        let last = self.read(|rows| rows.db.one(sql, &[], |row| Ok(row.read(0)?)));
        engine.member.gates_caught_up(last.await?, true).await;
        Ok(())
    }
}

/// Begins a snapshot for all the statements of a read, whatever is committed meanwhile. An idle session may have been
/// lost since it was used last; then another one is opened.
fn begin_snapshot(address: &Address, reader: &mut Reader) -> Result<Arc<Connection>, LedgerError> {
    if let Some(db) = reader.take().filter(|db| db.begin(SNAPSHOT).is_ok()) {
        *reader = Some(db.clone());
        return Ok(db);
    }
    let db = Arc::new(open_session(address)?);
    db.begin(SNAPSHOT).map_err(|error| fault(address, &error))?;
    *reader = Some(db.clone());
    Ok(db)
}
