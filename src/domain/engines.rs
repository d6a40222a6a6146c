//! The engines that share a ledger, as people see them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// What an engine does for its ledger.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EngineRole {
    /// Plans, observes, retries, sweeps, prunes and notifies, takes over the steps of lost engines, exchanges messages
    /// with other deployments, and sends calls.
    Leads,
    /// Sends calls.
    Works,
    /// Finishes the calls that it has in flight, and claims no more steps.
    Drained,
    /// Only answers questions and makes plans: a verb started the engine, and has not asked for work yet (P10).
    Idle,
    /// The engine's lease has ended. Another engine takes over the steps that this one had in flight.
    Lost,
}

impl EngineRole {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One engine of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngineRow {
    pub name: String,
    pub role: EngineRole,
    /// The engine's fencing token, greater than that of each engine that began before.
    pub epoch: i64,
    pub host: String,
    pub pid: u32,
    pub version: String,
    pub started_at: DateTime<Utc>,
    /// When the engine last renewed its lease; null if it uses the ledger alone, without a lease.
    pub renewed_at: Option<DateTime<Utc>>,
    /// Number of steps that the engine has claimed and whose calls have not been answered.
    pub running: u64,
    /// Whether gates answer from this engine's memory.
    pub has_gates: bool,
    /// Number of changes to tombstones that are not in this engine's memory yet.
    pub behind: u64,
}
