//! The state machine of steps and deletions, as pure functions: (state, trigger, facts) → (state, effects).
//!
//! This is the only place that says which state follows which. Stores load the facts, write the new state,
//! and carry out the effects, for one row or for a set of rows in the same state; a check of a ledger and a
//! replay use the same functions.
//!
//! A trigger that must not happen in a state is an error ([`Impossible`]). Nothing is written then: a person
//! who asked for it is told why, and any other change is refused.

pub mod deletion;
pub mod step;

use crate::domain::model::StepState;

/// Why a trigger is impossible in this state, in words for the person who asked for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Impossible(pub String);

/// Whether a step in this state has ended: nothing acts on it any more, and nothing waits for it.
pub fn has_ended(state: StepState) -> bool {
    matches!(
        state,
        StepState::Gone | StepState::Skipped | StepState::Purged
    )
}
