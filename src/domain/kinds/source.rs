//! The text of a kinds file, and its errors, which have the file and the line and suggest the nearest valid word.

use serde::de::DeserializeOwned;

use crate::domain::nesting::{TOO_DEEP, first_too_deep, line_of};
use crate::domain::text::did_you_mean;

/// One kinds file: where it is from, and its text.
#[derive(Clone, Debug)]
pub struct Source {
    pub file: String,
    pub text: String,
}

/// Why a kinds file is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct KindsError {
    pub file: String,
    /// Line in the file, counted from 1.
    pub line: usize,
    pub message: String,
}

impl Source {
    /// Reads the file as TOML.
    ///
    /// # Errors
    /// The text is not TOML of this form, or is nested too deeply; the error has the line, and suggests the nearest
    /// valid word.
    pub fn parse<F: DeserializeOwned>(&self) -> Result<F, KindsError> {
        let failed = |line, message| KindsError {
            file: self.file.clone(),
            line,
            message,
        };
        if let Some(at) = first_too_deep(&self.text) {
            return Err(failed(line_of(&self.text, at.start), TOO_DEEP.to_owned()));
        }
        toml::from_str(&self.text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| line_of(&self.text, span.start));
            failed(line, with_nearest(error.message()))
        })
    }
}

/// Adds the nearest valid word to an error of serde that lists all valid words (``unknown field `x`, expected one
/// of `a`, `b` ``).
fn with_nearest(message: &str) -> String {
    let mut words = message.split('`').skip(1).step_by(2);
    let Some(wrong) = words.next() else {
        return message.to_owned();
    };
    let valid: Vec<&str> = words.collect();
    format!("{message}{}", did_you_mean(wrong, valid))
}
