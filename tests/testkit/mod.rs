//! Values of the model for tests. Fields without an argument are empty or have a default, so that a test writes only
//! the fields that matter to it: `Step { attempts: 2, ..testkit::step(1, "d1", &key, StepState::Stuck) }`.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use gone::domain::ladder::{Offer, Rung};
use gone::domain::model::{
    Action, Actor, Counts, Deletion, DeletionState, ErrorClass, KindName, Origin, Plan,
    PlanOptions, PlanStep, ResourceKey, Site, Step, StepError, StepResource, StepState, Target,
};
use gone::ledger::{AuditEntry, NewDeletion};

pub fn key(site: Site, kind: &str, id: &str) -> ResourceKey {
    ResourceKey {
        site,
        kind: KindName::new(kind),
        id: id.to_owned(),
    }
}

pub fn actor(name: &str, origin: Origin) -> Actor {
    Actor {
        name: name.to_owned(),
        origin,
    }
}

pub fn error(class: ErrorClass, kind: &str, message: &str, at: DateTime<Utc>) -> StepError {
    StepError {
        class,
        status: None,
        kind: kind.to_owned(),
        message: message.to_owned(),
        request_id: String::new(),
        at,
    }
}

/// The step of a plan that deletes a resource.
pub fn plan_step(id: u32, key: ResourceKey, depends_on: &[u32]) -> PlanStep {
    PlanStep {
        id,
        site: key.site,
        kind: key.kind,
        resource_id: key.id,
        name: String::new(),
        project_id: "demo".into(),
        action: Action::Delete,
        depends_on: depends_on.to_vec(),
        automatic: false,
        why: "port on network web".into(),
        fingerprint: String::new(),
        compared: Default::default(),
        vars: Arc::default(),
    }
}

pub fn plan(targets: Vec<Target>, steps: Vec<PlanStep>) -> Plan {
    Plan {
        hash: String::new(),
        targets,
        options: PlanOptions::default(),
        endpoints: Default::default(),
        identities: Default::default(),
        steps,
        automatic: Vec::new(),
        unset: Vec::new(),
        kept: Vec::new(),
        left: Vec::new(),
        mapping: Vec::new(),
        refused: Vec::new(),
        warnings: Vec::new(),
        calls_estimate: 0,
    }
}

/// The step of a deletion that deletes a resource, before its first attempt.
pub fn step(id: i64, deletion_id: &str, key: ResourceKey, state: StepState) -> Step {
    Step {
        id,
        deletion_id: deletion_id.to_owned(),
        resource: StepResource {
            key,
            name: String::new(),
        },
        action: Action::Delete,
        state,
        depends_on: Vec::new(),
        attempts: 0,
        max_attempts: 8,
        next_attempt_at: None,
        blocked_since: None,
        blockers: Vec::new(),
        last_error: None,
        held_by: None,
        recreated: 0,
        project_id: String::new(),
        why: String::new(),
    }
}

pub fn deletion(id: &str, by: Actor, state: DeletionState, at: DateTime<Utc>) -> Deletion {
    Deletion {
        id: id.to_owned(),
        targets: Vec::new(),
        state,
        requested_by: by,
        requested_at: at,
        reason: String::new(),
        cause: None,
        options: PlanOptions::default(),
        plan_hash: None,
        counts: Counts::default(),
        rate_per_second: 0.0,
        eta_seconds: None,
        next_attempt_at: None,
        finished_at: None,
        refused: Vec::new(),
        note: String::new(),
        deadline: None,
    }
}

/// A request for a deletion, in the form that the ledger accepts.
pub fn new_deletion(
    id: String,
    by: Actor,
    targets: Vec<Target>,
    now: DateTime<Utc>,
) -> NewDeletion {
    NewDeletion {
        audit: AuditEntry {
            actor: by.clone(),
            action: "delete".to_owned(),
            target: id.clone(),
            reason: String::new(),
            detail: serde_json::Value::Null,
        },
        id,
        targets,
        copies: Vec::new(),
        shown: Vec::new(),
        options: PlanOptions::default(),
        plan_hash: None,
        actor: by,
        reason: String::new(),
        cause: None,
        request: None,
        deadline: None,
        now,
    }
}

pub fn offer(rung: Rung, why_not: Option<&str>, does: &[&str], leaves: &str) -> Offer {
    Offer {
        rung,
        why_not: why_not.map(str::to_owned),
        does: does.iter().map(|it| (*it).to_owned()).collect(),
        leaves: leaves.to_owned(),
    }
}
