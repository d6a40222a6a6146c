//! The report of a deletion: a line for each resource, in the shape of an HTTP 207 (N10).

use serde::Serialize;
use utoipa::ToSchema;

use super::model::{
    Action, Deletion, DeletionState, KindName, Left, Plan, PlanStep, ResourceKey, Site, Step,
    StepState,
};

const NO_CONTENT: u16 = 204;
const ACCEPTED: u16 = 202;
const CONFLICT: u16 = 409;
const FAILED_DEPENDENCY: u16 = 424;

/// The outcome for one resource so far; the report can be read while the deletion runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Line {
    pub message: String,
    pub resource: Reported,
    pub action: Action,
    /// 204: gone, or done by the cloud itself in a deletion that is gone; 202: under way, or left to the cloud itself
    /// in a deletion that is not gone; the cloud's own status (or 409): blocked, stuck or abandoned; 409: refused; 424:
    /// cancelled before it was sent, or left out of the deletion.
    pub status: u16,
    /// Id of the resource's project; empty if it is not known.
    #[serde(skip)]
    pub project_id: String,
}

/// The resource of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reported {
    pub name: String,
    pub id: String,
    pub kind: KindName,
    pub site: Site,
}

impl Line {
    /// Returns the line for the resource of a step.
    pub fn of(step: &Step) -> Self {
        let refused = || {
            let error = step.last_error.as_ref();
            error.and_then(|error| error.status).unwrap_or(CONFLICT)
        };
        let status = match step.state {
            StepState::Gone => NO_CONTENT,
            StepState::Waiting | StepState::Ready | StepState::Running | StepState::Verifying => {
                ACCEPTED
            }
            StepState::Blocked | StepState::Stuck | StepState::Purged => refused(),
            StepState::Skipped => FAILED_DEPENDENCY,
        };
        let mut message = format!("{}: {}", step.action.as_str(), step.state.as_str());
        if let (true, Some(error)) = (step.state != StepState::Gone, &step.last_error) {
            message.push_str(": ");
            message.push_str(&error.message);
        }
        Self {
            message,
            resource: Reported::of(&step.resource.key, &step.resource.name),
            action: step.action,
            status,
            project_id: step.project_id.clone(),
        }
    }

    fn left(left: &Left) -> Self {
        Self {
            message: format!("stays: {}", left.reason),
            resource: Reported::of(&left.resource.key, &left.resource.name),
            action: Action::Delete,
            status: FAILED_DEPENDENCY,
            project_id: left.project_id.clone(),
        }
    }

    /// Returns the lines for resources without a step: those that are refused, and those that the cloud removes or
    /// unsets by itself, or that the plan leaves out.
    pub fn without_a_step(deletion: &Deletion, frozen: Option<&Plan>) -> Vec<Self> {
        let status = match deletion.state {
            DeletionState::Gone => NO_CONTENT,
            _ => ACCEPTED,
        };
        let implied = |step: &PlanStep, message: &str| Self {
            message: message.to_owned(),
            resource: Reported::of(&step.key(), &step.name),
            action: step.action,
            status,
            project_id: step.project_id.to_string(),
        };
        let refused = deletion.refused.iter().map(|refusal| Self {
            message: refusal.reason.clone(),
            resource: Reported::of(&refusal.resource.key, &refusal.resource.name),
            action: Action::Delete,
            status: CONFLICT,
            project_id: String::new(),
        });
        let mut lines: Vec<Self> = refused.collect();
        // A plan that was refused removes nothing.
        if let Some(plan) = frozen.filter(|_| lines.is_empty()) {
            let by_itself = |step| implied(step, "removed by the cloud itself");
            let unset = |step| implied(step, "stays, and loses its reference");
            lines.extend(plan.automatic.iter().map(by_itself));
            lines.extend(plan.unset.iter().map(unset));
            lines.extend(plan.left.iter().map(Self::left));
        }
        lines
    }
}

impl Reported {
    fn of(key: &ResourceKey, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            id: key.id.clone(),
            kind: key.kind.clone(),
            site: key.site.clone(),
        }
    }
}
