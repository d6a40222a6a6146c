//! Rows about other deployments: importers and their clearances, owners and their notices.

use chrono::{DateTime, Utc};

use super::{Fallible, Stored};
use crate::domain::model::{KindName, ResourceKey};
use crate::domain::peers::{Answered, DeletionNotice, Deployment, PendingClearance};
use crate::ledger::WatchCursor;

/// What is known of another deployment's deletion of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNotice {
    pub deletion: String,
    pub owner: String,
    pub is_gone: bool,
}

/// The rows about other deployments.
pub trait PeerRows: Fallible {
    fn load_importers(&self) -> Stored<Self, Vec<Deployment>>;

    fn insert_importer(&self, importer: &Deployment, now: DateTime<Utc>) -> Stored<Self>;

    /// Removes an importer and its pending clearances, and returns the steps that waited for these; none if it
    /// is not on record.
    fn remove_importer(&self, name: &str) -> Stored<Self, Option<Vec<i64>>>;

    /// Adds a kind to which an importer refers. It is notified of all resources of the kind that are being
    /// deleted or gone, and the live steps that delete one wait for its clearance.
    fn add_importer_kind(&self, kind: &KindName, importer: &str) -> Stored<Self>;

    fn remove_importer_kind(&self, kind: &KindName, importer: &str) -> Stored<Self>;

    /// Saves an importer's answer about a step that waits for it; a clearance ends the wait. Returns whether
    /// that changes anything.
    fn save_answer(&self, importer: &str, step: i64, answer: &Answered) -> Stored<Self, bool>;

    /// Loads the clearances that a step waits for, by importer.
    fn load_pending(&self, step: i64) -> Stored<Self, Vec<PendingClearance>>;

    fn load_watches(&self) -> Stored<Self, Vec<WatchCursor>>;

    /// Saves how far a watch has read, by its service and region.
    fn save_watch(&self, watch: &WatchCursor) -> Stored<Self>;

    fn load_notice(&self, key: &ResourceKey) -> Stored<Self, Option<StoredNotice>>;

    /// Saves a notice, unless another owner has one of this resource. A notice of another deletion is not
    /// handled yet.
    fn save_notice(
        &self,
        owner: &str,
        notice: &DeletionNotice,
        gone_at: Option<DateTime<Utc>>,
    ) -> Stored<Self>;

    fn remove_notice(&self, owner: &str, key: &ResourceKey) -> Stored<Self>;

    /// Removes all notices of this owner.
    fn remove_notices_of(&self, owner: &str) -> Stored<Self>;

    /// Saves which deletion handles the resources that refer to these; none: there are no such resources.
    fn save_handled(&self, keys: &[ResourceKey], by: Option<i64>) -> Stored<Self>;
}
