//! All instances of some kinds, up to a number of resources: connected ones, since parts that nothing
//! joins know nothing of each other, and of those that differ by the order of their resources one.

use super::schema::Schema;

#[derive(Clone, Debug)]
pub struct Instance {
    /// The kind of each resource, in order.
    pub kinds: Vec<usize>,
    pub edges: Vec<Edge>,
}

#[derive(Clone, Copy, Debug)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub reference: usize,
}

/// How many resources at most, so that no more than `tries` ways are tried to join them.
pub fn resources_max(schema: &Schema, most: usize, tries: usize) -> usize {
    let ways = |resources: usize| -> usize {
        let all = rows_of_kinds(schema.kinds.len(), resources).into_iter();
        all.map(|kinds| {
            let slots = slots(schema, &kinds).into_iter();
            let choices = slots.map(|slot| 1 + targets(schema, &kinds, slot).count());
            choices.fold(1_usize, usize::saturating_mul)
        })
        .fold(0, usize::saturating_add)
    };
    (1..=most)
        .take_while(|resources| ways(*resources) <= tries)
        .last()
        .unwrap()
}

/// Calls `each` for every instance with that many resources.
pub fn all(schema: &Schema, resources: usize, each: &mut dyn FnMut(&Instance)) {
    for kinds in rows_of_kinds(schema.kinds.len(), resources) {
        let slots = slots(schema, &kinds);
        let mut walk = Walk {
            schema,
            orders: orders(&kinds),
            slots,
            chosen: Vec::new(),
            instance: Instance {
                kinds,
                edges: Vec::new(),
            },
            each,
        };
        walk.on();
    }
}

/// Each row of kinds that does not fall.
fn rows_of_kinds(kinds: usize, resources: usize) -> Vec<Vec<usize>> {
    let mut rows = vec![Vec::new()];
    for _ in 0..resources {
        let longer = rows.iter().flat_map(|row: &Vec<usize>| {
            let least = row.last().copied().unwrap_or_default();
            (least..kinds).map(move |kind| [row.as_slice(), &[kind]].concat())
        });
        rows = longer.collect();
    }
    rows
}

/// Each resource's references.
fn slots(schema: &Schema, kinds: &[usize]) -> Vec<(usize, usize)> {
    let all = kinds.iter().enumerate();
    let all = all.flat_map(|(resource, kind)| {
        let own = schema.references.iter().enumerate();
        let own = own.filter(move |(_, row)| row.from == *kind);
        own.map(move |(reference, _)| (resource, reference))
    });
    all.collect()
}

fn targets<'a>(
    schema: &'a Schema,
    kinds: &'a [usize],
    (from, reference): (usize, usize),
) -> impl Iterator<Item = usize> + 'a {
    let wanted = schema.references[reference].to;
    (0..kinds.len()).filter(move |to| *to != from && kinds[*to] == wanted)
}

/// The ways to order the resources that leave the row of their kinds as it is.
fn orders(kinds: &[usize]) -> Vec<Vec<usize>> {
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for kind in kinds {
        let longer = orders.iter().flat_map(|order| {
            let free = (0..kinds.len()).filter(|it| kinds[*it] == *kind && !order.contains(it));
            free.map(|next| [order.as_slice(), &[next]].concat())
        });
        orders = longer.collect();
    }
    orders
}

struct Walk<'a> {
    schema: &'a Schema,
    orders: Vec<Vec<usize>>,
    slots: Vec<(usize, usize)>,
    /// For each slot so far its target, counted from 1, or 0.
    chosen: Vec<usize>,
    instance: Instance,
    each: &'a mut dyn FnMut(&Instance),
}

impl Walk<'_> {
    fn on(&mut self) {
        let Some(&(from, reference)) = self.slots.get(self.chosen.len()) else {
            if is_connected(&self.instance) && self.is_first_of_its_like() {
                (self.each)(&self.instance);
            }
            return;
        };
        self.chosen.push(0);
        self.on();
        self.chosen.pop();
        let kinds = self.instance.kinds.clone();
        for to in targets(self.schema, &kinds, (from, reference)) {
            let mut edges = self.instance.edges.iter();
            if edges.any(|edge| edge.from == from && edge.to == to) {
                continue;
            }
            self.instance.edges.push(Edge {
                from,
                to,
                reference,
            });
            self.chosen.push(to + 1);
            self.on();
            self.chosen.pop();
            self.instance.edges.pop();
        }
    }

    /// Whether no other order of the resources gives smaller choices.
    fn is_first_of_its_like(&self) -> bool {
        let base = |resource: usize| self.slots.iter().position(|slot| slot.0 == resource);
        let bases: Vec<usize> = (0..self.instance.kinds.len())
            .map(|resource| base(resource).unwrap_or_default())
            .collect();
        self.orders.iter().all(|order| {
            // What stands in a slot of this resource, if `order[it]` were called `it`.
            let mut called = vec![0; order.len() + 1];
            for (name, resource) in order.iter().enumerate() {
                called[resource + 1] = name + 1;
            }
            for (slot, (resource, _)) in self.slots.iter().enumerate() {
                let within = slot - bases[*resource];
                let other = called[self.chosen[bases[order[*resource]] + within]];
                match other.cmp(&self.chosen[slot]) {
                    std::cmp::Ordering::Less => return false,
                    std::cmp::Ordering::Greater => return true,
                    std::cmp::Ordering::Equal => {}
                }
            }
            true
        })
    }
}

fn is_connected(instance: &Instance) -> bool {
    let mut reached = 1_u16;
    for _ in 1..instance.kinds.len() {
        for edge in &instance.edges {
            let ends = 1 << edge.from | 1 << edge.to;
            if reached & ends != 0 {
                reached |= ends;
            }
        }
    }
    reached.count_ones() as usize == instance.kinds.len()
}
