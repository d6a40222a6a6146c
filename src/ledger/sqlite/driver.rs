//! Two ways to drive one [`Store`]: a thread in production, an inline call in the simulation.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::Options;
use super::connection::{check_content, check_version, configure, fault};
use super::lock::Lock;
use super::sql::Sql;
use super::store::Store;
use crate::ledger::{Drive, Hold, Job, LedgerError, Outcome};

/// Requests that may wait for the writer: as many as one transaction takes if each is one change, so that a
/// request waits for at most one commit before its own.
const QUEUE_MAX: usize = 1024;
/// Changes in one transaction of several requests. A larger transaction is hardly faster, and all its
/// requests wait for each other. A single request with more changes is still one transaction.
const CHANGES_MAX: usize = 1024;
/// Connections for reading, enough for the pages of a console or two and an API client.
const READERS: usize = 4;

/// The ledger in production: one thread writes, and groups the requests that have queued up meanwhile; a few
/// connections read beside it.
#[derive(Debug)]
pub struct SqliteLedger {
    name: String,
    epoch: i64,
    /// None if the ledger was opened for reading only.
    writer: Option<Writer>,
    readers: Arc<Readers>,
}

#[derive(Debug)]
struct Writer {
    /// None once the ledger is closed.
    queue: Mutex<Option<mpsc::Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The lock, which the store owns, and releases when it is dropped.
    lock: Weak<Lock>,
}

#[derive(Debug)]
struct Request {
    job: Job,
    answer: oneshot::Sender<Result<Outcome, LedgerError>>,
}

impl SqliteLedger {
    /// Opens the ledger as its engine; see [`Store::open`]. Blocks for as long as SQLite does.
    pub fn open(path: &Path, options: Options) -> Result<Self, LedgerError> {
        Self::open_with(path, options, Store::group)
    }

    /// Opens the ledger, whose writer applies each group of requests by this function: [`Store::group`], or
    /// one that is as slow as another disk.
    pub fn open_with(
        path: &Path,
        options: Options,
        group: impl FnMut(&mut Store, &[Job]) -> Result<Vec<Outcome>, LedgerError> + Send + 'static,
    ) -> Result<Self, LedgerError> {
        let store = Store::open(path, options)?;
        let (name, epoch, lock) = (store.path().to_owned(), store.epoch(), store.lock());
        let readers = Arc::new(Readers::open(path)?);
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || run(store, requests, group))
            .map_err(|error| LedgerError::Io {
                name: name.clone(),
                detail: error.to_string(),
            })?;
        let writer = Writer {
            queue: Mutex::new(Some(queue)),
            thread: Mutex::new(Some(thread)),
            lock,
        };
        Ok(Self {
            name,
            epoch,
            writer: Some(writer),
            readers,
        })
    }

    /// Opens the ledger for reading only, also beside an engine that writes it.
    pub fn open_reader(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self {
            name: path.display().to_string(),
            epoch: 0,
            writer: None,
            readers: Arc::new(Readers::open(path)?),
        })
    }

    /// The epoch of this opening; 0 if the ledger was opened for reading only.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Answers the queued requests, closes the file and releases the lock, so that another engine can open
    /// the ledger. Later requests are answered with [`LedgerError::Closed`].
    pub async fn close(&self) {
        let Some(writer) = &self.writer else {
            return;
        };
        drop(locked(&writer.queue).take());
        let thread = locked(&writer.thread).take();
        if let Some(thread) = thread {
            // A writer that panicked has closed the ledger too.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

#[async_trait]
impl Hold for SqliteLedger {
    /// Writes it into the lock file.
    fn announce(&self, socket: Option<&str>) -> Result<(), LedgerError> {
        let lock = self
            .writer
            .as_ref()
            .and_then(|writer| writer.lock.upgrade());
        let lock = lock.ok_or(LedgerError::Closed)?;
        lock.say(socket).map_err(|error| LedgerError::Io {
            name: self.name.clone(),
            detail: error.to_string(),
        })
    }

    async fn release(&self) {
        self.close().await;
    }
}

/// The writer's loop: takes one request and all that have queued up meanwhile, commits, and answers them all.
/// There is no timer: a lone request does not wait for others.
fn run(
    mut store: Store,
    mut requests: mpsc::Receiver<Request>,
    mut group_commit: impl FnMut(&mut Store, &[Job]) -> Result<Vec<Outcome>, LedgerError>,
) {
    while let Some(first) = requests.blocking_recv() {
        let mut weight = weight(&first.job);
        let mut group = vec![first];
        while weight < CHANGES_MAX {
            let Ok(next) = requests.try_recv() else {
                break;
            };
            weight += self::weight(&next.job);
            group.push(next);
        }
        let (jobs, answers): (Vec<Job>, Vec<_>) = group
            .into_iter()
            .map(|request| (request.job, request.answer))
            .unzip();
        let outcomes = group_commit(&mut store, &jobs);
        // A requester that has gone away meanwhile needs no answer.
        match outcomes {
            Ok(outcomes) => answers
                .into_iter()
                .zip(outcomes)
                .for_each(|(answer, outcome)| {
                    let _ = answer.send(Ok(outcome));
                }),
            Err(error) => answers.into_iter().for_each(|answer| {
                let _ = answer.send(Err(error.clone()));
            }),
        }
    }
}

fn weight(job: &Job) -> usize {
    match job {
        Job::Commit(changes) => changes.len(),
        Job::Claim { .. } => 1,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Drive for SqliteLedger {
    type Reader = Connection;

    async fn write(&self, job: Job) -> Result<Outcome, LedgerError> {
        let Some(writer) = &self.writer else {
            return Err(LedgerError::ReadOnly {
                name: self.name.clone(),
            });
        };
        let queue = locked(&writer.queue).clone().ok_or(LedgerError::Closed)?;
        let (answer, outcome) = oneshot::channel();
        queue
            .send(Request { job, answer })
            .await
            .map_err(|_| LedgerError::Closed)?;
        outcome.await.map_err(|_| LedgerError::Closed)?
    }

    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Sql<T> + Send + 'static,
    {
        let turn = Arc::clone(&self.readers.turns).acquire_owned().await;
        let turn = turn.map_err(|_| LedgerError::Closed)?;
        let readers = Arc::clone(&self.readers);
        // The permit is held until the read ends, even if nobody waits for the answer any more.
        let reading = tokio::task::spawn_blocking(move || {
            let answer = readers.read(read);
            drop(turn);
            answer
        });
        reading.await.map_err(|ended| match ended.is_panic() {
            // Only this read failed; the ledger is still open.
            true => LedgerError::Io {
                name: self.name.clone(),
                detail: "a read panicked; see the log".to_owned(),
            },
            false => LedgerError::Closed,
        })?
    }
}

/// The reading connections and as many permits: whoever holds a permit finds an idle connection.
#[derive(Debug)]
struct Readers {
    name: String,
    idle: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    fn open(path: &Path) -> Result<Self, LedgerError> {
        let name = path.display().to_string();
        check_content(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut idle = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            let db = Connection::open_with_flags(path, flags).map_err(|e| fault(&name, &e))?;
            configure(&db).map_err(|e| fault(&name, &e))?;
            check_version(&db, &name)?;
            idle.push(db);
        }
        Ok(Self {
            name,
            idle: Mutex::new(idle),
            turns: Arc::new(Semaphore::new(READERS)),
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> Sql<T>) -> Result<T, LedgerError> {
        let db = Borrowed {
            idle: &self.idle,
            db: Some(locked(&self.idle).pop().ok_or(LedgerError::Closed)?),
        };
        let Some(db) = &db.db else {
            return Err(LedgerError::Closed);
        };
        // One snapshot for all the statements of a read, whatever is committed meanwhile.
        let answer = db.unchecked_transaction().and_then(|tx| {
            let answer = read(&tx)?;
            tx.finish()?;
            Ok(answer)
        });
        answer.map_err(|e| fault(&self.name, &e))
    }
}

/// A reader's connection, which is returned even if the read panics; otherwise each panic would cost one
/// reader.
struct Borrowed<'r> {
    idle: &'r Mutex<Vec<Connection>>,
    db: Option<Connection>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            locked(self.idle).push(db);
        }
    }
}

/// The same ledger without a thread: every call is done when it returns. For the simulation, whose
/// clock is paused and whose order is seeded.
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

#[async_trait]
impl Drive for InlineLedger {
    type Reader = Connection;

    async fn write(&self, job: Job) -> Result<Outcome, LedgerError> {
        let mut outcomes = locked(&self.store).group(&[job])?;
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
