//! Threads of the gates' own. A connection is served on one of them from its first byte to its last,
//! through connections to the upstream that this thread alone uses: so no request waits for another
//! core, and none for the engine's work.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What takes longer than this many bytes' JSON, some milliseconds, is not done on these threads.
const BYTES_HERE_MAX: usize = 256 << 10;
/// As `nice` counts: a tenth of what another busy thread has, so that a large list comes to its end also on
/// a machine that is never idle.
const LOW_PRIORITY: i32 = 10;

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

/// Work on a body of so many bytes. A large one's is done on a thread of its own, behind all others, so that
/// it holds up nobody else's connection; what that thread waits for, this one's reactor sees to.
pub(super) async fn beside<T: Send + 'static>(
    bytes: usize,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    if bytes <= BYTES_HERE_MAX {
        return work.await;
    }
    let (hand_over, handed) = oneshot::channel();
    let (done, answer) = oneshot::channel();
    let here = Handle::current();
    let thread = std::thread::Builder::new()
        .name("gate-large".to_owned())
        .spawn(move || {
            stand_behind();
            if let Ok(work) = handed.blocking_recv() {
                // Who waits for it may have gone away.
                let _ = done.send(here.block_on(work));
            }
        });
    let Ok(thread) = thread else {
        // The system gives no more threads.
        return work.await;
    };
    // It waits for nothing else.
    let _ = hand_over.send(work);
    match answer.await {
        Ok(done) => done,
        Err(_) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            // Its reactor ends, and this task with it.
            Ok(()) => std::future::pending().await,
        },
    }
}

/// Whoever else has work goes before this thread.
fn stand_behind() {
    // Elsewhere a priority is the whole process's.
    if cfg!(target_os = "linux") {
        // Where that is refused, the thread has its turn like any other.
        let _ = rustix::process::setpriority_process(None, LOW_PRIORITY);
    }
}
