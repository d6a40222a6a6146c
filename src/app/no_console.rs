//! The console's functions in a build without the terminal crates.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::control::Control;
use crate::frontends::cli::args::Global;
use crate::frontends::cli::output::Style;
use crate::frontends::cli::{Exit, Failure};
use crate::system::config::{Settings, Surroundings};

/// Refuses to open the console.
///
/// # Errors
/// Always: there is no console in this build.
pub(super) fn open(_: &Global, _: &Surroundings, _: Style) -> Result<Exit, Failure> {
    let advice = "Use `gone --engine` and the verbs, or build with the feature \"console\".";
    Err(Failure::usage(
        "open the console",
        "it is not part of this build",
        advice,
    ))
}

/// Whether a replay opens the console. In this build it never does, and lists the deletions instead.
pub(super) fn fits(_: &Global) -> bool {
    false
}

/// Refuses to replay in the console.
///
/// # Errors
/// Always, like [`open`].
pub(super) async fn replay(
    global: &Global,
    around: &Surroundings,
    style: Style,
    _: Settings,
    _: Arc<dyn Control>,
    _: (DateTime<Utc>, DateTime<Utc>),
) -> Result<Exit, Failure> {
    open(global, around, style)
}
