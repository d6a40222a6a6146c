//! The queries to the engine. Each query has a request type, which is tied to the type of its answer.
//!
//! [`super::Control`] is a trait object, so it takes one enum, [`Query`], and answers with another, [`Page`].
//! Both also go over the socket, except for the queries with `#[serde(skip)]`, which are asked only in the engine's
//! process. Front ends match on neither: they pass a request to `ask` and get its answer. A new query is a struct with
//! its fields and one line in the table below, and one in `pages!` if its answer comes in pages.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::target::TargetSpec;
use super::{
    ControlError, DeploymentStatus, Explanation, GateStatus, KindInfo, SiteCount, SiteListing,
    SiteProgress, SiteStatus, unexpected_reply,
};
use crate::domain::activity::ReconcilerStatus;
use crate::domain::attention::{Cause, CauseGroup};
use crate::domain::engines::EngineRow;
use crate::domain::gantt::{Gantt, Upcoming as UpcomingAttempts};
use crate::domain::ladder::{Ladder as PurgeLadder, PurgeScope};
use crate::domain::last_day::LastDay as EndedDeletions;
use crate::domain::last_hour::LastHour as HourOfCalls;
use crate::domain::model::{
    Counts, Deletion as DeletionRow, DeletionState, Event, KindName, Orphan, Paged, Phase,
    Plan as FullPlan, ResourceKey, Site, Step as StepRow, StepState, Tombstone,
};
use crate::domain::notification::NotificationCursor as Cursor;
use crate::domain::outline::Outline as Branches;
use crate::domain::peers::{Answers, Question};

/// The request of one query.
pub trait Request: Into<Query> + Send {
    type Answer;

    /// Takes the answer to this request out of a page.
    ///
    /// # Errors
    /// [`ControlError::Internal`] if the page answers another request: the engine is of another version.
    fn answer(page: Page) -> Result<Self::Answer, ControlError>;
}

/// Answers the requests of one type.
pub trait Handler<R: Request> {
    fn handle(&self, request: R) -> impl Future<Output = Result<R::Answer, ControlError>> + Send;
}

/// A request whose answer comes in pages.
pub trait Pages: Request<Answer = Paged<Self::Row>> + Clone {
    type Row;

    /// Returns the same request for the page that begins at this cursor.
    #[must_use]
    fn at_cursor(self, cursor: String) -> Self;
}

macro_rules! queries {
    ($($(#[$attribute:meta])* $name:ident => $answer:ty,)*) => {
        /// The request of any query, as it goes over the socket.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case", tag = "ask")]
        pub enum Query {
            $($(#[$attribute])* $name($name),)*
        }

        /// The answer to any query, as it goes over the socket.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case", tag = "page", content = "answer")]
        pub enum Page {
            $($(#[$attribute])* $name($answer),)*
        }

        /// Answers a query as a page, the form in which answers go over the socket.
        ///
        /// # Errors
        /// The handler's error.
        pub async fn answer_query<H>(handler: &H, query: Query) -> Result<Page, ControlError>
        where
            H: Sync $(+ Handler<$name>)*,
        {
            match query {
                $(Query::$name(request) => handler.handle(request).await.map(Page::$name),)*
            }
        }

        $(
            impl From<$name> for Query {
                fn from(request: $name) -> Self {
                    Self::$name(request)
                }
            }

            impl Request for $name {
                type Answer = $answer;

                fn answer(page: Page) -> Result<$answer, ControlError> {
                    match page {
                        Page::$name(answer) => Ok(answer),
                        _ => Err(unexpected_reply()),
                    }
                }
            }
        )*
    };
}

queries! {
    Deletions => Paged<DeletionRow>,
    Deletion => Box<DeletionRow>,
    Progress => Vec<SiteProgress>,
    Steps => Paged<StepRow>,
    StepCount => Counted,
    Outline => Branches,
    BranchSteps => Vec<StepRow>,
    Chart => Gantt,
    Upcoming => UpcomingAttempts,
    LastHour => HourOfCalls,
    LastDay => EndedDeletions,
    Causes => Vec<CauseGroup>,
    Step => Box<StepRow>,
    Timeline => Vec<Event>,
    Tombstones => Paged<Tombstone>,
    TombstonesOf => Vec<Tombstone>,
    #[serde(skip)]
    ShownBefore => Option<serde_json::Value>,
    #[serde(skip)]
    WholeOf => Option<Tombstone>,
    #[serde(skip)]
    Namesake => Option<Tombstone>,
    Plan => Arc<FullPlan>,
    FrozenPlan => Arc<FullPlan>,
    Resources => Vec<SiteListing>,
    ResourceCounts => Vec<SiteCount>,
    Native => Paged<serde_json::Value>,
    Explain => Box<Explanation>,
    Ladder => Box<PurgeLadder>,
    Orphans => Paged<Orphan>,
    Sites => Vec<SiteStatus>,
    Gates => Vec<GateStatus>,
    Kinds => Vec<KindInfo>,
    Audit => Vec<serde_json::Value>,
    NotificationCursor => Cursor,
    #[serde(skip)]
    ClearanceAnswers => Answers,
    Deployments => Vec<DeploymentStatus>,
    Reconcilers => Vec<ReconcilerStatus>,
    Engines => Vec<EngineRow>,
}

macro_rules! pages {
    ($($name:ident => $row:ty,)*) => {$(
        impl Pages for $name {
            type Row = $row;

            fn at_cursor(self, cursor: String) -> Self {
                Self { cursor: Some(cursor), ..self }
            }
        }
    )*};
}

pages! {
    Deletions => DeletionRow,
    Steps => StepRow,
    Tombstones => Tombstone,
    Native => serde_json::Value,
    Orphans => Orphan,
}

/// Deletions, newest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Deletions {
    pub states: Vec<DeletionState>,
    pub site: Option<Site>,
    pub kind: Option<KindName>,
    pub older_than: Option<DateTime<Utc>>,
    pub cursor: Option<String>,
    pub limit: usize,
}

/// One deletion, by its id or its short id.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Deletion {
    pub id: String,
}

/// How far a deletion is at each site (T19).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    pub deletion_id: String,
}

/// Steps, ordered by deletion and then by id.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Steps {
    pub deletion_id: Option<String>,
    pub states: Vec<StepState>,
    pub site: Option<Site>,
    pub kind: Option<KindName>,
    pub older_than: Option<DateTime<Utc>>,
    /// Only steps that need a person for exactly this cause.
    pub cause: Option<Cause>,
    /// A search, in the syntax of [`crate::domain::filter`]. Empty: all steps. One call reads a bounded number of
    /// steps, so a page may be short although another one follows.
    pub filter: String,
    pub cursor: Option<String>,
    pub limit: usize,
}

impl Steps {
    /// Requests the steps of one deletion.
    pub fn of(deletion_id: &str) -> Self {
        Self {
            deletion_id: Some(deletion_id.to_owned()),
            ..Self::default()
        }
    }
}

/// Counts the matching steps. One call reads a bounded number of steps; the answer has the cursor of the next call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepCount {
    pub deletion_id: Option<String>,
    pub states: Vec<StepState>,
    pub cause: Option<Cause>,
    pub filter: String,
    pub cursor: Option<String>,
}

/// The answer to [`StepCount`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub steps: u64,
    pub next: Option<String>,
}

/// The branches of a deletion's tree below each of these steps, at most 500. `None` stands for the top level: the
/// branches of steps for which no other step waits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outline {
    pub deletion_id: String,
    pub below: Vec<Option<i64>>,
}

/// The steps of a branch from this index on, in the order of [`crate::domain::outline`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BranchSteps {
    pub deletion_id: String,
    pub branch: i64,
    /// The branch's counts, by which its steps are ordered.
    pub counts: Counts,
    pub from: u64,
    pub limit: usize,
}

/// The chart of a deletion: when its steps ran, in `columns` intervals of time (at most 1,000).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Chart {
    pub deletion_id: String,
    pub columns: u32,
}

/// The next attempts of blocked steps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Upcoming {}

/// The numbers of calls to each site, and of steps that became blocked or stuck, in each minute of the last hour.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LastHour {}

/// The number of deletions that ended in the last day, and of their resources that are gone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LastDay {}

/// Steps that need a person, grouped by cause, the largest group first. `sites` limits them to these sites; an
/// empty list means all sites.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Causes {
    pub sites: Vec<Site>,
}

/// One step, with all of its dependencies.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    pub id: i64,
}

/// The events of one step or deletion after a sequence number, or all events after it if neither is named: oldest
/// first, at most 500.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    pub deletion_id: Option<String>,
    pub step_id: Option<i64>,
    pub after: i64,
}

/// Tombstones; a field that is not set matches all of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tombstones {
    pub site: Option<Site>,
    pub kind: Option<KindName>,
    pub phases: Vec<Phase>,
    pub id: Option<String>,
    pub cursor: Option<String>,
    pub limit: usize,
}

impl Tombstones {
    /// Requests the tombstone of one resource.
    pub fn of(key: ResourceKey) -> Self {
        Self {
            site: Some(key.site),
            kind: Some(key.kind),
            id: Some(key.id),
            limit: 1,
            ..Self::default()
        }
    }
}

/// The tombstones of these resources, at most 500, without the released ones.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TombstonesOf {
    pub keys: Vec<ResourceKey>,
}

/// A resource that is being deleted, as its cloud showed it when its deletion was requested (T7). Not served
/// over the socket.
#[derive(Clone, Debug)]
pub struct ShownBefore {
    pub key: ResourceKey,
}

/// The tombstone of the resource with which a cloud removes this part, if the part has no tombstone of its
/// own and the resource has copies at other sites (T20). Not served over the socket.
#[derive(Clone, Debug)]
pub struct WholeOf {
    pub part: ResourceKey,
}

/// The tombstone of an original that is being deleted or is gone, if a new resource with this name and
/// project at this site would be its copy by name alone (T14). Not served over the socket.
#[derive(Clone, Debug)]
pub struct Namesake {
    pub site: Site,
    pub kind: KindName,
    pub name: String,
    pub project_id: String,
}

/// A recently made plan, by its hash.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    pub hash: String,
}

/// The frozen plan of a deletion.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FrozenPlan {
    pub deletion_id: String,
    /// Whether to leave out the plan's steps, which may be many.
    #[serde(default)]
    pub without_steps: bool,
}

impl FrozenPlan {
    /// Requests the whole plan of a deletion.
    pub fn of(deletion_id: &str) -> Self {
        Self {
            deletion_id: deletion_id.to_owned(),
            without_steps: false,
        }
    }
}

/// A fresh listing of one kind, at one site or at all sites.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Resources {
    pub kind: String,
    pub site: Option<Site>,
    /// Whether to name the projects of the rows, for people.
    #[serde(default)]
    pub names: bool,
    /// Whether to return the kind's own list alone. Otherwise projects are listed with the number of resources of each,
    /// and projects that Keystone no longer knows are listed too. Every service is asked for these resources.
    #[serde(default)]
    pub bare: bool,
}

/// How many resources of a kind each site has, listed afresh.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ResourceCounts {
    pub kind: String,
}

/// Resources that this deployment keeps itself: all resources of a kind, or those with these values in these
/// fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Native {
    pub kind: String,
    #[serde(default)]
    pub by: Vec<(String, String)>,
    #[serde(default)]
    pub cursor: Option<String>,
    #[serde(default)]
    pub limit: usize,
}

/// Why a resource is not deleted yet, or what would block its deletion (P2).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Explain {
    pub target: TargetSpec,
}

/// The purge ladder of a step, or of the stuck and blocked steps of a deletion (P3). Reads the cloud; sends no write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ladder {
    pub what: PurgeScope,
}

/// The resources that abandoned steps left behind. Each is read from its cloud, to see whether it still
/// exists.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Orphans {
    pub cursor: Option<String>,
    pub limit: usize,
}

/// The sites that the engine serves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sites {}

/// The traffic of each gate.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Gates {}

/// The kinds that the engine knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kinds {}

/// The rows of the audit after this sequence number, at most 500.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Audit {
    pub after: i64,
}

/// The cursor up to which a channel has notified people (I7).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NotificationCursor {
    pub channel: String,
}

/// Which resources of this deployment refer to resources of the deployment that asks (G5). Not served over the socket.
#[derive(Clone, Debug)]
pub struct ClearanceAnswers {
    pub question: Question,
}

/// The peers of this deployment, the owners to which it refers, and the importers that refer to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Deployments {}

/// The status of each reconciler of the engine: its runs under way, its last run and its next run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reconcilers {}

/// The engines that share the ledger, the one that leads first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Engines {}
