//! Threads of the gates' own. A connection is served on one of them from its first byte to its last,
//! through connections to the upstream that this thread alone uses: so no request waits for another
//! core, and none for the engine's work.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What takes longer than this many bytes' JSON, some milliseconds, is not done on these threads.
const BYTES_HERE_MAX: usize = 256 << 10;

/// Shared by all gates of an engine; they end when it is dropped.
pub struct Threads {
    handles: Vec<Handle>,
    next: AtomicUsize,
    _end: DropGuard,
}

impl Threads {
    /// One for each core.
    ///
    /// # Errors
    /// The system gives no more threads or file descriptors.
    pub fn start() -> io::Result<Arc<Self>> {
        let end = CancellationToken::new();
        let count = available_parallelism().map_or(1, usize::from);
        let mut handles = Vec::new();
        for number in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            handles.push(runtime.handle().clone());
            let end = end.clone();
            std::thread::Builder::new()
                .name(format!("gate-{number}"))
                .spawn(move || runtime.block_on(end.cancelled()))?;
        }
        Ok(Arc::new(Self {
            handles,
            next: AtomicUsize::new(0),
            _end: end.drop_guard(),
        }))
    }

    pub(super) fn count(&self) -> usize {
        self.handles.len()
    }

    /// One after another, and its place among all.
    pub(super) fn next(&self) -> (usize, &Handle) {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.count();
        (place, &self.handles[place])
    }
}

/// Work on a body of so many bytes, which may hold up nobody else's connection.
pub(super) async fn beside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= BYTES_HERE_MAX {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The threads end, and this task with them.
            Err(_) => std::future::pending().await,
        },
    }
}
