//! Words for the engines that share a ledger.

use chrono::{DateTime, Utc};

use super::words::duration;
use crate::domain::engines::{EngineRole, EngineRow};

/// Returns what an engine does for its ledger, in words.
pub fn role_words(role: EngineRole) -> &'static str {
    match role {
        EngineRole::Leads => {
            "plans, observes, retries, sweeps, prunes and notifies, and sends calls"
        }
        EngineRole::Works => "sends calls; it leads when the engines before it have ended",
        EngineRole::Drained => "ends what it has in flight, and claims nothing more",
        EngineRole::Idle => "only answers the questions of a verb",
        EngineRole::Lost => "its lease has ended; others take over what it had in flight",
    }
}

/// Returns the state of an engine's lease in words: `renewed 3s ago`, `renewed 3s ago, 12 behind`, `ended`, or
/// `alone` for an engine without a lease.
pub fn lease_words(engine: &EngineRow, now: DateTime<Utc>) -> String {
    match engine.renewed_at {
        None => "alone".to_owned(),
        Some(at) => {
            let seconds = (now - at).num_seconds().max(0).unsigned_abs();
            let behind = match engine.behind {
                0 => String::new(),
                n => format!(", {n} behind"),
            };
            match engine.role {
                EngineRole::Lost => "ended".to_owned(),
                _ => format!("renewed {} ago{behind}", duration(seconds)),
            }
        }
    }
}
