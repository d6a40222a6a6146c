//! The ledger: the only truth. Intent is durable before effect, outcome after.
//!
//! The port is batch-shaped: callers hand over [`Change`]s, the store applies each, whole or not at
//! all, in one transaction and answers each by itself. A change whose fence no longer matches fails
//! alone as [`Applied::Stale`]. When `commit` returns `Ok`, every change that is not stale is on the
//! disk.
//!
//! **Architecture invariant:** readiness, counts, deletion states, tombstone phases, events and the
//! audit are maintained inside the transaction that changes a step; nobody derives them afterwards.

pub mod audit;
pub mod sqlite;
pub mod tombstones;

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
use crate::domain::policy::Gathered;

/// Where deletions, steps, tombstones, events and the audit are kept.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Applies the changes in order, in one durable transaction, and answers each in its place.
    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError>;

    /// Takes ready steps for this engine: `running`, with a claim number that fences their outcome.
    /// Durable before it returns, so an effect never precedes its intent (I11). At most as many as
    /// each site has room for; fair between deletions, then the longest remaining path first.
    async fn claim(
        &self,
        capacities: Vec<Capacity>,
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedStep>, LedgerError>;

    /// How many steps in `verifying` have a look that is due, for each deletion, site and kind.
    async fn observations_due(
        &self,
        now: DateTime<Utc>,
    ) -> Result<Vec<ObservationsDue>, LedgerError>;

    /// The steps behind these, oldest first: at most `limit`.
    async fn verifying(
        &self,
        of: Vec<ObservationsDue>,
        now: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<ClaimedStep>, LedgerError>;

    /// When the next blocked step falls due, and the first look after `now`: looks that are due
    /// already may be held up (their site is paused), and must not hide those that are not.
    async fn next_due(&self, now: DateTime<Utc>) -> Result<Due, LedgerError>;

    /// Tombstones in hold-down whose resource was deleted, for the sweep (T14), by when it went: those
    /// after this time, and of the same time those with a later `record_id`.
    async fn held_down(
        &self,
        since: DateTime<Utc>,
        after_record: i64,
        limit: usize,
    ) -> Result<Vec<Tombstone>, LedgerError>;

    /// Of what is being deleted, or is gone since `since`, what may have copies elsewhere that name it
    /// by a tag: with the sites where these may come back. In pages by `record_id`. What a paused deletion
    /// deletes is left out.
    async fn originals(
        &self,
        since: DateTime<Utc>,
        after_record: i64,
        limit: usize,
    ) -> Result<Vec<Original>, LedgerError>;

    /// The tombstone of what took, or takes, this along without a tombstone of its own (T20): only of what
    /// has copies at other sites.
    async fn whole_of(&self, part: ResourceKey) -> Result<Option<Tombstone>, LedgerError>;

    /// Of the originals of this site and kind whose copies are known by their name alone, those of this
    /// name that are being deleted, or were. Without what is known of it: it is being checked.
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
    /// By full id, or by a suffix of at least 8 characters that is unique.
    async fn deletion(&self, id: &str) -> Result<Option<Deletion>, LedgerError>;
    /// The plan as it was frozen for a deletion, steps and all, also after the 24 h: identities and
    /// endpoints by site. Each step's `depends_on` is sorted.
    /// Without them it is small, however many there are.
    async fn frozen(
        &self,
        deletion_id: &str,
        with_steps: bool,
    ) -> Result<Option<Arc<Plan>>, LedgerError>;
    /// On whose rights the plan of a deletion saw each site (I13); empty if there is no plan.
    async fn identities(
        &self,
        deletion_id: &str,
    ) -> Result<std::collections::BTreeMap<String, Identity>, LedgerError>;
    /// A deletion's steps by site, in the order of the sites.
    async fn progress(&self, deletion_id: &str) -> Result<Vec<(Site, Counts)>, LedgerError>;
    /// By deletion, then by id. `depends_on` is cut at 500 here, and whole in [`Ledger::step`]. Where
    /// texts are looked for, a page looks at a stretch: it may be short, and have another one behind it.
    async fn steps(&self, filter: StepFilter, page: Cursor) -> Result<Paged<Step>, LedgerError>;
    /// How many steps of a stretch fit, and where the next stretch begins.
    async fn count_steps(
        &self,
        filter: StepFilter,
        after: Option<String>,
    ) -> Result<(u64, Option<String>), LedgerError>;
    /// The branches of a deletion's tree below these steps; none: those that go last.
    async fn outline(
        &self,
        deletion_id: &str,
        below: Vec<Option<i64>>,
    ) -> Result<Outline, LedgerError>;
    /// Of a branch that [`Ledger::outline`] counted so, the steps from this index on in the order of
    /// [`crate::domain::outline`], at most `limit`: counting a long one again takes longer than to read
    /// some of it. Where steps have moved since, neighbours are read. Their `depends_on` is not read.
    async fn branch_steps(
        &self,
        deletion_id: &str,
        branch: i64,
        counts: Counts,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Step>, LedgerError>;
    async fn step(&self, id: i64) -> Result<Option<Step>, LedgerError>;
    /// The steps at these sites (without any: at all) that need a person, by what they have in common; the
    /// largest group first.
    async fn causes(&self, sites: Vec<Site>) -> Result<Vec<CauseGroup>, LedgerError>;
    async fn tombstones(
        &self,
        filter: TombstoneFilter,
        page: Cursor,
    ) -> Result<Paged<Tombstone>, LedgerError>;
    /// The tombstones of these keys, in their order, but the released ones.
    async fn tombstones_of(&self, keys: Vec<ResourceKey>) -> Result<Vec<Tombstone>, LedgerError>;
    /// What is being deleted, as its cloud showed it when that was asked for; none if that is not kept.
    async fn shown_before(
        &self,
        key: ResourceKey,
    ) -> Result<Option<serde_json::Value>, LedgerError>;
    /// Events after `after`, in order, at most `limit`; `oldest` is the first sequence still kept.
    async fn events(
        &self,
        after: i64,
        filter: EventFilter,
        limit: usize,
    ) -> Result<EventPage, LedgerError>;
    async fn audit(&self, after: i64, limit: usize) -> Result<Vec<AuditRow>, LedgerError>;
    /// A plan that was saved in the last 24 h.
    async fn plan(&self, hash: &str, now: DateTime<Utc>) -> Result<Option<Arc<Plan>>, LedgerError>;
    /// What this actor asked under this key within the last 24 h.
    async fn kept_request(
        &self,
        actor: &Actor,
        key: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<KeptRequest>, LedgerError>;
    /// What was given up and is there still, as far as the ledger knows: by deletion, then by step.
    async fn orphans(&self, page: Cursor) -> Result<Paged<Forgotten>, LedgerError>;
    /// The sites that a person paused.
    async fn site_pauses(&self) -> Result<Vec<SitePause>, LedgerError>;
    /// What of a deletion ran when, in so many columns of time; none if there is no such deletion. `now`
    /// is the end of one that has not ended.
    async fn gantt(
        &self,
        deletion_id: &str,
        columns: u32,
        now: DateTime<Utc>,
    ) -> Result<Option<Gantt>, LedgerError>;
    /// When what is blocked is tried again.
    async fn upcoming(&self, now: DateTime<Utc>) -> Result<Upcoming, LedgerError>;
    /// Everything that the first screen shows, from maintained counters: its cost does not grow with
    /// the ledger.
    async fn summary(&self) -> Result<Summary, LedgerError>;
    /// How far a channel has told people of what needs them (I7).
    async fn notification_cursor(&self, channel: &str) -> Result<NotificationCursor, LedgerError>;
    /// What the registry holds of a kind.
    async fn native(
        &self,
        filter: NativeFilter,
        page: Cursor,
    ) -> Result<Paged<Native>, LedgerError>;
    /// What of the registry points at each of these from one of these fields of a kind: the first few,
    /// and how many there are.
    async fn pointed_at(
        &self,
        to: Vec<ResourceKey>,
        fields: Arc<[(KindName, String)]>,
        named_max: usize,
    ) -> Result<Vec<PointedAt>, LedgerError>;
    /// The deployments whose word is waited for (G12).
    async fn importers(&self) -> Result<Vec<Importer>, LedgerError>;
    /// How far each watch has heard.
    async fn watches(&self) -> Result<Vec<Heard>, LedgerError>;
    /// This ledger's id, and the newest sequence of what importers are told.
    async fn told_to_importers(&self) -> Result<(String, i64), LedgerError>;
    /// What changed of these kinds after a sequence of a ledger (G4). From the start where that is not
    /// this one, or of a time that it has not seen.
    async fn news(
        &self,
        from: Deployment,
        since: (String, i64),
        kinds: BTreeSet<KindName>,
        limit: usize,
    ) -> Result<News, LedgerError>;
    /// What is deleted here and waits for an importer's word: steps after this one, and the newest
    /// sequence under which any of them was told.
    async fn awaited(
        &self,
        home: Site,
        importer: &str,
        after: i64,
        limit: usize,
    ) -> Result<(Vec<(i64, ClearanceRequest)>, i64), LedgerError>;
    /// Whose word a step waits for.
    async fn pending_clearances(&self, step: i64) -> Result<Vec<PendingClearance>, LedgerError>;
    /// What is going elsewhere under one root, and not yet seen to here; none if there is nothing.
    async fn to_see_to(&self, limit: usize) -> Result<Option<ToSeeTo>, LedgerError>;
    /// The deletion that sees to what points at something that goes elsewhere; none if none does.
    async fn seen_to_by(&self, key: ResourceKey) -> Result<Option<Deletion>, LedgerError>;
    /// The deployments of which something is going.
    async fn owners_going(&self) -> Result<BTreeSet<String>, LedgerError>;
    /// Where each of these stands, if it is being deleted or loses a reference.
    async fn live_steps(
        &self,
        home: Site,
        keys: Vec<ResourceKey>,
    ) -> Result<Vec<Option<LiveStep>>, LedgerError>;
    /// The live steps of the same deletion that a step waits for.
    async fn waited_for(&self, step: i64) -> Result<Vec<Target>, LedgerError>;
}

/// A deployment whose kinds refer to ours, as it is on record (G12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Importer {
    pub deployment: Deployment,
    /// Those of ours that it refers to.
    pub kinds: BTreeSet<KindName>,
    pub since: DateTime<Utc>,
    /// Steps that wait for its word.
    pub awaited: u64,
}

/// How far a deployment that we import from has been heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub owner: Deployment,
    pub ledger: String,
    pub seq: i64,
}

/// What points at one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointedAt {
    pub named: Vec<Referrer>,
    pub count: u64,
}

/// Resources of another deployment that go under one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToSeeTo {
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
    /// The deletion that all began with, in whichever deployment.
    pub root: String,
}

/// Resources of one kind that a registry holds at one site: at its own deployment.
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
    /// A field points at one of these.
    PointsAt {
        field: String,
        to: Vec<ResourceKey>,
    },
}

impl NativeBy {
    /// What has one of these values in a field: where that refers, what points there.
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

/// A resource of the registry, and something that it points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    pub key: ResourceKey,
    pub name: String,
    pub to: ResourceKey,
    pub field: String,
}

impl Referrer {
    /// As what stands in the way of what it points at, and is in no plan.
    pub fn blocker(&self) -> Blocker {
        Blocker::of(&self.key, &self.name)
    }
}

/// Steps of one deletion, site, kind and rank whose look is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservationsDue {
    /// The deletion, as the ledger counts them.
    pub deletion: i64,
    pub site: Site,
    pub kind: KindName,
    pub gathered: Gathered,
}

/// Why a person must look at what is there again (T14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckAgain {
    /// It was removed, and came back, more often than allowed.
    TooOften,
    /// It has the name and project of the original, which is no proof that it is a copy: nothing removes it.
    NameAlone,
}

/// The tombstone of what has copies at other sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    pub tombstone: Tombstone,
    pub locals: Vec<Site>,
    /// Where a copy is known by its original's name and project alone.
    pub name: Option<OriginalName>,
    /// What goes with it at its own site without a tombstone of its own.
    pub parts: Vec<ResourceKey>,
}

/// What an original was called when its deletion was planned, and whose it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalName {
    pub name: String,
    pub project_id: String,
}

/// What waits for time; none where nothing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    pub attempt: Option<DateTime<Utc>>,
    pub look: Option<DateTime<Utc>>,
}

/// One thing to make durable.
#[derive(Clone, Debug)]
pub enum Change {
    /// Keeps a plan for 24 h, by its hash.
    SavePlan { plan: Arc<Plan>, now: DateTime<Utc> },
    /// Keeps for 24 h what a request under a client's own key was answered, if it asked for no deletion.
    KeepAnswer {
        request: KeyedRequest,
        answer: serde_json::Value,
        now: DateTime<Utc>,
    },
    /// A deletion is wanted: the row in `planning`, and the fence `checking` over its targets (T3).
    /// If a target is being deleted already, nothing is written and its deletion is the answer (T6); if
    /// a copy is, by another deletion, nothing is written: the original must not go before it.
    Accept(Box<NewDeletion>),
    /// The plan stands: every step, edge and tombstone `deleting`, in one transaction (T3). Steps
    /// that another live deletion already has are left to it (I9) and counted as `skipped` here.
    Start {
        deletion_id: String,
        plan: Arc<Plan>,
        /// Longest remaining path of each step, by position.
        ranks: Vec<u32>,
        /// Of each step, by position: kinds differ (I3).
        max_attempts: Vec<u32>,
        now: DateTime<Utc>,
    },
    /// The plan must not start: `refused`, tombstones `released`.
    Refuse {
        deletion_id: String,
        refused: Vec<Refusal>,
        note: String,
        now: DateTime<Utc>,
    },
    /// A cloud did not answer, and there is time to plan it again (N16): it stays `planning`, and says why.
    StillPlanning {
        deletion_id: String,
        note: String,
        now: DateTime<Utc>,
    },
    /// What became of a step. Stale unless state, claim and epoch still match. Of a cancelled
    /// deletion, what would be tried again (blocked, stuck, ready) is skipped and released (P8).
    Step(Box<StepChange>),
    /// Blocked steps that are due become ready.
    WakeDue { now: DateTime<Utc> },
    /// Puts stuck, blocked and refused back to work. By a person: attempts start anew for what was
    /// stuck, and what is fatal or refused is tried too. By a repeated DELETE (T6): at most once a
    /// minute per deletion; it resets no counter and leaves what is fatal, drifted, guarded or
    /// paused.
    Retry {
        selection: Selection,
        by: RetryBy,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// The newcomers that stuck steps wait for join by a deletion of their own and the steps are retried, or
    /// the deletion is cancelled and says what stays (P11): with its event and audit row, all or nothing.
    AnswerDrift(Box<NewDriftAnswer>),
    /// Options of a deletion that runs already. Refused of one that is planned or has ended.
    SetOptions(Box<NewOptions>),
    /// No further delete is sent: what had none is `skipped` and its tombstone `released`; what was
    /// sent runs to its end (P8).
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
    /// A rung of the ladder (P3): on the record, and then what it does. `Moved` with `retry` and
    /// `forget`, `Accepted` with `unpin`: the deletion of what pins.
    Purge(Box<NewPurge>),
    /// The tombstone of what is there after its end is let go. Not while a deletion works on it.
    Release {
        key: ResourceKey,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// What was gone was created anew, under a natural key: its record is another incarnation's (M1). Of
    /// what has no tombstone, or is on its way, nothing changes.
    Revive {
        key: ResourceKey,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// By hand: outlives the engine, and only a person ends it.
    PauseSite {
        site: Site,
        paused: bool,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// A resource that was gone is there again (T14): counted on its tombstone. `stuck`: more often
    /// than allowed, or nothing but a person can tell what it is, so its last step is stuck with that
    /// reason and its tombstone `deleting` again.
    ///
    /// `copy`: what is there is not the resource itself, but a new copy of it at another site. That
    /// counts while the resource is being deleted, too.
    Recreated {
        key: ResourceKey,
        copy: Option<ResourceKey>,
        stuck: Option<StuckAgain>,
        now: DateTime<Utc>,
    },
    /// A line for people and programs that changes nothing else. Of a site's state only a change is one.
    Note { event: NewEvent, now: DateTime<Utc> },
    /// How far a channel has told people (I7); none: it is no channel any more, and will begin at the
    /// newest event if it comes back.
    MoveNotificationCursor { channel: String, mark: Option<Mark> },
    /// The registry keeps this. Refused if it is there, is being deleted (M2), or points at what is (G10).
    Add(Box<NewNative>),
    /// It is as this says now. Stale if it is not there, or was written since it was read.
    Amend {
        new: Box<NewNative>,
        read_at: DateTime<Utc>,
    },
    /// The registry's own delete of this incarnation: stale if it is not there. Refused while one of these
    /// fields of a kind points at it.
    DeleteNative {
        key: ResourceKey,
        incarnation: u32,
        unless: Arc<[(KindName, String)]>,
        now: DateTime<Utc>,
    },
    /// It points at these no more, each from that field. Stale if it is not there.
    Unset {
        key: ResourceKey,
        references: Vec<(String, ResourceKey)>,
        now: DateTime<Utc>,
    },
    /// A piece of what is no longer kept goes: events, and deletions that ended, before that time.
    /// `Moved` with its rows; 0: nothing is left. What is stuck or given up stays, and so do the audit
    /// and the records of natural keys.
    Prune {
        before: DateTime<Utc>,
        /// With the first piece, of a person who asked.
        audit: Option<AuditEntry>,
        now: DateTime<Utc>,
    },
    /// A deployment watches what of these kinds is being deleted: it is on record from here on (G12).
    Watched {
        importer: Deployment,
        kinds: BTreeSet<KindName>,
        now: DateTime<Utc>,
    },
    /// What the watch of a deployment of this service and region heard.
    Heard {
        service: String,
        region: String,
        news: News,
        now: DateTime<Utc>,
    },
    /// What points at these here is seen to by this deletion, whose targets they are; without one nothing
    /// does.
    SeeTo {
        keys: Vec<ResourceKey>,
        deletion: Option<Box<NewDeletion>>,
    },
    /// What an importer said of what these steps delete (G7).
    Answered {
        importer: String,
        answers: Vec<(i64, Answered)>,
        now: DateTime<Utc>,
    },
    /// It is gone for good: its word is waited for no more (G12).
    ReleaseImporter {
        name: String,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// At start: what was in flight when an earlier engine ended is looked at first, not repeated.
    Recover { now: DateTime<Utc> },
}

#[derive(Clone, Debug)]
pub struct NewDeletion {
    pub id: String,
    pub targets: Vec<Target>,
    /// Their copies at other sites: the fence stands over these too.
    pub copies: Vec<ResourceKey>,
    /// Targets as their cloud shows them, for readers once it no longer does (T7).
    pub shown: Vec<(ResourceKey, serde_json::Value)>,
    pub options: PlanOptions,
    /// The plan that was approved; the engine compares what it finds with it (P1).
    pub plan_hash: Option<String>,
    pub actor: Actor,
    pub reason: String,
    pub cause: Option<String>,
    /// Per actor; the same key with another body is refused.
    pub idempotency_key: Option<String>,
    /// Until then it is planned again while a cloud does not answer (N16).
    pub deadline: Option<DateTime<Utc>>,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

/// A request under a client's own key (`Idempotency-Key`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRequest {
    pub actor: Actor,
    pub key: String,
    /// A hash of what is asked.
    pub body: String,
}

/// What was asked under a key before.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRequest {
    pub body: String,
    /// The deletion that it asked for; empty for any other request.
    pub deletion: String,
    /// Of a request for no deletion.
    pub answer: Option<serde_json::Value>,
}

impl KeptRequest {
    /// Why its key is refused to another request.
    pub fn other_use(&self) -> String {
        let of = match self.deletion.as_str() {
            "" => String::new(),
            id => format!(" (deletion {})", short_id(id)),
        };
        format!("the idempotency key was used for another request{of}; choose a new one")
    }
}

/// What the registry is to keep of a resource.
#[derive(Clone, Debug)]
pub struct NewNative {
    pub key: ResourceKey,
    pub fields: serde_json::Map<String, serde_json::Value>,
    /// What its fields point at.
    pub references: Vec<NativeReference>,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

/// A rung that a person took, of what is stuck.
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
    /// What pins it goes by this deletion, and it is tried again: both, or neither.
    Unpin(Box<NewDeletion>),
    Runbook,
    /// What is stuck ends `purged`, and what waited for it stays stuck, until a person retries it.
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
    /// The stuck steps that are answered.
    pub steps: Vec<i64>,
    pub answer: DriftAnswer,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

#[derive(Clone, Debug)]
pub enum DriftAnswer {
    /// The deletion of the newcomers; none where nothing is left of them.
    Accept { newcomers: Option<Box<NewDeletion>> },
    /// `note`: what stays, and why.
    Refuse { note: String },
}

/// Options that change on the way.
#[derive(Clone, Debug)]
pub struct NewOptions {
    pub deletion_id: String,
    pub drift: Option<DriftPolicy>,
    pub on_failure: Option<OnFailure>,
    /// Stuck steps that are retried, because the options change what becomes of them.
    pub retry: Vec<i64>,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

/// A step that was given up, as an engine may look for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Forgotten {
    pub step: ClaimedStep,
    pub since: DateTime<Utc>,
}

/// How many steps may be claimed for a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub site: Site,
    /// Whose calls start at once.
    pub now: usize,
    /// Whose calls wait until others have ended: none while a deletion that stops at a failure has its
    /// turn there, since what is claimed is sent (N11).
    pub ahead: usize,
}

/// The outcome of one claim, with the fence under which it counts.
#[derive(Clone, Debug)]
pub struct StepChange {
    pub step_id: i64,
    pub fence: Fence,
    pub to: StepState,
    pub attempts: u32,
    /// Of what is blocked or verifying; none: at once.
    pub next_attempt_at: Option<DateTime<Utc>>,
    pub blocked_since: Option<DateTime<Utc>>,
    pub blockers: Vec<Blocker>,
    pub error: Option<StepError>,
    /// Adds one to the looks made in a row since the last call ([`ClaimedStep::looks`]); else 0.
    pub looked_again: bool,
    /// One line of the step's timeline: `DELETE 409 NetworkInUse`. A look that leaves state and error
    /// as they were is no line.
    pub message: String,
    /// What the call was answered, in the event's data; none: no call, or what the error tells.
    pub answer: Option<Answer>,
    pub now: DateTime<Utc>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub state: StepState,
    pub claim: i64,
    pub epoch: i64,
}

/// A step in an engine's hands.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedStep {
    pub id: i64,
    pub deletion_id: String,
    pub key: ResourceKey,
    pub name: String,
    /// Empty where the cloud keeps none.
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
    /// When the engine's own schedule would have tried it next, of one that a repeated DELETE woke (I14).
    pub own_attempt_at: Option<DateTime<Utc>>,
    /// Since when it has been in its state; of one that waits for a look, when its call was sent.
    pub since: DateTime<Utc>,
    /// Set when the deletion was cancelled meanwhile: find out, and send nothing more.
    pub cancelled: bool,
}

/// Who wants something tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryBy {
    /// Decides anew on what was given up.
    Person,
    /// A DELETE of what is being deleted already (T6).
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
    /// The id is that of the deletion that now stands for the request; `existing` if it stood before.
    Accepted {
        deletion_id: String,
        existing: bool,
    },
    /// How many steps a retry or a wake-up put to work.
    Moved(u64),
    /// The fence no longer matches; nothing was written.
    Stale,
    /// Not possible in this state, and why; nothing was written.
    Refused(String),
    /// The idempotency key stands for another request, and for which; nothing was written.
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
    /// What the page before gave as `next`; none for the first.
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
    /// In the order in which they were accepted (I16); else the newest first.
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
    /// Only those that need a person, for just this.
    pub cause: Option<Cause>,
    /// Observed for in names, ids, what holds a step and what it was told.
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

/// Bounded: counts, and the rows that need a person.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub deletions_by_state: Vec<(DeletionState, u64)>,
    pub steps: Counts,
    /// Not settled, newest first, at most 50.
    pub deletions: Vec<Deletion>,
    /// Stuck steps that no other stuck step holds, oldest first; then the newest 50 refusals, each as
    /// a stuck step with id 0. At most 200.
    pub attention: Vec<Step>,
    /// What was accepted and is held up since, longest first: at most 50.
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
        "{path} is no ledger of gone; name the ledger's file with --ledger, or move this one away"
    )]
    Foreign { path: String },
    /// Nothing of the batch was written. The engine takes no new work and tries again every 5 s.
    #[error("cannot write the ledger {path}: {detail}")]
    Io { path: String, detail: String },
    #[error("the ledger {path} is open for reading only: another engine writes it")]
    ReadOnly { path: String },
    #[error("the cursor \"{cursor}\" is not one that a page gave; start again without it")]
    Cursor { cursor: String },
    #[error("the ledger's writer has ended")]
    Closed,
}
