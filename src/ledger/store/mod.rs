//! The traits of a store of rows: it loads rows by sets of keys, finds keys along an index, and saves changed rows.
//!
//! A store decides nothing. [`transitions`](crate::ledger::transitions) decides which state follows which, on
//! the rows of a [`WorkingSet`](super::working_set::WorkingSet); [`events`](crate::ledger::events) builds the events of
//! changes, and [`reads`](crate::ledger::reads) decides how the rows of one snapshot answer a query.
//!
//! | rows | read by | written by |
//! |---|---|---|
//! | deletions, requests, plans | [`DeletionReads`] | [`RowStore`], [`PlanRows`] |
//! | steps, edges, branches | [`StepReads`], [`StepFinds`] | [`RowStore`], [`PlanRows`] |
//! | tombstones, snapshots, copies | [`TombstoneReads`] | [`RowStore`], [`PlanRows`] |
//! | events, the audit, cursors, pauses of sites | [`LogReads`] | [`RowStore`], [`SiteRows`] |
//! | importers, clearances, notices, watches | [`PeerReads`] | [`PeerRows`], [`SiteRows`], [`RowStore`] |
//! | the registry's resources and references | [`NativeReads`] | [`NativeRows`] |
//! | old rows | | [`PruneRows`] |
//! | whole tables, for copies | [`tables::TableReads`] | [`tables::TableWrites`] |
//!
//! # How each query is answered
//! | query | decided in | statements of the store, and why |
//! |---|---|---|
//! | `claim` | `transitions/claims`: the order of deletions, quotas | the next deletions with ready steps, and the first ready steps of a deletion: along an index |
//! | `commit` | `transitions` | see the table there |
//! | `observations_due` | [`domain::policy`](crate::domain::policy) | the whole query: it jumps from group to group along an index, and counts within each |
//! | `steps_to_observe`, `next_due`, `upcoming` | `reads` | due steps by group; the first due step; counts of due steps |
//! | `deletion`, `deletions`, `frozen_plan`, `identities`, `plan`, `kept_request` | `reads`: short ids, rates, ends of pages, 24 h | numbers by filter; the identities of a plan, whose other fields may be long |
//! | `steps`, `count_steps`, `step`, `orphans` | `reads`: the merge of states, text search, ends of pages | keys of one state by filter; texts of one state, which are passed on and not kept |
//! | `causes`, `progress`, `gantt`, `summary`, `last_hour`, `last_day` | `reads`, except the groups of `causes` and the sums of `last_day` | counts by group, because many rows have a small answer; maintained sums |
//! | `outline`, `branch_steps` | `reads`: which branches are folded, positions | counts of a branch, and a part of it from either end: from the index alone |
//! | `tombstones`, `tombstones_of`, `held_down`, `originals`, `whole_of`, `namesakes`, `shown_before` | `reads`: which phases count | rows by filter; by `gone_at`; with copies; by part or name |
//! | `events`, `audit`, `notification_cursor`, `site_pauses` | `reads` | rows after a number; the range of numbers |
//! | `native`, `referrers` | `reads`: ends of pages | rows by field or reference; referrers, named and counted |
//! | `importers`, `importers_cursor`, `notices`, `steps_awaiting_clearance`, `live_steps`, `live_dependencies`, `handled_by_deletion` | `reads`: roots, the first notice, which live step counts | rows after a sequence number; steps that wait for an importer |
//! | `unhandled_deletions`, `deleting_owners`, `watches`, `pending_clearances` | – | the whole query: rows of one small table |
//!
//! # To add a store
//! Implement these traits for the rows of the store, and [`Drive`](super::Drive) and [`Engines`](super::Engines) for
//! the type that opens them: a transaction answers requests by [`answer`](super::answer). Then this type is a
//! [`Ledger`](super::Ledger). A store in SQL implements [`RowStore`], and [`sql::Statements`] and [`sql::Writes`],
//! which provide all other traits except those of whole tables. [`decode`] reads its rows, and [`sql_saved`] has the
//! values that it writes. `tests/ledger` runs its tests on each store that its `stores.rs` names. The store in
//! `tests/memory` shows what each method means.

mod counters;
pub mod decode;
mod natives;
mod peers;
mod plans;
mod prune;
mod reads;
pub mod sql;
mod sql_deletions;
mod sql_log;
mod sql_natives;
mod sql_pages;
mod sql_peers;
mod sql_plans;
mod sql_prune;
mod sql_row_store;
pub mod sql_saved;
mod sql_steps;
mod sql_tombstones;
mod steps;
pub mod tables;

use std::collections::BTreeSet;
use std::fmt::Display;

use chrono::{DateTime, TimeDelta, Utc};

pub use counters::counter_changes;
pub use natives::{NativeReads, NativeRows};
pub use peers::{PeerReads, PeerRows, StoredNotice};
pub use plans::{KEPT, NewStep, OriginalCopies, PlanRows, StoredRequest};
pub use prune::PruneRows;
pub use reads::{
    BranchRange, DeletionReads, DueCount, EventRange, EventsOf, GroupProgress, LogReads,
    SearchedStep, StepGroup, StepRange, StepReads, TombstoneReads, TombstoneRow, Totals,
};
pub use steps::{StepPlan, StepRow};

use super::AuditEntry;
use super::events::EventDraft;
use crate::domain::model::{
    Action, Blocker, Counts, DeletionState, Phase, ResourceKey, Site, SitePause, StepError,
    StepState,
};
use crate::domain::notification::CursorPosition;

/// Why a change was not applied.
#[derive(Debug, thiserror::Error)]
pub enum Stop<E> {
    /// The change is not allowed, for this reason. Its writes are undone, unless it is a part of a change that
    /// continues.
    #[error("{0}")]
    Refused(String),
    /// The rows contradict the change. A part of it may be done already, so all of it is undone.
    #[error("{0}")]
    Impossible(String),
    /// The store failed.
    #[error("{0}")]
    Failed(E),
}

impl<E> From<E> for Stop<E> {
    fn from(error: E) -> Self {
        Self::Failed(error)
    }
}

/// A step, with all columns that a change may write. [`StepPlan`] has the columns that never change.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredStep {
    pub id: i64,
    /// Number of the step's deletion.
    pub deletion: i64,
    pub key: ResourceKey,
    pub name: String,
    pub action: Action,
    /// Record of the step's tombstone; none if the resource stays, or another deletion deletes it.
    pub record: Option<i64>,
    pub state: StepState,
    /// When the step entered its state; if the outcome of its call made it `verifying`, when an engine claimed it for
    /// that call.
    pub since: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
    /// How often the step was claimed.
    pub claim: i64,
    /// Epoch of the engine that claimed the step; while it is verifying, of the engine that observes it.
    pub epoch: i64,
    /// Whether the step was ever claimed, so that its call may have been sent.
    pub sent: bool,
    /// Number of the step's dependencies that have not ended.
    pub waits: u32,
    pub attempts: u32,
    pub observations: u32,
    /// When the next attempt or observation is due, if the step is blocked or verifying.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// When the engine's own schedule would have made the next attempt, if a repeated DELETE woke the step
    /// (I14).
    pub own_attempt_at: Option<DateTime<Utc>>,
    pub blocked_since: Option<DateTime<Utc>>,
    pub blockers: Vec<Blocker>,
    pub error: Option<StepError>,
    /// The stuck step because of which this one is stuck too (N11, N12).
    pub held_by: Option<i64>,
    /// The step of another deletion that deletes the same resource (P9).
    pub left_to: Option<i64>,
    /// Whether people were notified that the step is stuck (I7).
    pub notified: bool,
}

/// A deletion, with the columns that change while its steps move.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDeletion {
    pub num: i64,
    pub id: String,
    pub state: DeletionState,
    pub cancelled: bool,
    pub paused: bool,
    /// Whether `on_failure = stop`.
    pub stops: bool,
    pub counts: Counts,
    pub finished_at: Option<DateTime<Utc>>,
    /// When a repeated DELETE last woke the deletion's steps (T6).
    pub woken_at: Option<DateTime<Utc>>,
    pub note: String,
    pub pace: Pace,
}

/// A tombstone.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTombstone {
    pub record: i64,
    /// Number of the deletion that raised the tombstone last.
    pub deletion: i64,
    pub phase: Phase,
    /// When the deletion of the resource began; none once the tombstone was released because the resource exists
    /// after its deletion ended.
    pub deleted_at: Option<DateTime<Utc>>,
    pub gone_at: Option<DateTime<Utc>>,
    pub incarnation: u32,
    /// How often the resource was found to exist again, or a new copy of it was found, since the tombstone was last
    /// released.
    pub recreated: u32,
}

/// A tombstone to insert.
#[derive(Clone, Copy, Debug)]
pub struct NewTombstone<'a> {
    pub key: &'a ResourceKey,
    /// Number of the deletion that raises the tombstone.
    pub deletion: i64,
    pub phase: Phase,
    pub deleted_at: DateTime<Utc>,
}

/// How fast clouds accept the steps: two samples, so that the rate covers the last 30 to 60 s of progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    pub moved_at: Option<DateTime<Utc>>,
    pub from: (Option<DateTime<Utc>>, u64),
    pub middle: (Option<DateTime<Utc>>, u64),
}

const PACE_MARK: TimeDelta = TimeDelta::seconds(30);
/// Minimum time over which a rate is computed.
const RATE_MILLIS_MIN: i64 = 1_000;

impl Pace {
    pub fn moved(&mut self, ended_before: u64, now: DateTime<Utc>) {
        self.moved_at = Some(now);
        match self.middle.0 {
            Some(middle) if now - middle < PACE_MARK => {}
            Some(middle) if now - middle < PACE_MARK * 2 => {
                self.from = self.middle;
                self.middle = (Some(now), ended_before);
            }
            // The first sample, or the first after a pause: older samples say nothing.
            _ => {
                self.from = (Some(now), ended_before);
                self.middle = self.from;
            }
        }
    }

    /// The number of steps per second that clouds accepted since the older sample; zero if they have accepted none for
    /// a minute.
    pub fn rate_per_second(&self, counts: &Counts, latest: DateTime<Utc>) -> f64 {
        let (Some(from), Some(moved)) = (self.from.0, self.moved_at) else {
            return 0.0;
        };
        if latest - moved > PACE_MARK * 2 {
            return 0.0;
        }
        let done = counts.accepted().saturating_sub(self.from.1);
        let millis = (moved - from).num_milliseconds().max(RATE_MILLIS_MIN);
        done as f64 * 1000.0 / millis as f64
    }
}

/// An event that is not saved yet.
#[derive(Clone, Debug)]
pub struct UnsavedEvent {
    /// Number of the deletion.
    pub deletion: Option<i64>,
    pub step: Option<i64>,
    pub draft: EventDraft,
    pub at: DateTime<Utc>,
}

/// The new phase of a tombstone. It is written only if the tombstone still belongs to this deletion; then the snapshot
/// of the resource is removed, too.
#[derive(Clone, Debug)]
pub struct EndedTombstone {
    pub record: i64,
    pub deletion: i64,
    pub phase: Phase,
    pub at: DateTime<Utc>,
}

/// The changes in memory that are not saved yet. Rows of the audit, and events, are saved in the order of their lists,
/// tombstones that changed before those that ended, and everything else in any order.
#[derive(Debug)]
pub struct Unsaved<'a> {
    /// Each step as it is saved, and as it is now.
    pub steps: Vec<(&'a StoredStep, &'a StoredStep)>,
    pub others: UnsavedOthers,
}

/// The changes of everything but steps and deletions.
#[derive(Debug, Default)]
pub struct UnsavedOthers {
    pub tombstones: Vec<StoredTombstone>,
    pub ended: Vec<EndedTombstone>,
    /// Steps that no longer wait for clearances.
    pub cleared: Vec<i64>,
    /// Rows of the audit, whose chain the store continues (P6).
    pub audit: Vec<(AuditEntry, DateTime<Utc>)>,
    pub events: Vec<UnsavedEvent>,
}

/// The steps to which some outcomes belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutcomeSteps {
    pub all: Vec<i64>,
    /// The steps of `all` that will end.
    pub ending: Vec<i64>,
}

impl OutcomeSteps {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.ending.is_empty()
    }
}

/// The rows that the outcomes of steps need; see [`RowStore::load_for_outcomes`].
#[derive(Debug)]
pub struct OutcomeRows {
    /// The steps, and the dependents of those that will end. A step with an outcome that is also such a dependent may
    /// be here twice.
    pub steps: Vec<StoredStep>,
    /// The edges to dependents, as (dependency, dependent), in this order.
    pub dependents: Vec<(i64, i64)>,
    /// The deletions of the steps.
    pub deletions: Vec<StoredDeletion>,
}

/// A store whose calls may fail.
pub trait Fallible {
    type Error: Display;
}

/// The result of a load or save.
pub type Stored<S, T = ()> = Result<T, <S as Fallible>::Error>;

/// All reads of a ledger, within one snapshot.
pub trait LedgerReads:
    DeletionReads + StepReads + TombstoneReads + LogReads + PeerReads + NativeReads
{
}

impl<R: DeletionReads + StepReads + TombstoneReads + LogReads + PeerReads + NativeReads> LedgerReads
    for R
{
}

/// All rows of a ledger, within one transaction.
pub trait LedgerRows: RowStore + PlanRows + PeerRows + NativeRows + PruneRows {}

impl<S: RowStore + PlanRows + PeerRows + NativeRows + PruneRows> LedgerRows for S {}

/// Steps and tombstones that a change needs, found along an index.
pub trait StepFinds: Fallible {
    /// Loads steps; those that do not exist are left out.
    fn load_steps(&self, ids: &[i64]) -> Stored<Self, Vec<StoredStep>>;

    /// Loads the edges to the dependents of these steps, as (dependency, dependent), in this order.
    fn load_dependents(&self, ids: &[i64]) -> Stored<Self, Vec<(i64, i64)>>;

    /// Finds the live steps that are left to any of these owners, in the order of their ids.
    fn find_left_to(&self, owners: &[i64]) -> Stored<Self, Vec<i64>>;

    /// Finds deletions with ready steps at the site, in the order of their numbers: those after the first number of
    /// `between`, up to the second, at most `limit`.
    fn find_ready_deletions(
        &self,
        site: &Site,
        between: (i64, i64),
        limit: usize,
    ) -> Stored<Self, Vec<i64>>;

    /// Loads ready steps of a deletion at a site, at most `limit`: those with the highest rank, then those with
    /// the lowest ids.
    fn load_ready(&self, site: &Site, deletion: i64, limit: usize) -> Stored<Self, Vec<StepRow>>;

    /// Finds a stuck dependency of this step, and the step because of which that dependency is stuck: the dependency
    /// itself if it is stuck in its own right. Ignores dependencies that are stuck because of this step: if a failure
    /// stops the deletion, these may be all of them.
    fn find_stuck_dependency(&self, step: i64) -> Stored<Self, Option<(i64, i64)>>;

    fn find_abandoned_dependency(&self, step: i64) -> Stored<Self, Option<i64>>;

    /// Finds a step of the deletion, other than this one, that is stuck in its own right.
    fn find_failed(&self, deletion: i64, other_than: i64) -> Stored<Self, Option<i64>>;

    /// Finds the blocked steps, of all deletions, whose next attempt is due, the longest due first: at most `limit`.
    fn find_due(&self, now: DateTime<Utc>, limit: usize) -> Stored<Self, Vec<i64>>;

    /// Finds blocked and verifying steps of all deletions: those that entered their state after `now`, and those whose
    /// next observation is after `observed_by`.
    fn find_ahead(&self, now: DateTime<Utc>, observed_by: DateTime<Utc>) -> Stored<Self, Vec<i64>>;

    /// Finds the step of a deletion that ended the tombstone of this record as gone.
    fn find_gone_step(&self, deletion: i64, record: i64) -> Stored<Self, Option<i64>>;

    /// Finds the steps that enabled this step's resource and on which no other step depends, without those whose
    /// resource another live step is enabling.
    fn find_own_enables(&self, step: i64) -> Stored<Self, Vec<i64>>;

    /// Finds the records of a deletion's tombstones in phase `checking`.
    fn find_checking(&self, deletion: i64) -> Stored<Self, Vec<i64>>;
}

/// The rows of sites and of channels, and of waits for clearances.
pub trait SiteRows: Fallible {
    /// Makes steps wait for the clearance of importers.
    fn await_clearances(&self, awaited: &[(String, i64)]) -> Stored<Self>;

    /// Saves that a person paused the site; none: that it is not paused. Returns whether that is a change.
    fn pause_site(&self, site: &Site, pause: Option<&SitePause>) -> Stored<Self, bool>;

    /// Saves how far a channel has been notified (I7); none: removes the cursor of the channel.
    fn save_notification_cursor(
        &self,
        channel: &str,
        position: Option<&CursorPosition>,
    ) -> Stored<Self>;

    /// Loads the state of a site, as an engine last wrote it.
    fn load_site_state(&self, site: &str) -> Stored<Self, Option<String>>;

    fn save_site_state(&self, site: &str, state: &str) -> Stored<Self>;
}

/// The rows of steps, deletions and tombstones.
///
/// The methods that find rows find saved rows only, so the working set saves before it calls them.
pub trait RowStore: LedgerReads + StepFinds + SiteRows {
    /// The epoch of the engine that has the store open.
    fn epoch(&self) -> i64;

    /// Whether a change itself caused the error (it breaks a rule of the tables, or needs a row that cannot be
    /// read), and not the store.
    fn is_caused_by_change(error: &Self::Error) -> bool;

    /// Opens a savepoint. Savepoints nest: keeping or undoing ends the latest one. Open them rarely: while one is open,
    /// a store may copy each page that it writes, again for each statement.
    fn begin_savepoint(&self) -> Stored<Self>;

    fn keep_savepoint(&self) -> Stored<Self>;

    /// Undoes everything since the latest savepoint.
    fn undo_savepoint(&self) -> Stored<Self>;

    /// Loads the rows that the outcomes of these steps need. A store whose statements are round trips to a server sends
    /// them together.
    fn load_for_outcomes(&self, steps: &OutcomeSteps) -> Stored<Self, OutcomeRows> {
        let dependents = self.load_dependents(&steps.ending)?;
        let followers = dependents.iter().map(|(_, dependent)| *dependent);
        let ids: BTreeSet<i64> = steps.all.iter().copied().chain(followers).collect();
        let steps = self.load_steps(&Vec::from_iter(ids))?;
        let nums: BTreeSet<i64> = steps.iter().map(|step| step.deletion).collect();
        let deletions = self.load_deletions(&Vec::from_iter(nums))?;
        Ok(OutcomeRows {
            steps,
            dependents,
            deletions,
        })
    }

    /// Ends for good the engines whose lease has ended, so that they cannot renew it. Returns the epochs of the engines
    /// that have not ended, this one included: they keep their calls in flight.
    fn end_lost_engines(&self) -> Stored<Self, Vec<i64>> {
        Ok(vec![self.epoch()])
    }

    /// Notes that the engines of this name claim no more steps, or claim steps again. Returns their number.
    fn drain_engines(&self, _name: &str, _is_drained: bool) -> Stored<Self, usize> {
        Ok(0)
    }

    /// Makes this engine the one whose outcomes of observations count (I11).
    fn take_over_observations(&self) -> Stored<Self>;

    /// Inserts tombstones, and returns their records in the same order.
    fn insert_tombstones(&self, new: &[NewTombstone<'_>]) -> Stored<Self, Vec<i64>>;

    fn save(&self, unsaved: &Unsaved<'_>) -> Stored<Self>;

    /// Saves `unsaved`, and then [finds the steps that are left](StepFinds::find_left_to) to these owners.
    fn save_and_find_left_to(
        &self,
        unsaved: &Unsaved<'_>,
        owners: &[i64],
    ) -> Stored<Self, Vec<i64>> {
        self.save(unsaved)?;
        self.find_left_to(owners)
    }

    /// Saves the deletions that changed, each as it is saved (none if it is new) and as it is now. Nothing
    /// is read or written after them in their transaction.
    fn save_deletions(&self, changed: &[(Option<StoredDeletion>, StoredDeletion)]) -> Stored<Self>;
}
