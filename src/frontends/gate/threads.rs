//! The gates' own threads. A connection is served on one of them from its first byte to its last, through
//! upstream connections that only this thread uses: so no request waits for another core or for the engine's
//! work. Only the JSON of a large body is processed on a thread of its own.

use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// JSON of more bytes than this takes some milliseconds to process, so it is not processed on these threads.
const BYTES_HERE_MAX: usize = 256 << 10;
/// Nice value of a thread for large bodies. The thread still gets a tenth of a core that it shares with a busy thread,
/// so a large list ends even on a machine that is never idle.
const LOW_PRIORITY: i32 = 10;
/// How long a thread for large bodies works before it lets others run: less than an answer to a small request
/// takes.
const TIME_SLICE: Duration = Duration::from_micros(40);
/// Minimum number of rows in a time slice, so that a thread with slow rows works more than it rests.
const ROWS_OF_SLICE_MIN: usize = 8;

/// Threads that all gates of an engine share. They end when the value is dropped.
pub struct Threads {
    handles: Vec<Handle>,
    next: AtomicUsize,
    _end: DropGuard,
}

impl Threads {
    /// Starts one thread for each core.
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

    /// Returns the next thread in rotation, and its index.
    pub(super) fn next(&self) -> (usize, &Handle) {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.count();
        (place, &self.handles[place])
    }
}

thread_local! {
    /// Whether this is a thread for large bodies.
    static IS_FOR_LARGE: Cell<bool> = const { Cell::new(false) };
}

/// Runs work on a body of this length: here if the body is small or this is already a thread for large bodies,
/// otherwise on a thread of its own, so that the work delays no other connection. I/O of that thread goes through the
/// reactor of the calling one.
pub(super) async fn offload_if_large<T: Send + 'static>(
    bytes: usize,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    if bytes <= BYTES_HERE_MAX || IS_FOR_LARGE.get() {
        return work.await;
    }
    let (hand_over, handed) = oneshot::channel();
    let (mut done, answer) = oneshot::channel::<T>();
    let here = Handle::current();
    let thread = std::thread::Builder::new()
        .name("gate-large".to_owned())
        .spawn(move || {
            IS_FOR_LARGE.set(true);
            // On other systems, a priority applies to the whole process.
            if cfg!(target_os = "linux") {
                let _ = rustix::process::setpriority_process(None, LOW_PRIORITY);
            }
            let Ok(work) = handed.blocking_recv() else {
                return;
            };
            here.block_on(async {
                let ended = tokio::select! {
                    ended = work => ended,
                    () = done.closed() => return,
                };
                // The caller may have stopped waiting.
                let _ = done.send(ended);
            });
        });
    let Ok(thread) = thread else {
        // The system refuses a further thread: the work runs here.
        return work.await;
    };
    // Sending fails only if the thread has ended.
    let _ = hand_over.send(work);
    match answer.await {
        Ok(done) => done,
        Err(_) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            // The reactor of the calling thread ends, and this task with it.
            Ok(()) => std::future::pending().await,
        },
    }
}

/// Lets other threads run between two rows of a large page, after each [`TIME_SLICE`].
pub(super) struct Yielder {
    began: Instant,
    rows: usize,
}

impl Yielder {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            rows: 0,
        }
    }

    /// Must be called after each row. Neither `sched_yield` nor a low priority is enough: with both, Linux ran
    /// this thread for 3 to 4 ms while another one waited.
    pub(super) fn after_row(&mut self) {
        self.rows += 1;
        let is_over = || self.rows >= ROWS_OF_SLICE_MIN && self.began.elapsed() >= TIME_SLICE;
        if IS_FOR_LARGE.get() && is_over() {
            std::thread::sleep(Duration::from_micros(1));
            *self = Self::new();
        }
    }
}
