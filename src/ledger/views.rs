//! Reads for front ends and for the engine: pages, counts, and single rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{ClaimedStep, LedgerError};
use crate::domain::attention::{Cause, CauseGroup};
use crate::domain::filter::SearchQuery;
use crate::domain::gantt::{Gantt, Upcoming};
use crate::domain::last_day::LastDay;
use crate::domain::last_hour::LastHour;
use crate::domain::model::{
    Actor, Counts, Deletion, DeletionState, Event, Identity, KindName, Paged, Phase, Plan,
    ResourceKey, Site, SitePause, Step, StepState, Tombstone, short_id,
};
use crate::domain::notification::NotificationCursor;
use crate::domain::outline::Outline;

/// Reads of committed rows. A page that is cut off returns the cursor of the next one.
#[async_trait]
pub trait Views: Send + Sync {
    async fn deletions(
        &self,
        filter: DeletionFilter,
        page: Cursor,
    ) -> Result<Paged<Deletion>, LedgerError>;

    /// Finds a deletion by its full id, or by a unique suffix of at least 8 characters.
    async fn deletion(&self, id: &str) -> Result<Option<Deletion>, LedgerError>;

    /// Returns the frozen plan of a deletion, even after the 24 h for which saved plans are kept: with
    /// identities and endpoints by site, and with each step's `depends_on` sorted; none if no plan has started.
    /// Steps that were pruned are missing. Without `with_steps` the plan is small, however many steps it has.
    async fn frozen_plan(
        &self,
        deletion_id: &str,
        with_steps: bool,
    ) -> Result<Option<Arc<Plan>>, LedgerError>;

    /// Returns the identity under which the plan of a deletion listed each site (I13); empty if no plan has
    /// started.
    async fn identities(
        &self,
        deletion_id: &str,
    ) -> Result<BTreeMap<String, Identity>, LedgerError>;

    /// Counts a deletion's steps by site, in the order of the sites.
    async fn progress(&self, deletion_id: &str) -> Result<Vec<(Site, Counts)>, LedgerError>;

    /// Lists steps by deletion, then by id. `depends_on` is cut at `DEPENDENCIES_MAX`; [`Views::step`] returns all.
    /// With a text filter, a page examines only a part of the steps: a short page may be followed by another one.
    async fn steps(&self, filter: StepFilter, page: Cursor) -> Result<Paged<Step>, LedgerError>;

    /// Counts the matches among the steps that one call examines. Returns the cursor of the next call; none if all
    /// steps were examined.
    async fn count_steps(
        &self,
        filter: StepFilter,
        after: Option<String>,
    ) -> Result<(u64, Option<String>), LedgerError>;

    /// Returns the branches of a deletion's tree below these steps. `None` stands for the deletion's end: the branches
    /// of the steps on which no other step depends.
    async fn outline(
        &self,
        deletion_id: &str,
        below: Vec<Option<i64>>,
    ) -> Result<Outline, LedgerError>;

    /// Lists the steps of a branch from this index on, in the order of [`crate::domain::outline`], at most
    /// `limit`, without their `depends_on`. `counts` are those that [`Views::outline`] returned, because
    /// counting a long branch again takes longer than reading a part of it. If steps have changed their state
    /// since, their neighbours are returned.
    async fn branch_steps(
        &self,
        deletion_id: &str,
        branch: i64,
        counts: Counts,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Step>, LedgerError>;

    async fn step(&self, id: i64) -> Result<Option<Step>, LedgerError>;

    /// Groups the steps that need a person by their common cause, the largest group first. `sites` limits them
    /// to these sites; an empty list means all sites.
    async fn causes(&self, sites: Vec<Site>) -> Result<Vec<CauseGroup>, LedgerError>;

    async fn tombstones(
        &self,
        filter: TombstoneFilter,
        page: Cursor,
    ) -> Result<Paged<Tombstone>, LedgerError>;

    /// Lists the tombstones of these keys, in the same order, without the released ones.
    async fn tombstones_of(&self, keys: Vec<ResourceKey>) -> Result<Vec<Tombstone>, LedgerError>;

    /// Returns a resource as its cloud showed it when its deletion was accepted; none if this snapshot is not kept.
    async fn shown_before(
        &self,
        key: ResourceKey,
    ) -> Result<Option<serde_json::Value>, LedgerError>;

    /// Lists the events after the sequence number `after`, in order, at most `limit`.
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

    /// Lists the orphans by deletion, then by step: abandoned resources that, as far as the ledger knows, still
    /// exist.
    async fn orphans(&self, page: Cursor) -> Result<Paged<AbandonedStep>, LedgerError>;

    /// Lists the sites that a person paused.
    async fn site_pauses(&self) -> Result<Vec<SitePause>, LedgerError>;

    /// Counts the answered calls of a deletion, and its steps that became blocked or stuck, or ended, in this many
    /// columns of equal duration; none if there is no such deletion. A deletion that has not ended is shown up to
    /// `now`.
    async fn gantt(
        &self,
        deletion_id: &str,
        columns: u32,
        now: DateTime<Utc>,
    ) -> Result<Option<Gantt>, LedgerError>;

    /// Counts the blocked steps by when their next attempt is due.
    async fn upcoming(&self, now: DateTime<Utc>) -> Result<Upcoming, LedgerError>;

    /// Counts the answered calls to each site in the last hour, and the steps that an answer or observation made
    /// blocked or stuck, of all deletions.
    async fn last_hour(&self, now: DateTime<Utc>) -> Result<LastHour, LedgerError>;

    /// Counts the deletions that ended in the 24 h up to `now`, and their steps that are gone. A deletion with stuck
    /// steps has not ended.
    async fn last_day(&self, now: DateTime<Utc>) -> Result<LastDay, LedgerError>;

    /// Returns everything that the first screen shows, from maintained counters and along indexes, so the cost of this
    /// read does not grow with the ledger.
    async fn summary(&self) -> Result<Summary, LedgerError>;

    /// Returns how far a channel has been notified (I7).
    async fn notification_cursor(&self, channel: &str) -> Result<NotificationCursor, LedgerError>;
}

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cursor {
    /// The previous page's `next`; none for the first page.
    pub after: Option<String>,
    /// Length of the page, at most 500; 0 means 500.
    pub limit: usize,
}

#[derive(Clone, Debug, Default)]
pub struct DeletionFilter {
    pub states: Vec<DeletionState>,
    pub site: Option<Site>,
    pub kind: Option<KindName>,
    /// Only deletions that were requested before this time.
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
    /// Only steps whose [`since`](ClaimedStep::since) is before this time.
    pub older_than: Option<DateTime<Utc>>,
    /// Only steps that need a person, with exactly this cause.
    pub cause: Option<Cause>,
    /// Searched for in names, ids, actions, blockers and errors; a word of the search may also name a state, kind,
    /// site, project or age.
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
    /// The sequence number of the first event that is kept, whatever the filter; if none is, of the next event.
    pub oldest: i64,
    /// The sequence number of the last event that was written, whatever the filter; 0 if there was none.
    pub newest: i64,
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

/// An earlier request with an idempotency key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRequest {
    /// Hash of the request, as in [`super::KeyedRequest`].
    pub body: String,
    /// Id of the deletion that answers the request; empty if the request asked for no deletion.
    pub deletion: String,
    /// The answer to a request that asked for no deletion.
    pub answer: Option<serde_json::Value>,
}

impl KeptRequest {
    /// Returns the message for another request with the same key.
    pub fn other_use(&self) -> String {
        let of = match self.deletion.as_str() {
            "" => String::new(),
            id => format!(" (deletion {})", short_id(id)),
        };
        format!("the idempotency key was used for another request{of}; choose a new one")
    }
}

/// An abandoned step, in the form in which an engine can observe it.
#[derive(Clone, Debug, PartialEq)]
pub struct AbandonedStep {
    pub step: ClaimedStep,
    pub since: DateTime<Utc>,
}

/// The first screen's data, bounded: counts, deletions under way, and steps that need a person or are delayed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub deletions_by_state: Vec<(DeletionState, u64)>,
    pub steps: Counts,
    /// Deletions that are planning, awaiting approval, running or paused, newest first, at most 50.
    pub deletions: Vec<Deletion>,
    /// Steps that are stuck in their own right, the longest stuck first; then the newest 50 refusals, the oldest of
    /// them first, each as a stuck step with id 0. At most 200 in all.
    pub attention: Vec<Step>,
    /// Verifying steps whose accepted delete is delayed, the longest delayed first: at most 50.
    pub delayed: Vec<Step>,
    pub last_event: i64,
}
