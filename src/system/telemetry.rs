//! Logs: to standard error, or to a file while a console uses the screen; as text or JSON; never with a
//! secret or an unescaped name from a cloud.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::{MakeWriter, format::FmtSpan};

use super::private;

/// A log file that has grown past this size is renamed when the next log starts. Only one such old file is
/// kept.
const LOG_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// The requested verbosity: the number of `-v`, and which program logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbosity {
    pub times: u8,
    /// Whether the program is an engine, which logs what it does, or a verb, which logs only what goes wrong.
    pub engine: bool,
}

impl Verbosity {
    /// Returns the filter, in the syntax of `tracing_subscriber`. A verb shows the libraries' messages below warnings
    /// from the third `-v` on, an engine from the second.
    pub fn directives(self) -> &'static str {
        match self.times.saturating_add(u8::from(self.engine)) {
            0 => "error,gone=warn",
            1 => "warn,gone=info",
            2 => "warn,gone=debug",
            3 => "info,gone=trace",
            _ => "trace",
        }
    }
}

/// Returns the requested format. By default this is text for a person and JSON for a machine.
pub fn format_for(option: Option<LogFormat>, terminal: bool) -> LogFormat {
    option.unwrap_or(if terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    })
}

/// Sends the logs of this process to standard error from now on.
///
/// # Errors
/// Logging has already been started.
pub fn to_stderr(format: LogFormat, verbosity: Verbosity) -> io::Result<()> {
    start(subscriber(format, verbosity, io::stderr))
}

/// Appends the logs of this process to this file from now on, because a console owns the screen and an engine
/// that it left running has none.
///
/// # Errors
/// The file cannot be opened, or logging has already been started.
pub fn to_file(path: &Path, format: LogFormat, verbosity: Verbosity) -> io::Result<()> {
    let file = open_log(path)?;
    start(subscriber(format, verbosity, Mutex::new(file)))
}

fn start(subscriber: impl Subscriber + Send + Sync) -> io::Result<()> {
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)
}

/// Opens the log for appending, readable by its owner only (0600), after renaming a large one.
fn open_log(path: &Path) -> io::Result<File> {
    let full = std::fs::metadata(path).is_ok_and(|found| found.len() > LOG_FILE_BYTES_MAX);
    if full {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    private::append(path)
}

/// Creates a subscriber that writes lines with time, level, target and fields, without colour codes, because logs
/// end up in files.
pub fn subscriber<W>(
    format: LogFormat,
    verbosity: Verbosity,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(verbosity.directives()))
        .with_span_events(FmtSpan::NONE)
        .with_ansi(false)
        .with_writer(writer);
    match format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    }
}
