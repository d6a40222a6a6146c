//! The threads of a store: one that writes, and tokio's blocking threads, which read. So a store that blocks, as SQLite
//! does, never runs on a tokio worker.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{LedgerError, Outcome, WriteRequest};

/// Maximum number of requests that wait for the writer: as many as one transaction takes if each is one change,
/// so that a queued request waits for at most one commit before its own.
const QUEUE_MAX: usize = 1024;
/// Number of changes at which a transaction takes no more requests. A larger transaction is hardly faster, and
/// all its requests wait for each other. A single request with more changes is still one transaction.
const CHANGES_MAX: usize = 1024;
/// Number of connections for reading: enough for the pages of one or two consoles and an API client.
const READERS: usize = 4;

/// The thread that writes. It groups the requests that queued up while it wrote the previous ones.
#[derive(Debug)]
pub(super) struct Writer {
    /// None once the ledger is closed.
    queue: Mutex<Option<mpsc::Sender<QueuedRequest>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct QueuedRequest {
    request: WriteRequest,
    answer: oneshot::Sender<Result<Outcome, LedgerError>>,
}

impl Writer {
    /// Starts the thread; `group` applies each group of requests, in one transaction.
    pub(super) fn start(
        group: impl FnMut(&[WriteRequest]) -> Result<Vec<Outcome>, LedgerError> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || run(requests, group))?;
        Ok(Self {
            queue: Mutex::new(Some(queue)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Sends a request to the thread, which answers when the changes are durable.
    pub(super) async fn write(&self, request: WriteRequest) -> Result<Outcome, LedgerError> {
        let queue = locked(&self.queue).clone().ok_or(LedgerError::Closed)?;
        let (answer, outcome) = oneshot::channel();
        queue
            .send(QueuedRequest { request, answer })
            .await
            .map_err(|_| LedgerError::Closed)?;
        outcome.await.map_err(|_| LedgerError::Closed)?
    }

    /// Requests a transaction without changes of its own. With it, the store begins a new epoch if it must, and
    /// brings the tombstones in memory up to date.
    #[cfg(feature = "postgres")]
    pub(super) fn nudge(&self) {
        if let Some(queue) = &*locked(&self.queue) {
            let (answer, _) = oneshot::channel();
            let request = WriteRequest::Commit(Vec::new());
            // If the queue is full, its requests cause a transaction anyway.
            let _ = queue.try_send(QueuedRequest { request, answer });
        }
    }

    /// Answers the queued requests, and ends the thread, which drops its connection. Later requests are answered
    /// with [`LedgerError::Closed`].
    pub(super) async fn close(&self) {
        drop(locked(&self.queue).take());
        let thread = locked(&self.thread).take();
        if let Some(thread) = thread {
            // A writer that panicked has dropped its connection, too.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// The writer's loop: takes one request and all that have queued up meanwhile, commits, and answers them all.
/// There is no timer: a lone request does not wait for others.
fn run(
    mut requests: mpsc::Receiver<QueuedRequest>,
    mut group_commit: impl FnMut(&[WriteRequest]) -> Result<Vec<Outcome>, LedgerError>,
) {
    while let Some(first) = requests.blocking_recv() {
        let mut weight = weight(&first.request);
        let mut group = vec![first];
        while weight < CHANGES_MAX {
            let Ok(next) = requests.try_recv() else {
                break;
            };
            weight += self::weight(&next.request);
            group.push(next);
        }
        let (group, answers): (Vec<WriteRequest>, Vec<_>) = group
            .into_iter()
            .map(|queued| (queued.request, queued.answer))
            .unzip();
        let outcomes = group_commit(&group);
        // A requester that no longer waits needs no answer.
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

fn weight(request: &WriteRequest) -> usize {
    match request {
        WriteRequest::Commit(changes) => changes.len(),
        WriteRequest::Claim { .. } => 1,
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reading connections and as many permits, so that a read with a permit finds an idle connection.
pub(super) struct Readers<C> {
    name: String,
    idle: Mutex<Vec<C>>,
    permits: Arc<Semaphore>,
}

impl<C: Send + 'static> Readers<C> {
    /// `name`: the ledger's name in errors.
    pub(super) fn open(
        name: &str,
        mut open: impl FnMut() -> Result<C, LedgerError>,
    ) -> Result<Self, LedgerError> {
        let idle = (0..READERS).map(|_| open()).collect::<Result<_, _>>()?;
        Ok(Self {
            name: name.to_owned(),
            idle: Mutex::new(idle),
            permits: Arc::new(Semaphore::new(READERS)),
        })
    }

    /// Runs a read on an idle connection, on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&mut C) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| LedgerError::Closed)?;
        let readers = Arc::clone(self);
        // The permit is kept until the read ends, even if nobody waits for the answer any more.
        let reading = tokio::task::spawn_blocking(move || {
            let answer = readers
                .borrow()
                .and_then(|mut borrowed| borrowed.with(read));
            drop(permit);
            answer
        });
        reading.await.map_err(|ended| match ended.is_panic() {
            // Only this read failed; the ledger is still open.
            true => LedgerError::io(&self.name, "a read panicked; see the log"),
            false => LedgerError::Closed,
        })?
    }

    fn borrow(&self) -> Result<Borrowed<'_, C>, LedgerError> {
        let connection = locked(&self.idle).pop().ok_or(LedgerError::Closed)?;
        Ok(Borrowed {
            idle: &self.idle,
            connection: Some(connection),
        })
    }
}

impl<C> Debug for Readers<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A reader's connection, which is returned even if the read panics; otherwise each panic would cost one
/// reader.
struct Borrowed<'r, C> {
    idle: &'r Mutex<Vec<C>>,
    connection: Option<C>,
}

impl<C> Borrowed<'_, C> {
    fn with<T>(
        &mut self,
        read: impl FnOnce(&mut C) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        match &mut self.connection {
            Some(connection) => read(connection),
            None => Err(LedgerError::Closed),
        }
    }
}

impl<C> Drop for Borrowed<'_, C> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            locked(self.idle).push(connection);
        }
    }
}
