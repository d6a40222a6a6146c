//! The interface between front ends and the engine. It has four calls.
//!
//! `submit` acknowledges a command when its intent is durable, not before. `query` answers from the rows of the ledger,
//! the listings of the clouds and the state of the engine; long answers come in pages. `events` follows what happens,
//! without gaps. `snapshot` is the bounded summary that a screen needs at once. A front end reaches an embedded engine
//! and an engine behind a socket alike, as an `Arc<dyn Control>`.

pub mod query;
pub mod read_only;
pub mod remote;
pub mod target;
pub mod traffic;

pub use query::{Page, Pages, Query, Request};
pub use target::{SiteSpec, TargetSpec};
pub use traffic::{GateStatus, GateTraffic};

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::domain::attention::Cause;
use crate::domain::kinds::{FieldMeanings, as_named, unknown_kind};
use crate::domain::ladder::{PurgeScope, Rung};
use crate::domain::model::{
    Actor, Blocker, Counts, DEPENDENCIES_MAX, Deletion, DriftPolicy, ErrorClass, Event, KindName,
    OnFailure, Paged, Plan, PlanOptions, Refusal, Resource, ResourceKey, Scope, Site, SitePause,
    Step, StepState, Target, Tombstone,
};
use crate::domain::notification::CursorPosition;
use crate::domain::peers::{DeletionNotices, Deployment, Watch};
use crate::domain::relations::Relation;

/// The engine, as a front end sees it.
#[async_trait]
pub trait Control: Send + Sync {
    /// Submits a command. Returns its receipt once the command's intent is durable.
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError>;
    /// Answers a query. Callers use `ask`, which returns the answer in the query's own type.
    async fn query(&self, query: Query) -> Result<Page, ControlError>;
    /// Returns the events after this sequence number, at most 500, and waits up to `wait_ms` for the first. If an event
    /// after this number is no longer kept, the error is [`ControlError::Expired`].
    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError>;
    /// Returns a receiver of the snapshots. A slow reader skips versions, and does not delay the engine.
    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>>;
}

impl dyn Control + '_ {
    /// Sends a query, and returns its answer.
    ///
    /// # Errors
    /// The engine's own error, or [`ControlError::Internal`] if the answer belongs to another query.
    pub async fn ask<R: Request>(&self, request: R) -> Result<R::Answer, ControlError> {
        R::answer(self.query(request.into()).await?)
    }

    /// Sends a query; returns None if the record or resource that it names does not exist.
    ///
    /// # Errors
    /// Every error but [`ControlError::NotFound`].
    pub async fn find<R: Request>(&self, request: R) -> Result<Option<R::Answer>, ControlError> {
        match self.ask(request).await {
            Err(ControlError::NotFound { .. }) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Completes the dependencies of steps from a page, which has at most [`DEPENDENCIES_MAX`] of each step. Asks
    /// for one step at a time, so that no answer is larger than the dependencies of one step.
    ///
    /// # Errors
    /// The engine's own error.
    pub async fn complete_dependencies(&self, steps: &mut [Step]) -> Result<(), ControlError> {
        for step in steps {
            if step.depends_on.len() < DEPENDENCIES_MAX {
                continue;
            }
            // A step that was pruned meanwhile keeps the dependencies from the page.
            if let Some(whole) = self.find(query::Step { id: step.id }).await? {
                step.depends_on = whole.depends_on;
            }
        }
        Ok(())
    }

    /// Streams the rows of a query whose answer comes in pages, one page at a time. A page is requested only when
    /// the stream is polled for it.
    pub fn pages<R: Pages>(
        &self,
        request: R,
    ) -> impl Stream<Item = Result<Vec<R::Row>, ControlError>> {
        stream::try_unfold(Some(request), async |request| {
            let Some(request) = request else {
                return Ok(None);
            };
            let Paged { rows, next } = self.ask(request.clone()).await?;
            let further = next.map(|next| request.at_cursor(next));
            Ok(Some((rows, further)))
        })
    }

    /// Streams the events of a deletion after this sequence number, oldest first, a page at a time.
    pub fn timeline(
        &self,
        deletion_id: &str,
        after: i64,
    ) -> impl Stream<Item = Result<Vec<Event>, ControlError>> {
        stream::try_unfold(after, async move |after| {
            let page = query::Timeline {
                deletion_id: Some(deletion_id.to_owned()),
                step_id: None,
                after,
            };
            let events = self.ask(page).await?;
            let last = events.last().map(|event| event.seq);
            Ok(last.filter(|last| *last > after).map(|last| (events, last)))
        })
    }
}

/// A command, with its author and the reason, idempotency key and deadline of the request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Envelope {
    pub command: Command,
    pub actor: Actor,
    #[serde(default)]
    pub reason: String,
    /// The idempotency key. The same key of the same actor within 24 h means the same request.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The time until which planning is repeated while a cloud does not answer (N16). None: for
    /// `[engine] read_patience`.
    #[serde(default)]
    pub deadline: Option<DateTime<Utc>>,
}

impl Envelope {
    /// A command with neither a reason nor an idempotency key nor a deadline.
    pub fn new(command: Command, actor: Actor) -> Self {
        Self {
            command,
            actor,
            reason: String::new(),
            idempotency_key: None,
            deadline: None,
        }
    }
}

/// A command to the engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Command {
    /// Lists the resources and plans their deletion; sends no write. The plan is kept for 24 h under its hash.
    Plan {
        targets: Vec<TargetSpec>,
        options: PlanOptions,
    },
    /// Deletes these resources. If they are being deleted already, the request joins that deletion, wakes its blocked
    /// and stuck steps (T6), and gives the deletion the reason and the options that the request names.
    Delete {
        targets: Vec<TargetSpec>,
        options: PlanOptions,
        #[serde(default, skip_serializing_if = "NamedOptions::is_empty")]
        named: NamedOptions,
    },
    /// Deletes resources that a gate has just read with the caller's rights. In-process only: the command
    /// crosses no socket.
    #[serde(skip)]
    DeleteResources {
        resources: Vec<Resource>,
        options: PlanOptions,
    },
    /// Repeats the request for a deletion that is under way (T6). In-process only.
    #[serde(skip)]
    RepeatDelete {
        deletion_id: String,
    },
    /// Records that a client has re-created these resources through a gate (M1). In-process only.
    #[serde(skip)]
    Revive {
        keys: Vec<ResourceKey>,
    },
    /// Deletes exactly what this plan lists, or nothing (P1). Like `Delete` it may join a deletion.
    DeletePlan {
        plan_hash: String,
        #[serde(default, skip_serializing_if = "NamedOptions::is_empty")]
        named: NamedOptions,
    },
    /// Deletes by a plan from a file. The plan is first saved, and then carried out like a plan that is given by its
    /// hash.
    DeletePlanFile {
        plan: Box<Plan>,
    },
    /// Retries the stuck and blocked steps of a deletion.
    Retry {
        deletion_id: String,
    },
    RetryStep {
        step_id: i64,
    },
    /// Retries all steps that match the filter and may be retried. With `dry_run` it only counts them.
    RetryMatching {
        filter: Box<RetryFilter>,
        #[serde(default)]
        dry_run: bool,
    },
    /// Answers a deletion that is stuck with drift (P11): accepts the newcomers that its steps name, or refuses
    /// them, so that they stay and the deletion ends.
    Drift {
        deletion_id: String,
        accept: bool,
    },
    Cancel {
        deletion_id: String,
    },
    Pause {
        deletion_id: String,
    },
    Resume {
        deletion_id: String,
    },
    /// Moves the cursor up to which a channel has notified people (I7). None removes the cursor of a channel
    /// that no longer exists. In-process only: the command crosses no socket.
    #[serde(skip)]
    MoveNotificationCursor {
        channel: String,
        position: Option<CursorPosition>,
    },
    /// Takes a rung of the ladder (P3), if it is offered now.
    Purge {
        what: PurgeScope,
        rung: Rung,
        /// The short id of the deletion, as the person typed it.
        confirm: String,
    },
    /// Releases the tombstone of a resource that still exists.
    Release {
        key: ResourceKey,
    },
    /// Removes the events and ended deletions from before this time, with the rows that no longer belong to an event or
    /// a deletion, from the ledger. None: as the settings say. The receipt is `Done` with the number of removed rows.
    Prune {
        before: Option<DateTime<Utc>>,
    },
    /// Pauses a site until a person resumes it, whatever happens to the login's rights there or to this engine.
    PauseSite {
        site: Site,
    },
    ResumeSite {
        site: Site,
    },
    /// Lets the engines of this name end their calls in flight and claim no more steps, for example before they
    /// are upgraded. The receipt is `Done`.
    PauseEngine {
        name: String,
    },
    ResumeEngine {
        name: String,
    },
    /// Creates a resource of one of this deployment's own kinds.
    Create {
        kind: String,
        body: serde_json::Value,
    },
    /// Changes the fields that the body names. Null removes a field.
    Update {
        kind: String,
        id: String,
        body: serde_json::Value,
    },
    /// Returns to an importer the notices of this deployment's deletions (G5). The receipt waits for new notices as
    /// long as the watch says. In-process only.
    #[serde(skip)]
    Watch {
        watch: Watch,
    },
    /// Takes an importer's hint that it is worth asking again for its clearances. In-process only.
    #[serde(skip)]
    Hint {
        from: Deployment,
    },
    /// Releases an importer that is gone for good. Its clearance is no longer needed (G12).
    ReleaseImporter {
        name: String,
    },
    /// Moves a replay to another time, whose state the snapshot then shows. In-process only.
    #[serde(skip)]
    Seek {
        to: Moment,
    },
}

/// The options that a request for a deletion names and that may change while the deletion runs. `None`: the
/// request does not name the option, and a deletion that it joins keeps its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedOptions {
    pub drift: Option<DriftPolicy>,
    pub on_failure: Option<OnFailure>,
}

impl NamedOptions {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A time of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    At(DateTime<Utc>),
    /// This number of events forward, or back if negative. The events of one instant count as one.
    By(i64),
}

impl Command {
    /// Whether calls that change a cloud may follow from the command. Other commands, such as pauses and cancellations,
    /// change at most the ledger.
    pub fn wants_work(&self) -> bool {
        self.scope_and_work().1
    }

    /// Returns the scope that a caller needs for the command.
    pub fn scope(&self) -> Scope {
        self.scope_and_work().0
    }

    fn scope_and_work(&self) -> (Scope, bool) {
        match self {
            Self::Plan { .. } | Self::Seek { .. } | Self::Watch { .. } | Self::Hint { .. } => {
                (Scope::View, false)
            }
            Self::Delete { .. }
            | Self::DeleteResources { .. }
            | Self::RepeatDelete { .. }
            | Self::DeletePlan { .. }
            | Self::DeletePlanFile { .. }
            | Self::Retry { .. }
            | Self::RetryStep { .. }
            | Self::Drift { .. }
            | Self::Resume { .. }
            | Self::ResumeSite { .. }
            | Self::ResumeEngine { .. } => (Scope::Operate, true),
            Self::RetryMatching { dry_run, .. } => (Scope::Operate, !dry_run),
            Self::Revive { .. }
            | Self::Cancel { .. }
            | Self::Pause { .. }
            | Self::PauseSite { .. }
            | Self::PauseEngine { .. }
            | Self::Create { .. }
            | Self::Update { .. } => (Scope::Operate, false),
            Self::Purge { rung, .. } => (Scope::Force, rung.starts_work()),
            Self::Release { .. } | Self::ReleaseImporter { .. } => (Scope::Force, false),
            Self::Prune { .. } | Self::MoveNotificationCursor { .. } => (Scope::Admin, false),
        }
    }

    /// Whether the command is refused where everything is read-only (P5): calls that change a cloud may follow from
    /// it, or it takes a rung of the ladder, releases a tombstone or an importer, or creates or changes a native
    /// resource.
    pub fn changes_clouds(&self) -> bool {
        let changes_resources = matches!(
            self,
            Self::Purge { .. }
                | Self::Release { .. }
                | Self::ReleaseImporter { .. }
                | Self::Create { .. }
                | Self::Update { .. }
        );
        changes_resources || self.wants_work()
    }
}

/// The engine's answer to a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "receipt")]
pub enum Receipt {
    Planned {
        plan: Arc<Plan>,
    },
    Accepted(Accepted),
    Done {
        moved: u64,
    },
    Bulk(Retried),
    /// The notices that a watch receives.
    #[serde(skip)]
    Notices(Box<DeletionNotices>),
    /// The resource in its stored form.
    Resource {
        row: serde_json::Value,
    },
    Purged(Purged),
}

macro_rules! receipts {
    ($($(#[$doc:meta])* $method:ident: $pattern:pat => $value:expr, $type:ty;)*) => {
        impl Receipt {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// [`ControlError::Internal`] if this is the receipt of another command.
                pub fn $method(self) -> Result<$type, ControlError> {
                    match self {
                        $pattern => Ok($value),
                        _ => Err(unexpected_reply()),
                    }
                }
            )*
        }
    };
}

receipts! {
    /// The receipt of [`Command::Plan`].
    into_plan: Self::Planned { plan } => plan, Arc<Plan>;
    /// The receipt of a command that asks for a deletion.
    into_accepted: Self::Accepted(accepted) => accepted, Accepted;
    /// The number of steps, resources or rows of the ledger that a command has changed; 0 if it counts none.
    into_moved: Self::Done { moved } => moved, u64;
    /// The receipt of [`Command::RetryMatching`].
    into_retried: Self::Bulk(retried) => retried, Retried;
    /// The receipt of [`Command::Watch`].
    into_notices: Self::Notices(notices) => *notices, DeletionNotices;
    /// The receipt of [`Command::Create`] and [`Command::Update`].
    into_resource: Self::Resource { row } => row, serde_json::Value;
    /// The receipt of [`Command::Purge`].
    into_purged: Self::Purged(purged) => purged, Purged;
}

/// Returns the error for a reply of the wrong type. The engine then probably has another version.
pub(crate) fn unexpected_reply() -> ControlError {
    ControlError::internal(
        "unexpected reply from the engine; its version may differ from this program's",
    )
}

/// An accepted deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub deletion_id: String,
    /// Whether the targets were being deleted already, by this deletion (T6).
    pub existing: bool,
}

/// The result of a rung of the purge ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Purge)]
pub struct Purged {
    pub rung: Rung,
    /// Number of steps that were retried or abandoned.
    pub moved: u64,
    /// With `unpin`: the id of the deletion that removes the edges that block the step.
    #[serde(rename = "unpinned_by")]
    pub deletion_id: Option<String>,
    /// With `runbook`: the instructions that a person follows.
    pub runbook: Option<String>,
}

/// Result of a bulk retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retried {
    pub eligible: u64,
    pub not_eligible: Vec<NotEligible>,
    /// Number of steps that were retried.
    pub moved: u64,
}

/// Filter for stuck and blocked steps; a field that is not set matches all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryFilter {
    pub deletion_id: Option<String>,
    pub site: Option<Site>,
    pub kind: Option<KindName>,
    /// `stuck` or `blocked`.
    pub state: Option<StepState>,
    /// Class of the last error.
    pub class: Option<ErrorClass>,
    /// HTTP status of the last error.
    pub status: Option<u16>,
    /// Type of the last error, such as `NetworkInUse`.
    #[serde(rename = "type")]
    pub error_type: Option<String>,
    /// The step has been in its state since before this time.
    pub older_than: Option<DateTime<Utc>>,
    /// The step has one of these causes. Empty: any cause.
    pub causes: Vec<Cause>,
}

impl RetryFilter {
    /// Whether the step's cause and last error match the filter. The caller compares the other fields.
    pub fn fits(&self, step: &Step) -> bool {
        if !self.causes.is_empty() && !Cause::of(step).is_some_and(|it| self.causes.contains(&it)) {
            return false;
        }
        let error = step.last_error.as_ref();
        let class = error.map(|error| error.class);
        let status = error.and_then(|error| error.status);
        let error_type = error.map(|error| error.kind.as_str());
        self.class.is_none_or(|it| class == Some(it))
            && self.status.is_none_or(|it| status == Some(it))
            && self
                .error_type
                .as_deref()
                .is_none_or(|it| error_type == Some(it))
    }
}

/// Steps that match the filter and are not retried, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotEligible {
    pub reason: String,
    pub steps: u64,
}

/// A peer, an owner that is watched, or an importer. This deployment itself is included if it imports from itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentStatus {
    pub service: String,
    pub region: String,
    /// The deployment's name; null before the first contact with it.
    pub name: Option<String>,
    /// The state of the watch on the deployment; null if no kind of this deployment refers to its kinds.
    pub watch: Option<WatchStatus>,
    /// The deployment's state as an importer; null if it is not on record as one.
    pub importer: Option<ImporterStatus>,
}

impl DeploymentStatus {
    /// Returns `billing/eu-1`, or the service alone if the deployment has no region.
    pub fn service_and_region(&self) -> String {
        match self.region.as_str() {
            "" => self.service.clone(),
            region => format!("{}/{region}", self.service),
        }
    }

    /// Returns why the watch fails, and why the deployment could not be asked as an importer.
    pub fn reasons(&self) -> Vec<&str> {
        let watch = self.watch.as_ref().map(|watch| watch.reason.as_str());
        let importer = self.importer.as_ref().map(|it| it.reason.as_str());
        let said = watch.into_iter().chain(importer);
        said.filter(|reason| !reason.is_empty()).collect()
    }
}

/// The state of this deployment's watch on an owner deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WatchStatus {
    /// The kinds of the owner's service to which kinds of this deployment refer.
    pub kinds: Vec<KindName>,
    /// Sequence number of the last change that was received from the owner.
    pub seq: i64,
    /// When the owner last answered, if it did since this engine started.
    #[serde(rename = "heard_at")]
    pub answered_at: Option<DateTime<Utc>>,
    /// Whether the watch is recent enough to decide about new references to the owner (G10).
    pub fresh: bool,
    /// Why the last watch failed; empty if it did not.
    pub reason: String,
}

/// The state of an importer, whose clearances this deployment's deletions need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImporterStatus {
    /// The kinds of this deployment to which the importer's kinds refer.
    pub kinds: Vec<KindName>,
    /// Since when the importer is on record.
    pub since: Option<DateTime<Utc>>,
    /// When the importer last watched, if it did since this engine started.
    #[serde(rename = "seen_at")]
    pub last_contact_at: Option<DateTime<Utc>>,
    /// Sequence number of the last change that the importer received.
    pub seq: i64,
    /// Number of tombstone changes that the importer has not received yet.
    pub lag: i64,
    /// Number of steps that wait for the importer's clearance.
    #[serde(rename = "awaited")]
    pub pending_clearances: u64,
    /// Why the last question to the importer failed; empty if it did not.
    pub reason: String,
}

/// A deletion's steps at one site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SiteProgress {
    pub site: Site,
    pub counts: Counts,
}

/// The resources of one kind at one site. A site that could not be listed has an error and never looks empty.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SiteListing {
    pub site: Site,
    pub rows: Vec<Resource>,
    pub error: Option<String>,
    /// Class of the error; none if the site could be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    /// The names of the rows' projects, by id, as far as they are known and were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
    pub at: DateTime<Utc>,
}

/// The number of resources of one kind at one site. A site that could not be listed has an error and no number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteCount {
    pub site: Site,
    pub resources: Option<u64>,
    pub error: Option<String>,
    pub at: DateTime<Utc>,
}

/// Why a resource is not deleted yet, or what would block its deletion (P2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    pub target: Target,
    pub deletion: Option<Deletion>,
    pub step: Option<Step>,
    pub tombstone: Option<Tombstone>,
    /// Findings, one per line, such as who deletes the resource, what the cloud answered, and why a plan would be
    /// refused.
    pub lines: Vec<String>,
    pub blockers: Vec<Blocker>,
    pub refused: Vec<Refusal>,
    pub next_action: String,
    /// The resources that the target uses or that use it, its project, the rules that protect it, and the
    /// deletion that has it as a step.
    #[serde(default)]
    pub relations: Vec<Relation>,
}

/// A kind, for front ends that browse it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindInfo {
    pub name: KindName,
    pub aliases: Vec<String>,
    /// Column heading and dotted path into the row.
    pub columns: Vec<(String, String)>,
    /// The meanings of the fields of the kind's rows.
    #[serde(default)]
    pub fields: FieldMeanings,
    /// Whether any kind refers to this kind. If so, the plan screen offers the cascade.
    pub has_dependents: bool,
    /// Whether a site lists all of the kind's resources in one list of their own, so that they can be counted.
    #[serde(default)]
    pub is_counted: bool,
}

impl KindInfo {
    /// Finds the kind that a person typed: by name, plural or alias, or else by the part of the name after the provider
    /// (`subnet` for `toy.subnet`); with any letter case, and `-` for `_`.
    ///
    /// # Errors
    /// No kind has this name; the message suggests the nearest one, or else lists all kinds.
    pub fn find<'k>(kinds: &'k [Self], word: &str) -> Result<&'k Self, String> {
        let wanted = as_named(word);
        let named = kinds.iter().find(|kind| kind.name.as_str() == wanted);
        let called = |kind: &&Self| {
            kind.aliases.contains(&wanted) || wanted.strip_suffix('s') == Some(kind.name.as_str())
        };
        // Outside the first provider, a kind's name begins with its provider: `toy.subnet`.
        let short = |kind: &&Self| kind.name.as_str().split('.').next_back() == Some(&*wanted);
        let found = named
            .or_else(|| kinds.iter().find(called))
            .or_else(|| kinds.iter().find(short));
        found.ok_or_else(|| unknown_kind(word, kinds.iter().map(|kind| kind.name.as_str())))
    }

    /// Whether a path of a row has the id of the resource's project.
    pub fn is_project(&self, path: &str) -> bool {
        self.fields.project.as_deref() == Some(path)
    }

    /// Whether the ids under a path of a row can be shown as names.
    pub fn has_names(&self, path: &str) -> bool {
        self.is_project(path) || self.fields.refers_to.contains_key(path)
    }
}

/// A site as the engine sees it now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteStatus {
    pub site: Site,
    pub state: SiteState,
    /// Why the site is not reachable, is paused or is not signed in.
    pub reason: String,
    pub latency_ms: Option<u64>,
    /// Percentage of calls that were throttled, found the site unavailable, or had an unknown outcome, among the last
    /// 100 calls of steps; null before the first call.
    #[serde(default)]
    #[schema(maximum = 100)]
    pub error_percent: Option<u8>,
    /// Number of calls and reads that are in flight now.
    pub in_flight: usize,
    /// How many calls may be in flight now; the ceiling is in the configuration.
    pub concurrency_limit: usize,
    pub read_only: bool,
    pub as_user: String,
    /// The pattern that a word of the reason for a deletion must match at this site: `*`, `OPS-*`.
    #[serde(default)]
    pub reason_wanted: Option<String>,
    /// Set while a person has paused the site. Its state is then `paused`, whatever else applies.
    #[serde(default)]
    pub paused_by: Option<SitePause>,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SiteState {
    /// The site has not answered yet, or has not been asked.
    Unknown,
    Reachable,
    Unreachable,
    /// The login's rights at the site were lost or refused, and nothing is sent until a new token restores them; or a
    /// person paused the site.
    Paused,
}

impl SiteState {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The bounded summary of the engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Grows with each publication.
    pub version: u64,
    pub at: Option<DateTime<Utc>>,
    pub engine: EngineStatus,
    pub sites: Vec<SiteStatus>,
    pub deletions_by_state: BTreeMap<String, u64>,
    pub steps: Counts,
    /// Deletions that are under way, paused or awaiting approval, newest first, at most 50. Stuck deletions are
    /// not among them.
    pub deletions: Vec<Deletion>,
    /// Stuck steps that wait for no other stuck step, oldest first; then the newest refused deletions, as steps;
    /// then steps on which a cloud works longer than usual ([`StepState::Verifying`]). At most 200.
    pub attention: Vec<Step>,
    pub last_event: i64,
    /// Number of steps that clouds accepted per second, over the last minute: the sum over `deletions`.
    pub rate_per_second: f64,
}

/// The state of the engine itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineStatus {
    pub version: String,
    pub pid: u32,
    pub epoch: i64,
    pub started_at: Option<DateTime<Utc>>,
    pub read_only: bool,
    /// Whether another engine of the ledger leads: only the leading engine plans, observes, retries, sweeps, prunes and
    /// notifies, takes over the steps of lost engines, and exchanges messages with other deployments.
    #[serde(default)]
    pub follows: bool,
    /// Why the engine takes no new work, for example because the disk is full, a worker panicked or the ledger is
    /// damaged; or why an attached client cannot reach the engine.
    pub fault: Option<String>,
    /// Since when the engine cannot be reached. Set by a client that is attached to it, never by the engine; everything
    /// else but `fault` is what the engine published last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<DateTime<Utc>>,
    pub ledger: String,
}

/// Why a command or query was not carried out. Each message is for a person.
#[derive(Clone, Debug, thiserror::Error, strum::IntoStaticStr, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "error")]
#[strum(serialize_all = "snake_case")]
pub enum ControlError {
    /// The command, the query or the settings are wrong.
    #[error("{message}")]
    Usage { message: String },
    #[error("{message}")]
    NotFound { message: String },
    /// Several resources match a target's id or name; `candidates` lists them.
    #[error("{message}")]
    Ambiguous {
        message: String,
        candidates: Vec<Target>,
    },
    /// A cloud refused the engine's credentials.
    #[error("{message}")]
    Auth { message: String },
    /// The caller lacks the scope that the command needs.
    #[error("{message}")]
    Forbidden { message: String },
    /// The engine or a cloud does not answer.
    #[error("{message}")]
    Unreachable { message: String },
    /// A guard or a blocker refuses the command; nothing was sent.
    #[error("{message}")]
    Refused {
        message: String,
        refused: Vec<Refusal>,
    },
    /// The cloud differs from the approved plan; nothing was sent (P1).
    #[error("{message}")]
    Drifted {
        message: String,
        changes: Vec<String>,
    },
    /// The present state of the deletion, step or resource does not allow the command.
    #[error("{message}")]
    Conflict { message: String },
    /// The events or the plan are no longer kept. `oldest` is the sequence number of the oldest event that is kept; 0
    /// for a plan.
    #[error("{message}")]
    Expired { message: String, oldest: i64 },
    #[error("{message}")]
    Internal { message: String },
}

impl ControlError {
    pub fn usage(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Usage { message }
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::NotFound { message }
    }

    pub fn unreachable(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Unreachable { message }
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Conflict { message }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Internal { message }
    }
}
