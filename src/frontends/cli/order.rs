//! The order of steps that wait for each other.

use std::collections::{BTreeMap, BTreeSet};

/// Orders ids, each given with those that it depends on, so that each follows its dependencies; otherwise
/// by id. Those in a cycle, and those that depend on them, come last.
pub(super) fn dependencies_first<'a, Id: Copy + Ord + 'a>(
    nodes: impl IntoIterator<Item = (Id, &'a [Id])>,
) -> Vec<Id> {
    let nodes: BTreeMap<Id, &[Id]> = nodes.into_iter().collect();
    let mut dependents: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
    let mut waits: BTreeMap<Id, usize> = BTreeMap::new();
    for (id, depends_on) in &nodes {
        let known = depends_on.iter().filter(|first| nodes.contains_key(first));
        let known: BTreeSet<&Id> = known.collect();
        waits.insert(*id, known.len());
        for first in known {
            dependents.entry(*first).or_default().push(*id);
        }
    }
    let free = waits.iter().filter(|(_, waits)| **waits == 0);
    let mut free: BTreeSet<Id> = free.map(|(id, _)| *id).collect();
    let mut ordered = Vec::with_capacity(nodes.len());
    while let Some(id) = free.pop_first() {
        ordered.push(id);
        waits.remove(&id);
        for dependent in dependents.get(&id).into_iter().flatten() {
            if let Some(waits) = waits.get_mut(dependent) {
                *waits -= 1;
                if *waits == 0 {
                    free.insert(*dependent);
                }
            }
        }
    }
    ordered.extend(waits.into_keys());
    ordered
}
