//! A deletion's steps as a tree, of which only what is looked at is ever read: what goes last is the
//! root, what must go before it stands below. Equal siblings are a [`Branch`]: a network with
//! 1,000,000 ports is two of them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::model::{Action, Counts, KindName, PlanStep, Site, Step, StepState};

/// This many equal siblings become one line.
pub const FOLD_FROM: u64 = 6;

/// The order of a branch's steps: what needs a person first, what has ended last. Steps of one state
/// stand in the order of their ids.
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

/// Equal siblings: of one kind, at one site, to which the same is done, and below each of which there
/// is something or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub id: i64,
    /// The step that they stand below; none: they go last.
    pub below: Option<i64>,
    pub site: Site,
    pub kind: KindName,
    pub action: Action,
    /// Nothing stands below them.
    pub leaf: bool,
    pub counts: Counts,
}

/// A branch, and all of its steps by id if they are fewer than [`FOLD_FROM`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BranchRead {
    #[serde(flatten)]
    pub branch: Branch,
    pub steps: Vec<Step>,
}

/// A step below which a person looks, and its place among its branch's steps, [`BY_URGENCY`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    pub branch: i64,
    pub index: u64,
    pub step: Step,
}

/// The branches below some steps, and where these stand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outline {
    pub branches: Vec<BranchRead>,
    pub places: Vec<Place>,
}

/// All of a plan's tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// Their ids are their positions here, `below` and the steps are positions in the plan; their
    /// counts have a total only.
    pub branches: Vec<Branch>,
    /// The branch of each step.
    pub branch_of: Vec<u32>,
    /// 1 goes first; steps of one number may go at once. 0: waits in a circle.
    pub waves: Vec<u32>,
}

/// Gives each step its one place.
pub fn plant(steps: &[PlanStep]) -> Planted {
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
    Planted {
        branches,
        branch_of,
        waves,
    }
}

/// Each step stands below the deepest of those that wait for it, so that a port with an address stands
/// below its subnet, though the network waits for it too. What waits in a circle has no place below
/// anything.
fn places(steps: &[PlanStep]) -> (Vec<Option<u32>>, Vec<u32>) {
    let n = steps.len();
    // What is not in the plan is waited for by nobody.
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
