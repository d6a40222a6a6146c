//! The removal of old rows. Only the store knows which of its rows belong together, so it removes them itself.

use chrono::{DateTime, Utc};

use super::{Fallible, Stored};
use crate::domain::model::{KindName, StepState};

/// The removal of rows from before a time.
pub trait PruneRows: Fallible {
    /// Removes the rows that belong to tombstones which were released or removed, the snapshots of resources that are
    /// neither being checked nor being deleted, the notices of resources that were gone in other deployments before
    /// this time, and rows of tables that only this store has.
    fn prune_leftovers(&self, before: DateTime<Utc>) -> Stored<Self>;

    /// Removes events from before this time, the oldest first: at most `limit`. Returns their number.
    fn prune_events(&self, before: DateTime<Utc>, limit: usize) -> Stored<Self, u64>;

    /// Finds a deletion that ended before this time and has no stuck or abandoned step. The newest deletion stays, and
    /// so does the deletion with the newest step, so that numbers are never reused.
    fn find_prunable(&self, before: DateTime<Utc>) -> Stored<Self, Option<i64>>;

    /// Removes a deletion's steps that are in this state, at most `limit`. Also removes the steps' tombstones that were
    /// released, or whose resources were gone before this time, if their kinds are among `unique_id_kinds`. Returns the
    /// number of removed steps.
    fn prune_steps(
        &self,
        deletion: i64,
        state: StepState,
        before: DateTime<Utc>,
        unique_id_kinds: &[KindName],
        limit: usize,
    ) -> Stored<Self, u64>;

    /// Removes a deletion that has no steps (any more). Also removes the released tombstones of the deletion's targets
    /// and of their copies, if their kinds are among `unique_id_kinds`.
    fn prune_deletion(&self, deletion: i64, unique_id_kinds: &[KindName]) -> Stored<Self>;
}
