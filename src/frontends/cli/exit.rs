//! Exit codes, which scripts rely on.

use serde::{Serialize, Serializer};

use crate::domain::model::{Deletion, DeletionState, ErrorClass, RefusalRule};

/// The way in which a verb ends, with its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Done: all resources are gone, the request was accepted, or the result was written.
    Done = 0,
    Internal = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// Authentication or authorisation failed.
    Auth = 3,
    /// Some resources are stuck, abandoned, or blocked for longer than the wait, or the deletion was cancelled.
    Stuck = 4,
    /// A cloud or the engine cannot be reached.
    Unreachable = 5,
    /// Refused because of a guard, a blocker, or the present state.
    Refused = 6,
    /// The cloud differs from the approved plan; nothing was sent.
    Drifted = 7,
    /// The deletion has not ended: the time of `--wait` ran out, or a person paused the deletion or its sites.
    StillRunning = 8,
    Interrupted = 130,
}

/// The order of precedence: if several codes apply, the first of these counts.
const PRECEDENCE: [u8; 10] = [130, 2, 1, 3, 5, 7, 6, 4, 8, 0];

impl Exit {
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the code that counts if several apply.
    pub fn first_of(exits: impl IntoIterator<Item = Self>) -> Self {
        let rank = |exit: &Self| PRECEDENCE.iter().position(|code| *code == exit.code());
        exits.into_iter().min_by_key(rank).unwrap_or(Self::Done)
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
            // A call may have been sent before the drift: code 7 would say that nothing was.
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

impl Serialize for Exit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.code())
    }
}
