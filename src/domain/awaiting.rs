//! Says for a person what blocks a step that waits for clearances of other deployments (G7), and what can be
//! done.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Blocker, ResourceKey, Site, Step, StepState};
use super::peers::{AWAITED, SILENT};
use super::text::escape;

/// Whether the step waits for nothing but clearances of other deployments.
pub fn awaits_clearance(step: &Step) -> bool {
    let error = step.last_error.as_ref();
    let is_blocked = matches!(step.state, StepState::Blocked | StepState::Stuck);
    is_blocked && error.is_some_and(|error| error.kind == AWAITED)
}

/// Returns the deployment that has not answered, if the blocker stands for its missing answer.
pub fn silent_deployment(blocker: &Blocker) -> Option<&str> {
    let named = deployment_of(blocker)?;
    (blocker.kind.as_str() == SILENT && blocker.id == named).then_some(named)
}

/// Returns the deployment that owns the blocker; none if a cloud does.
pub fn deployment_of(blocker: &Blocker) -> Option<&str> {
    match &blocker.site {
        Site::Deployment { name } => Some(name),
        Site::Region { .. } => None,
    }
}

/// Returns the words for what happens to a blocker of another deployment: whether it is deleted too. None if
/// the blocker belongs to a cloud.
pub fn fate_words(blocker: &Blocker) -> Option<&'static str> {
    deployment_of(blocker).map(|_| match blocker.in_plan {
        true => "deleted too",
        false => "not being deleted",
    })
}

/// A blocker in the tree of [`tree_of`]. It blocks the entry above it; at depth 0 it blocks the step itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NestedBlocker<'a> {
    pub depth: usize,
    pub by: &'a Blocker,
}

/// Arranges a step's blockers from all deployments as a tree. Each blocker appears once: below the blocker that
/// it blocks, or at depth 0 if it blocks the step itself.
pub fn tree_of(blockers: &[Blocker]) -> Vec<NestedBlocker<'_>> {
    let keys: BTreeSet<ResourceKey> = blockers.iter().map(Blocker::key).collect();
    let mut below: BTreeMap<Option<ResourceKey>, Vec<&Blocker>> = BTreeMap::new();
    for by in blockers.iter().rev() {
        // If the resource that a blocker blocks is not one of `blockers`, the blocker is shown at depth 0.
        let holds = by.holds.as_deref().filter(|key| keys.contains(*key));
        below.entry(holds.cloned()).or_default().push(by);
    }
    let mut shown = Vec::with_capacity(blockers.len());
    // The first round starts at depth 0. Each later round starts within a cycle, which no blocker at depth 0
    // leads to.
    while let Some((_, first)) = below.pop_first() {
        let mut open: Vec<NestedBlocker<'_>> = first
            .into_iter()
            .map(|by| NestedBlocker { depth: 0, by })
            .collect();
        while let Some(blocked) = open.pop() {
            shown.push(blocked);
            let blockers = below.remove(&Some(blocked.by.key()));
            let depth = blocked.depth + 1;
            let blockers = blockers.into_iter().flatten();
            open.extend(blockers.map(|by| NestedBlocker { depth, by }));
        }
    }
    shown
}

/// Says what a person can do so that a step gets the clearances that it waits for. The step needs no retry
/// after that. None if the step waits for anything else, or if there is nothing to do.
///
/// For example: `remove the blockers that d0-1 names, or, if that deployment is gone for good: gone release d0-1`
pub fn next_action(step: &Step) -> Option<String> {
    if !awaits_clearance(step) {
        return None;
    }
    let mut holding = BTreeSet::new();
    let mut silent = BTreeSet::new();
    // Only the deployment of a blocker can say what to do about the blocker's own blockers.
    for blocker in step.blockers.iter().filter(|by| by.holds.is_none()) {
        match (silent_deployment(blocker), deployment_of(blocker)) {
            (Some(name), _) => silent.insert(name),
            (None, Some(name)) => holding.insert(name),
            (None, None) => false,
        };
    }
    let mut to_do = Vec::new();
    match holding.len() {
        0 => {}
        1 => to_do.push(format!(
            "remove the blockers that {} names",
            listed(&holding)
        )),
        _ => to_do.push(format!(
            "remove the blockers that {} name",
            listed(&holding)
        )),
    }
    match silent.len() {
        0 => {}
        1 => to_do.push(format!(
            "find out why the clearance of deployment {} is pending",
            listed(&silent)
        )),
        _ => to_do.push(format!(
            "find out why the clearances of deployments {} are pending",
            listed(&silent)
        )),
    }
    if to_do.is_empty() {
        return None;
    }
    let mut action = to_do.join(", and ");
    // This deployment answers itself while the engine runs, so it never needs to be released.
    let own = step.resource.key.site.to_string();
    let others = holding.union(&silent).filter(|name| **name != own);
    let others: Vec<&&str> = others.collect();
    match others.as_slice() {
        [] => {}
        [one] => action.push_str(&format!(
            ", or, if that deployment is gone for good: gone release {}",
            escape(one)
        )),
        _ => action.push_str(", or, for one that is gone for good: gone release NAME"),
    }
    Some(action)
}

/// Joins the names of deployments, escaped and sorted: `d0-1 and d0-2`.
fn listed(names: &BTreeSet<&str>) -> String {
    let names: Vec<_> = names.iter().map(|name| escape(name)).collect();
    names.join(" and ")
}
