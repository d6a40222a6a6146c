//! Orders steps by their dependencies, and ranks them by the longest chain.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::model::{Plan, ResourceKey};

/// Returns the nodes in an order in which each node comes after everything that it depends on: level by
/// level, with ascending keys within a level. The second list has the nodes that wait for each other in a
/// cycle.
pub(super) fn layers<'n>(
    depends_on: &BTreeMap<&'n ResourceKey, BTreeSet<&'n ResourceKey>>,
) -> (Vec<&'n ResourceKey>, Vec<&'n ResourceKey>) {
    let mut open: BTreeMap<&ResourceKey, usize> = BTreeMap::new();
    let mut dependents: BTreeMap<&ResourceKey, Vec<&'n ResourceKey>> = BTreeMap::new();
    for (node, before) in depends_on {
        open.insert(node, before.len());
        for first in before {
            dependents.entry(first).or_default().push(node);
        }
    }
    let mut level: Vec<&'n ResourceKey> = depends_on
        .iter()
        .filter(|(_, before)| before.is_empty())
        .map(|(node, _)| *node)
        .collect();
    let mut ordered = Vec::with_capacity(depends_on.len());
    while !level.is_empty() {
        let mut next = BTreeSet::new();
        for node in &level {
            for dependent in dependents.get(node).into_iter().flatten() {
                if let Some(left) = open.get_mut(dependent) {
                    *left -= 1;
                    if *left == 0 {
                        next.insert(*dependent);
                    }
                }
            }
        }
        ordered.append(&mut level);
        level = next.into_iter().collect();
    }
    let done: BTreeSet<&ResourceKey> = ordered.iter().copied().collect();
    let left = depends_on
        .keys()
        .copied()
        .filter(|node| !done.contains(node))
        .collect();
    (ordered, left)
}

/// Returns, for each step, the length of the longest chain of steps after it. If not all steps can run, the
/// highest rank runs first.
pub fn ranks(plan: &Plan) -> Vec<u32> {
    let mut ranks = vec![0u32; plan.steps.len()];
    // Steps come after everything that they depend on, so one walk from the end is enough.
    for step in plan.steps.iter().rev() {
        let Some(own) = ranks.get(step.id as usize).copied() else {
            continue;
        };
        for before in &step.depends_on {
            if let Some(rank) = ranks.get_mut(*before as usize) {
                *rank = (*rank).max(own + 1);
            }
        }
    }
    ranks
}
