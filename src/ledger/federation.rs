//! Reads about deletions in other deployments: importers and their clearances, owners and their notices.

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

    /// Returns this ledger's id, and the newest sequence of its notices to importers.
    async fn importers_cursor(&self) -> Result<(String, i64), LedgerError>;

    /// Lists the notices about these kinds after a sequence of a ledger (G4). Starts from the beginning if
    /// `since` names another ledger, or a sequence that this one has not reached.
    async fn notices(
        &self,
        from: Deployment,
        since: (String, i64),
        kinds: BTreeSet<KindName>,
        limit: usize,
    ) -> Result<DeletionNotices, LedgerError>;

    /// Lists the steps after `after` that wait for this importer's clearance, and returns the newest sequence of
    /// a notice to importers about any of them.
    async fn steps_awaiting_clearance(
        &self,
        home: Site,
        importer: &str,
        after: i64,
        limit: usize,
    ) -> Result<(Vec<(i64, ClearanceRequest)>, i64), LedgerError>;

    /// Lists the importers whose clearance a step waits for.
    async fn pending_clearances(&self, step: i64) -> Result<Vec<PendingClearance>, LedgerError>;

    /// Lists resources that are being deleted elsewhere under one root and that this engine has not handled;
    /// none if all are handled.
    async fn unhandled_deletions(
        &self,
        limit: usize,
    ) -> Result<Option<UnhandledDeletion>, LedgerError>;

    /// Returns the deletion that handles the resources here that refer to this one, which is being deleted
    /// elsewhere.
    async fn handled_by_deletion(&self, key: ResourceKey) -> Result<Option<Deletion>, LedgerError>;

    /// Lists the deployments that, by their notices, are deleting a resource.
    async fn deleting_owners(&self) -> Result<BTreeSet<String>, LedgerError>;

    /// Returns the live step of each of these resources, if it is being deleted or loses a reference.
    async fn live_steps(
        &self,
        home: Site,
        keys: Vec<ResourceKey>,
    ) -> Result<Vec<Option<LiveStep>>, LedgerError>;

    /// Lists the resources whose live steps, in the same deletion, this step waits for.
    async fn live_dependencies(&self, step: i64) -> Result<Vec<Target>, LedgerError>;
}

/// An importer on record (G12): a deployment whose kinds refer to ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Importer {
    pub deployment: Deployment,
    /// Our kinds to which its kinds refer.
    pub kinds: BTreeSet<KindName>,
    pub since: DateTime<Utc>,
    /// Number of steps that wait for its clearance.
    pub pending_clearances: u64,
}

/// How far we have read the notices of a deployment from which we import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchCursor {
    pub owner: Deployment,
    pub ledger: String,
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
    /// The deletion, in any deployment, that is the root cause of this one (G13).
    pub root: String,
}
