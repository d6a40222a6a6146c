//! The tree of a deletion: the branches that a front end shows.

use super::steps::shown;
use crate::domain::model::{Counts, Step, StepState};
use crate::domain::outline::{BY_URGENCY, Branch, BranchRead, FOLD_FROM, Outline, StepPosition};
use crate::ledger::store::{BranchRange, LedgerReads, Stored};

/// The branches of a deletion below these steps.
pub fn outline<R: LedgerReads>(rows: &R, id: &str, below: &[Option<i64>]) -> Stored<R, Outline> {
    let mut outline = Outline::default();
    let Some(num) = rows.find_deletion(id)? else {
        return Ok(outline);
    };
    for below in below {
        for branch in rows.load_branches(num, *below)? {
            outline.branches.extend(counted(rows, branch)?);
        }
        if let Some(step) = below {
            outline.places.extend(step_position(rows, num, *step)?);
        }
    }
    Ok(outline)
}

/// Returns a branch, with its steps if they are few; none if all of its steps were pruned.
fn counted<R: LedgerReads>(rows: &R, branch: Branch) -> Stored<R, Option<BranchRead>> {
    let counts = branch.counts;
    let mut ids = Vec::new();
    if counts.total < FOLD_FROM {
        for state in StepState::ALL {
            let all = counts.of(state);
            ids.extend(of_state(rows, (branch.id, state), all, 0, all)?);
        }
        ids.sort_unstable();
    }
    let steps = shown(rows, &ids, Some(0))?;
    Ok((counts.total > 0).then_some(BranchRead { branch, steps }))
}

/// The steps of a branch, whose counts are given, from this index on, in the order [`BY_URGENCY`].
pub fn branch_steps<R: LedgerReads>(
    rows: &R,
    id: &str,
    (branch, counts): (i64, &Counts),
    from: u64,
    limit: usize,
) -> Stored<R, Vec<Step>> {
    let (mut ids, mut skip, mut missing) = (Vec::new(), from, limit as u64);
    for state in BY_URGENCY {
        let all = counts.of(state);
        let passed = skip.min(all);
        skip -= passed;
        let wanted = missing.min(all - passed);
        missing -= wanted;
        ids.extend(of_state(rows, (branch, state), all, passed, wanted)?);
    }
    let steps = shown(rows, &ids, Some(0))?;
    // A branch belongs to one deletion.
    let is_its = steps.iter().all(|step| step.deletion_id == id);
    Ok(if is_its { steps } else { Vec::new() })
}

/// The ids of the `wanted` steps in one state that follow the first `passed` of `all`. They are read from the nearer
/// end.
fn of_state<R: LedgerReads>(
    rows: &R,
    (branch, state): (i64, StepState),
    all: u64,
    passed: u64,
    wanted: u64,
) -> Stored<R, Vec<i64>> {
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let behind = all - passed - wanted;
    let from_end = behind < passed;
    let mut ids = rows.find_in_branch(&BranchRange {
        branch,
        state,
        from_end,
        offset: passed.min(behind),
        limit: wanted,
    })?;
    if from_end {
        ids.reverse();
    }
    Ok(ids)
}

/// The index of a step in its branch, if the branch is long. All steps of a short branch are read anyway.
fn step_position<R: LedgerReads>(rows: &R, num: i64, id: i64) -> Stored<R, Option<StepPosition>> {
    let found = rows.load_step_rows(&[id])?.pop();
    let Some(row) = found.filter(|row| row.now.deletion == num) else {
        return Ok(None);
    };
    let (branch, state) = (row.plan.branch, row.now.state);
    let counts = rows.count_branch(branch)?;
    if counts.total < FOLD_FROM {
        return Ok(None);
    }
    let before = BY_URGENCY.into_iter().take_while(|it| *it != state);
    let before: u64 = before.map(|state| counts.of(state)).sum();
    let beside = rows.count_before(branch, state, id)?;
    let step = shown(rows, &[id], Some(0))?.pop();
    Ok(step.map(|step| StepPosition {
        branch,
        index: before + beside,
        step,
    }))
}
