//! Enumerates the instances of a schema with a number of resources. Only connected instances count, because parts that
//! are not connected do not affect each other. Instances that differ only by the order of their resources count as one.

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

/// Returns the largest number of resources, up to `limit`, for which the references have at most `combinations_max`
/// combinations of targets.
pub fn resources_max(schema: &Schema, limit: usize, combinations_max: usize) -> usize {
    let combinations = |resources: usize| -> usize {
        let all = kind_sequences(schema.kinds.len(), resources).into_iter();
        all.map(|kinds| {
            let slots = slots(schema, &kinds).into_iter();
            let choices = slots.map(|slot| 1 + targets(schema, &kinds, slot).count());
            choices.fold(1_usize, usize::saturating_mul)
        })
        .fold(0, usize::saturating_add)
    };
    (1..=limit)
        .take_while(|resources| combinations(*resources) <= combinations_max)
        .last()
        .unwrap()
}

/// Calls `each` for every instance with this many resources.
pub fn all(schema: &Schema, resources: usize, each: &mut dyn FnMut(&Instance)) {
    for kinds in kind_sequences(schema.kinds.len(), resources) {
        let slots = slots(schema, &kinds);
        let mut enumeration = Enumeration {
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
        enumeration.extend();
    }
}

/// Returns each ascending sequence of kinds.
fn kind_sequences(kinds: usize, resources: usize) -> Vec<Vec<usize>> {
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

/// Returns each resource with each reference of its kind, as resource and reference.
fn slots(schema: &Schema, kinds: &[usize]) -> Vec<(usize, usize)> {
    let all = kinds.iter().enumerate();
    let all = all.flat_map(|(resource, kind)| {
        let own = schema.references.iter().enumerate();
        let own = own.filter(move |(_, row)| row.from == *kind);
        own.map(move |(reference, _)| (resource, reference))
    });
    all.collect()
}

/// Returns the resources to which a reference of a resource may point.
fn targets<'a>(
    schema: &'a Schema,
    kinds: &'a [usize],
    (from, reference): (usize, usize),
) -> impl Iterator<Item = usize> + 'a {
    let wanted = schema.references[reference].to;
    (0..kinds.len()).filter(move |to| *to != from && kinds[*to] == wanted)
}

/// Returns the orders of the resources that keep the sequence of their kinds.
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

/// The enumeration of all instances with one sequence of kinds.
struct Enumeration<'a> {
    schema: &'a Schema,
    orders: Vec<Vec<usize>>,
    slots: Vec<(usize, usize)>,
    /// The target of each slot so far, counted from 1, or 0 for no target.
    chosen: Vec<usize>,
    instance: Instance,
    each: &'a mut dyn FnMut(&Instance),
}

impl Enumeration<'_> {
    /// Gives the next slot each possible target in turn, and no target. Once all slots are set, calls `each` if the
    /// instance is connected and canonical.
    fn extend(&mut self) {
        let Some(&(from, reference)) = self.slots.get(self.chosen.len()) else {
            if is_connected(&self.instance) && self.is_canonical() {
                (self.each)(&self.instance);
            }
            return;
        };
        self.chosen.push(0);
        self.extend();
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
            self.extend();
            self.chosen.pop();
            self.instance.edges.pop();
        }
    }

    /// Whether no other order of the resources gives smaller targets.
    fn is_canonical(&self) -> bool {
        let base = |resource: usize| self.slots.iter().position(|slot| slot.0 == resource);
        let bases: Vec<usize> = (0..self.instance.kinds.len())
            .map(|resource| base(resource).unwrap_or_default())
            .collect();
        self.orders.iter().all(|order| {
            // The new number of each resource, if `order[it]` were numbered `it`.
            let mut renumbered = vec![0; order.len() + 1];
            for (name, resource) in order.iter().enumerate() {
                renumbered[resource + 1] = name + 1;
            }
            for (slot, (resource, _)) in self.slots.iter().enumerate() {
                let within = slot - bases[*resource];
                let other = renumbered[self.chosen[bases[order[*resource]] + within]];
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
