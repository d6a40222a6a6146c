//! The tree of a plan's steps, and its branches.

use gone::domain::model::{PlanStep, Site};
use gone::domain::outline::{PlanTree, build_tree};
use proptest::prelude::*;

use crate::testkit;

fn step(id: usize, kind: &str, depends_on: &[u32]) -> PlanStep {
    let key = testkit::key(Site::region("prod", "RegionOne"), kind, &id.to_string());
    testkit::plan_step(u32::try_from(id).unwrap(), key, depends_on)
}

fn parent(tree: &PlanTree, step: usize) -> Option<usize> {
    let branch = &tree.branches[tree.branch_of[step] as usize];
    branch.below.map(|at| usize::try_from(at).unwrap())
}

fn depth(tree: &PlanTree, step: usize) -> usize {
    parent(tree, step).map_or(0, |above| depth(tree, above) + 1)
}

#[test]
fn equal_siblings_are_one_branch() {
    let tree = build_tree(&[
        step(0, "port", &[]),
        step(1, "port", &[]),
        // A port with a step below it is not in the branch of the ports without one.
        step(2, "port", &[3]),
        step(3, "floating_ip", &[]),
        step(4, "network", &[0, 1, 2, 3]),
    ]);
    assert_eq!(tree.branch_of, [0, 0, 1, 2, 3]);
    let of = |at: usize| {
        let branch = &tree.branches[at];
        (
            branch.below,
            branch.kind.as_str(),
            branch.leaf,
            branch.counts.total,
        )
    };
    assert_eq!(of(0), (Some(4), "port", true, 2));
    assert_eq!(of(1), (Some(4), "port", false, 1));
    assert_eq!(of(2), (Some(2), "floating_ip", true, 1));
    assert_eq!(of(3), (None, "network", false, 1));
    assert_eq!(tree.waves, [1, 1, 2, 1, 3]);
}

#[test]
fn steps_in_a_cycle_are_at_the_top_and_have_no_wave() {
    let tree = build_tree(&[
        step(0, "port", &[1]),
        step(1, "port", &[0]),
        step(2, "network", &[7]),
    ]);
    assert!((0..3).all(|step| parent(&tree, step).is_none()));
    assert_eq!(tree.waves, [0, 0, 1]);
}

proptest! {
    #[test]
    fn each_step_is_below_the_deepest_step_that_waits_for_it(
        edges in proptest::collection::vec(proptest::collection::vec(any::<u32>(), 0..5), 1..40),
        kinds in proptest::collection::vec(0usize..3, 40),
    ) {
        const KINDS: [&str; 3] = ["port", "subnet", "network"];
        // Each step waits only for steps before it, so there is no cycle.
        let steps: Vec<PlanStep> = (0..).zip(&edges).map(|(id, edges): (usize, _)| {
            let before: Vec<u32> = edges
                .iter()
                .filter_map(|edge| edge.checked_rem(u32::try_from(id).unwrap()))
                .collect();
            step(id, KINDS[kinds[id]], &before)
        }).collect();
        let tree = build_tree(&steps);
        prop_assert_eq!(tree.branch_of.len(), steps.len());
        for (at, branch) in tree.branches.iter().enumerate() {
            let members = tree.branch_of.iter().filter(|of| **of as usize == at);
            prop_assert_eq!(members.count() as u64, branch.counts.total);
        }
        for (at, own) in steps.iter().enumerate() {
            let waiting: Vec<usize> = (0..steps.len())
                .filter(|other| steps[*other].depends_on.contains(&own.id))
                .collect();
            let deepest = waiting.iter().map(|other| depth(&tree, *other)).max();
            prop_assert_eq!(depth(&tree, at), deepest.map_or(0, |deepest| deepest + 1));
            let above = parent(&tree, at);
            prop_assert!(above.is_none_or(|above| waiting.contains(&above)));
            let branch = &tree.branches[tree.branch_of[at] as usize];
            prop_assert_eq!((&branch.kind, &branch.site), (&own.kind, &own.site));
            let has_below = (0..steps.len()).any(|other| parent(&tree, other) == Some(at));
            prop_assert_eq!(branch.leaf, !has_below);
            let before = own.depends_on.iter().map(|it| tree.waves[*it as usize]);
            prop_assert_eq!(tree.waves[at], before.max().unwrap_or(0) + 1);
        }
    }
}
