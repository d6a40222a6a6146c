//! Simulates deletions in one instance, call by call: which calls are refused, and which resources are deleted or left.

use super::instance::{Edge, Instance};
use super::schema::{ReferenceRow, Rule, Schema};

/// A set of resources, a bit for each.
type Set = u16;

fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..Set::BITS as usize).filter(move |it| set & (1 << it) != 0)
}

/// A problem of a deletion, with the numbers of its references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// An accepted deletion is blocked: the asynchronous cascade that led to the blocked resource, and the reference
    /// that blocks it.
    Stuck(usize, usize),
    UnsetRequired(usize),
    NotImported(usize),
    Dangling(usize),
    /// An accepted deletion does not end, although no other resource blocks its resources.
    UnfinishedCycle,
}

/// An instance with the effects of its references.
pub struct Simulation<'a> {
    schema: &'a Schema,
    instance: &'a Instance,
    all: Set,
    /// For each resource, the resources that block it while its deletion is requested.
    blockers: Vec<Set>,
    /// For each resource, the resources that block it after its deletion was accepted.
    blockers_after_acceptance: Vec<Set>,
    /// For each resource, the resources that the same request deletes.
    deleted_along: Vec<Set>,
    /// For each resource, the resources that the cloud deletes with it.
    automatic: Vec<Set>,
    /// For each resource, the resources whose deletion makes it block nothing any more.
    unset_with: Vec<Set>,
}

impl<'a> Simulation<'a> {
    pub fn new(schema: &'a Schema, instance: &'a Instance) -> Self {
        let none = vec![0; instance.kinds.len()];
        let mut simulation = Self {
            schema,
            instance,
            all: (1 << instance.kinds.len()) - 1,
            blockers: none.clone(),
            blockers_after_acceptance: none.clone(),
            deleted_along: none.clone(),
            automatic: none.clone(),
            unset_with: none,
        };
        for edge in &instance.edges {
            let row = &schema.references[edge.reference];
            let (from, to) = (1 << edge.from, edge.to);
            let cannot_unset = row.rule == Rule::Unset && row.required;
            match (row.rule, row.asynchronous) {
                (Rule::Block | Rule::Cascade, false) => simulation.blockers[to] |= from,
                (Rule::Unset, false) if cannot_unset => simulation.blockers[to] |= from,
                (Rule::Unset, true) if cannot_unset => {
                    simulation.blockers_after_acceptance[to] |= from;
                }
                (Rule::Unset, _) if !schema.kinds[row.from].is_native() => {
                    simulation.unset_with[edge.from] |= 1 << to;
                }
                _ => {}
            }
            if row.is_automatic() {
                simulation.automatic[to] |= from;
            }
            if !row.asynchronous && (row.rule == Rule::Cascade || row.is_automatic()) {
                simulation.deleted_along[to] |= from;
            }
        }
        for (later, now) in simulation
            .blockers_after_acceptance
            .iter_mut()
            .zip(&simulation.blockers)
        {
            *later |= now;
        }
        simulation
    }

    /// Whether no call succeeds.
    pub fn is_locked(&self) -> bool {
        members(self.all).all(|it| {
            self.call(it, self.all, &self.blockers_after_acceptance)
                .is_none()
        })
    }

    /// Whether each resource refers to one resource and is referred to by one.
    pub fn is_ring(&self) -> bool {
        let edges = &self.instance.edges;
        let mut ends: Set = 0;
        let mut starts: Set = 0;
        for edge in edges {
            ends |= 1 << edge.to;
            starts |= 1 << edge.from;
        }
        edges.len() == self.instance.kinds.len() && ends == self.all && starts == self.all
    }

    /// Returns the references that block after a deletion was accepted.
    pub fn blocking_references(&self) -> impl Iterator<Item = usize> {
        let blocks = |edge: &&Edge| self.blockers_after_acceptance[edge.to] & (1 << edge.from) != 0;
        let edges = self.instance.edges.iter().filter(blocks);
        edges.map(|edge| edge.reference)
    }

    /// Deletes each resource of the instance with its dependents, one at a time, and reports the problems.
    pub fn delete_each(&self, report: &mut dyn FnMut(Problem)) {
        for root in members(self.all) {
            self.delete(root, report);
        }
    }

    /// Returns the resources that one call deletes, out of those that still exist; none if a resource blocks the call.
    fn call(&self, resource: usize, live: Set, blockers: &[Set]) -> Option<Set> {
        let deleted = closure(1 << resource, |it| self.automatic[it] & live);
        for blocked in members(deleted) {
            for blocker in members(blockers[blocked] & live & !deleted) {
                if self.unset_with[blocker] & (deleted | !live) == 0 {
                    return None;
                }
            }
        }
        Some(deleted)
    }

    /// Sends the calls for the resources to delete, in any order that succeeds. Returns the resources that still exist.
    fn carry_out(&self, root: usize, going: Set, blockers: &[Set]) -> Set {
        let is_automatic = |it: usize| members(going).any(|to| self.automatic[to] & (1 << it) != 0);
        let calls = members(going).filter(|it| *it == root || !is_automatic(*it));
        let calls: Vec<usize> = calls.collect();
        let mut live = self.all;
        loop {
            let before = live;
            for call in &calls {
                if live & (1 << call) != 0
                    && let Some(gone) = self.call(*call, live, blockers)
                {
                    live &= !gone;
                }
            }
            if live == before {
                return live;
            }
        }
    }

    /// Deletes one resource with its dependents, and reports the problems.
    fn delete(&self, root: usize, report: &mut dyn FnMut(Problem)) {
        let going = closure(1 << root, |it| self.deleted_along[it]);
        self.report_not_imported(going, report);
        if !self.accepts(root, going, report) {
            return;
        }
        let (going, causes) = self.cascade(going);
        self.report_not_imported(going, report);
        let live = self.carry_out(root, going, &self.blockers_after_acceptance);
        let left = going & live;
        let mut explained = left == 0;
        for blocked in members(left) {
            for blocker in members(self.blockers_after_acceptance[blocked] & !going) {
                // Another resource of the cascade is still blocked. Once it is deleted, the blocker stops blocking.
                if self.unset_with[blocker] & going != 0 {
                    continue;
                }
                explained = true;
                let reference = self.reference_between(blocker, blocked);
                if self.schema.references[reference].asynchronous {
                    report(Problem::UnsetRequired(reference));
                    continue;
                }
                let mut at = blocked;
                while let Some((cause, before)) = causes[at] {
                    if self.schema.references[cause].asynchronous {
                        report(Problem::Stuck(cause, reference));
                    }
                    at = before;
                }
            }
        }
        if !explained {
            report(Problem::UnfinishedCycle);
        }
        self.report_dangling(live, report);
    }

    /// Whether no other resource blocks the resources to delete, and they can be deleted in some order.
    fn accepts(&self, root: usize, going: Set, report: &mut dyn FnMut(Problem)) -> bool {
        let mut accepted = true;
        for blocked in members(going) {
            for blocker in members(self.blockers[blocked] & !going) {
                if self.unset_with[blocker] & going != 0 {
                    continue;
                }
                accepted = false;
                let reference = self.reference_between(blocker, blocked);
                if self.schema.references[reference].rule == Rule::Unset {
                    report(Problem::UnsetRequired(reference));
                }
            }
        }
        accepted && self.carry_out(root, going, &self.blockers) & going == 0
    }

    /// Returns all resources that the cascade deletes in the end. For each that was added to `start`, also returns the
    /// reference and the resource that led to it.
    fn cascade(&self, start: Set) -> (Set, Vec<Option<(usize, usize)>>) {
        let mut causes = vec![None; self.instance.kinds.len()];
        let mut going = start;
        loop {
            let before = going;
            for edge in &self.instance.edges {
                let row = &self.schema.references[edge.reference];
                let cascades = row.rule == Rule::Cascade || row.is_automatic();
                let newly = going & (1 << edge.to) != 0 && going & (1 << edge.from) == 0;
                if cascades && newly {
                    going |= 1 << edge.from;
                    causes[edge.from] = Some((edge.reference, edge.to));
                }
            }
            if going == before {
                return (going, causes);
            }
        }
    }

    /// Reports references to deleted resources if the referrer's service is not notified of the deletion.
    fn report_not_imported(&self, going: Set, report: &mut dyn FnMut(Problem)) {
        for edge in &self.instance.edges {
            let ReferenceRow { from, to, rule, .. } = self.schema.references[edge.reference];
            let notified = rule == Rule::Dangling || self.schema.is_notified(from, to);
            if going & (1 << edge.to) != 0 && !notified {
                report(Problem::NotImported(edge.reference));
            }
        }
    }

    /// Reports dangling references from resources that still exist.
    fn report_dangling(&self, live: Set, report: &mut dyn FnMut(Problem)) {
        for edge in &self.instance.edges {
            let row = &self.schema.references[edge.reference];
            let gone = live & (1 << edge.to) == 0 && !self.schema.kinds[row.to].stays;
            if row.rule == Rule::Dangling && live & (1 << edge.from) != 0 && gone {
                report(Problem::Dangling(edge.reference));
            }
        }
    }

    fn reference_between(&self, from: usize, to: usize) -> usize {
        let mut edges = self.instance.edges.iter();
        let edge = edges.find(|edge| edge.from == from && edge.to == to);
        edge.unwrap().reference
    }
}

/// Returns the set with everything that `more` adds to its members, repeatedly.
fn closure(start: Set, more: impl Fn(usize) -> Set) -> Set {
    let mut all = start;
    loop {
        let next = members(all).fold(all, |all, it| all | more(it));
        if next == all {
            return all;
        }
        all = next;
    }
}
