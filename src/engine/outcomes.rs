//! Builds the changes that record the outcomes of steps.

use chrono::{DateTime, Utc};

use crate::domain::model::Answer;
use crate::domain::policy::{Decision, StepFacts};
use crate::ledger::{Change, ClaimedStep, StepChange};

/// Returns the facts about a step that are needed to decide after an answer or an observation.
pub(super) fn facts(step: &ClaimedStep) -> StepFacts<'_> {
    StepFacts {
        attempts: step.attempts,
        max_attempts: step.max_attempts,
        blocked_since: step.blocked_since,
        last_error: step.last_error.as_ref(),
        observations: step.observations,
        own_attempt_at: step.own_attempt_at,
        cancelled: step.cancelled,
    }
}

/// Returns the change that records the decision about a step.
pub(super) fn outcome_change(
    step: &ClaimedStep,
    decision: Decision,
    message: String,
    answer: Option<Answer>,
    now: DateTime<Utc>,
) -> Change {
    Change::Step(Box::new(StepChange {
        step_id: step.id,
        fence: step.fence,
        decision,
        message,
        answer,
        now,
    }))
}
