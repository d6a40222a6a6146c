//! Finds the resources that stay although they belong to a resource that is deleted: those that a guard
//! keeps, together with their parts and with the resources that they use (N19).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::listed_rows::ListedRow;
use super::{Fate, Planner, first_equals};
use crate::domain::kinds::{Bond, GuardRule, Kind, OnDelete, Reference};
use crate::domain::model::{KindName, ResourceKey};

/// Why a resource stays.
pub(super) struct Stays<'k> {
    /// The kind of the deleted resource to which the staying one belongs.
    pub(super) of: &'k KindName,
    pub(super) why: String,
}

impl<'k> Planner<'k> {
    /// Returns the guards that apply to a resource in this plan.
    pub(super) fn guards<'p>(
        &'p self,
        resource: &'p ListedRow,
        kind: &'k Kind,
    ) -> impl Iterator<Item = &'k GuardRule> + 'p {
        let applies = |guard: &GuardRule| {
            guard.unless.is_none_or(|it| !it.is_given(self.options))
                && guard.only_with.is_none_or(|it| it.is_given(self.options))
        };
        let guards = kind.spec.guards.iter();
        guards.filter(move |guard| applies(guard) && resource.facts.hold(&guard.when))
    }

    /// Returns the resources that a guard keeps, and everything that stays with them.
    pub(super) fn what_is_left(&self) -> BTreeMap<Arc<ResourceKey>, Stays<'k>> {
        let mut left = BTreeMap::new();
        for (key, resource) in &self.listed_rows {
            let Some(kind) = self.kind(&key.kind).filter(|_| !self.is_target(key)) else {
                continue;
            };
            let mut guards = self.guards(resource, kind);
            let rule = guards.find_map(|guard| {
                let of = guard.left_in.as_ref()?;
                self.is_left_in(guard, of, key).then_some((guard, of))
            });
            if let Some((guard, of)) = rule {
                let why = guard.reason.clone();
                left.insert(key.clone(), Stays { of, why });
            }
        }
        loop {
            let mut more = self.parts_of(&left);
            more.extend(self.used_by(&left));
            if more.is_empty() {
                return left;
            }
            left.extend(more);
        }
    }

    /// Whether the guard keeps the resource: the plan has a resource of the kind `of` at the same site that meets
    /// `left_while`.
    fn is_left_in(&self, guard: &GuardRule, of: &KindName, key: &ResourceKey) -> bool {
        let mut going = self
            .going
            .keys()
            .filter(|it| it.kind == *of && it.site == key.site);
        going.any(|it| {
            let whole = self.listed_rows.get(it);
            whole.is_some_and(|whole| whole.facts.hold(&guard.left_while))
        })
    }

    fn is_target(&self, key: &ResourceKey) -> bool {
        let going = self.going.get(key);
        going.is_some_and(|going| going.fate == Fate::Target)
    }

    /// Returns the parts of the resources that stay, unless they are in `left` already. The cloud removes these parts
    /// only along with their resource.
    fn parts_of(
        &self,
        left: &BTreeMap<Arc<ResourceKey>, Stays<'k>>,
    ) -> Vec<(Arc<ResourceKey>, Stays<'k>)> {
        let kinds: BTreeSet<&KindName> = left.keys().map(|key| &key.kind).collect();
        let has_parts = |kind: &Kind| kind.bonds(Bond::Part).any(|it| kinds.contains(&it.to));
        let mut parts = Vec::new();
        for (key, resource) in &self.listed_rows {
            let Some(kind) = self.kind(&key.kind).filter(|kind| has_parts(kind)) else {
                continue;
            };
            if left.contains_key(key) || self.is_target(key) {
                continue;
            }
            let automatic = |on_delete| on_delete == OnDelete::Automatic;
            let wholes = referred(key, resource, kind, automatic);
            let mut wholes = wholes.filter_map(|(reference, whole)| {
                let (whole, stays) = left.get_key_value(&whole)?;
                Some((reference, whole, stays.of))
            });
            if let Some((reference, whole, of)) = wholes.find(|(_, _, of)| belongs_to(kind, of)) {
                let (says, whole) = (&reference.says, self.called(whole));
                let why = format!("it is {says} {whole}, which stays");
                parts.push((key.clone(), Stays { of, why }));
            }
        }
        parts
    }

    /// Returns the resources that are needed by resources that stay, unless they are in `left` already.
    fn used_by(
        &self,
        left: &BTreeMap<Arc<ResourceKey>, Stays<'k>>,
    ) -> Vec<(Arc<ResourceKey>, Stays<'k>)> {
        let mut used = Vec::new();
        for (key, stays) in left {
            let Some((resource, kind)) = self.known(key) else {
                continue;
            };
            let holds = |on_delete| matches!(on_delete, OnDelete::Block | OnDelete::Cascade);
            for (reference, other) in referred(key, resource, kind, holds) {
                if let Some((other, _)) = self.listed_rows.get_key_value(&other)
                    && !left.contains_key(other)
                    && !self.is_target(other)
                    && self
                        .kind(&other.kind)
                        .is_some_and(|it| belongs_to(it, stays.of))
                {
                    let why = format!("{} {} it, and stays", self.called(key), reference.says);
                    used.push((other.clone(), Stays { of: stays.of, why }));
                }
            }
        }
        used
    }
}

fn belongs_to(kind: &Kind, of: &KindName) -> bool {
    kind.spec.references.iter().any(|it| it.to == *of)
}

/// Returns the resources to which a resource refers by an id, through references whose effect `wanted` accepts.
fn referred<'r>(
    key: &'r ResourceKey,
    resource: &'r ListedRow,
    kind: &'r Kind,
    wanted: impl Fn(OnDelete) -> bool + 'r,
) -> impl Iterator<Item = (&'r Reference, ResourceKey)> {
    let references = kind.spec.references.iter().filter(move |reference| {
        wanted(reference.on_delete)
            && first_equals(reference) == "id"
            && resource.facts.hold(&reference.when)
    });
    references.flat_map(move |reference| {
        let rule = reference.matches.iter().find(|rule| rule.equals.is_some());
        let field = reference.field.as_ref().or(rule.map(|rule| &rule.field));
        let values = field
            .into_iter()
            .flat_map(|field| resource.facts.all(field));
        let ids = values.filter_map(move |value| rule.map_or(Some(value), |it| it.referred(value)));
        ids.map(move |id| {
            let other = ResourceKey::new(&key.site, &reference.to, id);
            (reference, other)
        })
    })
}
