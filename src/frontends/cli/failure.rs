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
    /// The failed action and its object: `delete network/web`. While it is empty, the action is the verb
    /// that runs.
    #[serde(rename = "tried")]
    pub action_words: String,
    pub message: String,
    /// The next thing to do; empty if there is no advice.
    pub advice: String,
    #[serde(rename = "exit_code")]
    pub exit: Exit,
    #[serde(flatten)]
    pub details: Box<Details>,
}

/// The details of a [`ControlError`] besides its message.
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
        action_words: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            error,
            action_words: action_words.into(),
            message: message.into(),
            advice: advice.into(),
            exit,
            details: Box::default(),
        }
    }

    pub fn usage(
        action_words: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(Exit::Usage, "usage", action_words, message, advice)
    }

    /// Returns a function for `map_err` that turns an error into a usage failure.
    pub fn usage_of<E: ToString>(
        action_words: impl Into<String>,
        advice: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        move |error| Self::usage(action_words, error.to_string(), advice)
    }

    /// Returns the failure of the verb that runs: its arguments are wrong.
    pub(super) fn wrong(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::usage("", message, advice)
    }

    /// Returns the failure of the verb that runs: it is refused, and nothing was sent.
    pub(super) fn refused(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Exit::Refused, "refused", "", message, advice)
    }

    /// Returns the failure of a verb that ctrl-c interrupted.
    pub fn interrupted(action_words: impl Into<String>, advice: impl Into<String>) -> Self {
        let word = "interrupted";
        Self::new(Exit::Interrupted, word, action_words, word, advice)
    }

    /// Returns the failure for an engine's error.
    pub fn of(action_words: impl Into<String>, error: ControlError) -> Self {
        Self::from(error).with_action(action_words)
    }

    /// Names the failed action, unless the failure names one already.
    #[must_use]
    pub(super) fn with_action(mut self, action_words: impl Into<String>) -> Self {
        if self.action_words.is_empty() {
            self.action_words = action_words.into();
        }
        self
    }

    /// Writes the failure as text, or as JSON on one line if the results are JSON.
    pub fn write(&self, err: &mut Printer<'_>) -> io::Result<()> {
        // Pretty JSON over several lines could not be distinguished from the progress before it.
        let mut err = err.formatted(match err.format {
            Format::Json | Format::Jsonl => Format::Jsonl,
            _ => Format::Table,
        });
        if err.value(self)? {
            return Ok(());
        }
        let message = with_options(&self.message);
        err.say(format!("gone: cannot {}: {message}", self.action_words))?;
        for candidate in &self.details.candidates {
            err.say(format!("  {}  {}", candidate.key, candidate.name))?;
        }
        write_refusals(&mut err, &self.details.refused)?;
        let mut changes = self.details.changes.iter();
        changes.try_for_each(|change| err.say(format!("  {change}")))?;
        match self.advice.as_str() {
            "" => Ok(()),
            advice => err.say(advice),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let why = error.to_string();
        let advice = "Check the disk or the program that reads the output.";
        Self::new(Exit::Internal, "internal", "write the output", why, advice)
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
            "Check the name and the site: `gone list KIND` shows resources, `gone list` deletions.",
        ),
        ControlError::Ambiguous { .. } => (Exit::Usage, "Write one of these instead."),
        ControlError::Auth { .. } => (
            Exit::Auth,
            "Check the credentials in clouds.yaml; `gone doctor` logs in at each region.",
        ),
        ControlError::Forbidden { .. } => (
            Exit::Auth,
            "Ask the engine's owner for the scope: [api] uids in the engine's settings grants scopes.",
        ),
        ControlError::Unreachable { .. } => (
            Exit::Unreachable,
            "Nothing that was accepted is lost. `gone doctor` shows what can be reached; then repeat the command.",
        ),
        // A guard of the settings refuses the command. A plan that is refused is not an error of the command.
        ControlError::Refused { .. } => (
            Exit::Refused,
            "Do what the message says. If the guard should not apply here, change [guard] in the engine's settings, or start \
             the engine without --read-only.",
        ),
        ControlError::Drifted { .. } => (
            Exit::Drifted,
            "Nothing was sent. Make the plan again, and check what has changed.",
        ),
        ControlError::Conflict { .. } => (
            Exit::Refused,
            "`gone show ID` shows the state of a deletion.",
        ),
        // An expired plan is wrong usage, as an unknown name is: the command must be changed.
        ControlError::Expired { .. } => (Exit::Usage, "Make the plan again."),
        ControlError::Internal { .. } => (
            Exit::Internal,
            "Nothing that was accepted is lost. Read the engine's log, or repeat the command with -v.",
        ),
    }
}
