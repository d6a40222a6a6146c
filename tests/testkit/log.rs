//! The log of a test process, in which a test finds the lines of the code under test.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

/// A log of all levels, also of the HTTP libraries.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    /// Starts the log of this process, once.
    ///
    /// The log is global: tracing caches for the whole process which call sites are logged, and a call site that
    /// another test reaches first would stay disabled for a subscriber of one thread alone.
    pub fn start() -> Self {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_thread_ids(true)
            .with_writer(log.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    }

    /// Returns the lines of this thread; other tests log too.
    pub fn lines(&self) -> Vec<String> {
        // The log writes thread ids with at least two digits.
        let mine = format!("{:0>2?}", std::thread::current().id());
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains(&mine));
        lines.map(str::to_owned).collect()
    }
}
