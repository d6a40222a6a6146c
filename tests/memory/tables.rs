//! The tables, and functions that build rows for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use gone::domain::model::{
    Action, Counts, DeletionState, KindName, Plan, ResourceKey, Site, SitePause, StepState,
};
use gone::domain::native::Native;
use gone::domain::notification::CursorPosition;
use gone::domain::outline::Branch;
use gone::domain::peers::{ClearanceAnswer, DeletionNotice, Deployment};
use gone::ledger::store::{
    OriginalCopies, Pace, StepPlan, StepRow, StoredDeletion, StoredRequest, StoredStep,
    StoredTombstone, TombstoneRow, UnsavedEvent,
};
use gone::ledger::tombstones::Changed;
use gone::ledger::transitions::has_ended;
use gone::ledger::{AuditEntry, AuditRow, KeptRequest, KeyedRequest, WatchCursor, audit};
use serde_json::Value;
use tokio::time::Instant;

/// A deletion of a resource of another deployment, as the last notice of its owner describes it.
#[derive(Clone)]
pub struct PeerDeletion {
    pub num: i64,
    pub owner: String,
    pub notice: DeletionNotice,
    pub gone_at: Option<DateTime<Utc>>,
    /// The deletion that handles the notice; 0 if nothing here refers to the resource; none if it is not handled yet.
    pub handled_by: Option<i64>,
}

/// One of several engines that share the ledger.
#[derive(Clone, Debug)]
pub struct EngineRow {
    pub epoch: i64,
    pub works: bool,
    pub has_gates: bool,
    pub applied: i64,
    pub passed: i64,
    /// When the engine last renewed its lease; none once its process is known to have ended.
    pub renewed: Option<Instant>,
    pub lease: Duration,
    /// Whether another engine has marked this one as ended, because its lease was over. Never becomes false again.
    pub has_ended: bool,
}

impl EngineRow {
    pub fn renewed_ago_ms(&self) -> i64 {
        let ago = self.renewed.map(|at| at.elapsed().as_millis() as i64);
        ago.unwrap_or(i64::MAX)
    }

    pub fn is_lost(&self) -> bool {
        self.renewed.is_none_or(|at| at.elapsed() >= self.lease)
    }
}

#[derive(Clone, Default)]
pub struct Tables {
    /// The epoch of the engine that opened the ledger last.
    pub(super) epoch: i64,
    /// The engines that share the ledger, in the order of their epochs; empty if only one engine uses it.
    pub engines: Vec<EngineRow>,
    /// The changes of tombstones, in their order, for the engines that share the ledger.
    pub tombstone_changes: Vec<Changed>,
    pub steps: BTreeMap<i64, StoredStep>,
    /// The part of each step that its plan fixes; the default for steps that a test inserts.
    pub plans: BTreeMap<i64, StepPlan>,
    pub deletions: BTreeMap<i64, StoredDeletion>,
    pub tombstones: BTreeMap<i64, (ResourceKey, StoredTombstone)>,
    /// Pairs of step ids: the dependency and its dependent.
    pub edges: BTreeSet<(i64, i64)>,
    /// The events by their sequence numbers.
    pub events: BTreeMap<i64, UnsavedEvent>,
    pub audit: Vec<AuditRow>,
    pub(super) steps_of: BTreeMap<ResourceKey, BTreeSet<i64>>,
    pub(super) record_of: BTreeMap<ResourceKey, i64>,
    pub(super) last_event: i64,
    pub(super) last_record: i64,
    pub(super) last_native: i64,
    pub(super) requests: BTreeMap<i64, StoredRequest>,
    pub(super) frozen: BTreeMap<i64, Plan>,
    pub(super) saved_plans: BTreeMap<String, (Plan, DateTime<Utc>)>,
    pub(super) kept_requests: Vec<(KeyedRequest, KeptRequest, DateTime<Utc>)>,
    /// The branches by their ids, each with the number of its deletion.
    pub(super) branches: BTreeMap<i64, (i64, Branch)>,
    pub(super) snapshots: BTreeMap<i64, Value>,
    pub(super) copies: BTreeMap<i64, OriginalCopies>,
    pub(super) sites: BTreeMap<String, String>,
    pub(super) pauses: BTreeMap<Site, SitePause>,
    pub(super) notification_cursors: BTreeMap<String, CursorPosition>,
    pub(super) importers: BTreeMap<String, (Deployment, DateTime<Utc>)>,
    pub(super) importer_kinds: BTreeSet<(KindName, String)>,
    /// The pending clearances by importer and step id, each with the importer's last answer, if any.
    pub(super) pending_clearances: BTreeMap<(String, i64), Option<ClearanceAnswer>>,
    /// The notices to importers by their sequence numbers, each with the record of its tombstone.
    pub(super) notices: BTreeMap<i64, i64>,
    pub(super) last_notice: i64,
    pub(super) watches: Vec<WatchCursor>,
    pub(super) peer_deletions: BTreeMap<ResourceKey, PeerDeletion>,
    pub(super) last_peer_deletion: i64,
    pub(super) natives: BTreeMap<i64, Native>,
    /// The references: the number of the resource, its field, and the resource to which it refers.
    pub(super) references: BTreeSet<(i64, String, ResourceKey)>,
}

impl Tables {
    pub fn next_epoch(&mut self) -> i64 {
        self.epoch += 1;
        self.epoch
    }

    pub fn last_event(&self) -> i64 {
        self.last_event
    }

    /// Inserts a step, also into the index of resources.
    pub fn insert_step(&mut self, step: StoredStep, plan: StepPlan) {
        let of = self.steps_of.entry(step.key.clone()).or_default();
        of.insert(step.id);
        self.plans.insert(step.id, plan);
        self.steps.insert(step.id, step);
    }

    pub(super) fn remove_step(&mut self, id: i64) -> Option<StoredStep> {
        self.plans.remove(&id);
        let step = self.steps.remove(&id)?;
        if let Some(of) = self.steps_of.get_mut(&step.key) {
            of.remove(&id);
        }
        Some(step)
    }

    /// Inserts a tombstone, also into the index of resources.
    pub fn insert_tombstone(&mut self, key: ResourceKey, row: StoredTombstone) {
        self.record_of.insert(key.clone(), row.record);
        self.tombstones.insert(row.record, (key, row));
    }

    /// Saves a tombstone. Importers are notified if its phase changes.
    pub(super) fn save_tombstone(&mut self, now: StoredTombstone) {
        let record = now.record;
        let Some((_, row)) = self.tombstones.get_mut(&record) else {
            return;
        };
        let has_moved = row.phase != now.phase;
        *row = now;
        if has_moved {
            self.notify_importers(record);
        }
    }

    /// Appends an entry to the audit chain (P6).
    pub(super) fn audit(&mut self, entry: &AuditEntry, at: DateTime<Utc>) {
        let before = self.audit.last();
        let mut row = AuditRow {
            seq: before.map_or(1, |before| before.seq + 1),
            at: micros(at),
            actor: entry.actor.clone(),
            action: entry.action.clone(),
            target: entry.target.clone(),
            reason: entry.reason.clone(),
            detail: entry.detail.clone(),
            hash: String::new(),
        };
        let before = before.map_or(audit::GENESIS, |before| &before.hash);
        row.hash = audit::link(before, &row);
        self.audit.push(row);
    }

    /// The ids of the wanted steps, in their order.
    pub(super) fn steps_where(&self, is_wanted: impl Fn(&StoredStep) -> bool) -> Vec<i64> {
        let found = self.steps.values().filter(|step| is_wanted(step));
        found.map(|step| step.id).collect()
    }

    pub(super) fn step_row(&self, id: i64) -> Option<StepRow> {
        Some(StepRow {
            now: self.steps.get(&id)?.clone(),
            plan: self.plans.get(&id).cloned().unwrap_or_default(),
        })
    }

    pub(super) fn record(&self, record: i64) -> Option<TombstoneRow> {
        let (key, now) = self.tombstones.get(&record)?;
        Some(TombstoneRow {
            key: key.clone(),
            now: now.clone(),
        })
    }

    /// The wanted tombstones, in the order of their records.
    pub(super) fn records_where(
        &self,
        is_wanted: impl Fn(&ResourceKey, &StoredTombstone) -> bool,
    ) -> Vec<TombstoneRow> {
        let found = self.tombstones.iter();
        let found = found.filter(|(_, (key, now))| is_wanted(key, now));
        found
            .filter_map(|(record, _)| self.record(*record))
            .collect()
    }

    /// Adds a notice about the tombstone, if an importer refers to its kind.
    pub(super) fn notify_importers(&mut self, record: i64) {
        let Some((key, _)) = self.tombstones.get(&record) else {
            return;
        };
        if self
            .importer_kinds
            .iter()
            .any(|(kind, _)| *kind == key.kind)
        {
            self.notices.retain(|_, noted| *noted != record);
            self.last_notice += 1;
            self.notices.insert(self.last_notice, record);
        }
    }

    /// Removes a tombstone and its notice.
    pub(super) fn remove_tombstone(&mut self, record: i64) {
        if let Some((key, _)) = self.tombstones.remove(&record) {
            self.record_of.remove(&key);
        }
        self.notices.retain(|_, noted| *noted != record);
    }
}

/// Whether two keys name the same resource of the registry, which compares ids without regard to case.
pub(super) fn same(a: &ResourceKey, b: &ResourceKey) -> bool {
    (&a.site, &a.kind) == (&b.site, &b.kind) && a.id.eq_ignore_ascii_case(&b.id)
}

/// The time, truncated to microseconds as in a ledger.
pub(super) fn micros(at: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(at.timestamp_micros()).unwrap()
}

/// A deletion without steps.
pub fn deletion(num: i64, id: &str, stops: bool) -> StoredDeletion {
    StoredDeletion {
        num,
        id: id.to_owned(),
        state: DeletionState::Planning,
        cancelled: false,
        paused: false,
        stops,
        counts: Counts::default(),
        finished_at: None,
        woken_at: None,
        note: String::new(),
        pace: Pace::default(),
    }
}

/// A step that deletes a resource and has had this state since `since`. The number of its tombstone's record is the
/// step's id.
pub fn step(
    id: i64,
    deletion: i64,
    key: ResourceKey,
    state: StepState,
    since: DateTime<Utc>,
) -> StoredStep {
    StoredStep {
        id,
        deletion,
        key,
        name: String::new(),
        action: Action::Delete,
        record: Some(id),
        state,
        since,
        ended_at: has_ended(state).then_some(since),
        claim: 1,
        epoch: 1,
        sent: state == StepState::Verifying,
        waits: 0,
        attempts: 0,
        observations: 0,
        next_attempt_at: None,
        own_attempt_at: None,
        blocked_since: None,
        blockers: Vec::new(),
        error: None,
        held_by: None,
        left_to: None,
        notified: false,
    }
}
