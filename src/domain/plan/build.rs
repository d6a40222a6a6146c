//! Builds the frozen plan from the fates: order, refusals and hash.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::graph::layers;
use super::listed_rows::{ListedRow, Texts};
use super::{ADD_CASCADE, Fate, Frozen, Link, PlanNode, Planner, TargetIndex, taken_keys};
use crate::domain::canonical::{self, Canonical};
use crate::domain::kinds::{EnableSpec, GuardRule, Kind, OnDelete};
use crate::domain::mapping::original_of;
use crate::domain::model::{
    Action, Blocker, Compared, CopiedBy, Identity, Left, Mapped, Plan, PlanStep, Refusal,
    RefusalRule, ResourceKey, Target,
};
use crate::domain::native::unset_vars;
use crate::domain::text::{and_more, escape};

impl Planner<'_> {
    /// Builds the plan. Call this when nothing more is wanted.
    pub fn finish(mut self, frozen: Frozen) -> Plan {
        self.join();
        while self.decide() {}
        let before = self.order();
        let (ordered, circular) = layers(&before);
        let mut refused = self.refusals();
        refused.extend(self.copies_by_name());
        refused.extend(self.not_empty());
        refused.extend(self.refuse_unlistable_dependents());
        refused.extend(self.perhaps_not_empty());
        refused.extend(circular.iter().map(|key| {
            let reason = format!(
                "{} is in a dependency cycle, or waits for one: remove one of the references in \
                 the cycle, then plan again",
                self.called(key)
            );
            self.refusal(key, RefusalRule::Cycle, reason, None)
        }));

        let mut writer = Steps::new(&self);
        let ordered = ordered.into_iter().chain(circular).collect();
        let steps = self.ordered_steps(&mut writer, ordered, &before, &frozen.identities);
        let mut aside = |keys: Vec<&ResourceKey>, action: Action, automatic: bool| {
            keys.into_iter()
                .filter_map(|key| {
                    let (resource, kind) = self.known(key)?;
                    let mut step = writer.step(key, resource, kind, action);
                    step.automatic = automatic;
                    Some(step)
                })
                .collect::<Vec<_>>()
        };
        let automatic_keys = self
            .going
            .iter()
            .filter(|(_, going)| going.fate == Fate::Automatic)
            .map(|(key, _)| &**key)
            .collect();
        let automatic = aside(automatic_keys, Action::Delete, true);
        let unset_keys = self
            .unset
            .keys()
            .filter(|key| !self.going.contains_key(*key) && !self.is_native(key))
            .map(|key| &**key)
            .collect();
        let unset = aside(unset_keys, Action::Unset, false);

        let mut plan = Plan {
            hash: String::new(),
            targets: self.targets.iter().map(|key| self.target(key)).collect(),
            options: self.options,
            endpoints: frozen.endpoints,
            identities: frozen.identities.clone(),
            warnings: self.warnings(&steps, &frozen.identities),
            // A call for each step, one observation for 140 steps, and 20 other calls.
            calls_estimate: steps.len() as u64 + steps.len().div_ceil(140) as u64 + 20,
            steps,
            automatic,
            unset,
            kept: self.kept(),
            left: self.left_out(),
            mapping: self.mapping_with_parts(),
            refused,
        };
        plan.targets.sort();
        plan.hash = hash(&plan);
        plan
    }

    /// Makes the steps in this order, after those that unset references.
    fn ordered_steps(
        &self,
        writer: &mut Steps<'_>,
        ordered: Vec<&ResourceKey>,
        before: &BTreeMap<&ResourceKey, BTreeSet<&ResourceKey>>,
        identities: &BTreeMap<String, Identity>,
    ) -> Vec<PlanStep> {
        let mut steps: Vec<PlanStep> = Vec::with_capacity(ordered.len());
        let mut positions: BTreeMap<&ResourceKey, u32> = BTreeMap::new();
        let unset_first = self.unset_steps(writer, &mut steps);
        for key in ordered {
            let Some((resource, kind)) = self.known(key) else {
                continue;
            };
            if self.stays(key) {
                continue;
            }
            let mut depends_on: Vec<u32> = before
                .get(key)
                .into_iter()
                .flatten()
                .filter_map(|first| positions.get(first).copied())
                .collect();
            depends_on.extend(unset_first.get(key).into_iter().flatten());
            if let Some(enable) = kind
                .spec
                .enable
                .as_ref()
                .filter(|enable| resource.facts.hold(&enable.when))
                .filter(|enable| lacks_role(enable, identities, key))
            {
                let mut first = writer.step(key, resource, kind, Action::Enable);
                first.why = enable.why.as_str().into();
                depends_on.push(first.id);
                steps.push(first);
            }
            let mut step = writer.step(key, resource, kind, kind.action());
            depends_on.sort_unstable();
            step.depends_on = depends_on;
            positions.insert(key, step.id);
            steps.push(step);
        }
        steps
    }

    /// Adds a step for each native resource that stays and loses a reference. Returns the numbers of these steps by the
    /// resource whose step must come after them.
    fn unset_steps<'s>(
        &'s self,
        writer: &mut Steps<'_>,
        steps: &mut Vec<PlanStep>,
    ) -> BTreeMap<&'s ResourceKey, Vec<u32>> {
        let mut first: BTreeMap<&ResourceKey, Vec<u32>> = BTreeMap::new();
        for (key, links) in &self.unset {
            let Some((resource, kind)) = self.known(key) else {
                continue;
            };
            if !kind.is_native() || self.going.contains_key(key) {
                continue;
            }
            let mut step = writer.step(key, resource, kind, Action::Unset);
            let pointed = links
                .iter()
                .filter_map(|link| Some((link.field?.to_owned(), (*link.to).clone())));
            let vars = Arc::make_mut(&mut step.vars);
            vars.extend(unset_vars(pointed));
            for link in links {
                for later in self.when_gone(&link.to) {
                    first.entry(later).or_default().push(step.id);
                }
            }
            steps.push(step);
        }
        first
    }

    /// Returns, for each step, the steps that must end before it.
    fn order(&self) -> BTreeMap<&ResourceKey, BTreeSet<&ResourceKey>> {
        let index = self.index();
        let is_step = |going: &PlanNode<'_>| going.fate != Fate::Automatic;
        let mut before: BTreeMap<&ResourceKey, BTreeSet<&ResourceKey>> = self
            .going
            .iter()
            .filter(|(_, going)| is_step(going))
            .map(|(key, _)| (&**key, BTreeSet::new()))
            .collect();
        let mut first = |earlier: &ResourceKey, later: &ResourceKey| {
            self.precedes(&mut before, earlier, later);
        };
        let makers = self.makers(&index);
        // Each maker, with the steps after which nothing blocks a resource that it takes along.
        let mut before_makers: BTreeMap<&ResourceKey, BTreeSet<&ResourceKey>> = BTreeMap::new();
        for (key, resource) in &self.listed_rows {
            let going = self.going.get(key);
            // The steps after which this resource no longer blocks: its own step, or the steps that remove or
            // unset it.
            let links = going.map(|going| &going.links);
            let unblocked_by: Vec<&ResourceKey> = match links.or_else(|| self.unset.get(key)) {
                Some(_) if going.is_some_and(is_step) => vec![key],
                Some(links) => {
                    let links = links.iter();
                    links.flat_map(|link| self.when_gone(&link.to)).collect()
                }
                None => continue,
            };
            for link in self.links(key, resource, &index) {
                if link.after && going.is_some_and(is_step) {
                    let target = self.when_gone(&link.to);
                    target.into_iter().for_each(|earlier| first(earlier, key));
                }
                // Other references do not block the deletion of their target, so this order does not depend on them.
                if !link.holds() {
                    continue;
                }
                let takers = makers.get(&*link.to).map_or(&[][..], Vec::as_slice);
                for later in self.when_gone(&link.to) {
                    for earlier in unblocked_by.iter().filter(|_| !takers.contains(&later)) {
                        first(earlier, later);
                    }
                }
                for taker in takers {
                    before_makers
                        .entry(taker)
                        .or_default()
                        .extend(&unblocked_by);
                }
            }
            if let Some(going) = going.filter(|going| going.fate == Fate::Taken) {
                for earlier in going.links.iter().flat_map(|link| self.when_gone(&link.to)) {
                    first(earlier, key);
                }
            }
            if let Some(going) = going {
                self.taken_after(key, going, &mut first);
            }
        }
        for (maker, earlier) in before_makers {
            // A resource that waits for the maker is deleted with it or after it, and so never before it.
            let waiting = waiting_for(maker, &before);
            let earlier = earlier.into_iter().filter(|it| !waiting.contains(it));
            if let Some(waits) = before.get_mut(maker) {
                waits.extend(earlier);
            }
        }
        let mut first = |earlier: &ResourceKey, later: &ResourceKey| {
            self.precedes(&mut before, earlier, later);
        };
        // Readers learn of the deletion from the original's tombstone, which ends with the last copy (T9).
        for mapped in &self.mapping {
            for copy in mapped.copies() {
                for later in self.when_gone(&mapped.original) {
                    for earlier in self.when_gone(&copy) {
                        first(earlier, later);
                    }
                }
            }
        }
        // A target that is the same in all regions is deleted once every region is empty.
        for target in &self.targets {
            let first = self.first_of(target);
            let elsewhere = before.get(target).filter(|_| first != target).cloned();
            if let (Some(waits), Some(elsewhere)) = (before.get_mut(first), elsewhere) {
                waits.extend(elsewhere);
            }
        }
        before
    }

    /// Orders one resource of the plan before another that has a step.
    fn precedes<'s>(
        &'s self,
        before: &mut BTreeMap<&'s ResourceKey, BTreeSet<&'s ResourceKey>>,
        earlier: &ResourceKey,
        later: &ResourceKey,
    ) {
        if let Some((earlier, _)) = self.going.get_key_value(earlier)
            && **earlier != *later
            && let Some(waits) = before.get_mut(later)
        {
            waits.insert(earlier);
        }
    }

    /// Returns, for each resource that a service made, the steps that take it along.
    fn makers(&self, index: &TargetIndex<'_>) -> BTreeMap<&ResourceKey, Vec<&ResourceKey>> {
        let makes = |key: &ResourceKey| {
            self.kind(&key.kind)
                .is_some_and(|it| it.spec.made.is_some())
        };
        if !self.going.keys().any(|key| makes(key)) {
            return BTreeMap::new();
        }
        let mut makers: BTreeMap<&ResourceKey, Vec<&ResourceKey>> = BTreeMap::new();
        for key in self.going.keys() {
            let links = self
                .listed_rows
                .get(key)
                .map(|resource| self.links(key, resource, index));
            let links = links.unwrap_or_default();
            for link in links.iter().filter(|link| link.goes_with_maker()) {
                makers
                    .entry(key)
                    .or_default()
                    .extend(self.when_gone(&link.to));
            }
        }
        makers
    }

    /// Orders each resource after the step that takes it along, however else the resource came into the plan.
    fn taken_after<'s>(
        &'s self,
        key: &'s ResourceKey,
        going: &PlanNode<'_>,
        first: &mut impl FnMut(&'s ResourceKey, &'s ResourceKey),
    ) {
        if going.fate == Fate::Automatic {
            return;
        }
        let Some((resource, kind)) = self.known(key) else {
            return;
        };
        for takes in &kind.spec.takes {
            for other in taken_keys(key, resource, takes) {
                if let Some((other, _)) = self.going.get_key_value(&other) {
                    first(key, other);
                }
            }
        }
    }

    fn mapping_with_parts(&self) -> Vec<Mapped> {
        let mut mapping = self.mapping.clone();
        // A match by name alone does not say which resource is the copy of a part.
        if mapping.iter().all(|mapped| mapped.by == CopiedBy::Name) {
            return mapping;
        }
        let mut parts: BTreeMap<&ResourceKey, Vec<ResourceKey>> = BTreeMap::new();
        for (key, going) in &self.going {
            if going.fate == Fate::Automatic {
                for whole in self.when_gone(key) {
                    parts.entry(whole).or_default().push((**key).clone());
                }
            }
        }
        for mapped in mapping.iter_mut().filter(|it| it.by != CopiedBy::Name) {
            let mut own = parts.get(&mapped.original).cloned().unwrap_or_default();
            own.retain(|part| part.site == mapped.original.site);
            own.sort();
            mapped.parts = own;
        }
        mapping
    }

    /// Returns the steps that make a resource disappear: its own step, or the steps that remove it.
    fn when_gone(&self, key: &ResourceKey) -> Vec<&ResourceKey> {
        let mut found = Vec::new();
        let mut open = vec![key];
        let mut passed = BTreeSet::new();
        while let Some(key) = open.pop() {
            let Some((key, going)) = self.going.get_key_value(key) else {
                continue;
            };
            if !passed.insert(key) {
                continue;
            }
            if going.fate == Fate::Automatic {
                open.extend(going.links.iter().map(|link| &*link.to));
            } else {
                found.push(&**key);
            }
        }
        found
    }

    fn refusals(&self) -> Vec<Refusal> {
        let index = self.index();
        let mut refused = Vec::new();
        for (key, resource) in &self.listed_rows {
            match self.going.get(key) {
                Some(going) => self.guard(key, resource, going, &mut refused),
                None => {
                    let unset = self.unset.get(key);
                    if let Some(links) = unset {
                        self.guard_unset(key, resource, links, &mut refused);
                        continue;
                    }
                    // Each blocker has one refusal. It names a step that the blocker blocks; if there is none, an
                    // automatic resource.
                    let mut holds = self.links(key, resource, &index);
                    holds.retain(Link::holds);
                    let step = holds.iter().find(|link| {
                        self.going
                            .get(&link.to)
                            .is_some_and(|going| going.fate != Fate::Automatic)
                    });
                    if let Some(link) = step.or(holds.first()).filter(|_| !self.options.park) {
                        refused.push(self.in_use(key, resource, link));
                    }
                }
            }
        }
        refused
    }

    /// Checks the rules for a resource that will be gone (P4).
    fn guard(
        &self,
        key: &ResourceKey,
        resource: &ListedRow,
        going: &PlanNode<'_>,
        refused: &mut Vec<Refusal>,
    ) {
        if let Some(rule) = &resource.protected {
            refused.push(self.refusal(
                key,
                RefusalRule::Protected,
                format!("{} is protected: {rule}", self.called(key)),
                None,
            ));
        }
        if going.fate != Fate::Automatic
            && let Some(kind) = self.kind(&key.kind)
            && let Some(guard) = self
                .guards(resource, kind)
                .filter(|guard| !self.users_go(guard, key, resource))
                .find(|guard| !guard.only_left && self.holds_for(guard, going))
        {
            refused.push(self.refusal(
                key,
                RefusalRule::Protected,
                format!("{} is never deleted: {}", self.called(key), guard.reason),
                None,
            ));
        }
        // Some services keep the resources that they make for a tenant in the service's own project (N20).
        if !going.links.iter().any(|link| link.of_service) {
            self.other_project(key, resource, &going.roots, refused);
        }
    }

    /// Whether a guard applies. A guard with `left_while` does not apply if the resource's parent fails the
    /// condition.
    fn holds_for(&self, guard: &GuardRule, going: &PlanNode<'_>) -> bool {
        let Some(of) = guard
            .left_in
            .as_ref()
            .filter(|_| !guard.left_while.is_empty())
        else {
            return true;
        };
        let mut wholes = going.links.iter().filter(|link| link.to.kind == *of);
        !wholes.any(|link| {
            let whole = self.listed_rows.get(&link.to);
            whole.is_some_and(|whole| !whole.facts.hold(&guard.left_while))
        })
    }

    /// Whether all resources that use this one are deleted too; false if no resource uses it.
    fn users_go(&self, guard: &GuardRule, key: &ResourceKey, resource: &ListedRow) -> bool {
        let users = guard.users.iter().flat_map(|path| resource.facts.all(path));
        let ids: BTreeSet<&str> = users.filter_map(|user| user.rsplit('/').next()).collect();
        let goes = |id: &str| {
            let mut going = self.going.keys();
            going.any(|it| it.id == id && it.site == key.site)
        };
        !ids.is_empty() && ids.into_iter().all(goes)
    }

    /// Checks the rules for a resource that stays and loses a reference (P4).
    fn guard_unset(
        &self,
        key: &ResourceKey,
        resource: &ListedRow,
        links: &[Link<'_>],
        refused: &mut Vec<Refusal>,
    ) {
        if let Some(rule) = &resource.protected {
            refused.push(self.refusal(
                key,
                RefusalRule::Protected,
                format!(
                    "{} would lose its reference, and is protected: {rule}",
                    self.called(key)
                ),
                None,
            ));
        }
        self.other_project(key, resource, &self.roots_of(links), refused);
    }

    /// Refuses another project's resource, even where the cloud would permit its deletion (P4).
    fn other_project(
        &self,
        key: &ResourceKey,
        resource: &ListedRow,
        roots: &BTreeSet<Arc<str>>,
        refused: &mut Vec<Refusal>,
    ) {
        // Whoever approved the other deletion cannot know the resources here, so the kinds decide what is
        // deleted with it.
        let agreed = self.options.chained;
        if agreed || resource.project_id.is_empty() || roots.contains(&resource.project_id) {
            return;
        }
        let blocker = self.blocker(key, resource);
        let reason = not_the_targets(&self.target(key), &blocker);
        refused.push(self.refusal(key, RefusalRule::OtherProject, reason, Some(blocker)));
    }

    fn in_use(&self, key: &ResourceKey, resource: &ListedRow, link: &Link<'_>) -> Refusal {
        let cascades = link.on_delete == OnDelete::Cascade;
        let reason = format!(
            "{} is in use: {} {} it{}",
            self.called(&link.to),
            self.called(key),
            escape(link.says),
            if cascades {
                ADD_CASCADE
            } else {
                ", and this plan does not remove it"
            }
        );
        self.refusal(
            &link.to,
            RefusalRule::InUse,
            reason,
            Some(self.blocker(key, resource)),
        )
    }

    fn blocker(&self, key: &ResourceKey, resource: &ListedRow) -> Blocker {
        Blocker {
            owner: resource.project_id.to_string(),
            in_plan: self.going.contains_key(key),
            ..Blocker::of(key, &resource.name)
        }
    }

    pub(super) fn refusal(
        &self,
        key: &ResourceKey,
        rule: RefusalRule,
        reason: String,
        blocker: Option<Blocker>,
    ) -> Refusal {
        Refusal {
            blocker,
            ..Refusal::new(&self.target(key), rule, reason)
        }
    }

    fn target(&self, key: &ResourceKey) -> Target {
        Target::of(key, self.name_of(key))
    }

    /// Writes kind, name and id for a person, escaped: `port web-1 (3f2a…)`.
    pub(super) fn called(&self, key: &ResourceKey) -> String {
        key.called(self.name_of(key))
    }

    /// Returns the name of a listed resource; empty if it has none, or was not listed.
    fn name_of(&self, key: &ResourceKey) -> &str {
        let name = self.listed_rows.get(key).map(|resource| &*resource.name);
        name.unwrap_or_default()
    }

    /// Returns the targets that stay while the resources that belong to them are deleted.
    fn kept(&self) -> Vec<Target> {
        let kept = self.targets.iter().filter(|key| self.stays(key));
        kept.map(|key| self.target(key)).collect()
    }

    /// Refuses targets that may only be deleted when they are empty, and will not be empty.
    fn not_empty(&self) -> impl Iterator<Item = Refusal> {
        let left = self.left.iter();
        let left = left.flat_map(move |(key, stays)| {
            let targets = self.targets.iter();
            let targets = targets.filter(|it| it.kind == *stays.of && it.site == key.site);
            targets.map(move |target| (target, key, stays))
        });
        left.filter_map(move |(target, key, stays)| {
            let first = self.first_of(target);
            if self.stays(first) {
                return None;
            }
            let (target, called) = (self.called(first), self.called(key));
            let reason = format!("{target} would not be empty: {called} stays: {}", stays.why);
            let blocker = self
                .listed_rows
                .get(key)
                .map(|seen| self.blocker(key, seen));
            Some(self.refusal(first, RefusalRule::InUse, reason, blocker))
        })
    }

    fn left_out(&self) -> Vec<Left> {
        let left = self.left.iter().map(|(key, stays)| Left {
            resource: self.target(key),
            project_id: self
                .listed_rows
                .get(key)
                .map_or_else(String::new, |seen| seen.project_id.to_string()),
            reason: stays.why.clone(),
        });
        left.collect()
    }

    /// Refuses each original whose copies are matched by name, for each site that does not have exactly one match.
    fn copies_by_name(&self) -> impl Iterator<Item = Refusal> {
        let by_name = self.mapping.iter();
        let by_name = by_name.filter(|mapped| mapped.by == CopiedBy::Name);
        by_name.flat_map(move |mapped| {
            let called = self.called(&mapped.original);
            let locals = mapped.locals.iter();
            let refused = locals.filter(|local| local.copies.len() != 1);
            refused.map(move |local| {
                let reason = format!(
                    "{called} has {} copies of the same name and project at {}; a copy by name \
                     requires exactly one",
                    match local.copies.len() {
                        0 => "no".to_owned(),
                        several => several.to_string(),
                    },
                    local.site
                );
                self.refusal(&mapped.original, RefusalRule::Copies, reason, None)
            })
        })
    }

    /// Returns the remarks of the kinds about the resources that the plan deletes: one line for each remark, which
    /// names the first resource and counts the others.
    fn remarks(&self) -> impl Iterator<Item = String> {
        let kinds = self.kinds.iter();
        let remarks = kinds.flat_map(|kind| kind.spec.remarks.iter().map(move |it| (kind, it)));
        remarks.filter_map(|(kind, remark)| {
            let mut of = self.going.keys().filter(|key| {
                key.kind == kind.name
                    && (self.listed_rows.get(*key)).is_some_and(|row| row.facts.hold(&remark.when))
            });
            let first = self.called(of.next()?);
            let others = and_more(of.count());
            Some(format!("{first}{others}: {}", remark.says))
        })
    }

    fn warnings(&self, steps: &[PlanStep], identities: &BTreeMap<String, Identity>) -> Vec<String> {
        let stays = self.going.keys().filter_map(|key| {
            let why = self.kind(&key.kind)?.spec.stays.as_ref()?;
            let stays = self.stays(self.first_of(key));
            stays.then(|| format!("{}: {why}", self.called(key)))
        });
        let left = self.left.iter();
        let left = left.map(|(key, stays)| format!("{} stays: {}", self.called(key), stays.why));
        let mut warnings: Vec<String> = stays.chain(left).collect();
        warnings.extend(self.unlisted_warnings());
        warnings.extend(self.targets.iter().filter_map(|key| {
            let original = original_of(&self.listed_rows.get(key)?.tags)?;
            Some(format!(
                "{} is a copy of {}: while the original exists, the copy may be re-created",
                self.called(key),
                escape(original)
            ))
        }));
        warnings.extend(self.remarks());
        for mapped in self.mapping.iter().filter(|it| it.by == CopiedBy::Name) {
            warnings.push(format!(
                "copies of {} are known only by name: a copy that is re-created during or after \
                 the deletion is not found, and stays",
                self.called(&mapped.original)
            ));
        }
        warnings.extend(steps.iter().filter_map(|step| {
            let login = identities.get(&step.site.to_string())?;
            // A project belongs to itself.
            let is_the_logins = step.resource_id == login.project_id
                && *step.project_id == *login.project_id
                && step.action == Action::Delete;
            is_the_logins.then(|| {
                format!(
                    "{} is the project of this login: once it is gone, gone can no longer sign in to {} with it",
                    self.called(&step.key()),
                    step.site
                )
            })
        }));
        let enabled = steps.iter().filter(|step| step.action == Action::Enable);
        warnings.extend(enabled.filter_map(|step| {
            let EnableSpec { word, why, .. } = self.kind(&step.kind)?.spec.enable.as_ref()?;
            Some(format!(
                "{} is {word} first: {why}",
                self.called(&step.key())
            ))
        }));
        warnings
    }
}

/// Whether the login needs the enabling call: always, or only without the role `unless_role`. A login that is not known
/// is taken to have the role.
fn lacks_role(
    enable: &EnableSpec,
    identities: &BTreeMap<String, Identity>,
    key: &ResourceKey,
) -> bool {
    let identity = identities.get(&key.site.to_string());
    let has = |role: &String| identity.is_none_or(|it| it.roles.contains(role));
    enable.unless_role.as_ref().is_none_or(|role| !has(role))
}

fn not_the_targets(resource: &Target, blocker: &Blocker) -> String {
    format!(
        "{} belongs to project {}, not to the target's; its owner must remove it first",
        resource.key.called(&resource.name),
        escape(blocker.owner_shown())
    )
}

/// Adds the names of owner projects to refusals, as far as `name` knows them; for the other projects, the id is shown.
/// The names are for people, and not in the hash.
pub fn name_owners(refused: &mut [Refusal], name: impl Fn(&Blocker) -> Option<String>) {
    for refusal in refused {
        let Some(blocker) = &mut refusal.blocker else {
            continue;
        };
        if let Some(name) = name(blocker) {
            blocker.owner_name = name;
        }
        if refusal.rule == RefusalRule::OtherProject {
            refusal.reason = not_the_targets(&refusal.resource, blocker);
        }
    }
}

/// Makes steps, numbered in the order in which they are made. Values that many steps share are stored once.
struct Steps<'p> {
    planner: &'p Planner<'p>,
    next: u32,
    texts: Texts,
    vars: HashSet<Arc<BTreeMap<String, String>>>,
    compared: HashSet<Compared>,
}

impl<'p> Steps<'p> {
    fn new(planner: &'p Planner<'p>) -> Self {
        Self {
            planner,
            next: 0,
            texts: Texts::default(),
            vars: HashSet::new(),
            compared: HashSet::new(),
        }
    }

    fn step(
        &mut self,
        key: &ResourceKey,
        resource: &ListedRow,
        kind: &Kind,
        action: Action,
    ) -> PlanStep {
        let links = self.planner.going.get(key).map(|going| &going.links);
        let links = links.or_else(|| self.planner.unset.get(key));
        let links = links.map(Vec::as_slice).unwrap_or_default();
        let why = match links.first() {
            Some(link) => format!("{} {}", link.says, self.planner.called(&link.to)),
            None => match self.planner.originals.get(key) {
                Some(original) => format!("copy of {}", self.planner.called(original)),
                None => "target".to_owned(),
            },
        };
        let id = self.next;
        self.next += 1;
        PlanStep {
            id,
            site: key.site.clone(),
            kind: key.kind.clone(),
            resource_id: key.id.clone(),
            name: resource.name.to_string(),
            project_id: resource.project_id.clone(),
            action,
            depends_on: Vec::new(),
            automatic: false,
            why: self.texts.shared(&why),
            fingerprint: fingerprint(resource, kind),
            compared: self.compared(resource, kind),
            vars: self.shared(self.planner.vars(key, resource, kind, links)),
        }
    }

    /// Returns the tags, the owner and the references as listed, so that a drift message can give the old values.
    fn compared(&mut self, resource: &ListedRow, kind: &Kind) -> Compared {
        let field = self.texts.shared("tags");
        let tags = resource.tags.iter();
        let mut fields: Vec<(Arc<str>, Arc<str>)> =
            tags.map(|tag| (field.clone(), tag.clone())).collect();
        let paths: BTreeSet<&String> = reference_fields(kind).chain(&kind.spec.owner).collect();
        fields.extend(
            paths
                .into_iter()
                .flat_map(|path| resource.facts.kept(path))
                .cloned(),
        );
        let compared = Compared::new(fields);
        match self.compared.get(&compared) {
            Some(same) => same.clone(),
            None => {
                self.compared.insert(compared.clone());
                compared
            }
        }
    }

    fn shared(&mut self, vars: BTreeMap<String, String>) -> Arc<BTreeMap<String, String>> {
        let vars = Arc::new(vars);
        match self.vars.get(&vars) {
            Some(same) => same.clone(),
            None => {
                self.vars.insert(vars.clone());
                vars
            }
        }
    }
}

impl Planner<'_> {
    /// Returns the variables that a step's calls and lists name.
    fn vars(
        &self,
        key: &ResourceKey,
        resource: &ListedRow,
        kind: &Kind,
        links: &[Link<'_>],
    ) -> BTreeMap<String, String> {
        let mut vars = kind.id_variables(&key.id);
        // The engine adds the id to the variables of every call.
        vars.remove("id");
        if kind.calls.cascades_by_itself() {
            vars.insert("cascade".to_owned(), self.options.cascade.to_string());
        }
        if let Some(field) = &kind.spec.incarnation
            && let Some(value) = resource.facts.one(field)
        {
            vars.insert(field.clone(), value.to_owned());
        }
        for field in &kind.spec.passes {
            let value = resource.facts.one(field).unwrap_or_default();
            vars.insert(field.clone(), value.to_owned());
        }
        vars.extend(scope_vars(resource, kind, links));
        vars
    }
}

/// Returns this resource and those that wait for it, directly or through others.
fn waiting_for<'s>(
    key: &'s ResourceKey,
    before: &BTreeMap<&'s ResourceKey, BTreeSet<&'s ResourceKey>>,
) -> BTreeSet<&'s ResourceKey> {
    let mut waiting = BTreeSet::from([key]);
    loop {
        let newly = before.iter().filter(|(later, earlier)| {
            !waiting.contains(*later) && earlier.iter().any(|it| waiting.contains(it))
        });
        let newly: Vec<&ResourceKey> = newly.map(|(later, _)| *later).collect();
        if newly.is_empty() {
            return waiting;
        }
        waiting.extend(newly);
    }
}

/// Returns the variables of a derived resource, and the scope by which one list shows everything that is
/// deleted with the same parent.
fn scope_vars(resource: &ListedRow, kind: &Kind, links: &[Link<'_>]) -> BTreeMap<String, String> {
    let mut vars = BTreeMap::new();
    // The scope is included only if everything in it is deleted, so that a list by the scope will show few rows.
    if let Some(scope) = kind.spec.list.as_ref().and_then(|list| list.scope.as_ref())
        && let Some(value) = resource.facts.one(scope)
        && links.iter().any(|link| link.to.id == value)
    {
        vars.insert(scope.clone(), value.to_owned());
    }
    if kind.spec.derived.is_some() {
        let set = resource.facts.pairs();
        vars.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    vars
}

/// Hashes the facts about one resource that drift compares: project, name, tags, owner and references; never
/// status, times or revision (P1).
fn fingerprint(resource: &ListedRow, kind: &Kind) -> String {
    let mut tags: Vec<&str> = resource.tags.iter().map(|tag| &**tag).collect();
    tags.sort_unstable();
    let mut references: Vec<String> = reference_fields(kind)
        .flat_map(|field| {
            let values = resource.facts.all(field);
            values.map(move |value| format!("{field}={value}"))
        })
        .collect();
    references.sort();
    references.dedup();
    let owner = kind.spec.owner.iter();
    let owner: Vec<&str> = owner.flat_map(|path| resource.facts.all(path)).collect();
    let compared = json!([resource.project_id, resource.name, tags, owner, references]);
    canonical::hash(compared.to_string())
}

/// Returns the fields of a row that say to which resources it refers. The id is left out, because it never changes.
fn reference_fields(kind: &Kind) -> impl Iterator<Item = &String> {
    let fields = kind.spec.references.iter().flat_map(|reference| {
        let rules = reference.matches.iter().map(|rule| &rule.field);
        reference.field.iter().chain(rules)
    });
    fields.filter(|field| *field != "id")
}

/// Returns the SHA-256 of the canonical JSON (keys sorted, no blanks) of what was approved: targets, options,
/// mapping, endpoints, steps, automatic and unset.
pub fn hash(plan: &Plan) -> String {
    let mut approved = Canonical::default();
    approved.text("{\"automatic\":");
    approved_steps(&mut approved, &plan.automatic);
    approved.text(",\"endpoints\":");
    approved.value(&json!(plan.endpoints));
    approved.text(",\"mapping\":");
    approved.value(&json!(plan.mapping));
    approved.text(",\"options\":");
    approved.value(&json!(plan.options));
    approved.text(",\"steps\":");
    approved_steps(&mut approved, &plan.steps);
    approved.text(",\"targets\":");
    approved.value(&json!(plan.targets));
    approved.text(",\"unset\":");
    approved_steps(&mut approved, &plan.unset);
    approved.text("}");
    approved.finish()
}

fn approved_steps(canonical: &mut Canonical, steps: &[PlanStep]) {
    canonical.list(steps, |canonical, step| {
        let mut step = json!(step);
        // The fingerprint covers `compared`, and plans that were approved before it was stored keep their hash.
        if let Value::Object(fields) = &mut step {
            fields.remove("compared");
        }
        canonical.value(&step);
    });
}
