//! Steps with the columns of their plan, as front ends, reconcilers and some changes read them.

use std::collections::BTreeMap;

use super::StoredStep;
use crate::ledger::{ClaimedStep, Fence};

/// A step, with the columns that come from its plan.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRow {
    pub now: StoredStep,
    pub plan: StepPlan,
}

/// The columns of a step that are written with its plan and never change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPlan {
    /// The step's position in the plan, from 0.
    pub position: u32,
    /// Length of the longest path from the step to the end of the deletion, counted in plain deletes.
    pub rank: u32,
    pub max_attempts: u32,
    /// The id of the step's branch in the deletion's tree ([`crate::domain::outline`]).
    pub branch: i64,
    /// Empty if the resource has no project.
    pub project_id: String,
    pub vars: BTreeMap<String, String>,
    pub why: String,
    pub fingerprint: String,
}

impl StepPlan {
    /// Returns the step as an engine claims it.
    pub fn claimed(self, step: &StoredStep, deletion_id: &str, cancelled: bool) -> ClaimedStep {
        ClaimedStep {
            id: step.id,
            deletion_id: deletion_id.to_owned(),
            key: step.key.clone(),
            name: step.name.clone(),
            project_id: self.project_id,
            action: step.action,
            vars: self.vars,
            fence: Fence {
                state: step.state,
                claim: step.claim,
                epoch: step.epoch,
            },
            attempts: step.attempts,
            max_attempts: self.max_attempts,
            blocked_since: step.blocked_since,
            blockers: step.blockers.clone(),
            last_error: step.error.clone(),
            observations: step.observations,
            own_attempt_at: step.own_attempt_at,
            since: step.since,
            cancelled,
        }
    }
}
