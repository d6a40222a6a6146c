//! Builds the audit entries of commands and of the engine itself, and the deletions that commands or the engine
//! request.

use serde_json::Value;

use crate::control::Envelope;
use crate::domain::model::{Actor, Origin, PlanOptions, ResourceKey, Target};
use crate::ledger::{AuditEntry, NewDeletion};
use crate::system::clock::Clock;

/// Returns the entry that says who asked for `action` on `target`, and for what reason.
pub(super) fn audit(envelope: &Envelope, action: &str, target: &str) -> AuditEntry {
    AuditEntry {
        actor: envelope.actor.clone(),
        action: action.to_owned(),
        target: target.to_owned(),
        reason: envelope.reason.clone(),
        detail: Value::Null,
    }
}

/// Returns the entry of an action that the engine takes by itself.
pub(super) fn engine_audit(
    action: &str,
    target: &ResourceKey,
    reason: String,
    detail: Value,
) -> AuditEntry {
    AuditEntry {
        actor: Actor::new("gone", Origin::Engine),
        action: action.to_owned(),
        target: target.to_string(),
        reason,
        detail,
    }
}

/// Writes the keys of targets, separated by blanks, as the target of an audit entry.
pub(super) fn keys_of<'t>(targets: impl IntoIterator<Item = &'t Target>) -> String {
    let keys = targets.into_iter().map(|target| target.key.to_string());
    keys.collect::<Vec<_>>().join(" ")
}

/// Returns a new deletion in the name and for the reason of its audit entry, without copies, rows of a gate, an
/// approved plan, a cause, an idempotency key or a deadline.
pub(super) fn new_deletion(
    clock: &Clock,
    targets: Vec<Target>,
    options: PlanOptions,
    audit: AuditEntry,
) -> NewDeletion {
    NewDeletion {
        id: clock.new_id(),
        targets,
        copies: Vec::new(),
        shown: Vec::new(),
        options,
        plan_hash: None,
        actor: audit.actor.clone(),
        reason: audit.reason.clone(),
        cause: None,
        request: None,
        deadline: None,
        audit,
        now: clock.now(),
    }
}
