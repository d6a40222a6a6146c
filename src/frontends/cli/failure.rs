//! The failure of a verb: the action, its object, why it failed, and what to do.

use std::io::{self, Write};

use serde::Serialize;

use super::args::Format;
use super::exit::Exit;
use super::output::{Style, write_value};
use super::plan_view::write_refusals;
use crate::control::ControlError;
use crate::domain::model::{Refusal, Target};

/// A failure, printed on standard error as text, or as one JSON document if JSON was asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// The class of the error: `ambiguous`, `refused`, …
    pub error: &'static str,
    /// The failed action and its object: `delete network/web`.
    pub tried: String,
    pub message: String,
    /// What to do about it.
    pub advice: String,
    pub exit_code: u8,
    #[serde(flatten)]
    pub details: Box<Details>,
    #[serde(skip)]
    pub exit: Exit,
}

/// The parts of a control error beside its message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Details {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Target>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

impl Failure {
    pub fn new(
        exit: Exit,
        error: &'static str,
        tried: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            error,
            tried: tried.into(),
            message: message.into(),
            advice: advice.into(),
            exit_code: exit.code(),
            details: Box::default(),
            exit,
        }
    }

    pub fn usage(
        tried: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(Exit::Usage, "usage", tried, message, advice)
    }

    /// Returns the failure of a verb that ctrl-c interrupted.
    pub fn interrupted(tried: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(
            Exit::Interrupted,
            "interrupted",
            tried,
            "interrupted",
            advice,
        )
    }

    /// Returns the failure for an error of the control.
    pub fn of(tried: impl Into<String>, error: ControlError) -> Self {
        let exit = Exit::of_error(&error);
        let (class, advice) = class_and_advice(&error);
        let mut failure = Self::new(exit, class, tried, error.to_string(), advice);
        match error {
            ControlError::Ambiguous { candidates, .. } => failure.details.candidates = candidates,
            ControlError::Refused { refused, .. } => failure.details.refused = refused,
            ControlError::Drifted { changes, .. } => failure.details.changes = changes,
            _ => {}
        }
        failure
    }

    /// # Errors
    /// Standard error cannot be written.
    pub fn write(&self, err: &mut dyn Write, style: Style, format: Format) -> io::Result<()> {
        // Pretty JSON over several lines could not be told from the progress before it.
        let format = match format {
            Format::Json | Format::Jsonl => Format::Jsonl,
            _ => Format::Table,
        };
        if write_value(err, style, format, self)? {
            return Ok(());
        }
        let tried = style.safe(&self.tried);
        writeln!(err, "gone: cannot {tried}: {}", style.safe(&self.message))?;
        for candidate in &self.details.candidates {
            let key = candidate.key.to_string();
            writeln!(
                err,
                "  {}  {}",
                style.safe(&key),
                style.safe(&candidate.name)
            )?;
        }
        write_refusals(err, style, &self.details.refused)?;
        for change in &self.details.changes {
            writeln!(err, "  {}", style.safe(change))?;
        }
        if !self.advice.is_empty() {
            writeln!(err, "{}", style.safe(&self.advice))?;
        }
        Ok(())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let advice = "Check the disk or the program that reads the output.";
        Self::new(
            Exit::Internal,
            "internal",
            "write the output",
            error.to_string(),
            advice,
        )
    }
}

fn class_and_advice(error: &ControlError) -> (&'static str, &'static str) {
    match error {
        ControlError::Usage { .. } => ("usage", ""),
        ControlError::NotFound { .. } => (
            "not_found",
            "Check the word and the site: `gone list KIND` shows resources, `gone list` deletions.",
        ),
        ControlError::Ambiguous { .. } => ("ambiguous", "Write one of these instead."),
        ControlError::Auth { .. } => (
            "auth",
            "Check the credentials in clouds.yaml; `gone doctor` tries the login of each region.",
        ),
        ControlError::Forbidden { .. } => (
            "forbidden",
            "Ask who runs the engine: [api] uids in its configuration says who may do what.",
        ),
        ControlError::Unreachable { .. } => (
            "unreachable",
            "Nothing that was accepted is lost. `gone doctor` shows what can be reached; then try again.",
        ),
        // A guard of the settings refused it; refusals of a plan are no error of a command.
        ControlError::Refused { .. } => (
            "refused",
            "If it may be deleted all the same, change [guard] in the engine's settings.",
        ),
        ControlError::Drifted { .. } => (
            "drifted",
            "Nothing was sent. Make the plan again, and look at what changed.",
        ),
        ControlError::Conflict { .. } => ("conflict", "`gone show ID` tells its state."),
        ControlError::Expired { .. } => ("expired", "Make the plan again."),
        ControlError::Internal { .. } => (
            "internal",
            "Nothing that was accepted is lost. Look into the engine's log, or try again with -v.",
        ),
    }
}
