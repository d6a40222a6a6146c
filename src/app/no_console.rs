//! The console's functions in a build without the terminal crates.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Process;
use crate::control::Control;
use crate::frontends::cli::args::Global;
use crate::frontends::cli::{Exit, Failure};
use crate::system::config::Settings;

/// Refuses to open the console: there is none in this build.
pub(super) fn open(_: &Process<'_>) -> Result<Exit, Failure> {
    let why = "it is not part of this build";
    let advice = "Use `gone --engine` and the verbs, or build with the feature \"console\".";
    Err(Failure::usage("open the console", why, advice))
}

/// Whether a replay opens the console. In this build it never does, and lists the deletions instead.
pub(super) fn fits(_: &Global) -> bool {
    false
}

/// Refuses to replay in the console, like [`open`].
pub(super) async fn replay(
    process: &Process<'_>,
    _: Settings,
    _: Arc<dyn Control>,
    _: (DateTime<Utc>, DateTime<Utc>),
) -> Result<Exit, Failure> {
    open(process)
}
