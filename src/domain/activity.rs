//! The status of each reconciler of the engine: its runs under way, its last run and its next run.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// A part of the engine that works by itself, periodically and when it is woken.
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
pub enum Reconciler {
    /// Plans accepted deletions.
    Planning,
    /// Makes blocked steps ready when their next attempt is due.
    Retry,
    /// Sends the calls of ready steps.
    Dispatch,
    /// Confirms that deleted resources are gone.
    Verify,
    /// Finds deleted resources that exist again, and deletes them again.
    Sweep,
    /// Removes ledger records whose retention has ended.
    Prune,
    /// Signs in to sites that are new, paused or unreachable.
    SignIn,
    /// Publishes the summary that consoles show.
    Publish,
    /// Receives the notices of owner deployments.
    WatchOwners,
    /// Handles this deployment's resources that refer to resources that their owners are deleting.
    HandleNotices,
    /// Asks importers for their clearances.
    AskImporters,
    /// Hints to owners that it is worth asking this importer again.
    HintOwners,
}

impl Reconciler {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The status of one reconciler since the engine started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcilerStatus {
    pub name: Reconciler,
    /// Number of runs under way; several reconcilers run for many resources at the same time.
    pub running: u64,
    /// The subjects of the runs under way, such as resources, deletions, sites or deployments: at most
    /// [`SUBJECTS_MAX`] of them, the oldest first.
    pub subjects: Vec<String>,
    /// When the reconciler began to run or, if no run is under way, began to wait.
    pub since: DateTime<Utc>,
    /// When the reconciler's last run ended; null before the end of the first run.
    pub last_run_at: Option<DateTime<Utc>>,
    /// How long the reconciler's last run took, in milliseconds; null before the end of the first run.
    pub last_run_ms: Option<u64>,
    /// The reconciler's last failure; null if no run failed. The failure stays here when later runs succeed.
    pub last_error: Option<ReconcilerError>,
    /// When the reconciler runs next; null if it waits for something to happen.
    pub next_run_at: Option<DateTime<Utc>>,
}

impl ReconcilerStatus {
    /// Returns when the last run began; none if no run has ended, or if the time cannot be computed.
    pub fn last_run_began(&self) -> Option<DateTime<Utc>> {
        let took = i64::try_from(self.last_run_ms?).ok()?;
        self.last_run_at?
            .checked_sub_signed(TimeDelta::try_milliseconds(took)?)
    }
}

/// Maximum number of subjects in a [`ReconcilerStatus`].
pub const SUBJECTS_MAX: usize = 3;

/// A failure of a reconciler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcilerError {
    pub message: String,
    pub at: DateTime<Utc>,
}
