//! Changes that are decided on rows in memory, without SQLite: what they load, what they save, and what they
//! change in other steps.

use gone::domain::model::{DeletionState, Phase, StepState};
use gone::domain::policy::Decision;
use gone::ledger::store::{OutcomeSteps, StepPlan, Stop, StoredTombstone};
use gone::ledger::transitions::Rotation;
use gone::ledger::working_set::WorkingSet;
use gone::ledger::{Applied, Change, Fence, Outcome, StepChange, WriteRequest, answer};

use StepState::{Gone, Purged, Ready, Stuck, Verifying, Waiting};

use crate::memory::{self, MemoryRows};
use crate::support::{at, key};

/// Steps of deletion 1, with ids from 1 on. Each is given by its state and the ids of the steps that it waits for.
fn rows(steps: &[(StepState, &[i64])]) -> MemoryRows {
    let rows = MemoryRows::default();
    for (id, (state, after)) in (1..).zip(steps) {
        add(&rows, id, 1, *state, after.len());
        let edges = after.iter().map(|before| (*before, id));
        rows.tables().edges.extend(edges);
    }
    rows
}

fn add(rows: &MemoryRows, id: i64, deletion: i64, state: StepState, waits: usize) {
    let tables = &mut rows.tables();
    let row = tables.deletions.entry(deletion).or_insert_with(|| {
        let mut row = memory::deletion(deletion, &format!("deletion-{deletion:08}"), false);
        row.state = DeletionState::Running;
        row
    });
    *row.counts.of_mut(state) += 1;
    row.counts.total += 1;
    let key = key("port", &format!("p{id}"));
    let mut step = memory::step(id, deletion, key.clone(), state, at(0));
    step.waits = u32::try_from(waits).unwrap();
    tables.insert_step(step, StepPlan::default());
    let tombstone = StoredTombstone {
        record: id,
        deletion,
        phase: Phase::Deleting,
        deleted_at: Some(at(0)),
        gone_at: None,
        incarnation: 1,
        recreated: 0,
    };
    tables.insert_tombstone(key, tombstone);
}

fn phase(rows: &MemoryRows, record: i64) -> Phase {
    rows.tables().tombstones[&record].1.phase
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

/// Loads everything that these outcomes need, and applies them as one batch.
fn apply(rows: &MemoryRows, outcomes: &[StepChange]) -> Vec<Applied> {
    let mut set = WorkingSet::new(rows.clone());
    let ids: Vec<i64> = outcomes.iter().map(|it| it.step_id).collect();
    set.load_for_outcomes(OutcomeSteps {
        all: ids.clone(),
        ending: ids,
    })
    .unwrap();
    let applied = outcomes.iter().map(|it| set.record_outcome(it));
    let applied = applied.collect::<Result<_, Stop<String>>>().unwrap();
    set.update_left_steps(at(5)).unwrap();
    set.save().unwrap();
    set.save_deletions().unwrap();
    applied
}

fn states(rows: &MemoryRows) -> Vec<StepState> {
    let steps = &rows.tables().steps;
    steps.values().map(|step| step.state).collect()
}

#[test]
fn a_common_dependent_of_a_batch_of_outcomes_is_loaded_and_saved_once() {
    let mut steps = vec![(Verifying, &[][..]); 100];
    let before: Vec<i64> = (1..=100).collect();
    steps.push((Waiting, &before));
    let rows = rows(&steps);
    let outcomes: Vec<StepChange> = before.iter().map(|id| outcome(*id, Gone)).collect();
    let applied = apply(&rows, &outcomes);
    assert!(applied.iter().all(|applied| *applied == Applied::Done));
    assert_eq!(rows.tables().steps[&101].state, Ready);
    // Two loads: the edges from the steps with outcomes, and the steps at both ends.
    assert_eq!(rows.loads(), 2);
    assert_eq!(rows.steps_saved(), 101);
    assert!((1..=100).all(|record| phase(&rows, record) == Phase::Gone));
}

#[test]
fn the_outcomes_of_several_requests_are_loaded_together() {
    let rows = rows(&[(Verifying, &[][..]); 100]);
    let request = |id| WriteRequest::Commit(vec![Change::Step(Box::new(outcome(id, Gone)))]);
    let requests: Vec<WriteRequest> = (1..=100).map(request).collect();
    let mut set = WorkingSet::new(rows.clone());
    let answers = answer(&mut set, &requests, &mut Rotation::new(), false).unwrap();
    let is_done =
        |answer: &Outcome| matches!(answer, Outcome::Applied(all) if *all == [Applied::Done]);
    assert!(answers.iter().all(is_done));
    assert_eq!(rows.loads(), 2);
    assert_eq!(rows.steps_saved(), 100);
}

#[test]
fn an_outcome_with_another_fencing_token_changes_nothing() {
    let rows = rows(&[(Verifying, &[]), (Waiting, &[1])]);
    let mut late = outcome(1, Gone);
    late.fence.epoch = 0;
    assert_eq!(
        apply(&rows, &[late, outcome(9, Gone)]),
        [Applied::Stale, Applied::Stale]
    );
    assert_eq!(states(&rows), [Verifying, Waiting]);
    assert_eq!(rows.steps_saved(), 0);
}

#[test]
fn n12_all_dependents_of_a_stuck_step_point_to_it_and_are_released_by_its_retry() {
    let diamond: [(StepState, &[i64]); 4] = [
        (Verifying, &[]),
        (Waiting, &[1]),
        (Waiting, &[1]),
        (Waiting, &[2, 3]),
    ];
    let rows = rows(&diamond);
    apply(&rows, &[outcome(1, Stuck)]);
    assert_eq!(states(&rows), [Stuck; 4]);
    let held_by = |id: i64| rows.tables().steps[&id].held_by;
    assert_eq!([1, 2, 3, 4].map(held_by), [None, Some(1), Some(1), Some(1)]);
    assert_eq!(rows.tables().deletions[&1].state, DeletionState::Stuck);

    let mut set = WorkingSet::new(rows.clone());
    assert_eq!(set.retry_steps(1, None, true, at(6)).unwrap(), 1);
    set.save().unwrap();
    set.save_deletions().unwrap();
    assert_eq!(states(&rows), [Ready, Waiting, Waiting, Waiting]);
    assert_eq!([1, 2, 3, 4].map(held_by), [None; 4]);
    assert_eq!(rows.tables().deletions[&1].state, DeletionState::Running);
}

#[test]
fn p03_a_dependent_of_an_abandoned_step_stays_stuck_and_names_it() {
    let rows = rows(&[(Verifying, &[]), (Waiting, &[1])]);
    apply(&rows, &[outcome(1, Stuck)]);
    let mut set = WorkingSet::new(rows.clone());
    let refused = set.abandon_steps(1, Some(&[2]), at(6));
    assert!(matches!(refused, Err(Stop::Refused(why)) if why.contains("waits for step 1")));
    assert_eq!(set.abandon_steps(1, Some(&[1]), at(6)).unwrap(), 1);
    set.save().unwrap();
    assert_eq!(states(&rows), [Purged, Stuck]);
    let left = rows.tables().steps[&2].clone();
    assert_eq!((left.held_by, left.waits), (None, 0));
    assert!(left.error.unwrap().message.contains("waited for step 1"));
    assert_eq!(phase(&rows, 1), Phase::Purged);
}

#[test]
fn p09_a_left_step_becomes_gone_or_stuck_with_its_owner() {
    for (fate, expected) in [(Gone, Gone), (Stuck, Stuck)] {
        let rows = rows(&[(Verifying, &[])]);
        add(&rows, 2, 2, Waiting, 0);
        rows.tables().steps.get_mut(&2).unwrap().left_to = Some(1);
        apply(&rows, &[outcome(1, fate)]);
        assert_eq!(states(&rows), [fate, expected]);
    }
}
