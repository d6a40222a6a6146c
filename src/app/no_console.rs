//! A build without the terminal crates.

use crate::faces::cli::args::Global;
use crate::faces::cli::output::Style;
use crate::faces::cli::{Exit, Failure};
use crate::system::config::Surroundings;

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
