//! Reads of one snapshot: rows by sets of keys, and pages of keys or rows in the order of an index.
//!
//! [`reads`](crate::ledger::reads) decides the meaning of the rows for callers: which rows belong to an answer, what
//! follows from several rows, and where a page ends. A method that counts, groups or jumps along an index is a
//! statement of the store, because it reads many rows and its answer is small.
//!
//! Methods that take a set of keys return rows in the order of the keys, unless they say otherwise; keys without
//! a row are left out.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    Fallible, OriginalCopies, StepRow, Stored, StoredDeletion, StoredRequest, StoredTombstone,
};
use crate::domain::attention::CauseGroup;
use crate::domain::gantt::GanttCell;
use crate::domain::last_day::LastDay;
use crate::domain::last_hour::SiteMinute;
use crate::domain::model::{
    Action, Actor, Blocker, Counts, DeletionState, Event, Identity, KindName, Plan, ResourceKey,
    Site, SitePause, StepError, StepState,
};
use crate::domain::notification::CursorPosition;
use crate::domain::outline::Branch;
use crate::ledger::{
    AuditRow, DeletionFilter, KeptRequest, ObservationsDue, StepFilter, TombstoneFilter,
};

/// A tombstone with its resource.
#[derive(Clone, Debug, PartialEq)]
pub struct TombstoneRow {
    pub key: ResourceKey,
    pub now: StoredTombstone,
}

/// Sums over all deletions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    pub deletions: BTreeMap<DeletionState, u64>,
    pub steps: Counts,
}

/// Steps in one state, in the order of deletion and id.
#[derive(Clone, Debug)]
pub struct StepRange<'f> {
    pub state: StepState,
    /// Number of the steps' deletion; none: all deletions.
    pub deletion: Option<i64>,
    /// Only steps after this pair of deletion and id.
    pub after: Option<(i64, i64)>,
    /// Selects the steps by site, kind, age and cause. The other fields of the filter do not count here.
    pub filter: &'f StepFilter,
}

/// The texts of a step that a person's search covers.
#[derive(Clone, Debug)]
pub struct SearchedStep<'r> {
    pub deletion: i64,
    pub id: i64,
    pub name: &'r str,
    pub resource: &'r str,
    pub action: &'r str,
    pub kind: &'r str,
    pub site: &'r str,
    pub project: &'r str,
    pub blocked_since: Option<DateTime<Utc>>,
    pub blockers: Vec<Blocker>,
    pub error: Option<StepError>,
}

/// Steps of one state in a branch, in the order of their ids.
#[derive(Clone, Copy, Debug)]
pub struct BranchRange {
    pub branch: i64,
    pub state: StepState,
    /// Whether to read backwards from the last step.
    pub from_end: bool,
    pub offset: u64,
    pub limit: u64,
}

/// Steps of one kind at one site with the same action.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepGroup {
    pub site: Site,
    pub kind: KindName,
    pub action: Action,
}

/// How many steps a group has, how many of them have ended, and a step that has not ended, else the one that ended
/// last.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupProgress {
    pub group: StepGroup,
    pub steps: u64,
    pub ended: u64,
    pub last: i64,
}

/// The number of steps that fall due within an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DueCount {
    pub steps: u64,
    /// When the first of the steps falls due; none if there are no steps.
    pub first: Option<DateTime<Utc>>,
}

/// Which events to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsOf {
    All,
    /// The events of the deletion with this number.
    Deletion(i64),
    Step(i64),
}

/// The range of the numbers of events, and the time of the last event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventRange {
    /// The number of the oldest event that is kept; if none is, the number of the next event.
    pub oldest: i64,
    /// The number of the last event that was written; 0 if there was none.
    pub newest: i64,
    /// When the last event that is kept happened.
    pub latest_at: Option<DateTime<Utc>>,
}

/// Number of requests that are loaded and searched at a time.
const PLANNED_TOGETHER: usize = 500;

/// Reads of deletions, of their requests and plans, and of sums over all deletions.
pub trait DeletionReads: Fallible {
    /// Finds the number of a deletion by its full id.
    fn find_deletion(&self, id: &str) -> Stored<Self, Option<i64>>;

    /// Counts the deletions that have ended since this time and are not stuck, and the steps in state `gone` of these
    /// deletions.
    fn count_ended(&self, since: DateTime<Utc>) -> Stored<Self, LastDay>;

    /// Loads the plan that has started, without its steps.
    fn load_frozen(&self, num: i64) -> Stored<Self, Option<Plan>>;

    /// Loads a plan by its hash, if it was saved after `since`.
    fn load_plan(&self, hash: &str, since: DateTime<Utc>) -> Stored<Self, Option<Plan>>;

    /// Finds the request that this actor made under this key after `since`.
    fn find_request(
        &self,
        actor: &Actor,
        key: &str,
        since: DateTime<Utc>,
    ) -> Stored<Self, Option<KeptRequest>>;

    /// Loads sums that each change keeps up to date, so the cost of this read does not grow with the ledger.
    fn load_totals(&self) -> Stored<Self, Totals>;

    /// Finds deletions by the end of their ids, at least 8 characters of it: at most `limit`.
    fn find_deletions_ending(&self, suffix: &str, limit: usize) -> Stored<Self, Vec<i64>>;

    /// Finds the deletions that match the filter, in the order of their numbers, ascending or descending as the filter
    /// says: those after `after`, at most `limit`.
    fn find_deletions(
        &self,
        filter: &DeletionFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Stored<Self, Vec<i64>>;

    fn load_deletions(&self, nums: &[i64]) -> Stored<Self, Vec<StoredDeletion>>;

    /// Loads the requests of deletions, each with the deletion's number.
    fn load_requests(&self, nums: &[i64]) -> Stored<Self, Vec<(i64, StoredRequest)>>;

    /// Finds a deletion that is being planned or awaits approval, and has this resource among its targets or their
    /// copies.
    fn find_planned(&self, key: &ResourceKey) -> Stored<Self, Option<i64>> {
        // Copies have the kind of their targets, but other sites.
        let filter = DeletionFilter {
            states: vec![DeletionState::Planning, DeletionState::AwaitingApproval],
            kind: Some(key.kind.clone()),
            ..DeletionFilter::default()
        };
        let mut after = None;
        loop {
            let found = self.find_deletions(&filter, after, PLANNED_TOGETHER)?;
            let has_it = |request: &StoredRequest| {
                let targets = request.targets.iter().map(|target| &target.key);
                targets.chain(&request.copies).any(|it| it == key)
            };
            let requests = self.load_requests(&found)?;
            if let Some((num, _)) = requests.iter().find(|(_, request)| has_it(request)) {
                return Ok(Some(*num));
            }
            if found.len() < PLANNED_TOGETHER {
                return Ok(None);
            }
            after = found.last().copied();
        }
    }

    /// Loads only the identities of the plan that has started, because its other fields may be long.
    fn load_identities(&self, num: i64) -> Stored<Self, Option<BTreeMap<String, Identity>>>;
}

/// Reads of steps and of their edges, and counts of steps.
pub trait StepReads: Fallible {
    fn load_step_rows(&self, ids: &[i64]) -> Stored<Self, Vec<StepRow>>;

    /// Loads the edges to the dependencies of these steps, at most `each_max` edges for each step, as (dependency,
    /// dependent): in the order of `ids`, then by dependency.
    fn load_dependencies(
        &self,
        ids: &[i64],
        each_max: Option<usize>,
    ) -> Stored<Self, Vec<(i64, i64)>>;

    /// Finds a dependency of this step that has not ended, else the one that ended last.
    fn find_last_dependency(&self, step: i64) -> Stored<Self, Option<i64>>;

    /// Finds, for each of these resources, its steps that have not ended and are not left to another deletion: in the
    /// order of the keys, and then of the steps' ids.
    fn find_live(&self, keys: &[ResourceKey]) -> Stored<Self, Vec<i64>>;

    /// Finds the deletion's steps that are in this state, in the order of their ids.
    fn find_in_state(&self, deletion: i64, state: StepState) -> Stored<Self, Vec<i64>> {
        let range = StepRange {
            state,
            deletion: Some(deletion),
            after: None,
            filter: &StepFilter::default(),
        };
        let found = self.find_steps(&range, usize::MAX)?.into_iter();
        Ok(found.map(|(_, id)| id).collect())
    }

    /// Finds steps, at most `limit`, as (deletion, id).
    fn find_steps(&self, range: &StepRange<'_>, limit: usize) -> Stored<Self, Vec<(i64, i64)>>;

    /// Passes at most `limit` steps to `visit`, until it returns false.
    fn search_steps(
        &self,
        range: &StepRange<'_>,
        limit: usize,
        visit: &mut dyn FnMut(&SearchedStep<'_>) -> bool,
    ) -> Stored<Self>;

    /// Finds the steps that are stuck in their own right, the longest stuck first.
    fn find_stuck(&self, limit: usize) -> Stored<Self, Vec<i64>>;

    /// Finds the verifying steps whose delete is delayed (with `blocked_since`), the longest delayed first.
    fn find_delayed(&self, limit: usize) -> Stored<Self, Vec<i64>>;

    /// Finds abandoned steps whose tombstone is still theirs and `purged`, as (deletion, id), in this order.
    fn find_abandoned(
        &self,
        after: Option<(i64, i64)>,
        limit: usize,
    ) -> Stored<Self, Vec<(i64, i64)>>;

    /// Groups the steps that [need a person](crate::domain::attention::needs_person) by their cause, the largest
    /// group first. `sites` limits them to these sites; an empty list means all sites.
    fn count_causes(&self, sites: &[Site]) -> Stored<Self, Vec<CauseGroup>>;

    /// Counts the steps of a deletion by site and state, in the order of the sites.
    fn count_by_site(&self, deletion: i64) -> Stored<Self, Vec<(Site, StepState, u64)>>;

    /// Lists the groups of verifying steps for which an observation is due. Jumps from one group to the next, so
    /// the cost grows with the number of groups, and only a little with their steps.
    fn find_observations_due(&self, now: DateTime<Utc>) -> Stored<Self, Vec<ObservationsDue>>;

    /// Loads the due steps of these groups, group after group, the longest due of each first: at most `limit`.
    fn load_observed(
        &self,
        of: &[ObservationsDue],
        now: DateTime<Utc>,
        limit: usize,
    ) -> Stored<Self, Vec<StepRow>>;

    /// Finds when the first blocked or verifying step (`state`) falls due after this time; none: at any time.
    fn find_first_due(
        &self,
        state: StepState,
        after: Option<DateTime<Utc>>,
    ) -> Stored<Self, Option<DateTime<Utc>>>;

    /// Finds when the first blocked step of a deletion falls due.
    fn find_next_attempt(&self, deletion: i64) -> Stored<Self, Option<DateTime<Utc>>>;

    /// Counts the blocked steps by when they fall due: up to the first of these times, then up to each next one, and
    /// after the last one.
    fn count_due(&self, ends: &[DateTime<Utc>]) -> Stored<Self, Vec<DueCount>>;

    /// Loads the branches of a deletion below a step (none: the branches of the steps on which no other step depends),
    /// with their counts, in the order of their ids.
    fn load_branches(&self, deletion: i64, below: Option<i64>) -> Stored<Self, Vec<Branch>>;

    fn count_branch(&self, branch: i64) -> Stored<Self, Counts>;

    fn find_in_branch(&self, range: &BranchRange) -> Stored<Self, Vec<i64>>;

    /// Counts the steps of a branch that are in this state and have ids lower than `id`.
    fn count_before(&self, branch: i64, state: StepState, id: i64) -> Stored<Self, u64>;

    /// Counts the answered calls of a deletion's steps, the steps that became blocked or stuck, and the steps that
    /// ended: by group, and by columns of equal duration. Columns without events are left out.
    fn count_cells(
        &self,
        deletion: i64,
        from: DateTime<Utc>,
        until: DateTime<Utc>,
        columns: u32,
    ) -> Stored<Self, Vec<(StepGroup, GanttCell)>>;

    /// Counts the answered calls of steps, and the steps that an answer or observation made blocked or stuck, by site
    /// and minute, in the order of sites and minutes. Counts only events with a number above `after`, and only in the
    /// first `minutes` minutes from `from` on.
    fn count_calls(
        &self,
        after: i64,
        from: DateTime<Utc>,
        minutes: u32,
    ) -> Stored<Self, Vec<SiteMinute>>;

    /// Counts the steps of a deletion by group.
    fn count_groups(&self, deletion: i64) -> Stored<Self, Vec<GroupProgress>>;
}

/// Reads of tombstones, of the snapshots of their resources, and of the sites where copies may be re-created.
pub trait TombstoneReads: Fallible {
    /// Loads the tombstones of resources that are gone, in the order of `gone_at` and record: those after this
    /// pair.
    fn find_held_down(
        &self,
        after: (DateTime<Utc>, i64),
        limit: usize,
    ) -> Stored<Self, Vec<TombstoneRow>>;

    /// Loads the tombstones of originals, from the one after the record `after` on. The originals are being deleted by
    /// a deletion that is not paused, or became gone at `since` or later.
    fn find_originals(
        &self,
        since: DateTime<Utc>,
        after: i64,
        limit: usize,
    ) -> Stored<Self, Vec<TombstoneRow>>;

    /// Finds the record of the original with which the cloud removes this part.
    fn find_whole(&self, part: &ResourceKey) -> Stored<Self, Option<i64>>;

    /// Finds the records of the originals whose copies are known by this name, in the order of the records.
    fn find_namesakes(&self, site: &Site, kind: &KindName, name: &str) -> Stored<Self, Vec<i64>>;

    /// Loads the resource of a tombstone, given by the tombstone's record, as its cloud showed it when the deletion was
    /// accepted (T7).
    fn load_snapshot(&self, record: i64) -> Stored<Self, Option<Value>>;

    /// Loads the tombstones of these resources, in the same order; none for a resource without one.
    fn load_tombstones(&self, keys: &[ResourceKey]) -> Stored<Self, Vec<Option<StoredTombstone>>>;

    fn load_records(&self, records: &[i64]) -> Stored<Self, Vec<TombstoneRow>>;

    /// Loads the tombstones that match the filter and have a record above `after`, in the order of their records.
    fn find_tombstones(
        &self,
        filter: &TombstoneFilter,
        after: i64,
        limit: usize,
    ) -> Stored<Self, Vec<TombstoneRow>>;

    /// Loads the [`OriginalCopies`] of the originals with these records, each with the original's record.
    fn load_copies(&self, records: &[i64]) -> Stored<Self, Vec<(i64, OriginalCopies)>>;
}

/// Reads of the ledger's id, of events and the audit, of notification cursors, and of paused sites.
pub trait LogReads: Fallible {
    /// The ledger's own id, which no other ledger has.
    fn ledger_id(&self) -> Stored<Self, String>;

    /// Loads the events with a number above `after`, in the order of their numbers.
    fn load_events(&self, after: i64, of: EventsOf, limit: usize) -> Stored<Self, Vec<Event>>;

    fn event_range(&self) -> Stored<Self, EventRange>;

    /// Loads the rows of the audit with a number above `after`, in the order of their numbers.
    fn load_audit(&self, after: i64, limit: usize) -> Stored<Self, Vec<AuditRow>>;

    /// Loads how far a channel has been notified (I7).
    fn load_cursor_position(&self, channel: &str) -> Stored<Self, Option<CursorPosition>>;

    /// Loads the sites that a person paused, in the order of their names.
    fn load_site_pauses(&self) -> Stored<Self, Vec<SitePause>>;
}
