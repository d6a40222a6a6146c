//! Rows about other deployments: importers and their clearances, owners and their notices.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::{Fallible, Stored, TombstoneRow};
use crate::domain::model::{KindName, ResourceKey};
use crate::domain::peers::{ClearanceAnswer, DeletionNotice, Deployment, PendingClearance};
use crate::ledger::{UnhandledDeletion, WatchCursor};

/// The notice that another deployment is deleting, or has deleted, a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNotice {
    pub deletion: String,
    pub owner: String,
    pub is_gone: bool,
}

/// Reads about other deployments.
pub trait PeerReads: Fallible {
    /// Loads the importers, each with the time at which it was put on record, in the order of their names.
    fn load_importers(&self) -> Stored<Self, Vec<(Deployment, DateTime<Utc>)>>;

    /// Loads the importers of each kind.
    fn load_importer_kinds(&self) -> Stored<Self, Vec<(KindName, String)>>;

    /// Counts the steps that have not ended and wait for the clearance of an importer.
    fn count_pending_clearances(&self, importer: &str) -> Stored<Self, u64>;

    /// Finds the steps with an id above `after` that have not ended and wait for the clearance of an importer, in the
    /// order of their ids: each with the sequence number of the notice to importers about its resource; 0 if there is
    /// no notice.
    fn find_pending_clearances(
        &self,
        importer: &str,
        after: i64,
        limit: usize,
    ) -> Stored<Self, Vec<(i64, i64)>>;

    /// Loads the clearances that a step waits for, by importer.
    fn load_pending(&self, step: i64) -> Stored<Self, Vec<PendingClearance>>;

    fn load_watches(&self) -> Stored<Self, Vec<WatchCursor>>;

    /// The sequence number of the newest notice to importers; 0 if there was none.
    fn newest_notice(&self) -> Stored<Self, i64>;

    /// Loads the notices to importers about these kinds after a sequence number, each with its number, in the order of
    /// the numbers.
    fn load_notices(
        &self,
        after: i64,
        kinds: &BTreeSet<KindName>,
        limit: usize,
    ) -> Stored<Self, Vec<(i64, TombstoneRow)>>;

    /// Finds resources that another deployment is deleting and that are not handled here yet, the oldest notice first:
    /// only those of one root and of one owner. None if all are handled.
    fn find_unhandled(&self, limit: usize) -> Stored<Self, Option<UnhandledDeletion>>;

    /// Finds the deletion of this deployment that handles the referrers of this resource, which another deployment
    /// deletes.
    fn find_handler(&self, key: &ResourceKey) -> Stored<Self, Option<i64>>;

    /// Loads the names of the other deployments that are deleting a resource, or are checking it for a deletion.
    fn load_deleting_owners(&self) -> Stored<Self, BTreeSet<String>>;
}

/// The rows about other deployments.
pub trait PeerRows: Fallible {
    fn insert_importer(&self, importer: &Deployment, now: DateTime<Utc>) -> Stored<Self>;

    /// Removes an importer and its pending clearances, and returns the steps that waited for these; none if no such
    /// importer is on record.
    fn remove_importer(&self, name: &str) -> Stored<Self, Option<Vec<i64>>>;

    /// Adds a kind to which an importer refers. The importer is notified of all resources of the kind that are being
    /// checked or deleted or are gone, and the live steps that delete one wait for its clearance.
    fn add_importer_kind(&self, kind: &KindName, importer: &str) -> Stored<Self>;

    fn remove_importer_kind(&self, kind: &KindName, importer: &str) -> Stored<Self>;

    /// Saves an importer's answer about a step that waits for its clearance. A clearance ends the wait. Returns whether
    /// the answer changed anything.
    fn save_answer(
        &self,
        importer: &str,
        step: i64,
        answer: &ClearanceAnswer,
    ) -> Stored<Self, bool>;

    /// Saves how far a watch has read the notices of an owner, by the owner's service and region.
    fn save_watch(&self, watch: &WatchCursor) -> Stored<Self>;

    fn load_notice(&self, key: &ResourceKey) -> Stored<Self, Option<StoredNotice>>;

    /// Saves a notice, unless there is a notice of another owner about the resource. If the previous notice was about
    /// another deletion, the new notice counts as not handled.
    fn save_notice(
        &self,
        owner: &str,
        notice: &DeletionNotice,
        gone_at: Option<DateTime<Utc>>,
    ) -> Stored<Self>;

    fn remove_notice(&self, owner: &str, key: &ResourceKey) -> Stored<Self>;

    /// Removes all notices of this owner.
    fn remove_notices_of(&self, owner: &str) -> Stored<Self>;

    /// Saves which deletion handles the resources that refer to `keys`; none: no resource here refers to `keys`.
    fn save_handled(&self, keys: &[ResourceKey], by: Option<i64>) -> Stored<Self>;
}
