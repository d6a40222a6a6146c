//! The planner: from targets to a frozen graph of what goes, in which order, and why.
//!
//! It asks and never looks: [`Planner::wanted`] says which listings it needs next, [`Planner::feed`]
//! takes their rows, and when nothing more is wanted [`Planner::finish`] builds the plan. Discovery is
//! set at a time: one listing for each kind and filter, never a query per resource (N14).
//!
//! A resource that points at something that goes has one of these fates, the first that applies:
//!
//! 1. *automatic*: the cloud removes it along with what it points at;
//! 2. *step*: it goes first (the reference cascades, and the cascade was asked for);
//! 3. *unset*: it stays and loses its reference;
//! 4. *blocker*: the plan is refused (N15).
//!
//! What an automatic or unset resource holds elsewhere (a floating IP holds a router's interface) is
//! free once that goes which removes or unsets it: the holder's remover goes first.

mod build;
mod graph;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ipnet::IpNet;
use serde_json::Value;

pub use build::{hash as plan_hash, name_owners};
pub use graph::ranks;

use super::kinds::{Kind, Kinds, OnDelete, Reference, ReleaseOption, lookup, lookup_one};
use super::model::{Identity, KindName, PlanOptions, Resource, ResourceKey, Site};

/// More filter values than this, and listing the whole collection is cheaper than asking for them.
const FILTER_VALUES_MAX: usize = 700;

/// A listing that the planner needs: all rows of a listed kind, or those that a filter finds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lookup {
    pub site: Site,
    /// A listed kind.
    pub kind: KindName,
    pub filter: Option<Filter>,
}

/// `key` has one of the values; the client splits them over as many calls as a URL's length demands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Filter {
    pub key: String,
    pub values: Vec<String>,
}

/// A resource that no cascade may touch, and the rule that says so (P4). Decided outside, since age
/// needs a clock.
pub type Protection<'p> = dyn Fn(&Resource) -> Option<String> + Send + Sync + 'p;

/// A listing that was asked for: all of a kind, or those where a key has a value.
type Asked = (Site, KindName, Option<(String, String)>);

pub struct Planner<'k> {
    kinds: &'k Kinds,
    options: PlanOptions,
    protection: &'k Protection<'k>,
    targets: Vec<ResourceKey>,
    /// Everything seen in listings, of any fate.
    seen: BTreeMap<ResourceKey, Resource>,
    seen_by_kind: BTreeMap<(Site, KindName), BTreeSet<ResourceKey>>,
    going: BTreeMap<ResourceKey, Going>,
    unset: BTreeMap<ResourceKey, Vec<Link>>,
    /// Resources whose dependents were asked for.
    explored: HashSet<ResourceKey>,
    asked: HashSet<Asked>,
}

/// A resource that will be gone.
#[derive(Clone, Debug)]
struct Going {
    fate: Fate,
    /// What pulled it in: the automatic one's removers, or the step's reasons.
    links: Vec<Link>,
    /// Projects of the targets that lead here (P4).
    roots: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Target,
    Automatic,
    Step,
    /// Goes along after what takes it.
    Taken,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    to: ResourceKey,
    on_delete: OnDelete,
    says: String,
}

impl<'k> Planner<'k> {
    /// `targets`: as they were just read.
    pub fn new(
        kinds: &'k Kinds,
        options: PlanOptions,
        protection: &'k Protection<'k>,
        targets: Vec<Resource>,
    ) -> Self {
        let mut planner = Self {
            kinds,
            options,
            protection,
            targets: targets.iter().map(|target| target.key.clone()).collect(),
            seen: BTreeMap::new(),
            seen_by_kind: BTreeMap::new(),
            going: BTreeMap::new(),
            unset: BTreeMap::new(),
            explored: HashSet::new(),
            asked: HashSet::new(),
        };
        for target in targets {
            let going = Going {
                fate: Fate::Target,
                links: Vec::new(),
                roots: BTreeSet::from([target.project_id.clone()]),
            };
            planner.going.insert(target.key.clone(), going);
            planner.see(target);
        }
        planner
    }

    fn see(&mut self, resource: Resource) {
        self.seen_by_kind
            .entry((resource.key.site.clone(), resource.key.kind.clone()))
            .or_default()
            .insert(resource.key.clone());
        self.seen.insert(resource.key.clone(), resource);
    }

    fn kind(&self, name: &KindName) -> Option<&'k Kind> {
        self.kinds.get(name)
    }

    /// The listings needed next; empty when everything is known.
    pub fn wanted(&mut self) -> Vec<Lookup> {
        self.join();
        while self.decide() {}
        let mut wanted: BTreeMap<(Site, KindName, Option<String>), BTreeSet<String>> =
            BTreeMap::new();
        self.want_joins(&mut wanted);
        if wanted.is_empty() {
            self.want_dependents(&mut wanted);
        }
        let mut lookups = Vec::new();
        for ((site, kind, key), values) in wanted {
            let whole = (site.clone(), kind.clone(), None);
            if self.asked.contains(&whole) {
                continue;
            }
            let fresh: Vec<String> = match &key {
                None => Vec::new(),
                Some(key) => values
                    .into_iter()
                    .filter(|value| {
                        let mark = (
                            site.clone(),
                            kind.clone(),
                            Some((key.clone(), value.clone())),
                        );
                        self.asked.insert(mark)
                    })
                    .collect(),
            };
            let filter = match key {
                Some(_) if fresh.is_empty() => continue,
                Some(key) if fresh.len() <= FILTER_VALUES_MAX => {
                    Some(Filter { key, values: fresh })
                }
                _ => {
                    self.asked.insert(whole);
                    None
                }
            };
            lookups.push(Lookup { site, kind, filter });
        }
        // A whole listing answers every filtered one of its kind.
        let whole: HashSet<(Site, KindName)> = lookups
            .iter()
            .filter(|lookup| lookup.filter.is_none())
            .map(|lookup| (lookup.site.clone(), lookup.kind.clone()))
            .collect();
        lookups.retain(|lookup| {
            lookup.filter.is_none() || !whole.contains(&(lookup.site.clone(), lookup.kind.clone()))
        });
        if lookups.is_empty() && self.explored.len() < self.going.len() {
            // Everything that was left to ask had been asked for before: look at what is new.
            return self.wanted();
        }
        lookups
    }

    /// The rows that a lookup found.
    pub fn feed(&mut self, lookup: &Lookup, rows: &[Value]) {
        let Some(listed) = self.kind(&lookup.kind) else {
            return;
        };
        for row in rows {
            for resource in self.kinds.resources_in(&lookup.site, listed, row) {
                if !self.seen.contains_key(&resource.key) {
                    self.see(resource);
                }
            }
        }
    }

    /// Copies the joined fields where the other row is known.
    fn join(&mut self) {
        let mut joined = Vec::new();
        for (key, resource) in &self.seen {
            let Some((join, other)) = self.join_of(resource) else {
                continue;
            };
            let Some(other) = self.seen.get(&other) else {
                continue;
            };
            for field in &join.take {
                if let Some(value) = other.attributes.get(field) {
                    joined.push((key.clone(), field.clone(), value.clone()));
                }
            }
        }
        for (key, field, value) in joined {
            if let Some(Value::Object(attributes)) =
                self.seen.get_mut(&key).map(|found| &mut found.attributes)
            {
                attributes.insert(field, value);
            }
        }
    }

    /// The join that a resource still lacks, and the key of the row that would fill it.
    fn join_of(&self, resource: &Resource) -> Option<(&'k super::kinds::Join, ResourceKey)> {
        let join = self
            .kind(&resource.key.kind)?
            .spec
            .derived
            .as_ref()?
            .join
            .as_ref()?;
        if join
            .take
            .iter()
            .all(|field| resource.attributes.get(field).is_some())
        {
            return None;
        }
        let other = ResourceKey {
            site: resource.key.site.clone(),
            kind: join.kind.clone(),
            id: lookup_one(&resource.attributes, &join.by)?,
        };
        Some((join, other))
    }

    fn want_joins(
        &self,
        wanted: &mut BTreeMap<(Site, KindName, Option<String>), BTreeSet<String>>,
    ) {
        for key in self.going.keys() {
            let Some(resource) = self.seen.get(key) else {
                continue;
            };
            let Some((_, other)) = self.join_of(resource) else {
                continue;
            };
            let mark = (
                other.site.clone(),
                other.kind.clone(),
                Some(("id".to_owned(), other.id.clone())),
            );
            if !self.asked.contains(&mark) {
                wanted
                    .entry((other.site, other.kind, Some("id".to_owned())))
                    .or_default()
                    .insert(other.id);
            }
        }
    }

    /// What could point at, or goes along with, each resource that newly goes.
    fn want_dependents(
        &mut self,
        wanted: &mut BTreeMap<(Site, KindName, Option<String>), BTreeSet<String>>,
    ) {
        let fresh: Vec<ResourceKey> = self
            .going
            .keys()
            .filter(|key| !self.explored.contains(*key))
            .cloned()
            .collect();
        for key in fresh {
            self.explored.insert(key.clone());
            let Some(resource) = self.seen.get(&key) else {
                continue;
            };
            for (referrer, reference) in self.kinds.referrers(&key.kind) {
                let listed = self.kinds.listed(referrer).name.clone();
                match &reference.find {
                    None => {
                        wanted.entry((key.site.clone(), listed, None)).or_default();
                    }
                    Some(find) => {
                        let found = target_values(resource, &find.of);
                        wanted
                            .entry((key.site.clone(), listed, Some(find.key.clone())))
                            .or_default()
                            .extend(found.iter().map(|value| find.value.replace("{}", value)));
                    }
                }
            }
            let Some(kind) = self.kinds.get(&key.kind) else {
                continue;
            };
            for takes in &kind.spec.takes {
                let missing = lookup(&resource.attributes, &takes.field)
                    .into_iter()
                    .filter(|id| {
                        !self.seen.contains_key(&ResourceKey {
                            id: id.clone(),
                            kind: takes.kind.clone(),
                            site: key.site.clone(),
                        })
                    });
                wanted
                    .entry((key.site.clone(), takes.kind.clone(), Some("id".to_owned())))
                    .or_default()
                    .extend(missing);
            }
        }
        wanted.retain(|(_, _, key), values| key.is_none() || !values.is_empty());
    }

    /// Decides fates from what is seen; true if anything newly goes.
    fn decide(&mut self) -> bool {
        let index = self.index();
        let mut newly = Vec::new();
        let mut unset = BTreeMap::new();
        for (key, resource) in &self.seen {
            let fate_now = self.going.get(key).map(|going| going.fate);
            if fate_now == Some(Fate::Target) || fate_now == Some(Fate::Taken) {
                continue;
            }
            let links = self.links(resource, &index);
            let of = |wanted: OnDelete| {
                links
                    .iter()
                    .filter(|link| link.on_delete == wanted)
                    .cloned()
                    .collect::<Vec<_>>()
            };
            let automatic = of(OnDelete::Automatic);
            let cascade = of(OnDelete::Cascade);
            let unsets = of(OnDelete::Unset);
            let (fate, links) = if !automatic.is_empty() {
                (Fate::Automatic, automatic)
            } else if !cascade.is_empty() && self.options.cascade {
                (Fate::Step, cascade)
            } else {
                if !unsets.is_empty() {
                    unset.insert(key.clone(), unsets);
                }
                continue;
            };
            if self
                .going
                .get(key)
                .is_none_or(|going| going.fate != fate || going.links != links)
            {
                newly.push((key.clone(), fate, links));
            }
        }
        newly.extend(self.taken());
        self.unset = unset;
        let changed = !newly.is_empty();
        for (key, fate, links) in newly {
            let roots = links
                .iter()
                .filter_map(|link| self.going.get(&link.to))
                .flat_map(|going| going.roots.iter().cloned())
                .collect();
            self.going.insert(key, Going { fate, links, roots });
        }
        changed
    }

    fn taken(&self) -> Vec<(ResourceKey, Fate, Vec<Link>)> {
        if !self.options.cascade {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for key in self.going.keys() {
            let Some(kind) = self.kinds.get(&key.kind) else {
                continue;
            };
            for takes in &kind.spec.takes {
                let ids = self
                    .seen
                    .get(key)
                    .map(|resource| lookup(&resource.attributes, &takes.field));
                for id in ids.into_iter().flatten() {
                    let other = ResourceKey {
                        site: key.site.clone(),
                        kind: takes.kind.clone(),
                        id,
                    };
                    if self.seen.contains_key(&other) && !self.going.contains_key(&other) {
                        let link = Link {
                            to: key.clone(),
                            on_delete: OnDelete::Cascade,
                            says: takes.says.clone(),
                        };
                        taken.push((other, Fate::Taken, vec![link]));
                    }
                }
            }
        }
        taken
    }

    /// Going resources by what references match on: `(kind, path, value)`.
    fn index(&self) -> TargetIndex {
        let mut index = TargetIndex::default();
        for key in self.going.keys() {
            let Some(resource) = self.seen.get(key) else {
                continue;
            };
            for (_, reference) in self.kinds.referrers(&key.kind) {
                let path = first_equals(reference);
                for value in target_values(resource, path) {
                    let entry = index
                        .entry((key.kind.clone(), path.to_owned(), value))
                        .or_default();
                    if !entry.contains(key) {
                        entry.push(key.clone());
                    }
                }
            }
        }
        index
    }

    /// What a resource points at among what goes; the first reference that applies to a target wins.
    fn links(&self, resource: &Resource, index: &TargetIndex) -> Vec<Link> {
        let Some(kind) = self.kind(&resource.key.kind) else {
            return Vec::new();
        };
        let mut links: Vec<Link> = Vec::new();
        for reference in &kind.spec.references {
            if !super::kinds::holds(&reference.when, &resource.attributes) {
                continue;
            }
            let field = reference.field.as_deref().or_else(|| {
                reference
                    .matches
                    .iter()
                    .find(|rule| rule.equals.is_some())
                    .map(|rule| rule.field.as_str())
            });
            for value in field
                .map(|field| lookup(&resource.attributes, field))
                .unwrap_or_default()
            {
                let at = (
                    reference.to.clone(),
                    first_equals(reference).to_owned(),
                    value,
                );
                for target in index.get(&at).into_iter().flatten() {
                    if target.site != resource.key.site
                        || *target == resource.key
                        || links.iter().any(|link| link.to == *target)
                        || !self.fits(resource, reference, target)
                    {
                        continue;
                    }
                    links.push(Link {
                        to: target.clone(),
                        on_delete: self.effective(reference),
                        says: reference.says.clone(),
                    });
                }
            }
        }
        links
    }

    fn effective(&self, reference: &Reference) -> OnDelete {
        match reference.released_by {
            Some(ReleaseOption::ReleaseFloatingIps) if self.options.release_floating_ips => {
                OnDelete::Cascade
            }
            _ => reference.on_delete,
        }
    }

    fn fits(&self, resource: &Resource, reference: &Reference, target: &ResourceKey) -> bool {
        let Some(target) = self.seen.get(target) else {
            return false;
        };
        reference.matches.iter().all(|rule| {
            let mine = lookup(&resource.attributes, &rule.field);
            match (&rule.equals, &rule.in_cidr) {
                (Some(path), _) => target_values(target, path)
                    .iter()
                    .any(|value| mine.contains(value)),
                (_, Some(path)) => target_values(target, path)
                    .iter()
                    .any(|cidr| mine.iter().any(|ip| in_cidr(ip, cidr))),
                _ => false,
            }
        })
    }
}

type TargetIndex = HashMap<(KindName, String, String), Vec<ResourceKey>>;

/// The path in the target that the index is kept by.
fn first_equals(reference: &Reference) -> &str {
    reference
        .matches
        .iter()
        .find_map(|rule| rule.equals.as_deref())
        .unwrap_or("id")
}

/// Values of a target under a path; `id` is its id, composite or not.
fn target_values(resource: &Resource, path: &str) -> Vec<String> {
    if path == "id" {
        return vec![resource.key.id.clone()];
    }
    lookup(&resource.attributes, path)
}

fn in_cidr(address: &str, cidr: &str) -> bool {
    match (address.parse::<std::net::IpAddr>(), cidr.parse::<IpNet>()) {
        (Ok(address), Ok(network)) => network.contains(&address),
        _ => false,
    }
}

/// On whose rights and where each site was read: frozen with the plan.
#[derive(Clone, Debug, Default)]
pub struct Frozen {
    pub identities: BTreeMap<String, Identity>,
    pub endpoints: BTreeMap<String, String>,
}
