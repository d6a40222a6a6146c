//! Failures of the clouds and of the ledger, as the engine passes them on.

use crate::cloud::CloudFailure;
use crate::control::ControlError;
use crate::domain::model::ErrorClass;
use crate::domain::policy::Retry;
use crate::ledger::LedgerError;

/// Builds a failure that gone itself found, and that is not the answer of a cloud.
pub(super) fn unreadable(message: String) -> CloudFailure {
    CloudFailure {
        retry: Retry::Never,
        class: ErrorClass::Fatal,
        forbidden: false,
        status: None,
        kind: String::new(),
        message,
        request_id: String::new(),
        retry_after: None,
    }
}

/// Converts a failed read of a cloud into the error that a front end shows.
impl From<CloudFailure> for ControlError {
    fn from(failure: CloudFailure) -> Self {
        let message = failure.message;
        match failure.class {
            ErrorClass::Auth => Self::Auth { message },
            ErrorClass::Unavailable | ErrorClass::OutcomeUnknown => Self::unreachable(message),
            _ if failure.forbidden => Self::Auth { message },
            _ => Self::usage(message),
        }
    }
}

/// Converts a failure of the ledger into the error that a front end shows.
impl From<LedgerError> for ControlError {
    fn from(error: LedgerError) -> Self {
        let message = error.to_string();
        match matches!(error, LedgerError::Cursor { .. }) {
            // The caller made the cursor up, or has it from another list.
            true => Self::usage(message),
            false => Self::internal(message),
        }
    }
}
