//! The state machine of steps and deletions.
//!
//! [`step`] and [`deletion`] are pure functions of one row: (state, trigger, facts) → (state, effects). This
//! is the only place that says which state follows which; stores, a check of a ledger and a replay use it too.
//! A trigger that must not happen in a state is an error ([`Impossible`]). Nothing is written then: a person
//! who asked for it is told why, and any other change is refused.
//!
//! Every change is decided on a [`WorkingSet`](super::working_set::WorkingSet): it loads the rows, the functions
//! of this folder change them in memory, and a store saves them ([`WorkingSet::apply`] has the table of changes).
//! What a store does by itself ([`super::store`]) decides nothing:
//!
//! | a store | because |
//! |---|---|
//! | notes the notices to importers, when a phase changes or an importer refers to a new kind | a copy of a set |
//! | makes the steps of a kind wait for a new importer | a copy of a set |
//! | makes the new engine the one whose observations count | a copy to a set |
//! | removes old rows, with what belongs to them | they are only removed |
//! | keeps plans, requests, refusals and notification cursors | they are only copied |
//! | continues the chain of the audit, and seals it | the chain is a store's own |
//!
//! [`WorkingSet::apply`]: super::working_set::WorkingSet::apply

pub mod deletion;
pub mod step;

mod abandon;
mod accept;
mod apply;
mod cancel;
mod claims;
mod clearances;
mod drift;
mod left_to;
mod moves;
mod notices;
mod outcomes;
mod prune;
mod registry;
mod retry;
mod returns;
mod rungs;
mod sites;
mod start;
mod stuck;
mod tombstone;
mod wake;

use chrono::{DateTime, Utc};

use super::store::Stop;
use crate::domain::model::{ErrorClass, StepError, StepState};

pub use claims::Rotation;
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
