//! The states of a deletion.
//!
//! ```text
//!            plan refused               retried by a person
//!  planning ──────────────▶ refused ────────────────────────▶ planning
//!     │ plan started
//!     ▼
//!  the first that applies: cancelled, paused, running, stuck, purged, gone ([`DERIVED`])
//! ```
//! Until its plan starts, triggers set the state of a deletion. From then on its state follows from two flags
//! and the number of its steps in each state, and from nothing else.

use super::Impossible;
use crate::domain::model::{Counts, DeletionState, StepState};

/// The facts on which the state of a deletion depends, once its plan has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub cancelled: bool,
    pub paused: bool,
    pub counts: Counts,
}

/// A condition of [`DERIVED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Cancelled,
    Paused,
    /// Any step is in one of these states.
    Any(&'static [StepState]),
    Always,
}

/// The states of steps that the engine still moves by itself.
pub const LIVE: [StepState; 5] = [
    StepState::Waiting,
    StepState::Ready,
    StepState::Running,
    StepState::Verifying,
    StepState::Blocked,
];

/// The state of a deletion whose plan has started: the first whose condition holds.
pub const DERIVED: [(DeletionState, Condition); 6] = [
    (DeletionState::Cancelled, Condition::Cancelled),
    (DeletionState::Paused, Condition::Paused),
    (DeletionState::Running, Condition::Any(&LIVE)),
    (DeletionState::Stuck, Condition::Any(&[StepState::Stuck])),
    (DeletionState::Purged, Condition::Any(&[StepState::Purged])),
    (DeletionState::Gone, Condition::Always),
];

/// Derives the state from [`DERIVED`].
pub fn derived(facts: &Facts) -> DeletionState {
    let holds = |condition: &Condition| match condition {
        Condition::Cancelled => facts.cancelled,
        Condition::Paused => facts.paused,
        Condition::Any(states) => states.iter().any(|state| facts.counts.of(*state) > 0),
        Condition::Always => true,
    };
    let first = DERIVED.iter().find(|(_, condition)| holds(condition));
    first.map_or(DeletionState::Gone, |(state, _)| *state)
}

/// Whether the plan has not started, so that the state cannot be derived from steps.
pub fn is_before_start(state: DeletionState) -> bool {
    matches!(
        state,
        DeletionState::Planning | DeletionState::AwaitingApproval | DeletionState::Refused
    )
}

/// Whether a deletion in this state, with this number of live steps, has finished. A cancelled deletion finishes
/// when its last call is observed.
pub fn has_finished(state: DeletionState, live: u64) -> bool {
    state.is_terminal() && live == 0
}

/// A cause for which a deletion may move to another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The deletion's plan is written as steps.
    PlanStarted,
    PlanRefused,
    /// Steps have moved.
    StepsMoved,
    /// Stuck or blocked steps of the deletion are retried: by a person, by a repeated DELETE (T6), or because the cause
    /// of an error has ended. Or a person has a refused deletion planned again.
    Retried {
        by_person: bool,
    },
    Cancelled,
    Paused,
    Resumed,
    /// A person abandons stuck or blocked steps (P3).
    StepsAbandoned,
}

/// The next state of a deletion, and its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub state: DeletionState,
    pub cancelled: bool,
    pub paused: bool,
}

/// Returns the state that follows this trigger. `facts` has the counts after the trigger, and the flags before it.
///
/// # Errors
/// The trigger must not happen in this state.
pub fn after(state: DeletionState, trigger: Trigger, facts: &Facts) -> Result<Next, Impossible> {
    check(state, trigger, facts)?;
    let mut facts = *facts;
    match trigger {
        // A cancellation ends a pause, so that the calls in flight are observed.
        Trigger::Cancelled => (facts.cancelled, facts.paused) = (true, false),
        Trigger::Paused => facts.paused = true,
        Trigger::Resumed => facts.paused = false,
        Trigger::PlanStarted
        | Trigger::PlanRefused
        | Trigger::StepsMoved
        | Trigger::Retried { .. }
        | Trigger::StepsAbandoned => {}
    }
    let has_started = !is_before_start(state) || trigger == Trigger::PlanStarted;
    if has_started {
        // A pause ends with the last live step.
        facts.paused &= facts.counts.live() > 0;
    }
    Ok(Next {
        state: match trigger {
            Trigger::PlanRefused => DeletionState::Refused,
            Trigger::Retried { .. } if state == DeletionState::Refused => DeletionState::Planning,
            _ if has_started || facts.cancelled => derived(&facts),
            _ => state,
        },
        cancelled: facts.cancelled,
        paused: facts.paused,
    })
}

fn check(state: DeletionState, trigger: Trigger, facts: &Facts) -> Result<(), Impossible> {
    use DeletionState::{AwaitingApproval, Paused, Planning, Refused, Running, Stuck};
    let is = state.as_str();
    let why = match (trigger, state) {
        (Trigger::PlanStarted | Trigger::PlanRefused, Planning | AwaitingApproval)
        | (Trigger::StepsMoved, _)
        | (Trigger::Retried { .. }, Running | Stuck)
        | (Trigger::Retried { by_person: true }, Refused | Paused)
        | (Trigger::Cancelled, Stuck) => return Ok(()),
        (Trigger::PlanStarted | Trigger::PlanRefused, _) => {
            format!("the deletion is {is}, not planning")
        }
        (Trigger::Retried { .. }, _) => format!("the deletion is {is}: nothing can be retried now"),
        (Trigger::Cancelled, _) if state.is_terminal() => format!("the deletion is {is} already"),
        (Trigger::Paused | Trigger::Resumed, _) if state.is_terminal() => {
            format!("the deletion is {is}: it has nothing to pause or resume")
        }
        (Trigger::Paused, _) if facts.paused => "the deletion is paused already".to_owned(),
        (Trigger::Resumed, _) if !facts.paused => "the deletion is not paused".to_owned(),
        (Trigger::StepsAbandoned, Planning | Refused) => {
            format!("the deletion is {is}: it has no steps to abandon")
        }
        (Trigger::Cancelled | Trigger::Paused | Trigger::Resumed | Trigger::StepsAbandoned, _) => {
            return Ok(());
        }
    };
    Err(Impossible(why))
}
