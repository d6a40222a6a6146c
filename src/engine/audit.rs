//! The audit entry of a command.

use crate::control::Envelope;
use crate::ledger::AuditEntry;

/// Returns the entry that says who asked for `action` on `target`, and for what reason.
pub(super) fn audit(envelope: &Envelope, action: &str, target: &str) -> AuditEntry {
    AuditEntry {
        actor: envelope.actor.clone(),
        action: action.to_owned(),
        target: target.to_owned(),
        reason: envelope.reason.clone(),
        detail: serde_json::Value::Null,
    }
}
