//! Changes that are decided on rows in memory, without SQLite: what they load, what they save, and what they
//! change in other steps.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use gone::domain::model::{
    Action, Counts, DeletionState, KindName, Phase, ResourceKey, Site, SitePause, StepState,
};
use gone::domain::policy::Decision;
use gone::ledger::store::{
    Pace, RowStore, Stop, StoredDeletion, StoredStep, StoredTombstone, Unsaved,
};
use gone::ledger::working_set::WorkingSet;
use gone::ledger::{Applied, Fence, StepChange};

use StepState::{Gone, Purged, Ready, Stuck, Verifying, Waiting};

use crate::support::{at, key};

/// Rows in memory, with counts of what was loaded and saved.
#[derive(Default)]
struct MemoryRows {
    steps: RefCell<BTreeMap<i64, StoredStep>>,
    deletions: RefCell<BTreeMap<i64, StoredDeletion>>,
    /// (dependency, dependent)
    edges: Vec<(i64, i64)>,
    owners_moved: RefCell<BTreeSet<i64>>,
    phases: RefCell<BTreeMap<i64, Phase>>,
    words: RefCell<Vec<String>>,
    loads: Cell<usize>,
    steps_saved: Cell<usize>,
}

impl MemoryRows {
    /// The ids of the steps that match, in their order.
    fn steps_where(&self, is_wanted: impl Fn(&StoredStep) -> bool) -> Vec<i64> {
        let steps = self.steps.borrow();
        let found = steps.values().filter(|step| is_wanted(step));
        found.map(|step| step.id).collect()
    }

    fn dependencies(&self, step: i64) -> Vec<i64> {
        let edges = self.edges.iter().filter(|(_, to)| *to == step);
        edges.map(|(from, _)| *from).collect()
    }
}

impl RowStore for &MemoryRows {
    type Error = String;

    fn find_deletion(&self, id: &str) -> Result<Option<i64>, String> {
        let deletions = self.deletions.borrow();
        let found = deletions.values().find(|row| row.id == id);
        Ok(found.map(|row| row.num))
    }

    fn load_deletion(&self, num: i64) -> Result<StoredDeletion, String> {
        let found = self.deletions.borrow().get(&num).cloned();
        found.ok_or_else(|| format!("no deletion {num}"))
    }

    fn load_steps(&self, ids: &[i64]) -> Result<Vec<StoredStep>, String> {
        self.loads.set(self.loads.get() + 1);
        let steps = self.steps.borrow();
        Ok(ids.iter().filter_map(|id| steps.get(id).cloned()).collect())
    }

    fn load_dependents(&self, ids: &[i64]) -> Result<Vec<(i64, i64)>, String> {
        self.loads.set(self.loads.get() + 1);
        let edges = self.edges.iter().filter(|(from, _)| ids.contains(from));
        Ok(edges.copied().collect())
    }

    fn find_stuck_dependency(&self, step: i64) -> Result<Option<(i64, i64)>, String> {
        let dependencies = self.dependencies(step);
        let stuck = self.steps_where(|it| {
            dependencies.contains(&it.id)
                && it.state == StepState::Stuck
                && it.held_by != Some(step)
        });
        let steps = self.steps.borrow();
        Ok(stuck
            .first()
            .map(|id| (*id, steps[id].held_by.unwrap_or(*id))))
    }

    fn find_abandoned_dependency(&self, step: i64) -> Result<Option<i64>, String> {
        let dependencies = self.dependencies(step);
        let purged =
            self.steps_where(|it| dependencies.contains(&it.id) && it.state == StepState::Purged);
        Ok(purged.first().copied())
    }

    fn find_failed(&self, deletion: i64, other_than: i64) -> Result<Option<i64>, String> {
        let failed = self.steps_where(|it| {
            it.deletion == deletion
                && it.state == StepState::Stuck
                && it.held_by.is_none()
                && it.id != other_than
        });
        Ok(failed.first().copied())
    }

    fn find_in_state(&self, deletion: i64, state: StepState) -> Result<Vec<i64>, String> {
        Ok(self.steps_where(|it| it.deletion == deletion && it.state == state))
    }

    fn find_due(&self, now: DateTime<Utc>, limit: usize) -> Result<Vec<i64>, String> {
        let mut due = self.steps_where(|it| {
            it.state == StepState::Blocked && it.next_attempt_at.is_some_and(|next| next <= now)
        });
        due.truncate(limit);
        Ok(due)
    }

    fn find_running(&self) -> Result<Vec<i64>, String> {
        Ok(self.steps_where(|it| it.state == StepState::Running))
    }

    fn find_ahead(&self, now: DateTime<Utc>, by: DateTime<Utc>) -> Result<Vec<i64>, String> {
        Ok(self.steps_where(|it| match it.state {
            StepState::Blocked => it.since > now,
            StepState::Verifying => it.since > now || it.next_attempt_at > Some(by),
            _ => false,
        }))
    }

    fn take_over_observations(&self) -> Result<(), String> {
        Ok(())
    }

    fn find_gone_step(&self, deletion: i64, record: i64) -> Result<Option<i64>, String> {
        let gone = self.steps_where(|it| {
            (it.deletion, it.record, it.state) == (deletion, Some(record), StepState::Gone)
        });
        Ok(gone.first().copied())
    }

    fn find_own_enables(&self, step: i64) -> Result<Vec<i64>, String> {
        let dependencies = self.dependencies(step);
        Ok(self.steps_where(|it| {
            dependencies.contains(&it.id)
                && it.action == Action::Enable
                && it.state == StepState::Gone
        }))
    }

    fn find_left_to(&self, owner: i64) -> Result<Vec<i64>, String> {
        Ok(self.steps_where(|it| it.left_to == Some(owner) && it.ended_at.is_none()))
    }

    fn take_left_to_moved(&self, also: &[i64]) -> Result<Vec<i64>, String> {
        let mut owners = self.owners_moved.take();
        owners.extend(also);
        Ok(self.steps_where(|it| {
            it.ended_at.is_none() && it.left_to.is_some_and(|owner| owners.contains(&owner))
        }))
    }

    fn awaits_clearance(&self, _: i64) -> Result<bool, String> {
        Ok(false)
    }

    fn await_clearances(&self, _: i64, _: &KindName) -> Result<(), String> {
        Ok(())
    }

    fn raise_tombstone(
        &self,
        _: i64,
        _: &ResourceKey,
        phase: Phase,
        _: DateTime<Utc>,
    ) -> Result<Option<i64>, String> {
        let record = 1_000;
        self.phases.borrow_mut().insert(record, phase);
        Ok(Some(record))
    }

    fn load_tombstones(
        &self,
        keys: &[ResourceKey],
    ) -> Result<Vec<Option<StoredTombstone>>, String> {
        Ok(vec![None; keys.len()])
    }

    fn find_checking(&self, _: i64) -> Result<Vec<i64>, String> {
        Ok(Vec::new())
    }

    fn pause_site(&self, _: &Site, _: Option<&SitePause>) -> Result<bool, String> {
        Ok(true)
    }

    fn load_site_state(&self, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn save_site_state(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn save(&self, unsaved: &Unsaved<'_>) -> Result<(), String> {
        for (saved, now) in &unsaved.steps {
            let ends = now.ended_at.is_some() || now.state == StepState::Stuck;
            if saved.state != now.state && (ends || saved.state == StepState::Stuck) {
                self.owners_moved.borrow_mut().insert(now.id);
            }
            self.steps.borrow_mut().insert(now.id, (*now).clone());
            self.steps_saved.set(self.steps_saved.get() + 1);
        }
        for ended in &unsaved.ended {
            self.phases.borrow_mut().insert(ended.record, ended.phase);
        }
        let words = unsaved.events.iter().map(|it| it.happened.words.clone());
        self.words.borrow_mut().extend(words);
        Ok(())
    }

    fn save_deletions(
        &self,
        changed: &[(Option<StoredDeletion>, StoredDeletion)],
    ) -> Result<(), String> {
        for (_, now) in changed {
            self.deletions.borrow_mut().insert(now.num, now.clone());
        }
        Ok(())
    }
}

/// Steps of deletion 1 in these states, with ids from 1 on; each waits for the steps with these ids.
fn rows(steps: &[(StepState, &[i64])]) -> MemoryRows {
    let mut rows = MemoryRows::default();
    for (id, (state, after)) in (1..).zip(steps) {
        rows.edges.extend(after.iter().map(|before| (*before, id)));
        add(&rows, id, 1, *state, after.len());
    }
    rows.edges.sort_unstable();
    rows
}

fn add(rows: &MemoryRows, id: i64, deletion: i64, state: StepState, waits: usize) {
    let mut deletions = rows.deletions.borrow_mut();
    let row = deletions.entry(deletion).or_insert_with(|| StoredDeletion {
        num: deletion,
        id: format!("deletion-{deletion:08}"),
        state: DeletionState::Running,
        cancelled: false,
        paused: false,
        stops: false,
        counts: Counts::default(),
        finished_at: None,
        woken_at: None,
        note: String::new(),
        pace: Pace::default(),
    });
    *row.counts.of_mut(state) += 1;
    row.counts.total += 1;
    let step = StoredStep {
        id,
        deletion,
        key: key("port", &format!("p{id}")),
        name: String::new(),
        action: Action::Delete,
        record: Some(id),
        state,
        since: at(0),
        ended_at: None,
        claim: 1,
        epoch: 1,
        sent: state == StepState::Verifying,
        waits: u32::try_from(waits).unwrap(),
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
    };
    rows.steps.borrow_mut().insert(id, step);
}

fn outcome(id: i64, to: StepState) -> StepChange {
    StepChange {
        step_id: id,
        fence: Fence {
            state: StepState::Verifying,
            claim: 1,
            epoch: 1,
        },
        decision: Decision {
            to,
            attempts: 1,
            next_attempt_at: None,
            blocked_since: None,
            blockers: Vec::new(),
            error: None,
            observed_again: false,
        },
        message: String::new(),
        answer: None,
        now: at(5),
    }
}

/// Applies these outcomes as one batch, with everything that it needs loaded before.
fn apply(rows: &MemoryRows, outcomes: &[StepChange]) -> Vec<Applied> {
    let mut set = WorkingSet::new(rows);
    let ids: Vec<i64> = outcomes.iter().map(|it| it.step_id).collect();
    set.prefetch(&ids, &ids).unwrap();
    let applied = outcomes.iter().map(|it| set.record_outcome(it));
    let applied = applied.collect::<Result<_, Stop<String>>>().unwrap();
    set.settle_left_steps(at(5)).unwrap();
    set.save().unwrap();
    set.save_deletions().unwrap();
    applied
}

fn states(rows: &MemoryRows) -> Vec<StepState> {
    let steps = rows.steps.borrow();
    steps.values().map(|step| step.state).collect()
}

#[test]
fn a_step_that_waits_for_many_is_loaded_and_saved_once() {
    let mut steps = vec![(Verifying, &[][..]); 100];
    let before: Vec<i64> = (1..=100).collect();
    steps.push((Waiting, &before));
    let rows = rows(&steps);
    let outcomes: Vec<StepChange> = before.iter().map(|id| outcome(*id, Gone)).collect();
    let applied = apply(&rows, &outcomes);
    assert!(applied.iter().all(|applied| *applied == Applied::Done));
    assert_eq!(rows.steps.borrow()[&101].state, Ready);
    // The steps with outcomes, the edges to their dependents, and the dependents.
    assert_eq!(rows.loads.get(), 3);
    assert_eq!(rows.steps_saved.get(), 101);
    assert_eq!(rows.phases.borrow().len(), 100);
}

#[test]
fn an_outcome_under_another_fence_changes_nothing() {
    let rows = rows(&[(Verifying, &[]), (Waiting, &[1])]);
    let mut late = outcome(1, Gone);
    late.fence.epoch = 0;
    assert_eq!(
        apply(&rows, &[late, outcome(9, Gone)]),
        [Applied::Stale, Applied::Stale]
    );
    assert_eq!(states(&rows), [Verifying, Waiting]);
    assert_eq!(rows.steps_saved.get(), 0);
}

#[test]
fn n12_all_that_waits_for_a_stuck_step_names_it_and_its_retry_releases_them() {
    let diamond: [(StepState, &[i64]); 4] = [
        (Verifying, &[]),
        (Waiting, &[1]),
        (Waiting, &[1]),
        (Waiting, &[2, 3]),
    ];
    let rows = rows(&diamond);
    apply(&rows, &[outcome(1, Stuck)]);
    assert_eq!(states(&rows), [Stuck; 4]);
    let held_by = |id: i64| rows.steps.borrow()[&id].held_by;
    assert_eq!([1, 2, 3, 4].map(held_by), [None, Some(1), Some(1), Some(1)]);
    assert_eq!(rows.deletions.borrow()[&1].state, DeletionState::Stuck);

    let mut set = WorkingSet::new(&rows);
    assert_eq!(set.retry_steps(1, None, true, at(6)).unwrap(), 1);
    set.save().unwrap();
    set.save_deletions().unwrap();
    assert_eq!(states(&rows), [Ready, Waiting, Waiting, Waiting]);
    assert_eq!([1, 2, 3, 4].map(held_by), [None; 4]);
    assert_eq!(rows.deletions.borrow()[&1].state, DeletionState::Running);
}

#[test]
fn p03_what_waited_for_an_abandoned_step_stays_stuck_and_names_it() {
    let rows = rows(&[(Verifying, &[]), (Waiting, &[1])]);
    apply(&rows, &[outcome(1, Stuck)]);
    let mut set = WorkingSet::new(&rows);
    let refused = set.abandon_steps(1, Some(&[2]), at(6));
    assert!(matches!(refused, Err(Stop::Refused(why)) if why.contains("waits for step 1")));
    assert_eq!(set.abandon_steps(1, Some(&[1]), at(6)).unwrap(), 1);
    set.save().unwrap();
    assert_eq!(states(&rows), [Purged, Stuck]);
    let left = rows.steps.borrow()[&2].clone();
    assert_eq!((left.held_by, left.waits), (None, 0));
    assert!(left.error.unwrap().message.contains("waited for step 1"));
    assert_eq!(rows.phases.borrow()[&1], Phase::Purged);
}

#[test]
fn p09_a_step_that_is_left_shares_the_fate_of_its_owner() {
    for (fate, expected) in [(Gone, Gone), (Stuck, Stuck)] {
        let rows = rows(&[(Verifying, &[])]);
        add(&rows, 2, 2, Waiting, 0);
        rows.steps.borrow_mut().get_mut(&2).unwrap().left_to = Some(1);
        apply(&rows, &[outcome(1, fate)]);
        assert_eq!(states(&rows), [fate, expected]);
    }
}
