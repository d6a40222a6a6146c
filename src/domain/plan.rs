//! The planner: turns targets into a frozen graph that says what is deleted, in which order, and why.
//!
//! The planner does no I/O: [`Planner::wanted`] returns the listings that it needs next, [`Planner::feed`]
//! takes their rows, and when nothing more is wanted, [`Planner::finish`] builds the plan. Discovery works on
//! sets: one listing for each kind and filter, instead of a query for each resource (N14).
//!
//! A resource that refers to a resource in the plan has the first of these fates that applies:
//!
//! 1. *automatic*: the cloud removes the resource along with its target (with `after`: only if fate 2 does not apply);
//! 2. *step*: a step deletes the resource before its target, or after it with `after` (the reference cascades, and a
//!    cascade was requested);
//! 3. *unset*: the resource stays and loses its reference, which the cloud clears, or a step for a native
//!    kind;
//! 4. *blocker*: the plan is refused (N15), or with `park` the step waits in the retry queue.
//!
//! A dangling reference has no effect: the resource and the reference stay.
//!
//! An automatic or unset resource may block another one (a floating IP blocks a router's interface). The step
//! that removes or unsets the blocker then comes before the step of the blocked resource.

mod build;
mod changes;
mod graph;
mod left;
mod listed_rows;
mod not_shown;
mod wanted;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;

pub use build::{hash as plan_hash, name_owners};
pub use changes::{changes, changes_line, drifted};
pub use graph::ranks;
pub use listed_rows::Found;

use left::Stays;
use listed_rows::{ListedRow, Texts};
use wanted::{ListedValues, Wanted};

use super::kinds::{Join, Kind, Kinds, Match, OnDelete, Reference, Takes, referred};
use super::model::{Identity, KindName, Mapped, PlanOptions, Resource, ResourceKey, Site};
use super::query::Lookup;

/// The end of a refusal's reason, if a plan with the cascade would not be refused for that reason. Each front end
/// replaces it by its own way to add the cascade.
pub const ADD_CASCADE: &str = "; add the cascade to delete it too";

/// Returns the rule that protects a resource from deletion (P4); none if no rule does. The caller decides this, because
/// a rule about age needs a clock.
pub type Protection<'p> = dyn Fn(&Resource) -> Option<String> + Send + Sync + 'p;

/// A plan in the making: the targets, the rows that were listed so far, and the fates of their resources.
pub struct Planner<'k> {
    kinds: &'k Kinds,
    options: PlanOptions,
    protection: &'k Protection<'k>,
    targets: Vec<ResourceKey>,
    mapping: Vec<Mapped>,
    /// The original of each copy.
    originals: HashMap<ResourceKey, ResourceKey>,
    /// All listed resources, whatever their fate.
    listed_rows: BTreeMap<Arc<ResourceKey>, ListedRow>,
    going: BTreeMap<Arc<ResourceKey>, PlanNode<'k>>,
    unset: BTreeMap<Arc<ResourceKey>, Vec<Link<'k>>>,
    /// Resources that stay although they belong to a resource that is deleted.
    left: BTreeMap<Arc<ResourceKey>, Stays<'k>>,
    /// Resources whose dependents were already requested.
    explored: HashSet<Arc<ResourceKey>>,
    asked: HashMap<(Site, KindName), ListedValues>,
    /// The postponed listings of kinds with a scope, such as ports: they follow when the scopes (the networks) have
    /// been listed.
    postponed: Wanted,
    /// The listed kinds that a service does not show to the login, and the service's message.
    not_shown: BTreeMap<(Site, KindName), String>,
}

/// A resource that the deletion removes.
struct PlanNode<'k> {
    fate: Fate,
    /// The links that brought the resource into the plan. Those of an automatic resource lead to the resources that
    /// remove it.
    links: Vec<Link<'k>>,
    /// The projects of the targets that lead to this resource (P4).
    roots: Roots,
}

type Roots = Arc<BTreeSet<Arc<str>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Target,
    Automatic,
    Step,
    /// Deleted because another resource `takes` it, and after that resource.
    Taken,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Link<'k> {
    to: Arc<ResourceKey>,
    on_delete: OnDelete,
    /// The field of the reference, if it names one.
    field: Option<&'k str>,
    says: &'k str,
    /// Whether the link is an unset that leaves the resource's other references as they are (N18).
    partial: bool,
    /// Whether the resource is deleted after its target, if both are deleted.
    after: bool,
    /// Whether a service made the resource for its target (N20).
    of_service: bool,
    /// Whether a service made the resource, and deletes it with its target.
    made: bool,
}

impl Link<'_> {
    /// Whether the link's target cannot be deleted while the referrer stays as it is.
    fn holds(&self) -> bool {
        matches!(self.on_delete, OnDelete::Block | OnDelete::Cascade)
    }

    /// Whether the service that made the resource deletes it with the link's target.
    fn goes_with_maker(&self) -> bool {
        self.made && self.on_delete == OnDelete::Automatic
    }
}

impl<'k> Planner<'k> {
    /// Makes a planner for these targets, as they were just read.
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
            mapping: Vec::new(),
            originals: HashMap::new(),
            listed_rows: BTreeMap::new(),
            going: BTreeMap::new(),
            unset: BTreeMap::new(),
            left: BTreeMap::new(),
            explored: HashSet::new(),
            asked: HashMap::new(),
            postponed: Wanted::new(),
            not_shown: BTreeMap::new(),
        };
        let mut texts = Texts::default();
        for target in targets {
            planner.root(target, None, &mut texts);
        }
        planner
    }

    /// Adds copies of the targets, which are deleted with them. In the original's own cloud a copy must be of
    /// the same project. In another cloud, projects have other ids.
    #[must_use]
    pub fn with_copies(mut self, mapping: Vec<Mapped>, copies: Vec<Resource>) -> Self {
        for mapped in &mapping {
            for copy in mapped.copies() {
                let original = || mapped.original.clone();
                self.originals.entry(copy).or_insert_with(original);
            }
        }
        let mut texts = Texts::default();
        for copy in copies {
            let original = self.originals.get(&copy.key);
            let roots = original
                .filter(|original| original.site.cloud() == copy.key.site.cloud())
                .and_then(|original| Some(self.going.get(original)?.roots.clone()));
            self.root(copy, roots, &mut texts);
        }
        self.mapping = mapping;
        self
    }

    /// Adds a resource whose deletion was requested, with the projects that lead to it: by default, its own.
    fn root(&mut self, resource: Resource, roots: Option<Roots>, texts: &mut Texts) {
        let seen = ListedRow::new(&resource, self.protection, texts);
        let going = PlanNode {
            fate: Fate::Target,
            links: Vec::new(),
            roots: roots.unwrap_or_else(|| Arc::new(BTreeSet::from([seen.project_id.clone()]))),
        };
        let key = Arc::new(resource.key);
        self.going.insert(key.clone(), going);
        self.listed_rows.insert(key, seen);
    }

    fn kind(&self, name: &KindName) -> Option<&'k Kind> {
        self.kinds.get(name)
    }

    /// Returns the number of resources known so far. The time that [`Self::wanted`] takes grows with this number.
    pub fn size(&self) -> usize {
        self.listed_rows.len()
    }

    /// Returns the sites and services to which calls will be sent, each with one of its kinds.
    pub fn services(&self) -> BTreeMap<(&Site, &str), &'k Kind> {
        let going = self.going.keys().chain(self.unset.keys());
        let going = going.filter(|key| !self.is_deleted_elsewhere(key));
        let used = going.filter_map(|key| Some((&key.site, self.kind(&key.kind)?)));
        used.map(|(site, kind)| ((site, kind.service.as_str()), kind))
            .collect()
    }

    /// Returns the buffer for the rows of a lookup.
    pub fn found(&self, lookup: &Lookup) -> Found<'k> {
        Found::new(self.kinds, self.protection, lookup)
    }

    /// Takes everything that a lookup found.
    pub fn feed(&mut self, found: Found<'k>) {
        for (key, seen) in found.resources {
            match self.listed_rows.get_mut(&key) {
                Some(known) => known.is_listed = true,
                None => {
                    self.listed_rows.insert(Arc::new(key), seen);
                }
            }
        }
    }

    /// Copies the joined fields into each resource whose join leads to a listed row.
    fn join(&mut self) {
        let mut joined = Vec::new();
        for (key, resource) in &self.listed_rows {
            if let Some((join, other)) = self.join_of(key, resource)
                && self.listed_rows.contains_key(&other)
            {
                joined.push((key.clone(), join, other));
            }
        }
        for (key, join, other) in joined {
            if let Some(mut resource) = self.listed_rows.remove(&key) {
                if let Some(other) = self.listed_rows.get(&other) {
                    resource.facts.take(&join.take, &other.facts);
                }
                self.listed_rows.insert(key, resource);
            }
        }
    }

    /// Returns the join that a resource still lacks, and the key of the row that would fill it.
    fn join_of(&self, key: &ResourceKey, resource: &ListedRow) -> Option<(&'k Join, ResourceKey)> {
        let derived = self.kind(&key.kind)?.spec.derived.as_ref()?;
        let join = derived.join.as_ref()?;
        if join.take.iter().all(|field| resource.facts.has(field)) {
            return None;
        }
        let other = ResourceKey::new(
            &key.site,
            &join.kind,
            resource.facts.one(&join.by)?.to_owned(),
        );
        Some((join, other))
    }

    /// Whether the cloud removes the resource along with another one, but only if nothing blocks this resource. The
    /// plan then removes no dependents of the resource.
    fn goes_by_itself(&self, key: &ResourceKey) -> bool {
        self.going.get(key).is_some_and(|going| {
            going.fate == Fate::Automatic && going.links.iter().all(|link| link.after && !link.made)
        })
    }

    /// Whether the service that made a resource deletes it, and no step of the plan does.
    fn goes_with_maker(&self, key: &ResourceKey) -> bool {
        self.going.get(key).is_some_and(|going| {
            going.fate == Fate::Automatic && going.links.iter().any(Link::goes_with_maker)
        })
    }

    /// Decides fates from the rows that are listed so far. Returns whether any resource is new in the plan, or is in
    /// it with another fate or other links than before.
    fn decide(&mut self) -> bool {
        self.left = self.what_is_left();
        let index = self.index();
        let mut newly = Vec::new();
        let mut unset = BTreeMap::new();
        for (key, resource) in &self.listed_rows {
            let before = self.going.get(key);
            if before.is_some_and(|going| matches!(going.fate, Fate::Target | Fate::Taken)) {
                continue;
            }
            let mut links = self.links(key, resource, &index);
            let any = |wanted| links.iter().any(|link| link.on_delete == wanted);
            let is_part = |link: &Link<'_>| link.on_delete == OnDelete::Automatic && !link.after;
            // A resource that a service made is deleted with its maker, unless it also belongs to another deleted
            // resource.
            let is_made = links.iter().any(Link::goes_with_maker);
            let in_own_right = |link: &Link<'_>| {
                link.on_delete == OnDelete::Cascade && !(is_made && self.goes_with_maker(&link.to))
            };
            let (fate, wanted) = if links.iter().any(is_part) {
                (Fate::Automatic, OnDelete::Automatic)
            } else if links.iter().any(in_own_right) && self.options.cascade {
                (Fate::Step, OnDelete::Cascade)
            } else if any(OnDelete::Automatic) {
                (Fate::Automatic, OnDelete::Automatic)
            } else {
                // A step unsets a native resource, but only if all its links are unsets, or if its step waits until
                // nothing blocks it (`park`).
                let holds = |link: &Link<'_>| link.on_delete != OnDelete::Unset;
                if self.is_native(key) && !self.options.park && links.iter().any(holds) {
                    continue;
                }
                // A resource that loses one of several addresses still blocks its network.
                let frees = |link: &Link<'_>| link.on_delete == OnDelete::Unset && !link.partial;
                if links.iter().any(Link::holds) && !links.iter().any(frees) && !self.is_native(key)
                {
                    continue;
                }
                links.retain(|link| link.on_delete == OnDelete::Unset);
                if !links.is_empty() {
                    unset.insert(key.clone(), links);
                }
                continue;
            };
            links.retain(|link| link.on_delete == wanted);
            if before.is_none_or(|going| going.fate != fate || going.links != links) {
                newly.push((key.clone(), fate, links));
            }
        }
        newly.extend(self.taken());
        drop(index);
        self.unset = unset;
        let changed = !newly.is_empty();
        for (key, fate, links) in newly {
            let roots = self.roots_of(&links);
            self.going.insert(key, PlanNode { fate, links, roots });
        }
        changed
    }

    /// Returns the projects of the targets that lead to a resource with these links.
    fn roots_of(&self, links: &[Link<'_>]) -> Roots {
        let mut roots = Roots::default();
        for going in links.iter().filter_map(|link| self.going.get(&link.to)) {
            if roots.is_empty() {
                roots = going.roots.clone();
            } else if !going.roots.is_subset(&roots) {
                Arc::make_mut(&mut roots).extend(going.roots.iter().cloned());
            }
        }
        roots
    }

    /// Returns the listed resources that are new in the plan because resources in it take them along.
    fn taken(&self) -> Vec<(Arc<ResourceKey>, Fate, Vec<Link<'k>>)> {
        let mut taken = Vec::new();
        if !self.options.cascade {
            return taken;
        }
        for key in self.going.keys() {
            let Some((resource, kind)) = self.known(key) else {
                continue;
            };
            for takes in &kind.spec.takes {
                for other in taken_keys(key, resource, takes) {
                    if let Some((other, _)) = self.listed_rows.get_key_value(&other)
                        && !self.going.contains_key(other)
                    {
                        let link = Link {
                            to: key.clone(),
                            on_delete: OnDelete::Cascade,
                            field: None,
                            says: &takes.says,
                            partial: false,
                            after: false,
                            of_service: false,
                            made: false,
                        };
                        taken.push((other.clone(), Fate::Taken, vec![link]));
                    }
                }
            }
        }
        taken
    }

    fn known(&self, key: &ResourceKey) -> Option<(&ListedRow, &'k Kind)> {
        Some((self.listed_rows.get(key)?, self.kind(&key.kind)?))
    }

    /// Indexes the resources in the plan by the values that references match on, except the resources that the cloud
    /// removes along with another one.
    fn index(&self) -> TargetIndex<'_> {
        let mut index = TargetIndex::default();
        for key in self.going.keys().filter(|key| !self.goes_by_itself(key)) {
            let Some(resource) = self.listed_rows.get(key) else {
                continue;
            };
            for (_, reference) in self.kinds.referrers(&key.kind) {
                let path = first_equals(reference);
                for value in target_values(key, resource, path) {
                    let entry = index.entry((&key.kind, path, value)).or_default();
                    if !entry.contains(&key) {
                        entry.push(key);
                    }
                }
            }
        }
        index
    }

    /// Returns a resource's links to resources in the plan. If several references lead to one target, the first one
    /// makes the link.
    fn links(
        &self,
        key: &ResourceKey,
        resource: &ListedRow,
        index: &TargetIndex<'_>,
    ) -> Vec<Link<'k>> {
        let Some(kind) = self.kind(&key.kind) else {
            return Vec::new();
        };
        let mut links: Vec<Link<'k>> = Vec::new();
        let stays = self.left.get(key).map(|stays| stays.of);
        for reference in &kind.spec.references {
            let rule = reference.matches.iter().find(|rule| rule.equals.is_some());
            let Some(field) = reference.field.as_ref().or(rule.map(|rule| &rule.field)) else {
                continue;
            };
            if stays == Some(&reference.to) || !resource.facts.hold(&reference.when) {
                continue;
            }
            for value in resource.facts.all(field) {
                let (value, elsewhere) = match kind.is_native() {
                    true => referred(value),
                    false => (value, None),
                };
                let Some(value) = rule.map_or(Some(value), |rule| rule.referred(value)) else {
                    continue;
                };
                let at = (&reference.to, first_equals(reference), value);
                for target in index.get(&at).into_iter().flatten() {
                    if target.site == *elsewhere.as_ref().unwrap_or(&key.site)
                        && ***target != *key
                        && !links.iter().any(|link| link.to == **target)
                        && self.is_for_this_plan(reference, target)
                        && self.fits(resource, reference, target)
                    {
                        links.push(Link {
                            to: Arc::clone(target),
                            on_delete: self.effective(kind, reference),
                            field: reference.field.as_deref(),
                            says: &reference.says,
                            partial: reference.partial,
                            after: reference.after,
                            of_service: reference.of_service,
                            made: reference.made,
                        });
                    }
                }
            }
        }
        links
    }

    /// Whether this plan handles a reference to a resource that is deleted. If this plan deletes the resource
    /// itself, it handles the synchronous references. If another deletion, to which this plan is chained,
    /// deletes the resource, this plan handles the references that are asynchronous or lead to another
    /// deployment (G3, G6). A reference with `only_with` counts only in a plan with that option.
    fn is_for_this_plan(&self, reference: &Reference, to: &ResourceKey) -> bool {
        let needs = reference.only_with;
        if needs.is_some_and(|option| !option.is_given(self.options)) {
            return false;
        }
        match self.is_deleted_elsewhere(to) {
            true => reference.asynchronous || !self.kinds.is_ours(&to.site),
            false => !reference.asynchronous,
        }
    }

    /// Whether another deletion, to which this plan is chained, deletes the resource.
    fn is_deleted_elsewhere(&self, key: &ResourceKey) -> bool {
        self.options.chained && self.targets.contains(key)
    }

    /// Whether this plan keeps the resource, and deletes only what belongs to it.
    fn stays(&self, key: &ResourceKey) -> bool {
        let stays = |kind: &Kind| {
            let goes = kind
                .spec
                .goes_with
                .is_some_and(|it| it.is_given(self.options));
            kind.spec.stays.is_some() && (!goes || self.first_of(key) != key)
        };
        self.is_deleted_elsewhere(key) || self.kind(&key.kind).is_some_and(stays)
    }

    /// For a resource that is the same in all regions of its cloud, returns the first target that is this resource. If
    /// a step deletes the resource, the step is for that target. Returns the key itself if no target is this resource,
    /// and for all other kinds.
    fn first_of<'p>(&'p self, key: &'p ResourceKey) -> &'p ResourceKey {
        let everywhere = self
            .kind(&key.kind)
            .is_some_and(|kind| kind.spec.in_all_regions);
        let same = |other: &&ResourceKey| {
            everywhere
                && (&other.kind, &other.id) == (&key.kind, &key.id)
                && other.site.cloud() == key.site.cloud()
        };
        self.targets.iter().filter(same).min().unwrap_or(key)
    }

    fn is_native(&self, key: &ResourceKey) -> bool {
        self.kind(&key.kind).is_some_and(Kind::is_native)
    }

    fn effective(&self, kind: &Kind, reference: &Reference) -> OnDelete {
        match (reference.on_delete, reference.released_by) {
            (OnDelete::Unset, _) if kind.spec.requires(reference) => OnDelete::Block,
            (_, Some(option)) if option.is_given(self.options) => OnDelete::Cascade,
            (OnDelete::WithCascade, _) if self.options.cascade => OnDelete::Automatic,
            (OnDelete::WithCascade, _) => OnDelete::Cascade,
            (on_delete, _) => on_delete,
        }
    }

    fn fits(&self, resource: &ListedRow, reference: &Reference, at: &ResourceKey) -> bool {
        let Some(target) = self.listed_rows.get(at) else {
            return false;
        };
        target.facts.hold(&reference.to_when)
            && reference.matches.iter().all(|rule: &Match| {
                let mine = resource.facts.all(&rule.field);
                let mut mine = mine.filter_map(|value| rule.referred(value));
                let ways: [(_, Fits); 3] = [
                    (&rule.equals, |mine, value| mine == value),
                    (&rule.in_cidr, in_cidr),
                    (&rule.below, below),
                ];
                let way = ways
                    .into_iter()
                    .find_map(|(path, fits)| Some((path.as_ref()?, fits)));
                way.is_some_and(|(path, fits)| {
                    mine.any(|mine| target_values(at, target, path).any(|value| fits(mine, value)))
                })
            })
    }
}

/// Whether a referrer's value fits a value of the target.
type Fits = fn(&str, &str) -> bool;

/// Resources in the plan, by kind, path and value.
type TargetIndex<'s> = HashMap<(&'s KindName, &'s str, &'s str), Vec<&'s Arc<ResourceKey>>>;

/// Returns the path in the target that the index uses as its key.
fn first_equals(reference: &Reference) -> &str {
    reference
        .matches
        .iter()
        .find_map(|rule| rule.equals.as_deref())
        .unwrap_or("id")
}

/// Returns the values of a target under a path. `id` means its id, composite or not.
fn target_values<'s>(
    key: &'s ResourceKey,
    resource: &'s ListedRow,
    path: &str,
) -> impl Iterator<Item = &'s str> {
    let id = (path == "id").then_some(key.id.as_str());
    let others = id.is_none().then(|| resource.facts.all(path));
    id.into_iter().chain(others.into_iter().flatten())
}

/// Returns the keys of the resources that a resource takes along.
fn taken_keys(
    key: &ResourceKey,
    resource: &ListedRow,
    takes: &Takes,
) -> impl Iterator<Item = ResourceKey> {
    resource
        .facts
        .all(&takes.field)
        .map(|id| ResourceKey::new(&key.site, &takes.kind, id))
}

/// Whether a domain name is below another: `www.example.org.` below `example.org.`
fn below(name: &str, domain: &str) -> bool {
    let rest = name.strip_suffix(domain);
    rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn in_cidr(address: &str, cidr: &str) -> bool {
    match (address.parse::<std::net::IpAddr>(), cidr.parse::<IpNet>()) {
        (Ok(address), Ok(network)) => network.contains(&address),
        _ => false,
    }
}

/// The identities and endpoints with which the sites were read; frozen with the plan.
#[derive(Clone, Debug, Default)]
pub struct Frozen {
    pub identities: BTreeMap<String, Identity>,
    pub endpoints: BTreeMap<String, String>,
}
