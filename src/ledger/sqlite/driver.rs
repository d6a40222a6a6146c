//! Two ways to drive one [`Store`]: a thread in production, an inline call in the simulation.

use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use rusqlite::Connection;

use super::Options;
use super::connection::{fault, open_reader};
use super::lock::Lock;
use super::sql::Sql;
use super::store::Store;
use crate::ledger::threads::{Readers, Writer, locked};
use crate::ledger::{Drive, Engines, Hold, LedgerError, Membership, Outcome, WriteRequest};

/// The ledger in production. One thread writes, and groups the requests that queued up while it wrote; a few
/// connections read at the same time.
#[derive(Debug)]
pub struct SqliteLedger {
    name: String,
    epoch: i64,
    /// None if the ledger was opened for reading only.
    writer: Option<Writer>,
    /// The ledger's lock, for the socket that is written into it. The store owns the lock, and releases it when the
    /// store is dropped. Empty if the ledger was opened for reading only.
    lock: Weak<Lock>,
    readers: Arc<Readers<Connection>>,
}

impl SqliteLedger {
    /// Opens the ledger as its engine; see [`Store::open`]. Blocks for as long as SQLite does.
    ///
    /// # Errors
    /// Fails like [`Store::open`], and if a connection for reading cannot be opened or the writer's thread cannot be
    /// started.
    pub fn open(path: &Path, options: Options) -> Result<Self, LedgerError> {
        Self::open_with(path, options, Store::group)
    }

    /// Opens the ledger as [`Self::open`] does. `group` applies each group of requests: [`Store::group`], or a
    /// function that also takes the time of a slower disk, for benchmarks.
    ///
    /// # Errors
    /// Fails like [`Self::open`].
    pub fn open_with(
        path: &Path,
        options: Options,
        mut group: impl FnMut(&mut Store, &[WriteRequest]) -> Result<Vec<Outcome>, LedgerError>
        + Send
        + 'static,
    ) -> Result<Self, LedgerError> {
        let mut store = Store::open(path, options)?;
        let (name, epoch, lock) = (store.path().to_owned(), store.epoch(), store.lock());
        let readers = Arc::new(open_readers(path)?);
        let writer = Writer::start(move |requests| group(&mut store, requests));
        let writer = writer.map_err(|error| LedgerError::io(&name, error))?;
        Ok(Self {
            name,
            epoch,
            writer: Some(writer),
            lock,
            readers,
        })
    }

    /// Opens the ledger for reading only, even while an engine writes it.
    ///
    /// # Errors
    /// There is no file; or it is empty, damaged, an unfinished copy, of a newer version or not a ledger, or cannot be
    /// read.
    pub fn open_reader(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self {
            name: path.display().to_string(),
            epoch: 0,
            writer: None,
            lock: Weak::new(),
            readers: Arc::new(open_readers(path)?),
        })
    }

    /// The epoch of this opening; 0 if the ledger was opened for reading only.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Answers the queued requests, closes the file and releases the lock, so that another engine can open the ledger.
    /// Later writes are answered with [`LedgerError::Closed`].
    pub async fn close(&self) {
        if let Some(writer) = &self.writer {
            writer.close().await;
        }
    }
}

#[async_trait]
impl Hold for SqliteLedger {
    /// Writes the socket into the lock file.
    fn announce(&self, socket: Option<&str>) -> Result<(), LedgerError> {
        let lock = self.lock.upgrade().ok_or(LedgerError::Closed)?;
        lock.write_holder(socket)
            .map_err(|error| LedgerError::io(&self.name, error))
    }

    async fn release(&self) {
        self.close().await;
    }
}

impl Engines for SqliteLedger {
    fn membership(&self) -> Membership {
        Membership::alone(self.epoch)
    }
}

#[async_trait]
impl Drive for SqliteLedger {
    type Reader = Connection;

    async fn write(&self, request: WriteRequest) -> Result<Outcome, LedgerError> {
        match &self.writer {
            Some(writer) => writer.write(request).await,
            None => Err(LedgerError::ReadOnly {
                name: self.name.clone(),
            }),
        }
    }

    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Sql<T> + Send + 'static,
    {
        let name = self.name.clone();
        let read = move |db: &mut Connection| {
            // One snapshot for all the statements of a read, whatever is committed meanwhile.
            let answer = db.unchecked_transaction().and_then(|tx| {
                let answer = read(&tx)?;
                tx.finish()?;
                Ok(answer)
            });
            answer.map_err(|e| fault(&name, &e))
        };
        self.readers.read(read).await
    }
}

fn open_readers(path: &Path) -> Result<Readers<Connection>, LedgerError> {
    Readers::open(&path.display().to_string(), || open_reader(path))
}

/// A ledger without threads: every call is done when it returns. For the simulation, whose clock is paused and whose
/// order is seeded.
#[derive(Debug)]
pub struct InlineLedger {
    store: Mutex<Store>,
}

impl InlineLedger {
    pub fn new(store: Store) -> Self {
        Self {
            store: Mutex::new(store),
        }
    }

    /// The epoch of this opening.
    pub fn epoch(&self) -> i64 {
        locked(&self.store).epoch()
    }
}

impl Engines for InlineLedger {
    fn membership(&self) -> Membership {
        Membership::alone(self.epoch())
    }
}

#[async_trait]
impl Drive for InlineLedger {
    type Reader = Connection;

    async fn write(&self, request: WriteRequest) -> Result<Outcome, LedgerError> {
        let mut outcomes = locked(&self.store).group(&[request])?;
        outcomes.pop().ok_or(LedgerError::Closed)
    }

    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Sql<T> + Send + 'static,
    {
        locked(&self.store).read(read)
    }
}
