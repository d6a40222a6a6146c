//! The state machine of steps and deletions.
//!
//! [`step`] and [`deletion`] are pure functions of one row: (state, trigger, facts) → (state, effects). This
//! is the only place that says which state follows which; stores, a check of a ledger and a replay use it too.
//! A trigger that must not happen in a state is an error ([`Impossible`]). Nothing is written then: a person
//! who asked for it is told why, and any other change is refused.
//!
//! A change that touches many rows is decided on a [`WorkingSet`](super::working_set::WorkingSet): it loads
//! the rows, the functions of this folder change them in memory, and a store saves them. Not all changes are
//! decided here yet:
//!
//! | change | decided |
//! |---|---|
//! | outcomes, with what follows for dependents, stopped deletions, left steps and people | here |
//! | retries of stuck and blocked steps, by whatever they are caused | here |
//! | steps that are abandoned | here |
//! | cancelling, pausing, waking due steps, recovery, resources that exist again | here |
//! | released and revived tombstones, paused sites | here |
//! | moves of a deletion, its note and its event | here |
//! | claims: which steps, and how many | in the store, and it stays there |
//! | accepting, planning again, refusing, starting | in the store ([`super::sqlite`]) |
//! | clearances, notices, the registry, pruning | in the store |

pub mod deletion;
pub mod step;

mod abandon;
mod cancel;
mod left_to;
mod moves;
mod outcomes;
mod retry;
mod returns;
mod sites;
mod stuck;
mod tombstone;
mod wake;

use chrono::{DateTime, Utc};

use super::store::Stop;
use crate::domain::model::{ErrorClass, StepError, StepState};

pub use left_to::waiting_error;

/// Why a trigger is impossible in this state, in words for the person who asked for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Impossible(pub String);

/// Refuses a change, for this reason.
pub fn refuse<T, E>(why: impl Into<String>) -> Result<T, Stop<E>> {
    Err(Stop::Refused(why.into()))
}

/// Whether a step in this state has ended: nothing acts on it any more, and nothing waits for it.
pub fn has_ended(state: StepState) -> bool {
    matches!(
        state,
        StepState::Gone | StepState::Skipped | StepState::Purged
    )
}

/// An error that no cloud sent.
pub fn own_error(
    class: ErrorClass,
    error_type: &str,
    message: String,
    at: DateTime<Utc>,
) -> StepError {
    StepError {
        class,
        status: None,
        kind: error_type.to_owned(),
        message,
        request_id: String::new(),
        at,
    }
}
