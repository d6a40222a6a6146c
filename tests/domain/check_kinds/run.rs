//! Deletions, carried out literally on one instance: what is refused, what goes, what is left over.

use super::instance::{Edge, Instance};
use super::schema::{ReferenceRow, Rule, Schema};

/// A set of resources, a bit for each.
type Set = u16;

fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..Set::BITS as usize).filter(move |it| set & (1 << it) != 0)
}

/// What was seen when something was deleted. References by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// The asynchronous cascade that led to what is held, and by what it is held.
    Stuck(usize, usize),
    UnsetRequired(usize),
    NotImported(usize),
    Dangling(usize),
    /// An accepted deletion has not ended, and none of what goes is held from outside.
    LeftInACircle,
}

pub struct World<'a> {
    schema: &'a Schema,
    instance: &'a Instance,
    all: Set,
    /// What refers to each by a reference that holds; at once, and after a deletion was accepted.
    holds: Vec<Set>,
    holds_later: Vec<Set>,
    goes_along: Vec<Set>,
    automatic: Vec<Set>,
    /// For each the resources with whose end it lets go of all.
    lets_go_with: Vec<Set>,
}

impl<'a> World<'a> {
    pub fn new(schema: &'a Schema, instance: &'a Instance) -> Self {
        let none = vec![0; instance.kinds.len()];
        let mut world = Self {
            schema,
            instance,
            all: (1 << instance.kinds.len()) - 1,
            holds: none.clone(),
            holds_later: none.clone(),
            goes_along: none.clone(),
            automatic: none.clone(),
            lets_go_with: none,
        };
        for edge in &instance.edges {
            let row = &schema.references[edge.reference];
            let (from, to) = (1 << edge.from, edge.to);
            let cannot = row.rule == Rule::Unset && row.required;
            match (row.rule, row.asynchronous) {
                (Rule::Block | Rule::Cascade, false) => world.holds[to] |= from,
                (Rule::Unset, false) if cannot => world.holds[to] |= from,
                (Rule::Unset, true) if cannot => world.holds_later[to] |= from,
                (Rule::Unset, _) if !schema.kinds[row.from].is_native() => {
                    world.lets_go_with[edge.from] |= 1 << to;
                }
                _ => {}
            }
            if row.is_automatic() {
                world.automatic[to] |= from;
            }
            if !row.asynchronous && (row.rule == Rule::Cascade || row.is_automatic()) {
                world.goes_along[to] |= from;
            }
        }
        for (later, now) in world.holds_later.iter_mut().zip(&world.holds) {
            *later |= now;
        }
        world
    }

    /// Whether not one call succeeds.
    pub fn is_locked(&self) -> bool {
        members(self.all).all(|it| self.call(it, self.all, &self.holds_later).is_none())
    }

    /// Whether each refers to one and is referred to by one.
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

    /// The references that hold.
    pub fn holding(&self) -> impl Iterator<Item = usize> {
        let holds = |edge: &&Edge| self.holds_later[edge.to] & (1 << edge.from) != 0;
        let edges = self.instance.edges.iter().filter(holds);
        edges.map(|edge| edge.reference)
    }

    /// All that is seen when each is deleted, one at a time and with what depends on it.
    pub fn delete_each(&self, seen: &mut dyn FnMut(Seen)) {
        for root in members(self.all) {
            self.delete(root, seen);
        }
    }

    /// What one call takes away of what is there; none if something holds it.
    fn call(&self, resource: usize, live: Set, holds: &[Set]) -> Option<Set> {
        let goes = closure(1 << resource, |it| self.automatic[it] & live);
        for held in members(goes) {
            for holder in members(holds[held] & live & !goes) {
                if self.lets_go_with[holder] & (goes | !live) == 0 {
                    return None;
                }
            }
        }
        Some(goes)
    }

    /// Calls for all that is to go, in any order that gets on. What is left of everything.
    fn carry_out(&self, root: usize, going: Set, holds: &[Set]) -> Set {
        let by_itself = |it: usize| members(going).any(|to| self.automatic[to] & (1 << it) != 0);
        let calls = members(going).filter(|it| *it == root || !by_itself(*it));
        let calls: Vec<usize> = calls.collect();
        let mut live = self.all;
        loop {
            let before = live;
            for call in &calls {
                if live & (1 << call) != 0
                    && let Some(gone) = self.call(*call, live, holds)
                {
                    live &= !gone;
                }
            }
            if live == before {
                return live;
            }
        }
    }

    fn delete(&self, root: usize, seen: &mut dyn FnMut(Seen)) {
        let going = closure(1 << root, |it| self.goes_along[it]);
        self.tell(going, seen);
        if !self.accepts(root, going, seen) {
            return;
        }
        let (going, causes) = self.see_to_the_rest(going);
        self.tell(going, seen);
        let live = self.carry_out(root, going, &self.holds_later);
        let left = going & live;
        let mut explained = left == 0;
        for held in members(left) {
            for holder in members(self.holds_later[held] & !going) {
                // It lets go of this once something goes that is held by another.
                if self.lets_go_with[holder] & going != 0 {
                    continue;
                }
                explained = true;
                let reference = self.between(holder, held);
                if self.schema.references[reference].asynchronous {
                    seen(Seen::UnsetRequired(reference));
                    continue;
                }
                let mut at = held;
                while let Some((cause, before)) = causes[at] {
                    if self.schema.references[cause].asynchronous {
                        seen(Seen::Stuck(cause, reference));
                    }
                    at = before;
                }
            }
        }
        if !explained {
            seen(Seen::LeftInACircle);
        }
        self.look_for_dangling(live, seen);
    }

    /// Whether nothing but what goes holds what goes, and it can go in some order.
    fn accepts(&self, root: usize, going: Set, seen: &mut dyn FnMut(Seen)) -> bool {
        let mut accepted = true;
        for held in members(going) {
            for holder in members(self.holds[held] & !going) {
                if self.lets_go_with[holder] & going != 0 {
                    continue;
                }
                accepted = false;
                let reference = self.between(holder, held);
                if self.schema.references[reference].rule == Rule::Unset {
                    seen(Seen::UnsetRequired(reference));
                }
            }
        }
        accepted && self.carry_out(root, going, &self.holds) & going == 0
    }

    /// All that goes in the end, and for what came after the start by which reference to what.
    fn see_to_the_rest(&self, start: Set) -> (Set, Vec<Option<(usize, usize)>>) {
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

    /// Of all that goes each service is told that refers to it.
    fn tell(&self, going: Set, seen: &mut dyn FnMut(Seen)) {
        for edge in &self.instance.edges {
            let ReferenceRow { from, to, rule, .. } = self.schema.references[edge.reference];
            let told = rule == Rule::Dangling || self.schema.hears(from, to);
            if going & (1 << edge.to) != 0 && !told {
                seen(Seen::NotImported(edge.reference));
            }
        }
    }

    fn look_for_dangling(&self, live: Set, seen: &mut dyn FnMut(Seen)) {
        for edge in &self.instance.edges {
            let row = &self.schema.references[edge.reference];
            let gone = live & (1 << edge.to) == 0 && !self.schema.kinds[row.to].stays;
            if row.rule == Rule::Dangling && live & (1 << edge.from) != 0 && gone {
                seen(Seen::Dangling(edge.reference));
            }
        }
    }

    fn between(&self, from: usize, to: usize) -> usize {
        let mut edges = self.instance.edges.iter();
        let edge = edges.find(|edge| edge.from == from && edge.to == to);
        edge.unwrap().reference
    }
}

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
