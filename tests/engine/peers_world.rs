//! Random resources that refer to each other, in several deployments, and the fate of each resource by the rules
//! alone when one of them is deleted (G). Used for engines in one process, and for engines in processes of their own.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

/// The fate of a resource when a resource that it refers to is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Cascade,
    /// The resource is deleted too. If both resources are in the same deployment, it has a deletion of its own.
    Later,
    Unset,
    Block,
    Dangling,
}

pub const FATES: [(Fate, &str); 5] = [
    (Fate::Cascade, "cascade"),
    (Fate::Later, "later"),
    (Fate::Unset, "unset"),
    (Fate::Block, "block"),
    (Fate::Dangling, "dangling"),
];
pub const SERVICES: [&str; 3] = ["s0", "s1", "s2"];
pub const DEPLOYMENTS: [(&str, &str, &str); 4] = [
    ("d0", "s0", "r1"),
    ("d1", "s1", "r1"),
    ("d2", "s2", "r1"),
    ("d3", "s1", "r2"),
];

/// Returns the text of the kinds file of a service, with one kind for each fate. Each kind may refer to the kinds of
/// all services.
pub fn kinds(service: &str) -> String {
    let others: Vec<&str> = SERVICES.into_iter().filter(|it| *it != service).collect();
    let mut text = format!("imports = {}\n", json!(others));
    for (fate, word) in FATES {
        writeln!(text, "[kind.{service}_{word}.native.fields]").unwrap();
        let all = SERVICES
            .into_iter()
            .flat_map(|to| FATES.map(|(_, word)| format!("{to}_{word}")));
        let all: Vec<String> = all.collect();
        for to in &all {
            writeln!(text, "at_{to} = {{}}").unwrap();
        }
        for to in &all {
            let (on_delete, later) = match fate {
                Fate::Cascade => ("cascade", false),
                Fate::Later => ("cascade", true),
                Fate::Unset => ("unset", false),
                Fate::Block => ("block", false),
                Fate::Dangling => ("dangling", false),
            };
            writeln!(
                text,
                "[[kind.{service}_{word}.reference]]\nto = \"{to}\"\nfield = \"at_{to}[]\"\n\
                 on_delete = \"{on_delete}\"\nasynchronous = {later}\nsays = \"at\""
            )
            .unwrap();
        }
    }
    text
}

/// A resource. `deployment` is an index in [`DEPLOYMENTS`], `fate` one in [`FATES`], and `at` has the numbers of the
/// resources that it refers to.
#[derive(Clone, Debug)]
pub struct Thing {
    pub deployment: usize,
    fate: usize,
    pub id: String,
    pub at: Vec<usize>,
}

impl Thing {
    pub fn kind(&self) -> String {
        format!("{}_{}", DEPLOYMENTS[self.deployment].1, FATES[self.fate].1)
    }

    pub fn fate(&self) -> Fate {
        FATES[self.fate].0
    }

    pub fn name(&self) -> &'static str {
        DEPLOYMENTS[self.deployment].0
    }
}

/// The resources, and the number of the one that is deleted. The number of a resource is its index in `things`.
pub struct World {
    pub things: Vec<Thing>,
    pub root: usize,
}

impl World {
    /// Draws the resources. They refer to resources of their own deployment with lower numbers, and to any resources of
    /// other deployments.
    pub fn new(dice: &mut fastrand::Rng) -> Self {
        let count = dice.usize(3..10);
        let mut things: Vec<Thing> = (0..count)
            .map(|nth| Thing {
                deployment: dice.usize(0..DEPLOYMENTS.len()),
                fate: *dice.choice(&[0, 0, 0, 0, 1, 1, 2, 3, 4]).unwrap(),
                id: format!("t{nth}"),
                at: Vec::new(),
            })
            .collect();
        for nth in 0..count {
            for _ in 0..dice.usize(0..4) {
                let to = dice.usize(0..count);
                let here = things[to].deployment == things[nth].deployment;
                if to != nth && (!here || to < nth) && !things[nth].at.contains(&to) {
                    things[nth].at.push(to);
                }
            }
        }
        // The resource with the most referrers is deleted.
        let referrers = |nth: &usize| things.iter().filter(|it| it.at.contains(nth)).count();
        Self {
            root: (0..count).max_by_key(referrers).unwrap_or(0),
            things,
        }
    }

    fn pointing_at(&self, to: usize) -> impl Iterator<Item = usize> {
        let things = self.things.iter().enumerate();
        things
            .filter(move |(_, it)| it.at.contains(&to))
            .map(|(nth, _)| nth)
    }

    /// Whether `from` is deleted by the plan that deletes `to`, to which it refers.
    fn is_in_same_plan(&self, from: usize, to: usize) -> bool {
        let from_thing = &self.things[from];
        from_thing.fate() == Fate::Cascade && from_thing.deployment == self.things[to].deployment
    }

    /// Returns the resources that one plan deletes together with this one.
    pub fn plan(&self, of: usize) -> BTreeSet<usize> {
        let mut to_delete = BTreeSet::from([of]);
        let mut open = vec![of];
        while let Some(next) = open.pop() {
            for from in self.pointing_at(next) {
                if self.is_in_same_plan(from, next) && to_delete.insert(from) {
                    open.push(from);
                }
            }
        }
        to_delete
    }

    /// Whether the deletion of the root is refused because of a blocking reference.
    pub fn is_refused(&self) -> bool {
        let plan = self.plan(self.root);
        plan.iter().any(|&to| {
            let mut from = self.pointing_at(to);
            from.any(|from| self.things[from].fate() == Fate::Block && !plan.contains(&from))
        })
    }

    /// Returns all resources that the deletion of the root should delete, in all deployments.
    pub fn to_delete(&self) -> BTreeSet<usize> {
        let mut to_delete = self.plan(self.root);
        loop {
            let more: Vec<usize> = to_delete
                .iter()
                .flat_map(|&to| self.pointing_at(to))
                .filter(|from| matches!(self.things[*from].fate(), Fate::Cascade | Fate::Later))
                .flat_map(|from| self.plan(from))
                .filter(|it| !to_delete.contains(it))
                .collect();
            if more.is_empty() {
                return to_delete;
            }
            to_delete.extend(more);
        }
    }

    /// Returns those of `to_delete` that are never deleted, because a resource that stays refers to them.
    pub fn blocked(&self, to_delete: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut blocked = BTreeSet::new();
        loop {
            let more: Vec<usize> = to_delete
                .iter()
                .copied()
                .filter(|to| !blocked.contains(to))
                .filter(|&to| {
                    self.pointing_at(to)
                        .any(|from| match self.things[from].fate() {
                            Fate::Dangling | Fate::Unset => false,
                            _ => !to_delete.contains(&from) || blocked.contains(&from),
                        })
                })
                .collect();
            if more.is_empty() {
                return blocked;
            }
            blocked.extend(more);
        }
    }

    /// Whether two resources wait for each other, directly or through others (G13).
    pub fn in_a_cycle(&self, a: usize, b: usize) -> bool {
        let reaches = |from: usize, to: usize| {
            let mut reached = BTreeSet::new();
            let mut open = vec![from];
            while let Some(next) = open.pop() {
                if self.things[next].fate() != Fate::Dangling {
                    open.extend(
                        self.things[next]
                            .at
                            .iter()
                            .filter(|it| reached.insert(**it)),
                    );
                }
            }
            reached.contains(&to)
        };
        reaches(a, b) && reaches(b, a)
    }

    /// Returns the body with which a resource is created.
    pub fn body(&self, thing: &Thing) -> Value {
        let mut body = json!({ "id": thing.id });
        for &to in &thing.at {
            let to = &self.things[to];
            let field = format!("at_{}", to.kind());
            if body[&field].is_null() {
                body[&field] = json!([]);
            }
            let word = match to.deployment == thing.deployment {
                true => to.id.clone(),
                false => format!("{}@{}", to.id, to.name()),
            };
            body[&field].as_array_mut().unwrap().push(json!(word));
        }
        body
    }

    /// Returns the resources that a resource still refers to, according to its row.
    pub fn points(&self, thing: &Thing, row: &Value) -> BTreeSet<usize> {
        let points = thing.at.iter().copied().filter(|to| {
            let to = &self.things[*to];
            let values = row[format!("at_{}", to.kind())].as_array().cloned();
            let values = values.unwrap_or_default();
            let word = format!("{}@{}", to.id, to.name());
            values
                .iter()
                .any(|it| *it == json!(to.id) || *it == json!(word))
        });
        points.collect()
    }

    /// Describes the resources of a seed, for the message of a failure.
    pub fn describe(seed: u64) -> String {
        let world = Self::new(&mut fastrand::Rng::with_seed(seed));
        let mut text = format!("root t{}", world.root);
        for thing in &world.things {
            let (id, at) = (&thing.id, &thing.at);
            write!(
                text,
                "\n{id} {:?} at {}: {at:?}",
                thing.fate(),
                thing.name()
            )
            .unwrap();
        }
        text
    }
}
