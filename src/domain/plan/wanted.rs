//! Decides which listings a plan needs next.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::listed_rows::ListedRow;
use super::{Planner, taken_keys, target_values};
use crate::domain::kinds::{Find, Kind, Match, Reference, refer_to};
use crate::domain::model::{KindName, ResourceKey, Site};
use crate::domain::query::{BY_ID, ListFilter, Lookup};

/// The listings of a kind that were already requested.
#[derive(Default)]
pub(super) struct ListedValues {
    /// Whether the whole kind was listed, which answers every filter.
    whole: bool,
    /// The requested values, by the filter's key.
    values: HashMap<String, HashSet<String>>,
}

impl ListedValues {
    fn has(&self, key: &str, value: &str) -> bool {
        self.whole
            || self
                .values
                .get(key)
                .is_some_and(|values| values.contains(value))
    }
}

/// The listings needed next: values by listed kind and filter key. Without a key, the whole kind is listed.
pub(super) type Wanted = BTreeMap<(Site, KindName, Option<String>), BTreeSet<String>>;

/// A value of a filter that is not needed if its scope is listed.
struct InScope {
    site: Site,
    listed: KindName,
    key: String,
    value: String,
    scope: (String, String),
}

impl Planner<'_> {
    /// Returns the listings needed next; empty when everything is known.
    pub fn wanted(&mut self) -> Vec<Lookup> {
        self.join();
        while self.decide() {}
        let mut wanted = Wanted::new();
        self.want_joins(&mut wanted);
        if wanted.is_empty() {
            wanted = std::mem::take(&mut self.postponed);
            self.want_dependents(&mut wanted);
            self.postponed = self.take_scoped(&mut wanted);
        }
        let mut lookups = Vec::new();
        for ((site, kind, key), values) in wanted {
            let known = self.kind(&kind);
            let asked = self.asked.entry((site.clone(), kind.clone())).or_default();
            if asked.whole {
                continue;
            }
            let filter = key.and_then(|key| {
                let already = asked.values.entry(key.clone()).or_default();
                let mut fresh: Vec<String> = values.into_iter().collect();
                fresh.retain(|value| !already.contains(value));
                if known.is_some_and(|it| fresh.len() > it.values_max(&key)) {
                    return None;
                }
                already.extend(fresh.iter().cloned());
                Some(ListFilter { key, values: fresh })
            });
            match &filter {
                Some(filter) if filter.values.is_empty() => continue,
                Some(_) => {}
                None => asked.whole = true,
            }
            lookups.push(Lookup { site, kind, filter });
        }
        // A listing of a whole kind answers every filtered listing of that kind.
        let whole: HashSet<(Site, KindName)> = lookups
            .iter()
            .filter(|lookup| lookup.filter.is_none())
            .map(|lookup| (lookup.site.clone(), lookup.kind.clone()))
            .collect();
        lookups.retain(|lookup| {
            lookup.filter.is_none() || !whole.contains(&(lookup.site.clone(), lookup.kind.clone()))
        });
        let has_more = !self.postponed.is_empty() || self.fresh().next().is_some();
        if lookups.is_empty() && has_more {
            // All of these listings had been requested before: continue with the new ones.
            return self.wanted();
        }
        // Kinds with a scope, such as ports, have the most rows: their listings take longest, and begin first.
        lookups.sort_by_key(|lookup| self.scope_of(&lookup.kind).is_none());
        lookups
    }

    /// Takes out the listings of kinds whose scopes (the networks of ports) are still being listed. They follow when
    /// all of their filters are known, so that they run at the same time. They are not needed if the whole kind is
    /// listed then.
    fn take_scoped(&self, wanted: &mut Wanted) -> Wanted {
        let searched = wanted.keys().filter(|(_, _, key)| key.is_some());
        let searched: BTreeSet<(Site, KindName)> = searched
            .map(|(site, kind, _)| (site.clone(), kind.clone()))
            .collect();
        let waits = |site: &Site, kind: &KindName| {
            let scope = self.scope_of(kind);
            scope.is_some_and(|scope| searched.contains(&(site.clone(), scope.clone())))
        };
        let all = std::mem::take(wanted).into_iter();
        let (later, now): (Wanted, Wanted) =
            all.partition(|((site, kind, _), _)| waits(site, kind));
        match now.is_empty() {
            // The kinds are scopes of each other, so none of their listings can wait.
            true => {
                *wanted = later;
                Wanted::new()
            }
            false => {
                *wanted = now;
                later
            }
        }
    }

    /// Returns the kind of the parents in whose scope the rows of a listed kind are.
    fn scope_of(&self, listed: &KindName) -> Option<&KindName> {
        let spec = &self.kind(listed)?.spec;
        let scope = spec.list.as_ref()?.scope.as_ref();
        let mut references = spec.references.iter();
        let parent = references.find(|it| scope.is_some() && it.field.as_ref() == scope)?;
        Some(&parent.to)
    }

    fn was_asked(&self, key: &ResourceKey, filter: &str, value: &str) -> bool {
        self.asked
            .get(&(key.site.clone(), key.kind.clone()))
            .is_some_and(|asked| asked.has(filter, value))
    }

    fn want_joins(&self, wanted: &mut Wanted) {
        for key in self.going.keys() {
            let Some((_, other)) = self
                .listed_rows
                .get(key)
                .and_then(|resource| self.join_of(key, resource))
            else {
                continue;
            };
            if !self.was_asked(&other, "id", &other.id) {
                wanted
                    .entry((other.site, other.kind, Some("id".to_owned())))
                    .or_default()
                    .insert(other.id);
            }
        }
    }

    /// Adds the listings that find, for each resource that is new in the plan, the resources that may refer to it and
    /// those that it takes along.
    fn want_dependents(&mut self, wanted: &mut Wanted) {
        let fresh: Vec<Arc<ResourceKey>> = self.fresh().cloned().collect();
        let mut in_scopes = Vec::new();
        for key in fresh {
            if let Some(resource) = self.listed_rows.get(&key) {
                self.want_referrers(&key, resource, wanted, &mut in_scopes);
                self.want_taken(&key, resource, wanted);
            }
            self.explored.insert(key);
        }
        for lookup in in_scopes {
            if !self.is_scope_listed(&lookup, wanted) {
                let at = (lookup.site, lookup.listed, Some(lookup.key));
                wanted.entry(at).or_default().insert(lookup.value);
            }
        }
        wanted.retain(|(_, _, key), values| key.is_none() || !values.is_empty());
    }

    /// Returns the resources in the plan whose dependents must still be requested. Resources of which the plan removes
    /// no dependents are left out ([`Self::goes_by_itself`]).
    fn fresh(&self) -> impl Iterator<Item = &Arc<ResourceKey>> {
        let going = self.going.keys();
        going.filter(|key| !self.explored.contains(*key) && !self.goes_by_itself(key))
    }

    /// Whether the scope of a filter is listed, or will be.
    fn is_scope_listed(&self, lookup: &InScope, wanted: &Wanted) -> bool {
        let InScope {
            site,
            listed,
            scope: (field, value),
            ..
        } = lookup;
        let asked = self.asked.get(&(site.clone(), listed.clone()));
        let will_be = wanted.get(&(site.clone(), listed.clone(), Some(field.clone())));
        asked.is_some_and(|asked| asked.has(field, value))
            || will_be.is_some_and(|values| values.contains(value))
    }

    fn want_referrers(
        &self,
        key: &ResourceKey,
        resource: &ListedRow,
        wanted: &mut Wanted,
        in_scopes: &mut Vec<InScope>,
    ) {
        for (referrer, reference) in self.kinds.referrers(&key.kind) {
            if !self.is_for_this_plan(reference, key) || !resource.facts.hold(&reference.to_when) {
                continue;
            }
            let Some(site) = self.kinds.referring_site(referrer, &key.site) else {
                continue;
            };
            let listed = self.kinds.listed(referrer).name.clone();
            let at = (site.clone(), listed);
            // The whole kind was listed, so a filter finds nothing more.
            if self.asked.get(&at).is_some_and(|asked| asked.whole) {
                continue;
            }
            let (site, listed) = at;
            match &reference.find {
                // The lists below parents, which other references request, show this referrer.
                None if referrer.is_listed_within() => {}
                None => {
                    wanted.entry((site, listed, None)).or_default();
                }
                Some(Find { when, .. }) if !resource.facts.hold(when) => {}
                Some(find) => {
                    let values = target_values(key, resource, &find.of);
                    let written = |value: &str| match referrer.is_native() {
                        true => refer_to(value, &key.site, &site),
                        false => find.value.replace("{}", value),
                    };
                    let mut values: Vec<String> = values.map(written).collect();
                    if finds_by_id(referrer, reference, find) {
                        values.retain(|id| !self.is_listed(&site, &listed, id));
                    }
                    if let Some(scope) = self.scope_named(find, &listed, resource) {
                        in_scopes.extend(values.into_iter().map(|value| InScope {
                            site: site.clone(),
                            listed: listed.clone(),
                            key: find.key.clone(),
                            value,
                            scope: scope.clone(),
                        }));
                        continue;
                    }
                    wanted
                        .entry((site, listed, Some(find.key.clone())))
                        .or_default()
                        .extend(values);
                }
            }
        }
    }

    /// Returns the scope that contains everything that a filter finds: the field, and its value in the target's row.
    fn scope_named(
        &self,
        find: &Find,
        listed: &KindName,
        target: &ListedRow,
    ) -> Option<(String, String)> {
        let list = self.kind(listed)?.spec.list.as_ref();
        let field = list?.scope.as_ref().filter(|_| find.in_scope)?;
        Some((field.clone(), target.facts.one(field)?.to_owned()))
    }

    /// Whether a list showed the row of this id already, so that a filter by the id finds nothing more.
    fn is_listed(&self, site: &Site, listed: &KindName, id: &str) -> bool {
        let row = self.listed_rows.get(&ResourceKey::new(site, listed, id));
        row.is_some_and(|row| row.is_listed)
    }

    fn want_taken(&self, key: &ResourceKey, resource: &ListedRow, wanted: &mut Wanted) {
        let takes = self.kind(&key.kind).map(|kind| kind.spec.takes.as_slice());
        for takes in takes.unwrap_or_default() {
            let missing = taken_keys(key, resource, takes)
                .filter(|other| !self.listed_rows.contains_key(other))
                .map(|other| other.id);
            wanted
                .entry((key.site.clone(), takes.kind.clone(), Some("id".to_owned())))
                .or_default()
                .extend(missing);
        }
    }
}

/// Whether the values of a filter are ids of the rows that it finds.
fn finds_by_id(referrer: &Kind, reference: &Reference, find: &Find) -> bool {
    let is_own_id = |rule: &Match| {
        rule.field == "id" && rule.equals.as_ref() == Some(&find.of) && find.value == "{}"
    };
    let is_row = referrer.spec.derived.is_none();
    find.key == BY_ID || (is_row && reference.matches.iter().any(is_own_id))
}
