//! Drives a [`Store`] by a thread that writes, and reads on a few sessions beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::address::Address;
use super::client::Connection;
use super::failed::{Failed, Sql};
use super::schema::{self, fault};
use super::store::Store;
use super::transaction::PostgresRows;
use crate::ledger::threads::{Readers, Writer};
use crate::ledger::tombstones::Tombstones;
use crate::ledger::{Drive, Hold, Job, LedgerError, Outcome};

/// A ledger on a server.
#[derive(Debug)]
pub struct PostgresLedger {
    address: Address,
    epoch: i64,
    /// None if the ledger was opened for reading only.
    writer: Option<Writer>,
    is_closing: Arc<AtomicBool>,
    readers: Arc<Readers<Reader>>,
}

/// A session for reading; none until it is used, or after it was lost.
type Reader = Option<Arc<Connection>>;

impl PostgresLedger {
    /// Opens the ledger as its engine, and creates it if there is none. `tombstones`: those in memory that follow
    /// the ledger's. Blocks for as long as the server does.
    ///
    /// # Errors
    /// Another engine holds the ledger, or it cannot be reached, read or written.
    pub fn open(
        address: &Address,
        tombstones: Option<Arc<Tombstones>>,
    ) -> Result<Self, LedgerError> {
        let mut store = Store::open(address, tombstones)?;
        let (epoch, is_closing) = (store.epoch(), store.is_closing());
        let writer = Writer::start(move |jobs| store.group(jobs));
        let writer = writer.map_err(|error| fault(address, &Failed::Io(error)))?;
        Ok(Self {
            address: address.clone(),
            epoch,
            writer: Some(writer),
            is_closing,
            readers: Arc::new(Readers::open(&address.to_string(), || Ok(None))?),
        })
    }

    /// Opens the ledger for reading only, also beside an engine that writes it.
    ///
    /// # Errors
    /// There is no ledger, or it cannot be reached or read.
    pub fn open_reader(address: &Address) -> Result<Self, LedgerError> {
        let first = schema::on_a_thread(|| open_session(address));
        let mut first = Some(Arc::new(first.unwrap_or(Err(LedgerError::Closed))?));
        Ok(Self {
            address: address.clone(),
            epoch: 0,
            writer: None,
            is_closing: Arc::default(),
            readers: Arc::new(Readers::open(&address.to_string(), || Ok(first.take()))?),
        })
    }

    /// The epoch of this opening; 0 if the ledger was opened for reading only.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Answers the queued requests, ends the writer's session and so releases the lock. Later requests are answered
    /// with [`LedgerError::Closed`].
    pub async fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        if let Some(writer) = &self.writer {
            writer.close().await;
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
    /// Writes it into the row of this engine.
    fn announce(&self, socket: Option<&str>) -> Result<(), LedgerError> {
        let say = || {
            let db = open_session(&self.address)?;
            let sql = "UPDATE engines SET socket = $1 WHERE epoch = $2";
            let said = db.run(sql, &[&socket, &self.epoch]);
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

    async fn write(&self, job: Job) -> Result<Outcome, LedgerError> {
        match &self.writer {
            Some(writer) => writer.write(job).await,
            None => Err(LedgerError::ReadOnly {
                name: self.address.to_string(),
            }),
        }
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
                let ended = db.batch("COMMIT");
                if ended.is_err() {
                    *reader = None;
                }
                let answer = answer.and_then(|answer| ended.map(|()| answer));
                answer.map_err(|error| fault(&address, &error))
            })
            .await
    }
}

/// Begins a snapshot for all the statements of a read, whatever is committed meanwhile. An idle session may have been
/// lost since it was used last, so another one is opened then.
fn begin_snapshot(address: &Address, reader: &mut Reader) -> Result<Arc<Connection>, LedgerError> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    if let Some(db) = reader.take().filter(|db| db.batch(begin).is_ok()) {
        *reader = Some(db.clone());
        return Ok(db);
    }
    let db = Arc::new(open_session(address)?);
    db.batch(begin).map_err(|error| fault(address, &error))?;
    *reader = Some(db.clone());
    Ok(db)
}
