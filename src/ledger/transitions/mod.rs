//! The state machine of steps and deletions.
//!
//! [`step`] and [`deletion`] are pure functions of one row: (state, trigger, facts) → (state, effects). Only these
//! modules say which state follows which; stores, a check of a ledger and a replay use them too.
//! A trigger that must not happen in a state is an error ([`Impossible`]). Nothing is written then, and the
//! change is refused with the reason.
//!
//! Every change is decided on a [`WorkingSet`](super::working_set::WorkingSet): it loads the rows, the functions
//! of this folder change them in memory, and a store saves them ([`WorkingSet::apply`] has the table of changes).
//! A store ([`super::store`]) does these things by itself, because they decide nothing:
//!
//! | a store | why |
//! |---|---|
//! | writes the notices to importers, when a phase changes or an importer refers to a new kind | this copies rows |
//! | makes the steps of a kind wait for a new importer | this copies rows |
//! | makes a new engine the one whose observations count | this writes one value to some rows |
//! | removes old rows, with the rows that belong to them | the rows are only removed |
//! | keeps rows such as plans, requests, refusals and notification cursors | the rows are only copied |
//! | continues the chain of the audit, and seals it in a file | each store has its own chain |
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

/// Why a trigger is impossible in this state, as a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Impossible(pub String);

/// Refuses a change, for this reason.
pub fn refuse<T, E>(why: impl Into<String>) -> Result<T, Stop<E>> {
    Err(Stop::Refused(why.into()))
}

/// Whether a step in this state has ended: the engine does nothing for the step, and no other step waits for it.
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
