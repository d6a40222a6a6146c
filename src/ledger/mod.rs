//! The ledger: the only truth. Intent is durable before effect, outcome after.
//!
//! The port is batch-shaped: callers hand over [`Change`]s. The store applies them in one transaction, each
//! whole or not at all, and answers each separately. A change whose fence no longer matches fails alone as
//! [`Applied::Stale`]. When `commit` returns `Ok`, every change that was applied is durable.
//!
//! **Architecture invariant:** readiness, counts, deletion states, tombstone phases, events and the
//! audit are maintained inside the transaction that changes a step; nobody derives them afterwards.
//!
//! [`transitions`] alone knows which state follows which, and [`events`] alone what an event says; a store
//! only loads and saves.

pub mod audit;
pub mod events;
pub mod sqlite;
pub mod tombstones;
pub mod transitions;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::domain::attention::{Cause, CauseGroup};
use crate::domain::filter::SearchQuery;
use crate::domain::gantt::{Gantt, Upcoming};
use crate::domain::kinds::Kind;
use crate::domain::ladder::Rung;
use crate::domain::model::{
    Action, Actor, Answer, Blocker, Counts, Deletion, DeletionState, DriftPolicy, Event, Identity,
    KindName, OnFailure, Paged, Phase, Plan, PlanOptions, Refusal, ResourceKey, Site, SitePause,
    Step, StepError, StepState, Target, Tombstone, short_id,
};
use crate::domain::native::{self, Native, NativeReference};
use crate::domain::news::{Mark, NotificationCursor};
use crate::domain::outline::Outline;
use crate::domain::peers::{Answered, ClearanceRequest, Deployment, News, PendingClearance};
use crate::domain::policy::{Decision, Gathered};

/// The store of deletions, steps, tombstones, events and the audit.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Applies the changes in order, in one durable transaction, and returns the answers in the same order.
    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError>;

    /// Claims ready steps for this engine: they become `running`, with a claim number that fences their
    /// outcome. The claim is durable before this returns, so an effect never precedes its intent (I11).
    /// Claims at most as many steps as each site has capacity for: fairly between deletions, then the longest
    /// remaining path first.
    async fn claim(
        &self,
        capacities: Vec<Capacity>,
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedStep>, LedgerError>;

    /// Lists the groups of `verifying` steps (by deletion, site, kind and rank) of which an observation is
    /// due.
    async fn observations_due(
        &self,
        now: DateTime<Utc>,
    ) -> Result<Vec<ObservationsDue>, LedgerError>;

    /// Lists the due steps of these groups, the longest due of each group first: at most `limit`.
    async fn verifying(
        &self,
        of: Vec<ObservationsDue>,
        now: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<ClaimedStep>, LedgerError>;

    /// Returns when the next blocked step falls due, and the first observation after `now`. Observations that
    /// are due already may be delayed because their site is paused; they must not hide the later ones.
    async fn next_due(&self, now: DateTime<Utc>) -> Result<Due, LedgerError>;

    /// Lists tombstones in hold-down whose resource was deleted, for the sweep (T14), in the order in which
    /// the resources went: those that went after `since`, or at that time with a later `record_id`.
    async fn held_down(
        &self,
        since: DateTime<Utc>,
        after_record: i64,
        limit: usize,
    ) -> Result<Vec<Tombstone>, LedgerError>;

    /// Lists the originals that are being deleted, or gone since `since`, with the sites where copies of them
    /// may come back. Pages by `record_id`. Leaves out originals whose deletion is paused.
    async fn originals(
        &self,
        since: DateTime<Utc>,
        after_record: i64,
        limit: usize,
    ) -> Result<Vec<Original>, LedgerError>;

    /// Returns the tombstone of the resource that takes, or took, this part along without a tombstone of its
    /// own (T20). Known only if that resource has copies at other sites.
    async fn whole_of(&self, part: ResourceKey) -> Result<Option<Tombstone>, LedgerError>;

    /// Lists the originals of this site, kind and name whose copies are known by their name alone. A target
    /// that is still being checked is listed without its [`OriginalName`].
    async fn namesakes(
        &self,
        site: Site,
        kind: KindName,
        name: String,
    ) -> Result<Vec<(Tombstone, Option<OriginalName>)>, LedgerError>;

    async fn deletions(
        &self,
        filter: DeletionFilter,
        page: Cursor,
    ) -> Result<Paged<Deletion>, LedgerError>;
    /// Finds a deletion by its full id, or by a unique suffix of at least 8 characters.
    async fn deletion(&self, id: &str) -> Result<Option<Deletion>, LedgerError>;
    /// Returns the frozen plan of a deletion, also after the 24 h for which saved plans are kept: with
    /// identities and endpoints by site, and with each step's `depends_on` sorted. Without its steps it is
    /// small, whatever their number.
    async fn frozen(
        &self,
        deletion_id: &str,
        with_steps: bool,
    ) -> Result<Option<Arc<Plan>>, LedgerError>;
    /// Returns the identities under which the plan of a deletion saw each site (I13); empty if there is no
    /// plan.
    async fn identities(
        &self,
        deletion_id: &str,
    ) -> Result<std::collections::BTreeMap<String, Identity>, LedgerError>;
    /// Counts a deletion's steps by site, in the order of the sites.
    async fn progress(&self, deletion_id: &str) -> Result<Vec<(Site, Counts)>, LedgerError>;
    /// Lists steps by deletion, then by id. `depends_on` is cut at 500 entries; [`Ledger::step`] returns all.
    /// With a text filter, a page examines only a stretch of the steps: a short page may be followed by
    /// another one.
    async fn steps(&self, filter: StepFilter, page: Cursor) -> Result<Paged<Step>, LedgerError>;
    /// Counts the matching steps of one stretch, and returns where the next stretch begins.
    async fn count_steps(
        &self,
        filter: StepFilter,
        after: Option<String>,
    ) -> Result<(u64, Option<String>), LedgerError>;
    /// Returns the branches of a deletion's tree below these steps; `None` stands for the steps that go last.
    async fn outline(
        &self,
        deletion_id: &str,
        below: Vec<Option<i64>>,
    ) -> Result<Outline, LedgerError>;
    /// Lists the steps of a branch from this index on, in the order of [`crate::domain::outline`], at most
    /// `limit`, without their `depends_on`. `counts` are those that [`Ledger::outline`] returned, because
    /// counting a long branch again takes longer than reading a part of it. If steps have moved since,
    /// neighbours are returned.
    async fn branch_steps(
        &self,
        deletion_id: &str,
        branch: i64,
        counts: Counts,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Step>, LedgerError>;
    async fn step(&self, id: i64) -> Result<Option<Step>, LedgerError>;
    /// Groups the steps that need a person by their common cause, the largest group first. Only steps at
    /// these sites; no sites means all.
    async fn causes(&self, sites: Vec<Site>) -> Result<Vec<CauseGroup>, LedgerError>;
    async fn tombstones(
        &self,
        filter: TombstoneFilter,
        page: Cursor,
    ) -> Result<Paged<Tombstone>, LedgerError>;
    /// Lists the tombstones of these keys, in the same order, without the released ones.
    async fn tombstones_of(&self, keys: Vec<ResourceKey>) -> Result<Vec<Tombstone>, LedgerError>;
    /// Returns a resource as its cloud showed it when its deletion was accepted; none if that is not kept.
    async fn shown_before(
        &self,
        key: ResourceKey,
    ) -> Result<Option<serde_json::Value>, LedgerError>;
    /// Lists the events after `after`, in order, at most `limit`; `oldest` is the first sequence still kept.
    async fn events(
        &self,
        after: i64,
        filter: EventFilter,
        limit: usize,
    ) -> Result<EventPage, LedgerError>;
    async fn audit(&self, after: i64, limit: usize) -> Result<Vec<AuditRow>, LedgerError>;
    /// Returns a plan that was saved in the last 24 h.
    async fn plan(&self, hash: &str, now: DateTime<Utc>) -> Result<Option<Arc<Plan>>, LedgerError>;
    /// Returns the request that this actor made under this key within the last 24 h.
    async fn kept_request(
        &self,
        actor: &Actor,
        key: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<KeptRequest>, LedgerError>;
    /// Lists the orphans (abandoned, and still there as far as the ledger knows): by deletion, then by step.
    async fn orphans(&self, page: Cursor) -> Result<Paged<AbandonedStep>, LedgerError>;
    /// Lists the sites that a person paused.
    async fn site_pauses(&self) -> Result<Vec<SitePause>, LedgerError>;
    /// Counts when the steps of a deletion ran, in this many columns of equal time; none if there is no such
    /// deletion. A deletion that has not ended is shown up to `now`.
    async fn gantt(
        &self,
        deletion_id: &str,
        columns: u32,
        now: DateTime<Utc>,
    ) -> Result<Option<Gantt>, LedgerError>;
    /// Counts the blocked steps by when their next attempt is due.
    async fn upcoming(&self, now: DateTime<Utc>) -> Result<Upcoming, LedgerError>;
    /// Returns everything that the first screen shows, from maintained counters: its cost does not grow with
    /// the ledger.
    async fn summary(&self) -> Result<Summary, LedgerError>;
    /// Returns how far a channel has been notified (I7).
    async fn notification_cursor(&self, channel: &str) -> Result<NotificationCursor, LedgerError>;
    /// Lists resources of the registry.
    async fn native(
        &self,
        filter: NativeFilter,
        page: Cursor,
    ) -> Result<Paged<Native>, LedgerError>;
    /// Finds the registry resources that refer to each of these from one of these fields of a kind: names the
    /// first `named_max`, and counts all.
    async fn pointed_at(
        &self,
        to: Vec<ResourceKey>,
        fields: Arc<[(KindName, String)]>,
        named_max: usize,
    ) -> Result<Vec<PointedAt>, LedgerError>;
    /// Lists the importers on record, whose clearance deletions wait for (G12).
    async fn importers(&self) -> Result<Vec<Importer>, LedgerError>;
    /// Lists how far each watch has read the notices of its owner deployment.
    async fn watches(&self) -> Result<Vec<WatchCursor>, LedgerError>;
    /// Returns this ledger's id, and the newest sequence of its notices to importers.
    async fn importers_cursor(&self) -> Result<(String, i64), LedgerError>;
    /// Lists the notices about these kinds after a sequence of a ledger (G4). Starts from the beginning if
    /// `since` names another ledger, or a sequence that this one has not reached.
    async fn news(
        &self,
        from: Deployment,
        since: (String, i64),
        kinds: BTreeSet<KindName>,
        limit: usize,
    ) -> Result<News, LedgerError>;
    /// Lists the steps after `after` that wait for this importer's clearance, and the newest sequence under
    /// which importers were notified of any of them.
    async fn awaited(
        &self,
        home: Site,
        importer: &str,
        after: i64,
        limit: usize,
    ) -> Result<(Vec<(i64, ClearanceRequest)>, i64), LedgerError>;
    /// Lists the importers whose clearance a step waits for.
    async fn pending_clearances(&self, step: i64) -> Result<Vec<PendingClearance>, LedgerError>;
    /// Lists resources that are being deleted elsewhere under one root and that this engine has not handled;
    /// none if all are.
    async fn unhandled_deletions(
        &self,
        limit: usize,
    ) -> Result<Option<UnhandledDeletion>, LedgerError>;
    /// Returns the deletion that handles the resources here that refer to this one, which is being deleted
    /// elsewhere.
    async fn handled_by_deletion(&self, key: ResourceKey) -> Result<Option<Deletion>, LedgerError>;
    /// Lists the deployments that are deleting a resource, as far as this one was notified.
    async fn owners_going(&self) -> Result<BTreeSet<String>, LedgerError>;
    /// Returns the live step of each of these resources, if it is being deleted or loses a reference.
    async fn live_steps(
        &self,
        home: Site,
        keys: Vec<ResourceKey>,
    ) -> Result<Vec<Option<LiveStep>>, LedgerError>;
    /// Lists the resources whose live steps, in the same deletion, this step waits for.
    async fn waited_for(&self, step: i64) -> Result<Vec<Target>, LedgerError>;
}

/// An importer on record (G12): a deployment whose kinds refer to ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Importer {
    pub deployment: Deployment,
    /// Our kinds to which its kinds refer.
    pub kinds: BTreeSet<KindName>,
    pub since: DateTime<Utc>,
    /// Number of steps that wait for its clearance.
    pub awaited: u64,
}

/// How far we have read the notices of a deployment from which we import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchCursor {
    pub owner: Deployment,
    pub ledger: String,
    pub seq: i64,
}

/// The registry resources that refer to one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointedAt {
    pub named: Vec<Referrer>,
    pub count: u64,
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
    /// The deletion with which all this began, in any deployment.
    pub root: String,
}

/// Selects registry resources of one kind at one site, which is the deployment itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeFilter {
    pub site: Site,
    pub kind: KindName,
    pub by: NativeBy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NativeBy {
    All,
    Ids(Vec<String>),
    /// A field has one of these values.
    Field {
        field: String,
        values: Vec<String>,
    },
    /// A field refers to one of these.
    PointsAt {
        field: String,
        to: Vec<ResourceKey>,
    },
}

impl NativeBy {
    /// Selects the resources with one of these values in a field. If the field is a reference, the values are
    /// the resources to which it refers.
    pub fn of(kind: &Kind, field: &str, values: Vec<String>, home: &Site) -> Self {
        let field = field.to_owned();
        match native::refers_to(kind, &field) {
            Some(to) => Self::PointsAt {
                to: values
                    .iter()
                    .map(|value| native::key_of(value, to, home))
                    .collect(),
                field,
            },
            None => Self::Field { field, values },
        }
    }
}

/// A registry resource, and one resource to which it refers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    pub key: ResourceKey,
    pub name: String,
    pub to: ResourceKey,
    pub field: String,
}

impl Referrer {
    /// Returns it as a blocker of the resource to which it refers; no plan includes it.
    pub fn blocker(&self) -> Blocker {
        Blocker::of(&self.key, &self.name)
    }
}

/// A group of steps (by deletion, site, kind and rank) of which an observation is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservationsDue {
    /// The deletion's number in this ledger.
    pub deletion: i64,
    pub site: Site,
    pub kind: KindName,
    pub gathered: Gathered,
}

/// Why a person must decide about a resource that exists again (T14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckAgain {
    /// It was removed and came back more often than allowed.
    TooOften,
    /// It has the name and project of the original. That is not proof of a copy: nothing removes it.
    NameAlone,
}

/// The tombstone of a resource that has copies at other sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    pub tombstone: Tombstone,
    pub locals: Vec<Site>,
    /// Set if copies are known only by the original's name and project.
    pub name: Option<OriginalName>,
    /// The resources that go with it at its own site without a tombstone of their own.
    pub parts: Vec<ResourceKey>,
}

/// The name and project of an original when its deletion was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalName {
    pub name: String,
    pub project_id: String,
}

/// When steps next fall due; none if no step waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    pub attempt: Option<DateTime<Utc>>,
    pub look: Option<DateTime<Utc>>,
}

/// One change to make durable.
#[derive(Clone, Debug)]
pub enum Change {
    /// Saves a plan for 24 h, under its hash.
    SavePlan { plan: Arc<Plan>, now: DateTime<Utc> },
    /// Keeps for 24 h the answer to a request under a client's own key, if it asked for no deletion.
    KeepAnswer {
        request: KeyedRequest,
        answer: serde_json::Value,
        now: DateTime<Utc>,
    },
    /// Accepts a deletion: writes its row as `planning`, and the write guard `checking` over its targets
    /// (T3). If a target is being deleted already, nothing is written, and the answer is that deletion (T6).
    /// If another deletion is deleting a copy, this is refused: the original must not go before its copy.
    Accept(Box<NewDeletion>),
    /// Starts a plan: writes every step, edge and tombstone `deleting` in one transaction (T3). Steps that
    /// another live deletion already has are left to it (I9) and share their fate (P9).
    Start {
        deletion_id: String,
        plan: Arc<Plan>,
        /// Length of the longest remaining path of each step, by position.
        ranks: Vec<u32>,
        /// Maximum number of attempts of each step, by position; it depends on the kind (I3).
        max_attempts: Vec<u32>,
        now: DateTime<Utc>,
    },
    /// Refuses a plan: the deletion becomes `refused`, its tombstones `released`.
    Refuse {
        deletion_id: String,
        refused: Vec<Refusal>,
        note: String,
        now: DateTime<Utc>,
    },
    /// A cloud did not answer, but the deadline has not passed (N16): the deletion stays `planning`, and its
    /// note says why.
    StillPlanning {
        deletion_id: String,
        note: String,
        now: DateTime<Utc>,
    },
    /// Records the outcome of a step. Stale unless state, claim and epoch still match. In a cancelled
    /// deletion, a step that would be retried (blocked, stuck, ready) is skipped and released (P8).
    Step(Box<StepChange>),
    /// Makes blocked steps ready whose next attempt is due.
    WakeDue { now: DateTime<Utc> },
    /// Puts stuck, blocked and refused work back to work. By a person: stuck steps start with new attempts,
    /// and fatal or refused ones are retried too. By a repeated DELETE (T6): at most once a minute for a
    /// deletion; it resets no counter, and leaves steps that are fatal, drifted or guarded, and paused
    /// deletions, as they are.
    Retry {
        selection: Selection,
        by: RetryBy,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// Applies a person's answer to drift, with its event and audit row, all or nothing (P11). Either a new
    /// deletion takes the newcomers and the stuck steps are retried, or the deletion is cancelled and its
    /// note says what stays.
    AnswerDrift(Box<NewDriftAnswer>),
    /// Changes options of an accepted deletion. Refused once it has ended, and while its approved plan is
    /// being compared with the cloud.
    SetOptions(Box<NewOptions>),
    /// Cancels a deletion: no further delete is sent. Steps whose delete was not sent are `skipped` and their
    /// tombstones `released`; calls that were sent run to their end (P8).
    Cancel {
        deletion_id: String,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    Pause {
        deletion_id: String,
        paused: bool,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// Audits a rung of the purge ladder (P3), and does what it says. The answer is `Moved` for `retry` and
    /// `forget`, `Done` for `runbook`, and for `unpin` `Accepted` with the deletion of the blocking edges.
    Purge(Box<NewPurge>),
    /// Releases the tombstone of a resource that exists after its end. Refused while a deletion works on it.
    Release {
        key: ResourceKey,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// A resource under a natural key was re-created after its end: its record is that of the next
    /// incarnation (M1). Nothing changes for a resource that has no tombstone, or whose deletion has not
    /// ended.
    Revive {
        key: ResourceKey,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// Pauses or resumes a site for a person. The pause outlives the engine, and only a person ends it.
    PauseSite {
        site: Site,
        paused: bool,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// A resource that was gone exists again (T14); its tombstone counts that. With `stuck`, it came back
    /// more often than allowed, or only a person can tell what it is: its last step becomes stuck with that
    /// reason, and its tombstone `deleting` again.
    ///
    /// With `copy`, the resource itself is not back, but a new copy of it at another site. That counts also
    /// while the resource is being deleted.
    Recreated {
        key: ResourceKey,
        copy: Option<ResourceKey>,
        stuck: Option<StuckAgain>,
        now: DateTime<Utc>,
    },
    /// Writes an event that changes nothing else. A site's state is written only if it changed.
    Note { event: NewEvent, now: DateTime<Utc> },
    /// Moves the cursor up to which a channel has been notified (I7). None: it is no longer a channel, and
    /// would begin at the newest event if it comes back.
    MoveNotificationCursor { channel: String, mark: Option<Mark> },
    /// Adds a registry resource. Refused if it exists or is being deleted (M2), or if it refers to a resource
    /// that does not exist or is being deleted (G10).
    Add(Box<NewNative>),
    /// Updates a registry resource. Stale if it does not exist, or was written since it was read.
    Amend {
        new: Box<NewNative>,
        read_at: DateTime<Utc>,
    },
    /// Deletes this incarnation of a registry resource. Stale if it does not exist; refused while a resource
    /// refers to it from one of the fields in `unless`.
    DeleteNative {
        key: ResourceKey,
        incarnation: u32,
        unless: Arc<[(KindName, String)]>,
        now: DateTime<Utc>,
    },
    /// Removes these references of a registry resource, each from its field. Stale if the resource does not
    /// exist.
    Unset {
        key: ResourceKey,
        references: Vec<(String, ResourceKey)>,
        now: DateTime<Utc>,
    },
    /// Removes a batch of old rows: events, and deletions that ended, before that time. The answer is `Moved`
    /// with the number of rows; 0 when none are left. Deletions with stuck or abandoned steps stay, and so do
    /// the audit and the records of natural keys.
    Prune {
        before: DateTime<Utc>,
        /// The kinds whose ids are never used again, so that their records may go (M1).
        never_again: Arc<[KindName]>,
        /// The audit row of a person who asked, with the first batch.
        audit: Option<AuditEntry>,
        now: DateTime<Utc>,
    },
    /// A deployment watches deletions of these kinds: from now on it is on record as an importer (G12).
    Watched {
        importer: Deployment,
        kinds: BTreeSet<KindName>,
        now: DateTime<Utc>,
    },
    /// Records the notices that the watch on the deployment of this service and region received.
    AdvanceWatch {
        service: String,
        region: String,
        news: News,
        now: DateTime<Utc>,
    },
    /// Marks resources that another deployment deletes as handled by this deletion, which has them as targets
    /// and handles the resources here that refer to them. None: nothing here refers to them.
    MarkHandled {
        keys: Vec<ResourceKey>,
        deletion: Option<Box<NewDeletion>>,
    },
    /// An importer's answers about the resources that these steps delete (G7).
    Answered {
        importer: String,
        answers: Vec<(i64, Answered)>,
        now: DateTime<Utc>,
    },
    /// Releases an importer that is gone for good: no step waits for its clearance any more (G12).
    ReleaseImporter {
        name: String,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// At start: calls that were in flight when an earlier engine ended are observed first, not repeated.
    Recover { now: DateTime<Utc> },
}

#[derive(Clone, Debug)]
pub struct NewDeletion {
    pub id: String,
    pub targets: Vec<Target>,
    /// Their copies at other sites, which the write guard covers too.
    pub copies: Vec<ResourceKey>,
    /// The targets as their cloud shows them, for readers once it no longer does (T7).
    pub shown: Vec<(ResourceKey, serde_json::Value)>,
    pub options: PlanOptions,
    /// Hash of the approved plan, with which the engine compares what it finds (P1).
    pub plan_hash: Option<String>,
    pub actor: Actor,
    pub reason: String,
    pub cause: Option<String>,
    /// Unique for an actor; the same key with another body is refused.
    pub idempotency_key: Option<String>,
    /// Until then it is planned again if a cloud does not answer (N16).
    pub deadline: Option<DateTime<Utc>>,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

/// A request under a client's own key (`Idempotency-Key`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRequest {
    pub actor: Actor,
    pub key: String,
    /// Hash of the request.
    pub body: String,
}

/// An earlier request under a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRequest {
    pub body: String,
    /// Id of the deletion that it asked for; empty for any other request.
    pub deletion: String,
    /// The answer to a request that asked for no deletion.
    pub answer: Option<serde_json::Value>,
}

impl KeptRequest {
    /// Says why its key is refused to another request.
    pub fn other_use(&self) -> String {
        let of = match self.deletion.as_str() {
            "" => String::new(),
            id => format!(" (deletion {})", short_id(id)),
        };
        format!("the idempotency key was used for another request{of}; choose a new one")
    }
}

/// A resource that the registry is to keep.
#[derive(Clone, Debug)]
pub struct NewNative {
    pub key: ResourceKey,
    pub fields: serde_json::Map<String, serde_json::Value>,
    /// The references in its fields.
    pub references: Vec<NativeReference>,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

/// A rung of the purge ladder that a person took.
#[derive(Clone, Debug)]
pub struct NewPurge {
    pub what: Selection,
    pub action: PurgeAction,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

#[derive(Clone, Debug)]
pub enum PurgeAction {
    Retry,
    /// This deletion removes the blocking edges, and the step is retried: both, or neither.
    Unpin(Box<NewDeletion>),
    Runbook,
    /// Abandons the steps: they end `purged`, and those that waited for them stay stuck until a person
    /// retries them.
    Forget,
}

impl PurgeAction {
    pub fn rung(&self) -> Rung {
        match self {
            Self::Retry => Rung::Retry,
            Self::Unpin(_) => Rung::Unpin,
            Self::Runbook => Rung::Runbook,
            Self::Forget => Rung::Forget,
        }
    }
}

/// A person's answer to drift.
#[derive(Clone, Debug)]
pub struct NewDriftAnswer {
    pub deletion_id: String,
    /// The stuck steps to which the answer applies.
    pub steps: Vec<i64>,
    pub answer: DriftAnswer,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

#[derive(Clone, Debug)]
pub enum DriftAnswer {
    /// The deletion of the newcomers; none if none of them is left.
    Accept { newcomers: Option<Box<NewDeletion>> },
    /// `note`: which resources stay, and why.
    Refuse { note: String },
}

/// Options that change after a deletion was accepted.
#[derive(Clone, Debug)]
pub struct NewOptions {
    pub deletion_id: String,
    pub drift: Option<DriftPolicy>,
    pub on_failure: Option<OnFailure>,
    /// Stuck steps to retry, because the options change what becomes of them.
    pub retry: Vec<i64>,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

/// An abandoned step, in the form in which an engine can observe it.
#[derive(Clone, Debug, PartialEq)]
pub struct AbandonedStep {
    pub step: ClaimedStep,
    pub since: DateTime<Utc>,
}

/// How many steps may be claimed for a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub site: Site,
    /// Steps whose calls start at once.
    pub now: usize,
    /// Steps whose calls wait until others have ended. None of these are claimed while a deletion that stops
    /// at a failure has its turn there, since every claimed step is sent (N11).
    pub ahead: usize,
}

/// The outcome of one claim, with the fence under which it counts.
#[derive(Clone, Debug)]
pub struct StepChange {
    pub step_id: i64,
    pub fence: Fence,
    pub decision: Decision,
    /// One line of the step's timeline: `DELETE 409 NetworkInUse`. An observation that leaves the state as it
    /// was and has no error writes no line.
    pub message: String,
    /// The answer to the call, for the event's data; none if there was no call, or if the error has it.
    pub answer: Option<Answer>,
    pub now: DateTime<Utc>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub state: StepState,
    pub claim: i64,
    pub epoch: i64,
}

/// A step that an engine works on.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedStep {
    pub id: i64,
    pub deletion_id: String,
    pub key: ResourceKey,
    pub name: String,
    /// Empty if the cloud keeps none.
    pub project_id: String,
    pub action: Action,
    pub vars: std::collections::BTreeMap<String, String>,
    pub fence: Fence,
    pub attempts: u32,
    pub max_attempts: u32,
    pub blocked_since: Option<DateTime<Utc>>,
    pub blockers: Vec<Blocker>,
    pub last_error: Option<StepError>,
    pub looks: u32,
    /// When the engine's own schedule would have made the next attempt, if a repeated DELETE woke the step
    /// (I14).
    pub own_attempt_at: Option<DateTime<Utc>>,
    /// Since when it has been in its state; if it waits for an observation, since its call was sent.
    pub since: DateTime<Utc>,
    /// Whether the deletion was cancelled meanwhile: then observe, and send nothing more.
    pub cancelled: bool,
}

/// Who asked for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryBy {
    /// Retries any stuck step, and starts its attempts again.
    Person,
    /// A DELETE of a resource that is already being deleted (T6).
    Repeat,
}

#[derive(Clone, Debug)]
pub enum Selection {
    Deletion(String),
    Steps(Vec<i64>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    Done,
    /// The deletion that answers the request; `existing` if it was accepted before.
    Accepted {
        deletion_id: String,
        existing: bool,
    },
    /// Number of steps that a retry or a wake-up put to work, of steps abandoned, or of rows removed.
    Moved(u64),
    /// The fence no longer matches; nothing was written.
    Stale,
    /// The change is not possible in this state, for this reason; nothing was written.
    Refused(String),
    /// The idempotency key was used for another request, which the text names; nothing was written.
    KeyReused(String),
}

#[derive(Clone, Debug)]
pub struct AuditEntry {
    pub actor: Actor,
    /// `delete`, `retry`, `cancel`, …
    pub action: String,
    pub target: String,
    pub reason: String,
    pub detail: serde_json::Value,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AuditRow {
    pub seq: i64,
    pub at: DateTime<Utc>,
    pub actor: Actor,
    pub action: String,
    pub target: String,
    pub reason: String,
    pub detail: serde_json::Value,
    /// SHA-256 over the previous row's hash and this row's canonical JSON (P6).
    pub hash: String,
}

#[derive(Clone, Debug)]
pub struct NewEvent {
    pub deletion_id: Option<String>,
    pub step_id: Option<i64>,
    pub kind: crate::domain::model::EventKind,
    pub message: String,
    pub data: serde_json::Value,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cursor {
    /// The previous page's `next`; none for the first page.
    pub after: Option<String>,
    /// At most 500.
    pub limit: usize,
}

#[derive(Clone, Debug, Default)]
pub struct DeletionFilter {
    pub states: Vec<DeletionState>,
    pub site: Option<Site>,
    pub kind: Option<KindName>,
    /// Requested before this time.
    pub older_than: Option<DateTime<Utc>>,
    /// Whether to list in the order of acceptance (I16); otherwise the newest first.
    pub oldest_first: bool,
}

#[derive(Clone, Debug, Default)]
pub struct StepFilter {
    pub deletion_id: Option<String>,
    pub states: Vec<StepState>,
    pub site: Option<Site>,
    pub kind: Option<KindName>,
    /// In this state since before this time.
    pub older_than: Option<DateTime<Utc>>,
    /// Only steps that need a person, with exactly this cause.
    pub cause: Option<Cause>,
    /// Searched for in names, ids, actions, blockers and errors.
    pub text: SearchQuery,
}

#[derive(Clone, Debug, Default)]
pub struct TombstoneFilter {
    pub site: Option<Site>,
    pub kind: Option<KindName>,
    pub phases: Vec<Phase>,
    pub id: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub deletion_id: Option<String>,
    pub step_id: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub struct EventPage {
    pub events: Vec<Event>,
    pub oldest: i64,
    pub newest: i64,
}

/// The first screen's data, bounded: counts, and the rows that need a person.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub deletions_by_state: Vec<(DeletionState, u64)>,
    pub steps: Counts,
    /// Deletions that have not ended, newest first, at most 50.
    pub deletions: Vec<Deletion>,
    /// Stuck steps that no other stuck step holds, oldest first; then the newest 50 refusals, each as a stuck
    /// step with id 0. At most 200 in all.
    pub attention: Vec<Step>,
    /// Steps whose delete was accepted but is delayed, the longest delayed first: at most 50.
    pub settling: Vec<Step>,
    pub last_event: i64,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    #[error(
        "the ledger {path} is held by another engine (pid {pid}); attach to it, or stop it first"
    )]
    Held {
        path: String,
        pid: u32,
        socket: Option<String>,
    },
    #[error(
        "the ledger {path} was written by a newer gone (schema {found}, this one knows {known}); use that version"
    )]
    Newer {
        path: String,
        found: i64,
        known: i64,
    },
    #[error("the ledger {path} is damaged: {detail}; restore a backup, or move it away")]
    Corrupt { path: String, detail: String },
    #[error(
        "the ledger {path} is an empty file: it was cut, or never written; restore a backup, or remove \
         it to begin anew"
    )]
    Empty { path: String },
    #[error(
        "{path} is not a ledger of gone; name the ledger's file with --ledger, or move this one \
         away"
    )]
    Foreign { path: String },
    /// Nothing of the batch was written. The engine takes no new work and retries every 5 s.
    #[error("cannot write the ledger {path}: {detail}")]
    Io { path: String, detail: String },
    #[error("the ledger {path} is open for reading only: another engine writes it")]
    ReadOnly { path: String },
    #[error("the cursor \"{cursor}\" is not one that a page gave; start again without it")]
    Cursor { cursor: String },
    #[error("the ledger's writer has ended")]
    Closed,
}
