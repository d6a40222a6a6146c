//! A ledger's rows in memory: what a store must do, without SQL.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use gone::domain::model::{
    Action, Actor, Counts, DeletionState, KindName, OnFailure, Phase, Plan, PlanStep, Refusal,
    ResourceKey, Site, SitePause, StepState,
};
use gone::domain::native::{Native, NativeReference};
use gone::domain::news::Mark;
use gone::domain::outline::Branch;
use gone::domain::peers::{Answered, DeletionNotice, Deployment, PendingClearance};
use gone::ledger::store::{
    Fallible, NativeRows, NewStep, NewTombstone, OriginalCopies, Pace, PeerRows, PlanRows,
    PruneRows, RowStore, StepPlan, StepRow, Stop, StoredDeletion, StoredNotice, StoredRequest,
    StoredStep, StoredTombstone, Unsaved,
};
use gone::ledger::transitions::{Rotation, has_ended};
use gone::ledger::working_set::WorkingSet;
use gone::ledger::{
    Applied, Capacity, Change, ClaimedStep, Job, KeptRequest, KeyedRequest, NewDeletion, NewNative,
    Outcome, PointedAt, Referrer, WatchCursor, answer,
};
use serde_json::{Map, Value};

type Answer<T = ()> = Result<T, String>;

#[derive(Clone, Default)]
pub struct Tables {
    pub steps: BTreeMap<i64, StoredStep>,
    pub deletions: BTreeMap<i64, StoredDeletion>,
    pub tombstones: BTreeMap<i64, (ResourceKey, StoredTombstone)>,
    /// What the plan says of each step.
    plans: BTreeMap<i64, StepPlan>,
    /// (dependency, dependent)
    pub edges: BTreeSet<(i64, i64)>,
    /// The time and the line of each event.
    pub events: Vec<(DateTime<Utc>, String)>,
    pub audited: usize,
    last_record: i64,
    requests: BTreeMap<i64, StoredRequest>,
    kept: Vec<(KeyedRequest, KeptRequest, DateTime<Utc>)>,
    sites: BTreeMap<String, String>,
    paused: BTreeSet<Site>,
    importers: Vec<Deployment>,
    importer_kinds: BTreeSet<(KindName, String)>,
    /// Importer and step, with what the importer said last.
    awaited: BTreeMap<(String, i64), Option<Answered>>,
    watches: Vec<WatchCursor>,
    notices: BTreeMap<ResourceKey, StoredNotice>,
    natives: BTreeMap<i64, Native>,
    references: BTreeSet<(i64, String, ResourceKey)>,
}

/// The tables, their savepoints, and counts of what was loaded and saved.
#[derive(Default)]
pub struct MemoryRows {
    pub tables: RefCell<Tables>,
    savepoints: RefCell<Vec<Tables>>,
    rotation: RefCell<Rotation>,
    pub loads: Cell<usize>,
    pub steps_saved: Cell<usize>,
}

impl MemoryRows {
    /// Applies a change in a transaction of its own. A change that the rows do not allow is refused.
    pub fn apply(&self, change: &Change) -> Applied {
        let before = self.tables.borrow().clone();
        let mut set = WorkingSet::new(self);
        let applied = set.apply(change);
        let applied = match applied {
            Err(Stop::Refused(why)) => Ok(Applied::Refused(why)),
            other => other,
        };
        match applied.and_then(|applied| set.flush().map(|()| applied)) {
            Ok(applied) => applied,
            Err(stop) => {
                self.tables.replace(before);
                Applied::Refused(format!("the ledger cannot take this: {stop:?}"))
            }
        }
    }

    pub fn claim(&self, capacities: Vec<Capacity>, now: DateTime<Utc>) -> Vec<ClaimedStep> {
        let rotation = &mut *self.rotation.borrow_mut();
        let job = Job::Claim { capacities, now };
        let claimed = answer(&mut WorkingSet::new(self), &[job], rotation, false);
        match claimed.unwrap().pop() {
            Some(Outcome::Claimed(claimed)) => claimed,
            other => panic!("{other:?}"),
        }
    }

    fn steps_where(&self, is_wanted: impl Fn(&StoredStep) -> bool) -> Vec<i64> {
        let tables = self.tables.borrow();
        let found = tables.steps.values().filter(|step| is_wanted(step));
        found.map(|step| step.id).collect()
    }

    /// The first of a step's dependencies that is so.
    fn dependency(&self, step: i64, is_wanted: impl Fn(&StoredStep) -> bool) -> Option<i64> {
        let tables = self.tables.borrow();
        let before = tables.edges.iter().filter(|(_, to)| *to == step);
        let mut before = before.filter_map(|(from, _)| tables.steps.get(from));
        before.find(|it| is_wanted(it)).map(|it| it.id)
    }
}

impl Fallible for &MemoryRows {
    type Error = String;
}

impl RowStore for &MemoryRows {
    fn epoch(&self) -> i64 {
        1
    }

    fn is_of_the_change(_: &String) -> bool {
        true
    }

    fn begin_savepoint(&self) -> Answer {
        let now = self.tables.borrow().clone();
        self.savepoints.borrow_mut().push(now);
        Ok(())
    }

    fn keep_savepoint(&self) -> Answer {
        self.savepoints
            .borrow_mut()
            .pop()
            .map(drop)
            .ok_or_else(String::new)
    }

    fn undo_savepoint(&self) -> Answer {
        let before = self.savepoints.borrow_mut().pop().ok_or_else(String::new)?;
        self.tables.replace(before);
        Ok(())
    }

    fn find_deletion(&self, id: &str) -> Answer<Option<i64>> {
        let tables = self.tables.borrow();
        let found = tables.deletions.values().find(|row| row.id == id);
        Ok(found.map(|row| row.num))
    }

    fn load_deletion(&self, num: i64) -> Answer<StoredDeletion> {
        let found = self.tables.borrow().deletions.get(&num).cloned();
        found.ok_or_else(|| format!("no deletion {num}"))
    }

    fn load_steps(&self, ids: &[i64]) -> Answer<Vec<StoredStep>> {
        self.loads.set(self.loads.get() + 1);
        let tables = self.tables.borrow();
        Ok(ids
            .iter()
            .filter_map(|id| tables.steps.get(id).cloned())
            .collect())
    }

    fn load_dependents(&self, ids: &[i64]) -> Answer<Vec<(i64, i64)>> {
        self.loads.set(self.loads.get() + 1);
        let tables = self.tables.borrow();
        let of = |id: &i64| {
            tables
                .edges
                .range((*id, 0)..(*id + 1, 0))
                .copied()
                .collect::<Vec<_>>()
        };
        Ok(ids.iter().flat_map(of).collect())
    }

    fn find_ready_deletions(
        &self,
        site: &Site,
        (after, until): (i64, i64),
        limit: usize,
    ) -> Answer<Vec<i64>> {
        let tables = self.tables.borrow();
        let ready = tables.steps.values().filter(|it| {
            it.state == StepState::Ready
                && it.key.site == *site
                && (after + 1..=until).contains(&it.deletion)
        });
        let deletions: BTreeSet<i64> = ready.map(|it| it.deletion).collect();
        Ok(deletions.into_iter().take(limit).collect())
    }

    fn load_ready(&self, site: &Site, deletion: i64, limit: usize) -> Answer<Vec<StepRow>> {
        let tables = self.tables.borrow();
        let ready = tables.steps.values().filter(|it| {
            it.state == StepState::Ready && it.key.site == *site && it.deletion == deletion
        });
        let mut ready: Vec<StepRow> = ready
            .map(|now| StepRow {
                now: now.clone(),
                plan: tables.plans[&now.id].clone(),
            })
            .collect();
        ready.sort_by_key(|it| (Reverse(it.plan.rank), it.now.id));
        ready.truncate(limit);
        Ok(ready)
    }

    fn find_stuck_dependency(&self, step: i64) -> Answer<Option<(i64, i64)>> {
        let stuck = self.dependency(step, |it| {
            it.state == StepState::Stuck && it.held_by != Some(step)
        });
        let tables = self.tables.borrow();
        Ok(stuck.map(|id| (id, tables.steps[&id].held_by.unwrap_or(id))))
    }

    fn find_abandoned_dependency(&self, step: i64) -> Answer<Option<i64>> {
        Ok(self.dependency(step, |it| it.state == StepState::Purged))
    }

    fn find_failed(&self, deletion: i64, other_than: i64) -> Answer<Option<i64>> {
        let failed = self.steps_where(|it| {
            it.deletion == deletion
                && it.state == StepState::Stuck
                && it.held_by.is_none()
                && it.id != other_than
        });
        Ok(failed.first().copied())
    }

    fn find_in_state(&self, deletion: i64, state: StepState) -> Answer<Vec<i64>> {
        Ok(self.steps_where(|it| it.deletion == deletion && it.state == state))
    }

    fn find_due(&self, now: DateTime<Utc>, limit: usize) -> Answer<Vec<i64>> {
        let mut due = self.steps_where(|it| {
            it.state == StepState::Blocked && it.next_attempt_at.is_some_and(|next| next <= now)
        });
        due.truncate(limit);
        Ok(due)
    }

    fn find_running(&self) -> Answer<Vec<i64>> {
        Ok(self.steps_where(|it| it.state == StepState::Running))
    }

    fn find_ahead(&self, now: DateTime<Utc>, by: DateTime<Utc>) -> Answer<Vec<i64>> {
        Ok(self.steps_where(|it| match it.state {
            StepState::Blocked => it.since > now,
            StepState::Verifying => it.since > now || it.next_attempt_at > Some(by),
            _ => false,
        }))
    }

    fn take_over_observations(&self) -> Answer {
        let steps = &mut self.tables.borrow_mut().steps;
        let verifying = steps
            .values_mut()
            .filter(|it| it.state == StepState::Verifying);
        verifying.for_each(|it| it.epoch = 1);
        Ok(())
    }

    fn find_gone_step(&self, deletion: i64, record: i64) -> Answer<Option<i64>> {
        let gone = self.steps_where(|it| {
            (it.deletion, it.record, it.state) == (deletion, Some(record), StepState::Gone)
        });
        Ok(gone.first().copied())
    }

    fn find_own_enables(&self, step: i64) -> Answer<Vec<i64>> {
        let tables = self.tables.borrow();
        let alone = |from: i64| {
            !tables
                .edges
                .iter()
                .any(|(it, to)| *it == from && *to != step)
        };
        let enabling = |key: &ResourceKey| {
            let mut steps = tables.steps.values();
            steps.any(|it| it.key == *key && it.action == Action::Enable && it.ended_at.is_none())
        };
        Ok(self.steps_where(|it| {
            tables.edges.contains(&(it.id, step))
                && it.action == Action::Enable
                && it.state == StepState::Gone
                && alone(it.id)
                && !enabling(&it.key)
        }))
    }

    fn find_left_to(&self, owners: &[i64]) -> Answer<Vec<i64>> {
        Ok(self.steps_where(|it| {
            it.ended_at.is_none() && it.left_to.is_some_and(|owner| owners.contains(&owner))
        }))
    }

    fn awaits_clearance(&self, step: i64) -> Answer<bool> {
        let tables = self.tables.borrow();
        Ok(tables.awaited.keys().any(|(_, awaiting)| *awaiting == step))
    }

    fn load_importer_kinds(&self) -> Answer<Vec<(KindName, String)>> {
        Ok(self
            .tables
            .borrow()
            .importer_kinds
            .iter()
            .cloned()
            .collect())
    }

    fn await_clearances(&self, awaited: &[(String, i64)]) -> Answer {
        let tables = &mut self.tables.borrow_mut();
        for wait in awaited {
            tables.awaited.entry(wait.clone()).or_default();
        }
        Ok(())
    }

    fn load_tombstones(&self, keys: &[ResourceKey]) -> Answer<Vec<Option<StoredTombstone>>> {
        let tables = self.tables.borrow();
        let of = |key: &ResourceKey| {
            let mut all = tables.tombstones.values();
            all.find(|(its, _)| its == key).map(|(_, row)| row.clone())
        };
        Ok(keys.iter().map(of).collect())
    }

    fn insert_tombstones(&self, new: &[NewTombstone<'_>]) -> Answer<Vec<i64>> {
        let tables = &mut self.tables.borrow_mut();
        let insert = |new: &NewTombstone<'_>| {
            tables.last_record += 1;
            let record = tables.last_record;
            let row = StoredTombstone {
                record,
                deletion: new.deletion,
                phase: new.phase,
                deleted_at: Some(new.deleted_at),
                gone_at: None,
                incarnation: 1,
                recreated: 0,
            };
            tables.tombstones.insert(record, (new.key.clone(), row));
            record
        };
        Ok(new.iter().map(insert).collect())
    }

    fn find_checking(&self, deletion: i64) -> Answer<Vec<i64>> {
        let tables = self.tables.borrow();
        let rows = tables.tombstones.values().map(|(_, row)| row);
        let checking = rows.filter(|it| (it.deletion, it.phase) == (deletion, Phase::Checking));
        Ok(checking.map(|it| it.record).collect())
    }

    fn pause_site(&self, site: &Site, pause: Option<&SitePause>) -> Answer<bool> {
        let paused = &mut self.tables.borrow_mut().paused;
        Ok(match pause {
            Some(_) => paused.insert(site.clone()),
            None => paused.remove(site),
        })
    }

    fn save_notification_cursor(&self, _: &str, _: Option<&Mark>) -> Answer {
        Ok(())
    }

    fn load_site_state(&self, site: &str) -> Answer<Option<String>> {
        Ok(self.tables.borrow().sites.get(site).cloned())
    }

    fn save_site_state(&self, site: &str, state: &str) -> Answer {
        let sites = &mut self.tables.borrow_mut().sites;
        sites.insert(site.to_owned(), state.to_owned());
        Ok(())
    }

    fn save(&self, unsaved: &Unsaved<'_>) -> Answer {
        let tables = &mut *self.tables.borrow_mut();
        for (_, now) in &unsaved.steps {
            tables.steps.insert(now.id, (*now).clone());
            self.steps_saved.set(self.steps_saved.get() + 1);
        }
        for now in &unsaved.tombstones {
            if let Some((_, row)) = tables.tombstones.get_mut(&now.record) {
                row.clone_from(now);
            }
        }
        for ended in &unsaved.ended {
            let row = tables.tombstones.get_mut(&ended.record).map(|(_, row)| row);
            if let Some(row) = row.filter(|row| row.deletion == ended.deletion) {
                row.phase = ended.phase;
                row.gone_at = (ended.phase == Phase::Gone).then_some(ended.at);
            }
        }
        tables
            .awaited
            .retain(|(_, step), _| !unsaved.cleared.contains(step));
        tables.audited += unsaved.audit.len();
        let events = unsaved.events.iter();
        tables
            .events
            .extend(events.map(|it| (it.at, it.happened.words.clone())));
        Ok(())
    }

    fn save_deletions(&self, changed: &[(Option<StoredDeletion>, StoredDeletion)]) -> Answer {
        let rows = changed.iter().map(|(_, now)| (now.num, now.clone()));
        self.tables.borrow_mut().deletions.extend(rows);
        Ok(())
    }
}

impl PlanRows for &MemoryRows {
    fn save_plan(&self, _: &Plan, _: DateTime<Utc>) -> Answer {
        Ok(())
    }

    fn find_request(
        &self,
        actor: &Actor,
        key: &str,
        now: DateTime<Utc>,
    ) -> Answer<Option<KeptRequest>> {
        let tables = self.tables.borrow();
        let found = tables.kept.iter().find(|(request, _, at)| {
            request.actor == *actor && request.key == key && *at > now - TimeDelta::hours(24)
        });
        Ok(found.map(|(_, kept, _)| kept.clone()))
    }

    fn keep_request(
        &self,
        request: &KeyedRequest,
        deletion: &str,
        answer: Option<&Value>,
        now: DateTime<Utc>,
    ) -> Answer {
        let kept = KeptRequest {
            body: request.body.clone(),
            deletion: deletion.to_owned(),
            answer: answer.cloned(),
        };
        self.tables
            .borrow_mut()
            .kept
            .push((request.clone(), kept, now));
        Ok(())
    }

    fn insert_deletion(&self, wanted: &NewDeletion, root: Option<&str>) -> Answer<i64> {
        let tables = &mut self.tables.borrow_mut();
        let num = tables.deletions.keys().last().map_or(1, |last| last + 1);
        let row = deletion(
            num,
            &wanted.id,
            wanted.options.on_failure == OnFailure::Stop,
        );
        tables.deletions.insert(num, row);
        let request = StoredRequest {
            targets: wanted.targets.clone(),
            copies: wanted.copies.clone(),
            options: wanted.options,
            plan_hash: wanted.plan_hash.clone(),
            reason: wanted.reason.clone(),
            root: root.map(str::to_owned),
            deadline: wanted.deadline,
        };
        tables.requests.insert(num, request);
        Ok(num)
    }

    fn load_request(&self, num: i64) -> Answer<StoredRequest> {
        let found = self.tables.borrow().requests.get(&num).cloned();
        found.ok_or_else(|| format!("no request {num}"))
    }

    fn save_request(&self, num: i64, request: &StoredRequest) -> Answer {
        let requests = &mut self.tables.borrow_mut().requests;
        requests.insert(num, request.clone());
        Ok(())
    }

    fn save_refusals(&self, _: i64, _: &[Refusal]) -> Answer {
        Ok(())
    }

    fn save_frozen(&self, num: i64, header: &Plan) -> Answer {
        let requests = &mut self.tables.borrow_mut().requests;
        let request = requests.get_mut(&num).ok_or("no request")?;
        request.plan_hash = Some(header.hash.clone());
        Ok(())
    }

    fn save_snapshot(&self, _: i64, _: &Value) -> Answer {
        Ok(())
    }

    fn find_live_step(&self, planned: &PlanStep) -> Answer<Option<i64>> {
        let live = self.steps_where(|it| {
            (&it.key, it.action) == (&planned.key(), planned.action)
                && it.ended_at.is_none()
                && it.left_to.is_none()
        });
        Ok(live.first().copied())
    }

    fn first_free_step(&self) -> Answer<i64> {
        let tables = self.tables.borrow();
        Ok(tables.steps.keys().last().map_or(1, |last| last + 1))
    }

    fn insert_branches(&self, _: i64, _: i64, _: &[Branch]) -> Answer<i64> {
        Ok(1)
    }

    fn insert_steps(&self, new: &[NewStep<'_>]) -> Answer {
        for new in new {
            if new.left_to.is_none() && self.find_live_step(new.planned)?.is_some() {
                return Err(format!("two live steps of {}", new.planned.key()));
            }
            let row = StoredStep {
                record: new.record,
                since: new.since,
                sent: false,
                waits: u32::try_from(new.waits).unwrap(),
                left_to: new.left_to,
                error: new.error.clone(),
                name: new.planned.name.clone(),
                action: new.planned.action,
                claim: 0,
                epoch: 0,
                ..step(new.id, new.deletion, new.planned.key(), new.state)
            };
            let plan = StepPlan {
                position: new.planned.id,
                rank: new.rank,
                max_attempts: new.max_attempts,
                branch: new.branch,
                project_id: new.planned.project_id.to_string(),
                vars: (*new.planned.vars).clone(),
                why: new.planned.why.to_string(),
                fingerprint: new.planned.fingerprint.clone(),
            };
            let tables = &mut *self.tables.borrow_mut();
            tables.steps.insert(new.id, row);
            tables.plans.insert(new.id, plan);
        }
        Ok(())
    }

    fn insert_edges(&self, edges: &[(i64, i64)]) -> Answer {
        self.tables.borrow_mut().edges.extend(edges);
        Ok(())
    }

    fn remember_copies(&self, _: i64, _: &[OriginalCopies]) -> Answer {
        Ok(())
    }
}

impl PeerRows for &MemoryRows {
    fn load_importers(&self) -> Answer<Vec<Deployment>> {
        Ok(self.tables.borrow().importers.clone())
    }

    fn insert_importer(&self, importer: &Deployment, _: DateTime<Utc>) -> Answer {
        self.tables.borrow_mut().importers.push(importer.clone());
        Ok(())
    }

    fn remove_importer(&self, name: &str) -> Answer<Option<Vec<i64>>> {
        let tables = &mut *self.tables.borrow_mut();
        let before = tables.importers.len();
        tables.importers.retain(|it| it.name != name);
        if tables.importers.len() == before {
            return Ok(None);
        }
        tables
            .importer_kinds
            .retain(|(_, importer)| importer != name);
        let mut waited = Vec::new();
        tables.awaited.retain(|(importer, step), _| {
            if importer == name {
                waited.push(*step);
            }
            importer != name
        });
        Ok(Some(waited))
    }

    fn add_importer_kind(&self, kind: &KindName, importer: &str) -> Answer {
        let live = self.steps_where(|it| {
            it.key.kind == *kind
                && it.ended_at.is_none()
                && matches!(it.action, Action::Delete | Action::Detach)
        });
        let awaited: Vec<_> = live
            .into_iter()
            .map(|step| (importer.to_owned(), step))
            .collect();
        self.await_clearances(&awaited)?;
        let kinds = &mut self.tables.borrow_mut().importer_kinds;
        kinds.insert((kind.clone(), importer.to_owned()));
        Ok(())
    }

    fn remove_importer_kind(&self, kind: &KindName, importer: &str) -> Answer {
        let kinds = &mut self.tables.borrow_mut().importer_kinds;
        kinds.remove(&(kind.clone(), importer.to_owned()));
        Ok(())
    }

    fn save_answer(&self, importer: &str, step: i64, answer: &Answered) -> Answer<bool> {
        let awaited = &mut self.tables.borrow_mut().awaited;
        let wait = (importer.to_owned(), step);
        if answer.clear {
            return Ok(awaited.remove(&wait).is_some());
        }
        let said = awaited
            .get_mut(&wait)
            .filter(|said| said.as_ref() != Some(answer));
        Ok(said.map(|said| *said = Some(answer.clone())).is_some())
    }

    fn load_pending(&self, step: i64) -> Answer<Vec<PendingClearance>> {
        let tables = self.tables.borrow();
        let pending = tables
            .awaited
            .iter()
            .filter(|((_, awaiting), _)| *awaiting == step);
        let pending = pending.map(|((importer, _), said)| PendingClearance {
            importer: importer.clone(),
            said: said.clone(),
        });
        Ok(pending.collect())
    }

    fn load_watches(&self) -> Answer<Vec<WatchCursor>> {
        Ok(self.tables.borrow().watches.clone())
    }

    fn save_watch(&self, watch: &WatchCursor) -> Answer {
        let watches = &mut self.tables.borrow_mut().watches;
        watches.retain(|it| {
            (&it.owner.service, &it.owner.region) != (&watch.owner.service, &watch.owner.region)
        });
        watches.push(watch.clone());
        Ok(())
    }

    fn load_notice(&self, key: &ResourceKey) -> Answer<Option<StoredNotice>> {
        Ok(self.tables.borrow().notices.get(key).cloned())
    }

    fn save_notice(
        &self,
        owner: &str,
        notice: &DeletionNotice,
        gone_at: Option<DateTime<Utc>>,
    ) -> Answer {
        let notices = &mut self.tables.borrow_mut().notices;
        if notices.get(&notice.key).is_none_or(|it| it.owner == owner) {
            let row = StoredNotice {
                deletion: notice.deletion.clone(),
                owner: owner.to_owned(),
                is_gone: gone_at.is_some(),
            };
            notices.insert(notice.key.clone(), row);
        }
        Ok(())
    }

    fn remove_notice(&self, owner: &str, key: &ResourceKey) -> Answer {
        let notices = &mut self.tables.borrow_mut().notices;
        notices.retain(|its, it| its != key || it.owner != owner);
        Ok(())
    }

    fn remove_notices_of(&self, owner: &str) -> Answer {
        self.tables
            .borrow_mut()
            .notices
            .retain(|_, it| it.owner != owner);
        Ok(())
    }

    fn save_handled(&self, _: &[ResourceKey], _: Option<i64>) -> Answer {
        Ok(())
    }
}

impl NativeRows for &MemoryRows {
    fn load_native(&self, key: &ResourceKey) -> Answer<Option<(i64, Native)>> {
        let tables = self.tables.borrow();
        let found = tables
            .natives
            .iter()
            .find(|(_, native)| same(&native.key, key));
        Ok(found.map(|(num, native)| (*num, native.clone())))
    }

    fn insert_native(&self, new: &NewNative, incarnation: u32) -> Answer<i64> {
        let natives = &mut self.tables.borrow_mut().natives;
        let num = natives.keys().last().map_or(1, |last| last + 1);
        let native = Native {
            key: new.key.clone(),
            incarnation,
            fields: new.fields.clone(),
            created_at: new.now,
            updated_at: new.now,
            deleting: false,
        };
        natives.insert(num, native);
        Ok(num)
    }

    fn save_fields(&self, num: i64, fields: &Map<String, Value>, now: DateTime<Utc>) -> Answer {
        let natives = &mut self.tables.borrow_mut().natives;
        let native = natives.get_mut(&num).ok_or("no resource")?;
        native.fields.clone_from(fields);
        native.updated_at = now.max(native.updated_at + TimeDelta::microseconds(1));
        Ok(())
    }

    fn remove_native(&self, key: &ResourceKey, incarnation: u32) -> Answer<Option<i64>> {
        let natives = &mut self.tables.borrow_mut().natives;
        let is_wanted =
            |native: &Native| same(&native.key, key) && native.incarnation == incarnation;
        let mut found = natives.iter().filter(|(_, native)| is_wanted(native));
        let num = found.next().map(|(num, _)| *num);
        num.map(|num| natives.remove(&num));
        Ok(num)
    }

    fn load_references(&self, num: i64) -> Answer<Vec<(String, ResourceKey)>> {
        let tables = self.tables.borrow();
        let of = tables.references.iter().filter(|(of, ..)| *of == num);
        Ok(of
            .map(|(_, field, to)| (field.clone(), to.clone()))
            .collect())
    }

    fn insert_references(&self, num: i64, references: &[NativeReference]) -> Answer {
        let rows = references
            .iter()
            .map(|it| (num, it.field.clone(), it.to.clone()));
        self.tables.borrow_mut().references.extend(rows);
        Ok(())
    }

    fn remove_reference(&self, num: i64, field: &str, to: &ResourceKey) -> Answer {
        let references = &mut self.tables.borrow_mut().references;
        references.remove(&(num, field.to_owned(), to.clone()));
        Ok(())
    }

    fn remove_references(&self, num: i64) -> Answer {
        self.tables
            .borrow_mut()
            .references
            .retain(|(of, ..)| *of != num);
        Ok(())
    }

    fn find_referrers(&self, to: &ResourceKey, fields: &[(KindName, String)]) -> Answer<PointedAt> {
        let tables = self.tables.borrow();
        let found = tables.references.iter().filter_map(|(num, field, its)| {
            let native = tables.natives.get(num)?;
            let is_wanted = fields.contains(&(native.key.kind.clone(), field.clone()));
            (same(its, to) && is_wanted).then(|| Referrer {
                key: native.key.clone(),
                name: String::new(),
                to: to.clone(),
                field: field.clone(),
            })
        });
        let found: Vec<Referrer> = found.collect();
        let distinct: BTreeSet<&ResourceKey> = found.iter().map(|it| &it.key).collect();
        Ok(PointedAt {
            count: distinct.len() as u64,
            named: found.into_iter().take(1).collect(),
        })
    }

    fn find_held_steps(&self, key: &ResourceKey) -> Answer<Vec<i64>> {
        Ok(self.steps_where(|it| {
            it.key == *key && matches!(it.state, StepState::Blocked | StepState::Stuck)
        }))
    }
}

impl PruneRows for &MemoryRows {
    fn prune_leftovers(&self, _: DateTime<Utc>) -> Answer {
        Ok(())
    }

    fn prune_events(&self, before: DateTime<Utc>, limit: usize) -> Answer<u64> {
        let events = &mut self.tables.borrow_mut().events;
        let old = events
            .iter()
            .take(limit)
            .take_while(|(at, _)| *at < before)
            .count();
        events.drain(..old);
        Ok(old as u64)
    }

    fn find_prunable(&self, before: DateTime<Utc>) -> Answer<Option<i64>> {
        let tables = self.tables.borrow();
        let newest = tables.deletions.keys().last().copied();
        let with_newest_step = tables.steps.values().last().map(|step| step.deletion);
        let mut ended = tables.deletions.values().filter(|it| {
            use DeletionState::{Cancelled, Gone, Refused};
            matches!(it.state, Refused | Gone | Cancelled)
                && it.finished_at.is_some_and(|finished| finished < before)
                && it.counts.stuck + it.counts.purged == 0
                && ![newest, with_newest_step].contains(&Some(it.num))
        });
        Ok(ended.next().map(|it| it.num))
    }

    fn prune_steps(
        &self,
        deletion: i64,
        state: StepState,
        before: DateTime<Utc>,
        never_again: &[KindName],
        limit: usize,
    ) -> Answer<u64> {
        let mut steps = self.find_in_state(deletion, state)?;
        steps.truncate(limit);
        let tables = &mut *self.tables.borrow_mut();
        for id in &steps {
            tables.edges.retain(|(_, to)| to != id);
            let record = tables.steps.remove(id).and_then(|step| step.record);
            tables.tombstones.retain(|its, (key, row)| {
                Some(*its) != record
                    || row.deletion != deletion
                    || !matches!(row.phase, Phase::Gone | Phase::Released)
                    || row.gone_at.is_some_and(|gone| gone >= before)
                    || !never_again.contains(&key.kind)
            });
        }
        Ok(steps.len() as u64)
    }

    fn prune_deletion(&self, deletion: i64, never_again: &[KindName]) -> Answer {
        let tables = &mut *self.tables.borrow_mut();
        let request = tables.requests.remove(&deletion).ok_or("no request")?;
        let targets = request.targets.iter().map(|target| &target.key);
        let keys: BTreeSet<&ResourceKey> = targets.chain(&request.copies).collect();
        tables.tombstones.retain(|_, (key, row)| {
            row.deletion != deletion
                || row.phase != Phase::Released
                || !never_again.contains(&key.kind)
                || !keys.contains(key)
        });
        tables.deletions.remove(&deletion);
        Ok(())
    }
}

/// Ids of the registry compare without their case.
fn same(a: &ResourceKey, b: &ResourceKey) -> bool {
    (&a.site, &a.kind) == (&b.site, &b.kind) && a.id.eq_ignore_ascii_case(&b.id)
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

/// A step that deletes a resource, whose record has the step's number.
pub fn step(id: i64, deletion: i64, key: ResourceKey, state: StepState) -> StoredStep {
    StoredStep {
        id,
        deletion,
        key,
        name: String::new(),
        action: Action::Delete,
        record: Some(id),
        state,
        since: crate::support::at(0),
        ended_at: has_ended(state).then(|| crate::support::at(0)),
        claim: 1,
        epoch: 1,
        sent: state == StepState::Verifying,
        waits: 0,
        attempts: 0,
        looks: 0,
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
