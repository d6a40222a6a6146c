//! What front ends know of the engine: four calls and no more.
//!
//! `submit` acknowledges a command when its intent is durable, not before. `query` pages through what
//! the ledger and the clouds hold. `events` follows what happens, without gaps. `snapshot` is the
//! bounded picture that a screen needs at once. The embedded engine and the one across a socket
//! differ in one `Arc<dyn Control>`.

pub mod query;
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

use crate::domain::attention::Cause;
use crate::domain::ladder::{PurgeScope, Rung};
use crate::domain::model::{
    Actor, Blocker, Counts, Deletion, DriftPolicy, ErrorClass, Event, KindName, OnFailure, Paged,
    Plan, PlanOptions, Refusal, Resource, ResourceKey, Scope, Site, SitePause, Step, StepState,
    Target, Tombstone,
};
use crate::domain::news::Mark;
use crate::domain::peers::{Deployment, News, Watch};

/// The engine, as a front end sees it.
#[async_trait]
pub trait Control: Send + Sync {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError>;
    async fn query(&self, query: Query) -> Result<Page, ControlError>;
    /// Events after this sequence, at most 500, waiting up to `wait_ms` for the first. Older than
    /// what is retained is [`ControlError::Expired`].
    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError>;
    /// Slow readers skip versions and never hold the engine.
    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>>;
}

impl dyn Control + '_ {
    /// Asks one question.
    ///
    /// # Errors
    /// The engine's own error, or [`ControlError::Internal`] if it answered another question.
    pub async fn ask<R: Request>(&self, request: R) -> Result<R::Answer, ControlError> {
        R::answer(self.query(request.into()).await?)
    }

    /// The rows of a question whose answer comes in pages, one page at a time; each page is asked for when the
    /// stream is polled for it.
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
}

/// A command, and who asks for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Envelope {
    pub command: Command,
    pub actor: Actor,
    #[serde(default)]
    pub reason: String,
    /// The same key within 24 h is the same request.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// Until when whoever asks for a deletion waits: until then its plan is made again while a cloud does
    /// not answer (N16). None: no longer than `[engine] read_patience`.
    #[serde(default)]
    pub deadline: Option<DateTime<Utc>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Command {
    /// Lists and plans; sends no write. The plan is kept 24 h under its hash.
    Plan {
        targets: Vec<TargetSpec>,
        options: PlanOptions,
    },
    Delete {
        targets: Vec<TargetSpec>,
        options: PlanOptions,
    },
    /// What a gate has read just now, on the caller's rights. Only from within: it crosses no socket.
    #[serde(skip)]
    DeleteSeen {
        resources: Vec<Resource>,
        options: PlanOptions,
    },
    /// What is being deleted was asked to be deleted again (T6). Only from within.
    #[serde(skip)]
    RepeatDelete {
        deletion_id: String,
    },
    /// A client has created this anew, through a gate (M1). Only from within.
    #[serde(skip)]
    Revive {
        keys: Vec<ResourceKey>,
    },
    /// Exactly that plan, or nothing (P1).
    DeletePlan {
        plan_hash: String,
    },
    /// A plan from a file, first kept and then run as with its hash.
    DeletePlanFile {
        plan: Box<Plan>,
    },
    Retry {
        deletion_id: String,
    },
    RetryStep {
        step_id: i64,
    },
    /// All that fits and may be; `dry_run` only says how many.
    RetryMatching {
        filter: Box<RetryFilter>,
        #[serde(default)]
        dry_run: bool,
    },
    /// Answers a deletion that is stuck with drift (P11): accepts the newcomers that it names, or refuses
    /// them, so that they stay and the deletion ends.
    Drift {
        deletion_id: String,
        accept: bool,
    },
    /// Options that a repeated request gives for a deletion that runs already; none: as it is.
    SetOptions {
        deletion_id: String,
        drift: Option<DriftPolicy>,
        on_failure: Option<OnFailure>,
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
    /// How far a channel has told people (I7); none: it is no channel any more. Only from within: it
    /// crosses no socket.
    #[serde(skip)]
    MoveNotificationCursor {
        channel: String,
        mark: Option<Mark>,
    },
    /// Takes a rung of the ladder (P3), if it is offered now.
    Purge {
        what: PurgeScope,
        rung: Rung,
        /// The short id of the deletion, as it was typed.
        confirm: String,
    },
    /// Lets the tombstone of what is there after its end go.
    Release {
        key: ResourceKey,
    },
    /// Lets go of events, and of deletions that ended, before this time; none: as the configuration says.
    /// `Done` with the ledger's rows that went.
    Prune {
        before: Option<DateTime<Utc>>,
    },
    /// Until a person resumes it, whatever becomes of its rights and of this engine.
    PauseSite {
        site: Site,
    },
    ResumeSite {
        site: Site,
    },
    /// Keeps a resource of our own kinds.
    Create {
        kind: String,
        body: serde_json::Value,
    },
    /// Changes the fields of one that the body names; null takes one away.
    Update {
        kind: String,
        id: String,
        body: serde_json::Value,
    },
    /// A deployment that refers to ours watches what is being deleted; the answer waits for news as long
    /// as that says. Only from within.
    #[serde(skip)]
    Watch {
        watch: Watch,
    },
    /// A deployment that refers to ours says that asking it again is worth it. Only from within.
    #[serde(skip)]
    Hint {
        from: Deployment,
    },
    /// A deployment that referred to ours is gone for good: its word is waited for no more (G12).
    ReleaseImporter {
        name: String,
    },
    /// Shows another time of a replay; its snapshot says which. Only from within.
    #[serde(skip)]
    Seek {
        to: Moment,
    },
}

/// A time of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    At(DateTime<Utc>),
    /// So many events on, or back: those of one instant are one.
    By(i64),
}

impl Command {
    /// Whether calls that change a cloud may follow from it. A ledger's pauses, notes and cancellations
    /// are carried out without any.
    pub fn wants_work(&self) -> bool {
        match self {
            Self::Delete { .. }
            | Self::DeleteSeen { .. }
            | Self::RepeatDelete { .. }
            | Self::DeletePlan { .. }
            | Self::DeletePlanFile { .. }
            | Self::Retry { .. }
            | Self::RetryStep { .. }
            | Self::Drift { .. }
            | Self::SetOptions { .. }
            | Self::Resume { .. }
            | Self::ResumeSite { .. } => true,
            Self::RetryMatching { dry_run, .. } => !dry_run,
            Self::Purge { rung, .. } => match rung {
                Rung::Retry | Rung::Unpin => true,
                Rung::Runbook | Rung::Forget => false,
            },
            Self::Plan { .. }
            | Self::Revive { .. }
            | Self::Cancel { .. }
            | Self::Pause { .. }
            | Self::PauseSite { .. }
            | Self::MoveNotificationCursor { .. }
            | Self::Release { .. }
            | Self::Prune { .. }
            | Self::Create { .. }
            | Self::Update { .. }
            | Self::Watch { .. }
            | Self::Hint { .. }
            | Self::ReleaseImporter { .. }
            | Self::Seek { .. } => false,
        }
    }

    /// What it takes to ask for it.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Plan { .. } | Self::Seek { .. } | Self::Watch { .. } | Self::Hint { .. } => {
                Scope::View
            }
            Self::Delete { .. }
            | Self::DeleteSeen { .. }
            | Self::RepeatDelete { .. }
            | Self::Revive { .. }
            | Self::DeletePlan { .. }
            | Self::DeletePlanFile { .. }
            | Self::Retry { .. }
            | Self::RetryStep { .. }
            | Self::RetryMatching { .. }
            | Self::Drift { .. }
            | Self::SetOptions { .. }
            | Self::Cancel { .. }
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::PauseSite { .. }
            | Self::ResumeSite { .. }
            | Self::Create { .. }
            | Self::Update { .. } => Scope::Operate,
            Self::Purge { .. } | Self::Release { .. } | Self::ReleaseImporter { .. } => {
                Scope::Force
            }
            Self::Prune { .. } | Self::MoveNotificationCursor { .. } => Scope::Admin,
        }
    }
}

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
    /// What a watch hears.
    #[serde(skip)]
    News(Box<News>),
    /// As it is kept now.
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
                /// [`ControlError::Internal`] if it is the receipt of another command.
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
    /// How many steps, or rows of the ledger, a command has moved.
    into_moved: Self::Done { moved } => moved, u64;
    /// The receipt of [`Command::RetryMatching`].
    into_retried: Self::Bulk(retried) => retried, Retried;
    /// The receipt of [`Command::Watch`].
    into_news: Self::News(news) => *news, News;
    /// The receipt of [`Command::Create`] and [`Command::Update`].
    into_resource: Self::Resource { row } => row, serde_json::Value;
    /// The receipt of [`Command::Purge`].
    into_purged: Self::Purged(purged) => purged, Purged;
}

/// The engine answered another question, or carried out another command: it is of another version.
pub(crate) fn unexpected_reply() -> ControlError {
    ControlError::Internal {
        message: "unexpected reply from the engine; its version may differ from this program's"
            .to_owned(),
    }
}

/// A deletion that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub deletion_id: String,
    /// The resource was being deleted already, by this deletion (T6).
    pub existing: bool,
}

/// A rung of the purge ladder that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    pub rung: Rung,
    /// How many steps were put to work, or abandoned.
    pub moved: u64,
    /// With `unpin`: the deletion of the resource that pins this one.
    pub deletion_id: Option<String>,
    /// With `runbook`: what to do by hand.
    pub runbook: Option<String>,
}

/// What became of many steps that were to be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retried {
    pub eligible: u64,
    pub not_eligible: Vec<NotEligible>,
    /// How many were put to work.
    pub moved: u64,
}

/// Steps that do not move; what is not given fits all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryFilter {
    pub deletion_id: Option<String>,
    pub site: Option<Site>,
    pub kind: Option<KindName>,
    /// `stuck` or `blocked`.
    pub state: Option<StepState>,
    /// Of the last answer.
    pub class: Option<ErrorClass>,
    /// Of the last answer, by HTTP.
    pub status: Option<u16>,
    /// The last error's own type, `NetworkInUse`.
    #[serde(rename = "type")]
    pub error_type: Option<String>,
    /// In this state since before this time.
    pub older_than: Option<DateTime<Utc>>,
    /// Any of these; none: all.
    pub causes: Vec<Cause>,
}

impl RetryFilter {
    /// Whether the step's last answer is the one that is meant.
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

/// Steps that fit and are left, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotEligible {
    pub reason: String,
    pub steps: u64,
}

/// Another deployment, or what this one refers to of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentStatus {
    pub service: String,
    pub region: String,
    /// Not known before it was heard once.
    pub name: Option<String>,
    /// We refer to it: how far its watch is; none if we do not.
    pub watch: Option<WatchStatus>,
    /// It refers to us; none if it does not, as far as is on record.
    pub importer: Option<ImporterStatus>,
}

impl DeploymentStatus {
    /// `billing/eu-1`, or the service alone where it has no regions.
    pub fn place(&self) -> String {
        match self.region.as_str() {
            "" => self.service.clone(),
            region => format!("{}/{region}", self.service),
        }
    }

    /// Why it is not heard, and why it could not be asked.
    pub fn reasons(&self) -> Vec<&str> {
        let watch = self.watch.as_ref().map(|watch| watch.reason.as_str());
        let importer = self.importer.as_ref().map(|it| it.reason.as_str());
        let said = watch.into_iter().chain(importer);
        said.filter(|reason| !reason.is_empty()).collect()
    }
}

/// Of what we hear from an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchStatus {
    /// The kinds of its service that ours refer to.
    pub kinds: Vec<KindName>,
    /// Up to here it has been heard.
    pub seq: i64,
    /// When it was heard last, if it was since this engine began.
    pub heard_at: Option<DateTime<Utc>>,
    /// New references to it are decided by what is known of it (G10).
    pub fresh: bool,
    /// Why it is not heard; empty if it is.
    pub reason: String,
}

/// Of a deployment whose word ours wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImporterStatus {
    /// Those of our kinds that its own refer to.
    pub kinds: Vec<KindName>,
    pub since: Option<DateTime<Utc>>,
    /// When it watched last, if it did since this engine began.
    pub seen_at: Option<DateTime<Utc>>,
    /// So far it has heard us.
    pub seq: i64,
    /// How much there is that it has not heard yet, in changes of tombstones.
    pub lag: i64,
    /// Steps that wait for its word.
    pub awaited: u64,
    /// Why it could not be asked last; empty if it could.
    pub reason: String,
}

/// A deletion's steps at one site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteProgress {
    pub site: Site,
    pub counts: Counts,
}

/// What one site answered; a site that could not be listed says why and never looks empty.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SiteListing {
    pub site: Site,
    pub rows: Vec<Resource>,
    pub error: Option<String>,
    /// Of what kind the error is, where the cloud could not be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    pub at: DateTime<Utc>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    pub target: Target,
    pub deletion: Option<Deletion>,
    pub step: Option<Step>,
    pub tombstone: Option<Tombstone>,
    /// One finding a line: who deletes it, what was answered; what blocks it stands by itself.
    pub lines: Vec<String>,
    pub blockers: Vec<Blocker>,
    pub refused: Vec<Refusal>,
    pub next_action: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindInfo {
    pub name: KindName,
    pub aliases: Vec<String>,
    /// Column heading and dotted path into the row.
    pub columns: Vec<(String, String)>,
    /// Others may go with it: the plan screen offers the cascade.
    pub has_dependents: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteStatus {
    pub site: Site,
    pub state: SiteState,
    /// Why it is not reachable, paused or not signed in.
    pub reason: String,
    pub latency_ms: Option<u64>,
    /// Of the last 100 calls of steps those that were throttled, or had no answer or none that says
    /// anything; none before the first.
    #[serde(default)]
    pub error_percent: Option<u8>,
    pub in_flight: usize,
    /// The ceiling that the limit may not pass is in the configuration.
    pub concurrency_limit: usize,
    pub read_only: bool,
    pub as_user: String,
    /// Who deletes here says why, with a word that fits this: `*`, `OPS-*`.
    #[serde(default)]
    pub reason_wanted: Option<String>,
    /// Set while a person has paused it: its state is `paused` then, whatever else it is.
    #[serde(default)]
    pub paused_by: Option<SitePause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiteState {
    /// Not asked yet.
    Unknown,
    Reachable,
    Unreachable,
    /// Rights were lost or refused: nothing is sent until a new token clears it. Or a person paused it.
    Paused,
}

/// The bounded picture of the engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Grows with each publication.
    pub version: u64,
    pub at: Option<DateTime<Utc>>,
    pub engine: EngineStatus,
    pub sites: Vec<SiteStatus>,
    pub deletions_by_state: BTreeMap<String, u64>,
    pub steps: Counts,
    /// Not settled, newest first, at most 50.
    pub deletions: Vec<Deletion>,
    /// What needs a person, oldest first, then what a cloud works on for longer than is usual
    /// ([`StepState::Verifying`]); at most 200.
    pub attention: Vec<Step>,
    pub last_event: i64,
    /// Steps that became gone per second, over the last ten seconds.
    pub rate_per_second: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineStatus {
    pub version: String,
    pub pid: u32,
    pub epoch: i64,
    pub started_at: Option<DateTime<Utc>>,
    pub read_only: bool,
    /// Set when it takes no new work: disk full, a worker panicked, the ledger damaged.
    pub fault: Option<String>,
    pub ledger: String,
}

/// Why a command or query was not carried out. Each says what was tried and what to do.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "error")]
pub enum ControlError {
    #[error("{message}")]
    Usage { message: String },
    #[error("{message}")]
    NotFound { message: String },
    /// Several resources fit; they are listed.
    #[error("{message}")]
    Ambiguous {
        message: String,
        candidates: Vec<Target>,
    },
    /// A cloud refused the engine's credentials.
    #[error("{message}")]
    Auth { message: String },
    /// The engine does not do this for who asks.
    #[error("{message}")]
    Forbidden { message: String },
    #[error("{message}")]
    Unreachable { message: String },
    /// A guard or a blocker refuses; nothing was sent.
    #[error("{message}")]
    Refused {
        message: String,
        refused: Vec<Refusal>,
    },
    /// The cloud is no longer as the plan froze it; nothing was sent (P1).
    #[error("{message}")]
    Drifted {
        message: String,
        changes: Vec<String>,
    },
    #[error("{message}")]
    Conflict { message: String },
    #[error("{message}")]
    Expired { message: String, oldest: i64 },
    #[error("{message}")]
    Internal { message: String },
}
