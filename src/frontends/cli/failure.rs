//! The failure of a verb: the action, its object, why it failed, and what to do.

use std::io;

use serde::Serialize;

use super::args::Format;
use super::exit::Exit;
use super::output::Printer;
use super::plan_view::{with_options, write_refusals};
use crate::control::ControlError;
use crate::domain::model::{Refusal, Target};

/// A failure, printed on standard error as text, or as one JSON document if JSON was asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// The class of the error: `ambiguous`, `refused`, …
    pub error: &'static str,
    /// The failed action and its object: `delete network/web`. While it is empty, it is the verb that runs.
    pub tried: String,
    pub message: String,
    /// What to do about it.
    pub advice: String,
    #[serde(rename = "exit_code")]
    pub exit: Exit,
    #[serde(flatten)]
    pub details: Box<Details>,
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
            exit,
            details: Box::default(),
        }
    }

    pub fn usage(
        tried: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(Exit::Usage, "usage", tried, message, advice)
    }

    /// The arguments of the verb that runs are wrong.
    pub(super) fn wrong(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::usage("", message, advice)
    }

    /// The verb that runs is refused, and nothing was sent.
    pub(super) fn refused(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Exit::Refused, "refused", "", message, advice)
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
        Self::from(error).trying(tried)
    }

    /// Names the failed action, unless a part of it was named already.
    #[must_use]
    pub(super) fn trying(mut self, tried: impl Into<String>) -> Self {
        if self.tried.is_empty() {
            self.tried = tried.into();
        }
        self
    }

    /// # Errors
    /// Standard error cannot be written.
    pub fn write(&self, err: &mut Printer<'_>) -> io::Result<()> {
        // Pretty JSON over several lines could not be told from the progress before it.
        let mut err = err.formatted(match err.format {
            Format::Json | Format::Jsonl => Format::Jsonl,
            _ => Format::Table,
        });
        if err.value(self)? {
            return Ok(());
        }
        let message = with_options(&self.message);
        err.say(format!("gone: cannot {}: {message}", self.tried))?;
        for candidate in &self.details.candidates {
            err.say(format!("  {}  {}", candidate.key, candidate.name))?;
        }
        write_refusals(&mut err, &self.details.refused)?;
        for change in &self.details.changes {
            err.say(format!("  {change}"))?;
        }
        match self.advice.as_str() {
            "" => Ok(()),
            advice => err.say(advice),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let advice = "Check the disk or the program that reads the output.";
        let tried = "write the output";
        Self::new(Exit::Internal, "internal", tried, error.to_string(), advice)
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let (exit, advice) = exit_and_advice(&error);
        let mut failure = Self::new(exit, (&error).into(), "", error.to_string(), advice);
        match error {
            ControlError::Ambiguous { candidates, .. } => failure.details.candidates = candidates,
            ControlError::Refused { refused, .. } => failure.details.refused = refused,
            ControlError::Drifted { changes, .. } => failure.details.changes = changes,
            _ => {}
        }
        failure
    }
}

fn exit_and_advice(error: &ControlError) -> (Exit, &'static str) {
    match error {
        ControlError::Usage { .. } => (Exit::Usage, ""),
        ControlError::NotFound { .. } => (
            Exit::Usage,
            "Check the word and the site: `gone list KIND` shows resources, `gone list` deletions.",
        ),
        ControlError::Ambiguous { .. } => (Exit::Usage, "Write one of these instead."),
        ControlError::Auth { .. } => (
            Exit::Auth,
            "Check the credentials in clouds.yaml; `gone doctor` tries the login of each region.",
        ),
        ControlError::Forbidden { .. } => (
            Exit::Auth,
            "Ask who runs the engine: [api] uids in its configuration says who may do what.",
        ),
        ControlError::Unreachable { .. } => (
            Exit::Unreachable,
            "Nothing that was accepted is lost. `gone doctor` shows what can be reached; then try again.",
        ),
        // A guard of the settings refused it; refusals of a plan are no error of a command.
        ControlError::Refused { .. } => (
            Exit::Refused,
            "If it may be deleted all the same, change [guard] in the engine's settings.",
        ),
        ControlError::Drifted { .. } => (
            Exit::Drifted,
            "Nothing was sent. Make the plan again, and look at what changed.",
        ),
        ControlError::Conflict { .. } => (Exit::Refused, "`gone show ID` tells its state."),
        // An expired plan must be made again, as an unknown word must be corrected.
        ControlError::Expired { .. } => (Exit::Usage, "Make the plan again."),
        ControlError::Internal { .. } => (
            Exit::Internal,
            "Nothing that was accepted is lost. Look into the engine's log, or try again with -v.",
        ),
    }
}
