//! Decides which steps and refused deletions need a person, and which deletes are slow, for every list that shows them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::kinds::Kind;
use super::model::{
    Action, Deletion, DeletionState, ErrorClass, KindName, RefusalRule, Step, StepError,
    StepResource, StepState,
};

/// The step states in which [`needs_person`] can be true.
pub const STEP_STATES: [StepState; 2] = [StepState::Stuck, StepState::Blocked];

/// Whether only a person can help the step: the step is stuck, or blocked by a resource that its deletion does not
/// remove.
pub fn needs_person(step: &Step) -> bool {
    match step.state {
        StepState::Stuck => true,
        StepState::Blocked => step.blockers.iter().any(|blocker| !blocker.in_plan),
        _ => false,
    }
}

/// The cause that stuck or blocked steps share: their state, their kind, and their last error without its
/// message, which names ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cause {
    /// `stuck` or `blocked`.
    pub state: StepState,
    pub kind: KindName,
    #[serde(default)]
    pub class: Option<ErrorClass>,
    /// HTTP status of the steps' last error; null if the error is not an HTTP answer.
    #[serde(default)]
    pub status: Option<u16>,
    /// Type of the steps' last error, such as `NetworkInUse`.
    #[serde(default, rename = "type")]
    pub error_type: Option<String>,
}

impl Cause {
    /// Returns the cause of a step that needs a person, and none for any other step.
    pub fn of(step: &Step) -> Option<Self> {
        let error = step.last_error.as_ref();
        needs_person(step).then(|| Self {
            state: step.state,
            kind: step.resource.key.kind.clone(),
            class: error.map(|error| error.class),
            status: error.and_then(|error| error.status),
            error_type: error.map(|error| error.kind.clone()),
        })
    }
}

/// All steps of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CauseGroup {
    #[serde(flatten)]
    pub cause: Cause,
    pub steps: u64,
    /// When the first of these steps entered the state of the cause.
    pub since: DateTime<Utc>,
    /// The last error message of one of these steps, verbatim.
    pub message: String,
}

/// Whether a cloud has worked on an accepted delete for so long that a person should know (the kind's
/// `minutes_warn`).
pub fn is_slow_delete(step: &Step, kind: &Kind, now: DateTime<Utc>) -> bool {
    let (Some(settles), Some(since)) = (&kind.spec.settles, step.blocked_since) else {
        return false;
    };
    let works = |error: &StepError| settles.pending.contains(&error.kind);
    step.state == StepState::Verifying
        && step.last_error.as_ref().is_some_and(works)
        && (now - since).num_minutes().unsigned_abs() >= settles.minutes_warn
}

/// Returns a refused deletion in the form of a stuck step with the id [`REFUSAL_ID`]. Its error is the first refusal,
/// or the deletion's note if there is none. None if the deletion is not refused, or names no resource.
pub fn refused_step(deletion: &Deletion) -> Option<Step> {
    if deletion.state != DeletionState::Refused {
        return None;
    }
    let refusal = deletion.refused.first();
    let resource = refusal
        .map(|refusal| &refusal.resource)
        .or(deletion.targets.first())?
        .clone();
    let class = match refusal.map(|refusal| refusal.rule) {
        Some(RefusalRule::InUse) => ErrorClass::Blocked,
        Some(RefusalRule::OtherProject | RefusalRule::Protected) => ErrorClass::Guard,
        Some(RefusalRule::Cycle | RefusalRule::Copies) => ErrorClass::Fatal,
        Some(RefusalRule::NotShown) => ErrorClass::Auth,
        Some(RefusalRule::Unreadable) | None => ErrorClass::Unavailable,
        Some(RefusalRule::Drift) => ErrorClass::Drift,
    };
    Some(Step {
        id: REFUSAL_ID,
        deletion_id: deletion.id.clone(),
        resource: StepResource {
            key: resource.key,
            name: resource.name,
        },
        action: Action::Delete,
        state: StepState::Stuck,
        depends_on: Vec::new(),
        attempts: 0,
        max_attempts: 0,
        next_attempt_at: None,
        blocked_since: None,
        blockers: refusal
            .and_then(|refusal| refusal.blocker.clone())
            .into_iter()
            .collect(),
        last_error: Some(StepError::own(
            class,
            "Refused",
            refusal.map_or_else(|| deletion.note.clone(), |first| first.reason.clone()),
            deletion.finished_at.unwrap_or(deletion.requested_at),
        )),
        held_by: None,
        recreated: 0,
        project_id: String::new(),
        why: String::new(),
    })
}

/// The step id that stands for a refusal, and that no real step has. A refusal is retried through its
/// deletion.
pub const REFUSAL_ID: i64 = 0;
