//! The states of a step.
//!
//! ```text
//!                                         due
//!                                ┌─────────────────── blocked ◀──┐
//!          dependencies ended    ▼       claimed                 │ answered
//!  waiting ──────────────────▶ ready ──────────────▶ running ────┼───────────▶ verifying ─▶ gone
//!                                                                └─▶ stuck
//! ```
//! - A step becomes **stuck** in its own right (by an answer, an observation, a re-created resource, an abandoned
//!   dependency, or a stuck or abandoned owner), or because of another stuck step (`held_by`): no step waits without a
//!   reason (N12).
//! - A stuck or blocked step that a person **abandons** ends `purged`.
//! - A deletion that is **cancelled** skips the steps that were never sent; the others are observed (P8).
//! - A step that is **left** to another deletion shares the fate of its *owner*, the step there (P9).

use super::{Impossible, has_ended};
use crate::domain::model::{Phase, StepState};

/// A cause for which a step may move to another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The last of the step's dependencies has ended.
    DependenciesEnded,
    /// An engine claims the step, and sends its call.
    Claimed,
    /// An engine decided the step's state after an answer or an observation.
    Answered(StepState),
    /// The step's next attempt is due.
    Due,
    /// The engine that had the step's call in flight has ended.
    EngineEnded,
    /// A person retries the step, a DELETE is repeated, or the cause of the step's error has ended.
    Retried,
    /// The step prepared the resource of another step. That other step is retried, so the preparing step is sent again.
    DependentRetried,
    /// One of the step's dependencies is stuck (N12).
    DependencyStuck,
    /// Another step of the deletion is stuck, and the deletion stops at a failure (N11).
    DeletionStopped,
    /// The step because of which this step is stuck is no longer stuck.
    StuckCauseReleased,
    /// One of the step's dependencies was abandoned, so the dependency's resource may still exist.
    DependencyAbandoned,
    /// The step's deletion is cancelled (P8).
    DeletionCancelled,
    /// A person abandons the step (P3).
    Abandoned,
    /// The step's resource was re-created, and a person must decide about the resource (T14).
    Recreated,
    /// The owner is confirmed gone.
    OwnerGone,
    /// The owner is stuck.
    OwnerStuck,
    /// The owner is no longer stuck.
    OwnerContinues,
    /// The owner was skipped: its resource stays, and this step's own deletion deletes it.
    OwnerSkipped,
    /// The owner was abandoned: this step's own deletion deletes the resource, once a person retries this step.
    OwnerAbandoned,
}

/// The facts on which a transition depends, besides the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether any of the step's dependencies has not ended.
    pub waits: bool,
    /// Whether the step was ever claimed, so that its call may have been sent.
    pub sent: bool,
    /// Whether the step is stuck because of another stuck step.
    pub stuck_by_another: bool,
    /// Whether the step is left to another deletion.
    pub left: bool,
    /// Whether the step's deletion was cancelled.
    pub cancelled: bool,
    /// Whether the step would wait for clearances of importers, and all of them have been given.
    pub cleared: bool,
}

/// The other changes that a transition causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// The new phase of the step's tombstone: tombstone and step end together (T9). None: the phase stays as it is
    /// (T8).
    pub tombstone: Option<Phase>,
    /// Whether the steps that were stuck because of this step are released.
    pub frees_stuck_steps: bool,
    /// The trigger for the steps that wait for this step.
    pub dependents: Option<Trigger>,
    /// Whether people are notified that the step needs a person (I7).
    pub notifies: bool,
}

/// The next state of a step, with the effects of the transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub state: StepState,
    pub effects: Effects,
}

/// Returns the state that follows this trigger. A trigger that changes nothing leads to the same state.
///
/// # Errors
/// The trigger must not happen in this state.
pub fn after(state: StepState, trigger: Trigger, facts: Facts) -> Result<Next, Impossible> {
    let to = next_state(state, trigger, facts)?;
    Ok(Next {
        state: to,
        effects: effects(state, trigger, to, facts),
    })
}

/// The state of a step that was just planned, or that is released or retried.
pub fn planned(facts: Facts) -> StepState {
    // No call is sent for a step that is left to another deletion, or that has a dependency which has not ended.
    match facts.waits || facts.left {
        true => StepState::Waiting,
        false => StepState::Ready,
    }
}

fn next_state(from: StepState, trigger: Trigger, facts: Facts) -> Result<StepState, Impossible> {
    use StepState::{Blocked, Gone, Purged, Ready, Running, Skipped, Stuck, Verifying, Waiting};
    use Trigger as T;
    let freed = planned(facts);
    Ok(match (trigger, from) {
        (T::Answered(to), _) => return answered(from, to, facts),

        // Nothing more is sent in a cancelled deletion: a step whose call was sent is observed (P8).
        (T::DependenciesEnded, Waiting) if facts.cancelled => Verifying,
        (T::DependenciesEnded, Waiting) => freed,
        // The step becomes ready when it is released or retried.
        (T::DependenciesEnded, Stuck) => Stuck,
        (T::Claimed, Ready) => Running,
        (T::Due, Blocked) => Ready,
        // Nobody knows whether the call took effect, so an observation decides.
        (T::EngineEnded, Running) => Verifying,

        (T::Retried, Stuck | Blocked) => freed,
        (T::DependentRetried, Gone) => Ready,

        (T::DependencyStuck, Waiting) => Stuck,
        (T::DeletionStopped, Waiting | Ready) if !facts.sent => Stuck,
        (T::DependencyStuck | T::DeletionStopped, Stuck) => Stuck,
        (T::StuckCauseReleased, Stuck) if facts.stuck_by_another => freed,

        (T::DeletionCancelled, Waiting | Ready | Stuck) if !facts.sent => Skipped,
        // A step that waits until its resource is enabled again is observed after that, and a step with a call in
        // flight ends with the answer.
        (T::DeletionCancelled, Stuck) if facts.waits => Waiting,
        (T::DeletionCancelled, Ready | Blocked | Stuck | Verifying) => Verifying,
        (T::DeletionCancelled, Waiting | Running) => from,
        (T::DeletionCancelled, Gone | Skipped | Purged) => from,

        (T::Abandoned, Stuck | Blocked) => Purged,
        (T::DependencyAbandoned, Waiting | Stuck) => Stuck,
        (T::Recreated, Gone) => Stuck,

        (T::OwnerGone, Waiting | Stuck) => Gone,
        (T::OwnerStuck | T::OwnerAbandoned, Waiting | Stuck) => Stuck,
        // The step is stuck because of another stuck step of its own deletion.
        (T::OwnerContinues, Stuck) | (T::OwnerSkipped, Waiting | Stuck)
            if facts.stuck_by_another =>
        {
            Stuck
        }
        (T::OwnerContinues, Waiting | Stuck) => Waiting,
        (T::OwnerSkipped, Waiting | Stuck) => freed,

        _ => {
            return Err(Impossible(format!(
                "the trigger {trigger:?} must not happen to a step that is {}",
                from.as_str()
            )));
        }
    })
}

/// The state of a step after an answer or an observation, if an engine decided on the state `to`:
/// 1. A step that has ended stays as it is, and no answer makes a step waiting or running.
/// 2. While a dependency has not ended, a step is not sent, observed or retried.
/// 3. In a cancelled deletion, a step that would be retried is skipped (P8).
/// 4. A step that would be blocked for clearances is ready if all of them have been given meanwhile.
fn answered(from: StepState, to: StepState, facts: Facts) -> Result<StepState, Impossible> {
    use StepState::{Blocked, Gone, Purged, Ready, Running, Skipped, Stuck, Verifying, Waiting};
    if has_ended(from) {
        return Err(Impossible(format!("the step has ended: {}", from.as_str())));
    }
    match to {
        Waiting | Running => Err(Impossible(format!("an outcome cannot be {}", to.as_str()))),
        Ready | Verifying | Blocked if facts.waits => Err(Impossible(format!(
            "the step is {}: a step that it depends on has not ended",
            from.as_str()
        ))),
        Ready | Blocked | Stuck if facts.cancelled => Ok(Skipped),
        Blocked if facts.cleared => Ok(Ready),
        Ready | Verifying | Blocked | Stuck | Gone | Skipped | Purged => Ok(to),
    }
}

fn effects(from: StepState, trigger: Trigger, to: StepState, facts: Facts) -> Effects {
    let sticks = to == StepState::Stuck
        && match trigger {
            Trigger::Answered(_)
            | Trigger::DependencyAbandoned
            | Trigger::Recreated
            | Trigger::OwnerAbandoned => true,
            Trigger::OwnerStuck => from != StepState::Stuck,
            // The step is stuck because of another step.
            _ => false,
        };
    Effects {
        tombstone: match to {
            StepState::Gone => Some(Phase::Gone),
            StepState::Skipped => Some(Phase::Released),
            StepState::Purged => Some(Phase::Purged),
            StepState::Stuck if trigger == Trigger::Recreated => Some(Phase::Deleting),
            _ => None,
        }
        .filter(|_| from != to),
        frees_stuck_steps: from == StepState::Stuck
            && to != StepState::Stuck
            && match trigger {
                // The dependents waited for this step, whichever step made them stuck.
                Trigger::OwnerGone => true,
                // All steps of the deletion move.
                Trigger::DeletionCancelled => false,
                _ => !facts.stuck_by_another,
            },
        dependents: match trigger {
            Trigger::Abandoned => Some(Trigger::DependencyAbandoned),
            // All dependents are cancelled, too.
            Trigger::DeletionCancelled => None,
            _ if has_ended(to) => Some(Trigger::DependenciesEnded),
            _ if sticks => Some(Trigger::DependencyStuck),
            _ => None,
        },
        notifies: sticks,
    }
}
