//! A deletion's steps as a tree, of which only the visible part is ever read. The steps for which no other step
//! waits are at the top, and the steps that must end before a step are below it. Equal siblings form a [`Branch`]: a
//! network with 1,000,000 ports has two branches.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::model::{Action, Counts, KindName, PlanStep, Site, Step, StepState};

/// Minimum number of equal siblings that are folded into one line.
pub const FOLD_FROM: u64 = 6;

/// The order of a branch's steps: steps that need a person come first, and steps that have ended come last. Steps
/// in one state are ordered by id.
pub const BY_URGENCY: [StepState; 9] = [
    StepState::Stuck,
    StepState::Blocked,
    StepState::Running,
    StepState::Verifying,
    StepState::Ready,
    StepState::Waiting,
    StepState::Purged,
    StepState::Skipped,
    StepState::Gone,
];

/// Equal siblings: steps of one kind and action at one site. Either all of them have steps below them, or
/// none has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub id: i64,
    /// The step below which these steps are; none for the steps for which no other step waits.
    pub below: Option<i64>,
    pub site: Site,
    pub kind: KindName,
    pub action: Action,
    /// Whether there are no steps below these steps.
    pub leaf: bool,
    pub counts: Counts,
}

/// A branch. If it has fewer steps than [`FOLD_FROM`], all of them are included, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BranchRead {
    #[serde(flatten)]
    pub branch: Branch,
    pub steps: Vec<Step>,
}

/// A step that a person has opened, and its index among its branch's steps in the order [`BY_URGENCY`]. Only for
/// branches of [`FOLD_FROM`] steps or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepPosition {
    pub branch: i64,
    pub index: u64,
    pub step: Step,
}

/// The branches below some steps, and the positions of these steps in their own branches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outline {
    pub branches: Vec<BranchRead>,
    pub places: Vec<StepPosition>,
}

/// The whole tree of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanTree {
    /// The branches. A branch's id is its position here, `below` is a step's position in the plan, and of the
    /// counts only the total is set.
    pub branches: Vec<Branch>,
    /// The branch of each step.
    pub branch_of: Vec<u32>,
    /// The wave of each step. The steps of wave 1 are sent first, and steps of one wave may be sent at the same time.
    /// 0 means that the step is in a cycle, or that a step in a cycle waits for it.
    pub waves: Vec<u32>,
}

/// Builds the tree of a plan, in which each step appears once.
pub fn build_tree(steps: &[PlanStep]) -> PlanTree {
    let (parents, waves) = places(steps);
    let mut leaf = vec![true; steps.len()];
    for parent in parents.iter().flatten() {
        leaf[*parent as usize] = false;
    }
    let mut branches: Vec<Branch> = Vec::new();
    let mut known = HashMap::new();
    let mut branch_of = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        let below = parents[at];
        let key = (below, &step.site, &step.kind, step.action, leaf[at]);
        let number = *known.entry(key).or_insert_with(|| {
            branches.push(Branch {
                id: branches.len() as i64,
                below: below.map(i64::from),
                site: step.site.clone(),
                kind: step.kind.clone(),
                action: step.action,
                leaf: leaf[at],
                counts: Counts::default(),
            });
            branches.len() - 1
        });
        branches[number].counts.total += 1;
        branch_of.push(u32::try_from(number).unwrap_or(u32::MAX));
    }
    PlanTree {
        branches,
        branch_of,
        waves,
    }
}

/// Returns each step's parent and wave. A step is placed below the deepest of the steps that wait for it, so
/// that a port with an address is below its subnet, although the network waits for the port too. A step has no parent
/// if no step waits for it, or if a cycle does.
fn places(steps: &[PlanStep]) -> (Vec<Option<u32>>, Vec<u32>) {
    let n = steps.len();
    // A step does not wait for steps that are not in the plan.
    let before = |at: usize| {
        let all = steps[at].depends_on.iter().copied();
        all.filter(|below| (*below as usize) < n)
    };
    let mut waiting = vec![0u32; n];
    for at in 0..n {
        before(at).for_each(|below| waiting[below as usize] += 1);
    }
    let mut order: Vec<u32> = (0u32..).take(n).collect();
    order.retain(|at| waiting[*at as usize] == 0);
    let mut depth = vec![0u32; n];
    let mut parents: Vec<Option<u32>> = vec![None; n];
    let mut at = 0;
    while let Some(&step) = order.get(at) {
        at += 1;
        for below in before(step as usize) {
            let child = below as usize;
            if parents[child].is_none() || depth[step as usize] + 1 > depth[child] {
                depth[child] = depth[step as usize] + 1;
                parents[child] = Some(step);
            }
            waiting[child] -= 1;
            if waiting[child] == 0 {
                order.push(below);
            }
        }
    }
    let mut waves = vec![0u32; n];
    for &step in order.iter().rev() {
        let highest = before(step as usize)
            .map(|below| waves[below as usize])
            .max();
        waves[step as usize] = highest.unwrap_or(0) + 1;
    }
    for (parent, waiting) in parents.iter_mut().zip(&waiting) {
        if *waiting > 0 {
            *parent = None;
        }
    }
    (parents, waves)
}
