//! The steps that an engine sends or observes, and the deleted resources whose re-creation it watches for.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::LedgerError;
use crate::domain::model::{
    Action, Blocker, KindName, ResourceKey, Site, StepError, StepState, Tombstone,
};
use crate::domain::policy::PendingObservations;

/// The work of the engine's reconcilers, and the originals for which a gate must refuse new copies.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Claims ready steps for this engine: they become `running`, with a claim number that fences their
    /// outcome. The claim is durable before this returns, so an effect never precedes its intent (I11).
    /// Claims at most as many steps as each site has capacity for: fairly between deletions, then the longest
    /// remaining path first.
    async fn claim(
        &self,
        capacities: Vec<Capacity>,
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedStep>, LedgerError>;

    /// Lists the groups of `verifying` steps (by deletion, site, kind and rank) for which an observation is
    /// due.
    async fn observations_due(
        &self,
        now: DateTime<Utc>,
    ) -> Result<Vec<ObservationsDue>, LedgerError>;

    /// Lists the due steps of these groups, the longest due of each group first: at most `limit`.
    async fn steps_to_observe(
        &self,
        of: Vec<ObservationsDue>,
        now: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<ClaimedStep>, LedgerError>;

    /// Returns when the first blocked step falls due, and when the first observation after `now` does. Observations
    /// that are due already may be delayed because their site is paused; they must not hide the later ones.
    async fn next_due(&self, now: DateTime<Utc>) -> Result<Due, LedgerError>;

    /// Lists tombstones in hold-down whose resource was deleted, for the sweep (T14), in the order of `gone_at`:
    /// those after `since`, or at that time with a later `record_id`.
    async fn held_down(
        &self,
        since: DateTime<Utc>,
        after_record: i64,
        limit: usize,
    ) -> Result<Vec<Tombstone>, LedgerError>;

    /// Lists the originals that are being deleted, or became gone at `since` or later, with the sites where copies of
    /// them may be re-created. Pages by `record_id`. Leaves out originals that a paused deletion is deleting.
    async fn originals(
        &self,
        since: DateTime<Utc>,
        after_record: i64,
        limit: usize,
    ) -> Result<Vec<Original>, LedgerError>;

    /// Returns the tombstone of the resource with which the cloud removes, or removed, this part; the part has no
    /// tombstone of its own (T20). Known only if that resource has copies at other sites.
    async fn whole_of(&self, part: ResourceKey) -> Result<Option<Tombstone>, LedgerError>;

    /// Lists the originals of this site, kind and name whose copies are known by their name alone. A target
    /// that is still being checked is listed without its [`OriginalName`].
    async fn namesakes(
        &self,
        site: Site,
        kind: KindName,
        name: String,
    ) -> Result<Vec<(Tombstone, Option<OriginalName>)>, LedgerError>;
}

/// How many steps may be claimed for a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub site: Site,
    /// Number of steps whose calls start at once.
    pub now: usize,
    /// Number of steps whose calls wait until other calls have ended. None of these are claimed while a deletion that
    /// stops at a failure has ready steps at the site, since every claimed step is sent (N11).
    pub ahead: usize,
}

/// A step that an engine works on.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedStep {
    pub id: i64,
    pub deletion_id: String,
    pub key: ResourceKey,
    pub name: String,
    /// Empty if the resource has no project.
    pub project_id: String,
    pub action: Action,
    pub vars: BTreeMap<String, String>,
    pub fence: Fence,
    pub attempts: u32,
    pub max_attempts: u32,
    pub blocked_since: Option<DateTime<Utc>>,
    pub blockers: Vec<Blocker>,
    pub last_error: Option<StepError>,
    pub observations: u32,
    /// When the engine's own schedule would have made the next attempt, if a repeated DELETE woke the step
    /// (I14).
    pub own_attempt_at: Option<DateTime<Utc>>,
    /// When the step entered its state; if the outcome of its call made it `verifying`, when an engine claimed it for
    /// that call.
    pub since: DateTime<Utc>,
    /// Whether the deletion was cancelled meanwhile. Then the engine observes the step, and sends nothing more.
    pub cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub state: StepState,
    pub claim: i64,
    pub epoch: i64,
}

/// A group of steps (by deletion, site, kind and rank) for which an observation is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservationsDue {
    /// The deletion's number in this ledger.
    pub deletion: i64,
    pub site: Site,
    pub kind: KindName,
    pub gathered: PendingObservations,
}

/// When steps fall due, as [`WorkQueue::next_due`] finds it; none if no such step waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    pub attempt: Option<DateTime<Utc>>,
    pub observation: Option<DateTime<Utc>>,
}

/// The tombstone of a resource that may have copies at other sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    pub tombstone: Tombstone,
    /// The sites where copies may be re-created.
    pub locals: Vec<Site>,
    /// Set if copies are known only by the original's name and project.
    pub name: Option<OriginalName>,
    /// The resources that the cloud removes with the original at its own site. They have no tombstone of their own.
    pub parts: Vec<ResourceKey>,
}

/// The name and project of an original when its deletion was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalName {
    pub name: String,
    pub project_id: String,
}
