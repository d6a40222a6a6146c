//! Exit codes, which scripts rely on.

use crate::control::ControlError;
use crate::domain::model::{Deletion, DeletionState, ErrorClass, RefusalRule};

/// The way in which a verb ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Done: all resources are gone, or the request was accepted.
    Done,
    Internal,
    /// Wrong usage or configuration.
    Usage,
    /// Authentication or authorisation failed.
    Auth,
    /// Some resources are stuck, failed or purged.
    Stuck,
    /// A cloud or the engine cannot be reached.
    Unreachable,
    /// Refused because of a guard or a blocker.
    Refused,
    /// The cloud differs from the approved plan; nothing was sent.
    Drifted,
    /// The time of `--wait` ran out.
    StillRunning,
    Interrupted,
}

/// The order of precedence: if several codes apply, the first of these counts.
const PRECEDENCE: [Exit; 10] = [
    Exit::Interrupted,
    Exit::Usage,
    Exit::Internal,
    Exit::Auth,
    Exit::Unreachable,
    Exit::Drifted,
    Exit::Refused,
    Exit::Stuck,
    Exit::StillRunning,
    Exit::Done,
];

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Internal => 1,
            Self::Usage => 2,
            Self::Auth => 3,
            Self::Stuck => 4,
            Self::Unreachable => 5,
            Self::Refused => 6,
            Self::Drifted => 7,
            Self::StillRunning => 8,
            Self::Interrupted => 130,
        }
    }

    /// Returns the code that counts if several apply.
    pub fn first_of(exits: impl IntoIterator<Item = Self>) -> Self {
        let all: Vec<Self> = exits.into_iter().collect();
        PRECEDENCE
            .into_iter()
            .find(|exit| all.contains(exit))
            .unwrap_or(Self::Done)
    }

    /// Returns the code of a command that was not carried out.
    pub fn of_error(error: &ControlError) -> Self {
        match error {
            // The person must make an expired plan again, as they must correct an unknown word.
            ControlError::Usage { .. }
            | ControlError::NotFound { .. }
            | ControlError::Ambiguous { .. }
            | ControlError::Expired { .. } => Self::Usage,
            ControlError::Auth { .. } | ControlError::Forbidden { .. } => Self::Auth,
            ControlError::Unreachable { .. } => Self::Unreachable,
            ControlError::Refused { .. } | ControlError::Conflict { .. } => Self::Refused,
            ControlError::Drifted { .. } => Self::Drifted,
            ControlError::Internal { .. } => Self::Internal,
        }
    }

    /// Returns the code of a list that lacks the answer of a site.
    pub fn of_listing(class: Option<ErrorClass>) -> Self {
        match class {
            Some(ErrorClass::Auth) => Self::Auth,
            // The request or the settings are wrong, not the cloud or the login.
            Some(ErrorClass::Fatal) => Self::Usage,
            Some(
                ErrorClass::Unavailable
                | ErrorClass::OutcomeUnknown
                | ErrorClass::Blocked
                | ErrorClass::Drift
                | ErrorClass::Guard,
            )
            | None => Self::Unreachable,
        }
    }

    /// Returns the code of a deletion; `failures` are the classes of the last errors of its stuck steps.
    pub fn of_deletion(deletion: &Deletion, failures: &[ErrorClass]) -> Self {
        let by_state = match deletion.state {
            DeletionState::Gone => Self::Done,
            DeletionState::Refused => {
                let rules = deletion.refused.iter().map(|refusal| refusal.rule);
                Self::first_of(rules.map(Self::of_refusal).chain([Self::Refused]))
            }
            DeletionState::Stuck | DeletionState::Purged | DeletionState::Cancelled => Self::Stuck,
            DeletionState::Planning
            | DeletionState::AwaitingApproval
            | DeletionState::Running
            | DeletionState::Paused => Self::StillRunning,
        };
        let by_failure = failures.iter().filter_map(|class| match class {
            ErrorClass::Auth => Some(Self::Auth),
            ErrorClass::Unavailable => Some(Self::Unreachable),
            ErrorClass::Guard => Some(Self::Refused),
            // Something was sent before the drift: code 7 would say that nothing was.
            ErrorClass::Drift
            | ErrorClass::Blocked
            | ErrorClass::Fatal
            | ErrorClass::OutcomeUnknown => None,
        });
        Self::first_of(by_failure.chain([by_state]))
    }

    fn of_refusal(rule: RefusalRule) -> Self {
        match rule {
            RefusalRule::Drift => Self::Drifted,
            RefusalRule::Unreadable => Self::Unreachable,
            RefusalRule::NotShown => Self::Auth,
            RefusalRule::InUse
            | RefusalRule::OtherProject
            | RefusalRule::Protected
            | RefusalRule::Copies
            | RefusalRule::Cycle => Self::Refused,
        }
    }
}
