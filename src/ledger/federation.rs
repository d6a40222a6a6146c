//! Reads about other deployments: importers and their clearances, owners and their notices.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::LedgerError;
use crate::domain::model::{
    Action, Blocker, Deletion, KindName, ResourceKey, Site, StepError, StepState, Target,
};
use crate::domain::peers::{ClearanceRequest, DeletionNotices, Deployment, PendingClearance};

/// Reads for the exchange with other deployments.
#[async_trait]
pub trait Federation: Send + Sync {
    /// Lists the importers on record. Deletions wait for their clearances (G12).
    async fn importers(&self) -> Result<Vec<Importer>, LedgerError>;

    /// Lists how far each watch has read the notices of its owner deployment.
    async fn watches(&self) -> Result<Vec<WatchCursor>, LedgerError>;

    /// Returns this ledger's id, and the sequence number of its newest notice to importers; 0 if there was none.
    async fn importers_cursor(&self) -> Result<(String, i64), LedgerError>;

    /// Lists the notices of this deployment, `from`, about these kinds after a sequence number (G4). `since`: the id
    /// of a ledger, and the number. Starts from the beginning if `since` names another ledger, or a number that this
    /// ledger has not reached.
    async fn notices(
        &self,
        from: Deployment,
        since: (String, i64),
        kinds: BTreeSet<KindName>,
        limit: usize,
    ) -> Result<DeletionNotices, LedgerError>;

    /// Lists the steps after the step `after` that wait for this importer's clearance, at most `limit`, and returns the
    /// sequence number of the newest notice to importers about any of them; 0 if there is none. `home`: the site of
    /// this deployment.
    async fn steps_awaiting_clearance(
        &self,
        home: Site,
        importer: &str,
        after: i64,
        limit: usize,
    ) -> Result<(Vec<(i64, ClearanceRequest)>, i64), LedgerError>;

    /// Lists the importers whose clearance a step waits for.
    async fn pending_clearances(&self, step: i64) -> Result<Vec<PendingClearance>, LedgerError>;

    /// Lists resources that one other deployment is deleting under one root, and that this deployment has not handled;
    /// none if all are handled.
    async fn unhandled_deletions(
        &self,
        limit: usize,
    ) -> Result<Option<UnhandledDeletion>, LedgerError>;

    /// Returns the deletion of this deployment that handles the referrers of this resource, which another deployment
    /// deletes; none if no deletion does.
    async fn handled_by_deletion(&self, key: ResourceKey) -> Result<Option<Deletion>, LedgerError>;

    /// Lists the names of the deployments that, by their notices, are deleting a resource or checking it for a
    /// deletion.
    async fn deleting_owners(&self) -> Result<BTreeSet<String>, LedgerError>;

    /// Returns the live step of each of these resources, in their order; none for a resource without one. Steps that
    /// are left to another deletion do not count. A step that unsets a reference is returned only if there is no other.
    async fn live_steps(
        &self,
        home: Site,
        keys: Vec<ResourceKey>,
    ) -> Result<Vec<Option<LiveStep>>, LedgerError>;

    /// Lists the resources whose live steps, in the same deletion, this step waits for.
    async fn live_dependencies(&self, step: i64) -> Result<Vec<Target>, LedgerError>;
}

/// An importer on record (G12): a deployment whose kinds refer to kinds of this deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Importer {
    pub deployment: Deployment,
    /// The kinds of this deployment to which the importer's kinds refer.
    pub kinds: BTreeSet<KindName>,
    pub since: DateTime<Utc>,
    /// Number of live steps that wait for the importer's clearance.
    pub pending_clearances: u64,
}

/// How far this deployment has read the notices of an owner deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchCursor {
    pub owner: Deployment,
    /// The id of the owner's ledger.
    pub ledger: String,
    /// The sequence number up to which the notices have been read.
    pub seq: i64,
}

/// Resources that another deployment is deleting under one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhandledDeletion {
    pub owner: String,
    pub root: String,
    pub keys: Vec<ResourceKey>,
}

/// The live step of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveStep {
    pub step: i64,
    pub state: StepState,
    pub action: Action,
    pub blockers: Vec<Blocker>,
    pub error: Option<StepError>,
    /// The deletion, in any deployment, that is the root cause of the step's deletion (G13).
    pub root: String,
}
