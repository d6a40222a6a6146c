//! Orders steps by their dependencies, and ranks them by the longest path.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::kinds::Kinds;
use crate::domain::model::{Plan, ResourceKey};

/// Returns the nodes in an order in which each node comes after everything that it depends on: level by
/// level, with ascending keys within a level. The second list has the nodes that wait for each other in a cycle, and
/// those that wait for these.
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

/// Rank of a delete that the cloud accepts and then works on. Such a delete takes a second or more, which is about the
/// time of ten plain deletes.
const RANK_OF_ASYNC_DELETE: u32 = 10;

/// Returns, for each step, the length of the longest path from it to the end of the deletion, counted in plain
/// deletes. If not all steps can be sent at once, those of the highest rank are sent first: the longest path begins
/// first, and the calls of all other steps are made meanwhile.
pub fn ranks(plan: &Plan, kinds: &Kinds) -> Vec<u32> {
    let of_own = |kind| {
        let settles = kinds.get(kind).and_then(|kind| kind.spec.settles.as_ref());
        settles.map_or(1, |_| RANK_OF_ASYNC_DELETE)
    };
    let mut ranks: Vec<u32> = plan.steps.iter().map(|step| of_own(&step.kind)).collect();
    // Steps come after everything that they depend on, so one walk from the end is enough.
    for step in plan.steps.iter().rev() {
        let Some(after) = ranks.get(step.id as usize).copied() else {
            continue;
        };
        for before in &step.depends_on {
            let own = plan.steps.get(*before as usize).map(|it| of_own(&it.kind));
            if let (Some(rank), Some(own)) = (ranks.get_mut(*before as usize), own) {
                *rank = (*rank).max(own + after);
            }
        }
    }
    ranks
}
