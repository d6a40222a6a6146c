//! Words for the engines that share a ledger, and for the work of their reconcilers.

use chrono::{DateTime, Utc};

use super::words::{duration, thousands};
use crate::domain::activity::{Reconciler, ReconcilerStatus};
use crate::domain::engines::{EngineRole, EngineRow};

/// Returns the purpose of a reconciler, in words.
pub fn reconciler_words(name: Reconciler) -> &'static str {
    match name {
        Reconciler::Planning => "plans accepted deletions",
        Reconciler::Retry => "makes blocked steps ready when their next attempt is due",
        Reconciler::Dispatch => "sends the calls of ready steps",
        Reconciler::Verify => "confirms that deleted resources are gone",
        Reconciler::Sweep => {
            "checks whether deleted resources have been re-created, and deletes them again"
        }
        Reconciler::Prune => "removes ledger records whose retention has ended",
        Reconciler::SignIn => "signs in to sites that are new, paused or unreachable",
        Reconciler::Publish => "publishes the summary that consoles show",
        Reconciler::WatchOwners => "receives the notices of owner deployments",
        Reconciler::HandleNotices => {
            "handles the resources here that refer to resources which owner deployments are deleting"
        }
        Reconciler::AskImporters => "asks importers for their clearances",
        Reconciler::HintOwners => "hints to owners that they should ask this importer again",
    }
}

/// Returns the current activity of a reconciler: `waiting`, `running`, `port web-12, port web-13 and 7 more`.
pub fn activity_words(status: &ReconcilerStatus) -> String {
    if status.running == 0 {
        return "waiting".to_owned();
    }
    let named = status.subjects.join(", ");
    let more = status.running.saturating_sub(status.subjects.len() as u64);
    match (named.is_empty(), more) {
        (true, _) => "running".to_owned(),
        (false, 0) => named,
        (false, more) => format!("{named} and {} more", thousands(more)),
    }
}

/// Returns how long a run took: `40 ms`, `1.2 s`, or from a minute on as [`duration`].
pub fn run_time(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{:.1} s", milliseconds as f64 / 1_000.0),
        _ => duration(milliseconds / 1_000),
    }
}

/// Returns the work of an engine in this role, in words.
pub fn role_words(role: EngineRole) -> &'static str {
    match role {
        EngineRole::Leads => {
            "plans, observes, retries, sweeps, prunes and notifies, and sends calls"
        }
        EngineRole::Works => "sends calls; it leads when the engines before it have ended",
        EngineRole::Drained => "finishes the calls that it has in flight, and claims no more steps",
        EngineRole::Idle => {
            "serves the command that started it, and sends no calls that change a cloud"
        }
        EngineRole::Lost => {
            "its lease has ended; another engine takes over the steps that it had in flight"
        }
    }
}

/// Returns the state of an engine's lease in words: `renewed 3s ago`, `renewed 3s ago, 12 behind` (changes to
/// tombstones), `ended`, or `alone` for an engine without a lease.
pub fn lease_words(engine: &EngineRow, now: DateTime<Utc>) -> String {
    let Some(at) = engine.renewed_at else {
        return "alone".to_owned();
    };
    if engine.role == EngineRole::Lost {
        return "ended".to_owned();
    }
    let ago = duration((now - at).num_seconds().max(0).unsigned_abs());
    match engine.behind {
        0 => format!("renewed {ago} ago"),
        n => format!("renewed {ago} ago, {n} behind"),
    }
}
