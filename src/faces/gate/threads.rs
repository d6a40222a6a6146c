//! Threads of the gates' own. A connection is served on one of them from its first byte to its last,
//! through connections to the upstream that this thread alone uses: so no request waits for another
//! core, and none for the engine's work.

use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What takes longer than this many bytes' JSON, some milliseconds, is not done on these threads.
const BYTES_HERE_MAX: usize = 256 << 10;
/// As `nice` counts: a tenth of what another busy thread has, so that a large list comes to its end also on
/// a machine that is never idle.
const LOW_PRIORITY: i32 = 10;
/// JSON that is read in about a tenth of a millisecond.
const BYTES_BETWEEN: usize = 16 << 10;

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

thread_local! {
    /// Whether this is a thread for large bodies.
    static IS_FOR_LARGE: Cell<bool> = const { Cell::new(false) };
}

/// Work on a body of so many bytes. A large one's is done, from its first byte on, on a thread of its own, so
/// that it holds up nobody else's connection; what that thread waits for, this one's reactor sees to.
pub(super) async fn beside<T: Send + 'static>(
    bytes: usize,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    if bytes <= BYTES_HERE_MAX || IS_FOR_LARGE.get() {
        return work.await;
    }
    let (hand_over, handed) = oneshot::channel();
    let (done, answer) = oneshot::channel::<T>();
    let here = Handle::current();
    let thread = std::thread::Builder::new()
        .name("gate-large".to_owned())
        .spawn(move || {
            stand_back();
            if let Ok(work) = handed.blocking_recv() {
                here.block_on(unless_left_alone(work, done));
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

/// Works until it is done, or nobody waits for it any more.
async fn unless_left_alone<T>(work: impl Future<Output = T>, mut done: oneshot::Sender<T>) {
    let ended = tokio::select! {
        ended = work => ended,
        () = done.closed() => return,
    };
    // Its caller may have gone away just now.
    let _ = done.send(ended);
}

/// This thread is for a large body: others go before it, where the system allows that.
fn stand_back() {
    IS_FOR_LARGE.set(true);
    // Elsewhere a priority is the whole process's.
    if cfg!(target_os = "linux") {
        let _ = rustix::process::setpriority_process(None, LOW_PRIORITY);
    }
}

/// Taken between two parts of a body that have come already: so a large one holds up nobody.
pub(super) async fn breathe() {
    match IS_FOR_LARGE.get() {
        true => give_way(),
        false => tokio::task::yield_now().await,
    }
}

/// A thread that was woken meanwhile has this one's core. Neither `sched_yield` nor the low priority alone
/// would do: a system may give also such a thread its turns whole, of some milliseconds.
fn give_way() {
    std::thread::sleep(Duration::from_micros(1));
}

/// Taken after each row of a page; after some, a thread for large bodies gives way.
#[derive(Default)]
pub(super) struct Breath {
    bytes: usize,
}

impl Breath {
    /// After a row of so many bytes.
    pub(super) fn take(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= BYTES_BETWEEN {
            self.bytes = 0;
            if IS_FOR_LARGE.get() {
                give_way();
            }
        }
    }
}
