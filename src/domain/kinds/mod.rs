//! Kinds as data: what the engine knows about a cloud, read from `assets/kinds/**/*.toml` and from `kinds/*.toml` of
//! the user's configuration folder.
//!
//! A kind says to which kinds its resources refer, what happens to a resource when the target of its
//! reference is deleted, and how a delete that the cloud accepted comes to its end. Its `call` section says
//! how the resources are listed, read and deleted, and what the cloud's answers mean, in words that only the
//! kind's provider understands ([`KindCalls`]; OpenStack's are in `cloud/openstack/kinds.rs`). The other
//! words are a closed list of operators, the fields in `spec.rs` and `load.rs`. Those that need an explanation:
//!
//! | operator | meaning |
//! |---|---|
//! | `admin_fields` | fields that rows show only to admins |
//! | `ids` | how an id of the kind is spelled in a path: `plain` (the default), `text`, or `uuid` if its service refuses a search for any other word |
//! | `separator` | of a list: the separator of an id's fields; a comma if not set, and another character if the last field is free text |
//! | `provider` | of a file: the provider of its kinds; by default the first one that gone has |
//! | `defaults` | of a file: `deleting`, `settles` and `call` for all its kinds that do not set their own |
//! | `in_project` | the kind has the reference of `defaults.in_project` |
//! | `deleting` | of a file or a kind: the fields that show readers that a resource is being deleted |
//! | path | `fixed_ips[].subnet_id`: all values under a dotted path, `[]` steps into an array |
//! | `when`, `to_when` | a condition: each path, of the row or of its target, has one of these values, compared as text; a value that ends in `*` is a prefix, and `*` alone is any text but the empty one |
//! | `partial` | of an `unset` reference: the resource still blocks its other targets (N18) |
//! | `after` | of an `unset` or `automatic` reference: if the resource and its target are both deleted, the resource comes after the target, because the target's own deletion may take the resource along |
//! | `only_with` | of a reference or a guard: it counts only in a plan with this option |
//! | `of_service` | of a reference: a service made the resource, in its own project (N20) |
//! | `each` | one resource for each element of an array in a parent (routes, subports, fixed IPs) |
//! | `join` | copies fields of a row of another kind, found by id |
//! | `native` | a native kind: a deployment keeps its resources in its registry, with these fields |
//! | `own_only` | of a list: a login that may not list sees exactly one resource, its own project |
//! | `own_project` | of a list: it shows a login the rows of its own project alone, so a plan for another project says that the kind was not listed (N19) |
//! | `by_project` | of a list: false if the cloud has no filter by project, or the filter would change something in the cloud |
//! | `unknown` | a resource that its service does not know may still own other resources, and is found through those |
//! | `shown_by` | of a reference: a login that may not list the referrers learns from resources of this kind whether there are any |
//! | `imports` | of a file: the other services to whose kinds the kinds of its service refer |
//! | `asynchronous` | of a reference: it is handled after its target was accepted for deletion (G3) |
//! | `within` | the cloud lists the kind only below its parent (an image's members), or with a filter for its parent; a row may leave out the parent's id |
//! | `passes` | fields of a row that the templates of its calls may name, empty if the row has no value there |
//! | `match` | the referrer's value `equals` a value of the target, with or without a prefix, or as the `last_segment` of a URL; in addition, an address is `in_cidr` of the target, or a domain name is `below` the target's |
//! | `find` | the server-side filter that finds the referrers of many targets at once |
//! | `in_scope` | of `find`: all rows that it finds are in the scope that the target's row names too (a subnet's ports are on its network), so a list of that scope shows them |
//! | `enable` | a call that must come before the delete of a resource whose row meets `when`; with `unless_role`, only for a login without that role |
//! | `names` | fields by which the body of a request refers to a resource, although no row has them |
//! | `shows` | paths of a row with ids of resources of another kind, where no reference says so (a network's subnets) |
//! | `made` | rows of the kind stand for resources of other kinds, which a service made and deletes with the rows, except for rows that meet `kept_when` |
//! | `few` | a cloud has so few resources of the kind that all of them may be listed to name some |
//! | `takes` | resources that are deleted together with this one, after it |
//! | `tagged` | the filter that finds resources with one of several tags: copies at other sites |
//! | `scope` | the field by which one list observes all rows of a parent that is deleted |
//! | `guard` | the resource is never deleted while its row meets `when`, `unless` a plan option is given. With `left_in`, the resource stays when its parent of that kind is deleted. `left_while` is a condition on that parent. With `only_left`, the resource is deleted if it is a target itself. It is also deleted if it has `users` and all of them are deleted too |
//! | `remark` | what a plan `says`, once, about all resources that it deletes and whose rows meet `when` |
//! | `settles` | how a row shows that a delete which the cloud accepted is in progress, or has failed. With `at_once`, the row shows one of the two as soon as the cloud has accepted the delete; a resource whose later row shows neither was put back. `state` is the resource's own state, and `cause` is where the cloud says why a delete failed. While the delete is in progress, it is repeated every `minutes_again` |
//! | `unpinned_by` | the edge whose removal ends a blocking reference, so that the referrer stays: for the purge ladder only, never in a plan |
//! | `rung` | a rung of the purge ladder: the cloud's own `call` (`reset`, `force`) for a resource whose step is stuck or blocked and whose row meets `when`, for a login with the `role`, with its `risk` |
//! | `runbook` | the manual steps for one id, when no call helps |
//! | `stays` | the resource stays, and only what belongs to it is deleted (a project). With the plan option that `goes_with` names, the resource is deleted too |
//! | `incarnation` | the field that distinguishes a resource from one that was re-created under the same id (I10) |
//! | `override` | replaces the kind of this name that an earlier file defines; without it, a second definition is an error |
//! | `owner` | the field that says what a resource serves; a change of it is drift |
//! | `not_covered` | of a file: the `resources` of its service, `extensions` and `services` that have no kinds, with what they contain; a project's plan names them (N19) |
//! | `nothing_to_cover` | of a file: `extensions` and `services` that have no resources of a project except those that the kinds cover |
//!
//! Anything else becomes a new named operator here, with a table test, and never an expression language.

mod calls;
mod columns;
mod coverage;
mod effect;
mod load;
mod native;
mod source;
mod spec;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;

pub use calls::{AnswerClass, KindCalls, Provider};
pub use columns::FieldMeanings;
pub use coverage::{Offer, unlisted_warning};
pub use native::{IN_USE, INCARNATION, NOT_FOUND, base, refer_to, referred};
pub use source::{KindsError, Source};
pub use spec::{
    ActionWord, DerivedSpec, EnableSpec, FieldSpec, Find, GuardRule, IdSpelling, Join, KindSpec,
    ListSpec, MadeKind, MadeSpec, Match, NativeSpec, OnDelete, OneOf, PlanOption, Reference,
    Remark, Runbook, RungRule, Settles, Takes,
};
pub use value::{NULL, fill, lookup, lookup_one, text, values, variables};

use super::model::{Action, KindName, Resource, ResourceKey, Site};
use super::query::BY_ID;

/// The variable which says that the row contained several resources of the step's kind when the step was planned.
const ONE_OF_SEVERAL: &str = "one_of_several";

/// With more filter values than this, listing the whole collection is cheaper than filtering.
const FILTER_VALUES_MAX: usize = 700;
/// As [`FILTER_VALUES_MAX`], for a filter that takes one value in each call.
const SINGLE_VALUES_MAX: usize = 4;

/// All kinds, validated: every kind that a kind mentions exists.
#[derive(Clone, Debug)]
pub struct Kinds {
    kinds: BTreeMap<KindName, Kind>,
    home: Option<Home>,
    coverage: coverage::Coverage,
    /// The first provider: a short name means its kind, if kinds of several providers have that name.
    first: &'static str,
}

/// The deployment that has these kinds. Its native resources are kept at its own site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub site: Site,
    pub service: String,
}

/// One kind: what its file says, with the file's defaults folded in.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The kind's name, unique among all kinds. In a kinds file, a name is unique within its provider only, so the
    /// names of kinds of all providers but the first begin with their provider: `toy.subnet`.
    pub name: KindName,
    /// The name of the kind's provider; none for a native kind.
    pub provider: Option<&'static str>,
    /// The catalog's service type (`network`), or the service of the deployment that keeps a native kind.
    pub service: String,
    pub spec: KindSpec,
    /// How the kind's provider lists and deletes its resources.
    pub calls: Arc<dyn KindCalls>,
    /// Other services to whose kinds the kinds of this kind's service refer.
    pub imports: Vec<String>,
}

/// The state of a delete that the cloud accepted before it carried it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncDelete {
    GoesOn,
    Failed,
}

/// How closely a resource belongs to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// The cloud itself removes the resource with the other one, always or with a cascade (T20).
    Part,
    /// Either the cloud removes the resource with the other one, or a cascade deletes it before the other one (N9).
    Child,
}

/// Returns the word that a person typed for a kind in the spelling of names and aliases: in lower case, with `_` for
/// `-`.
pub fn as_named(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

/// Returns the error for a word that names no kind: it suggests the nearest kind, or else lists all kinds.
pub fn unknown_kind<'n>(word: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    let near = super::text::did_you_mean(&as_named(word), names.clone());
    let hint = match near.is_empty() {
        true => format!("; known kinds: {}", names.collect::<Vec<_>>().join(", ")),
        false => near,
    };
    format!("unknown kind \"{}\"{hint}", super::text::escape(word))
}

impl Kinds {
    pub fn get(&self, name: &KindName) -> Option<&Kind> {
        self.kinds.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values()
    }

    /// Finds the kind that a person typed: by name, by name without its provider, or by alias; with any letter case,
    /// and `-` for `_`.
    ///
    /// # Errors
    /// No kind has this name; the message suggests the nearest one, or else lists all kinds.
    pub fn resolve(&self, word: &str) -> Result<&Kind, String> {
        self.resolve_at(word, None)
    }

    /// Finds the kind that a person typed, where several providers may have a kind of this name: the kind of
    /// `provider`, or else of the first provider.
    ///
    /// # Errors
    /// As for [`Self::resolve`].
    pub fn resolve_at(&self, word: &str, provider: Option<&str>) -> Result<&Kind, String> {
        let wanted = as_named(word);
        let fits = |kind: &&Kind| {
            [kind.name.as_str(), kind.short_name()].contains(&&*wanted)
                || kind.spec.aliases.contains(&wanted)
        };
        let rank = |kind: &&Kind| {
            let of = |wanted: Option<&str>| kind.provider != wanted;
            (
                kind.name.as_str() != wanted && of(provider),
                of(provider),
                of(Some(self.first)),
            )
        };
        let found = self.kinds.values().filter(fits);
        found
            .min_by_key(rank)
            .ok_or_else(|| unknown_kind(word, self.kinds.keys().map(KindName::as_str)))
    }

    /// Returns the kinds whose ids are never used again, so that the records of their resources may be pruned (M1).
    pub fn unique_id_kinds(&self) -> Arc<[KindName]> {
        let kinds = self.kinds.values().filter(|kind| !kind.has_natural_key());
        kinds.map(|kind| kind.name.clone()).collect()
    }

    /// Returns the listed kind whose rows show this kind: the kind itself, or the kind from which it is
    /// derived.
    pub fn listed(&self, kind: &Kind) -> &Kind {
        let derived = kind.spec.derived.as_ref();
        let listed = self.kinds.get(derived.map_or(&kind.name, |it| &it.from));
        // Validated at load: the kind that a derived kind names exists, and is listed.
        listed.unwrap_or_else(|| unreachable!("validated at load"))
    }

    /// Returns the references to this kind, each with the kind that refers.
    pub fn referrers<'a>(
        &'a self,
        to: &'a KindName,
    ) -> impl Iterator<Item = (&'a Kind, &'a Reference)> {
        self.kinds
            .values()
            .flat_map(|kind| {
                kind.spec
                    .references
                    .iter()
                    .map(move |reference| (kind, reference))
            })
            .filter(move |(_, reference)| reference.to == *to)
    }

    /// Whether a delete of this kind also deletes the resources that its service made for it.
    pub fn takes_made(&self, kind: &KindName) -> bool {
        let mut referrers = self.referrers(kind);
        referrers.any(|(referrer, _)| referrer.spec.made.is_some())
    }

    /// Returns the ids to which a row refers by this reference; none if the row does not meet `when`, or does not have
    /// the whole id of the target (but only an address in its network, for example).
    pub fn referred_in(&self, reference: &Reference, row: &Value) -> Vec<String> {
        if !holds(&reference.when, row) {
            return Vec::new();
        }
        if let Some(field) = &reference.field {
            return lookup(row, field);
        }
        let parts = self.get(&reference.to).map(Kind::id_parts);
        let parts = parts.unwrap_or_default();
        if parts.len() != reference.matches.len() {
            return Vec::new();
        }
        let mut ids = vec![String::new()];
        for (nth, part) in parts.into_iter().enumerate() {
            let equals = |rule: &&Match| rule.equals.as_deref() == Some(part);
            let Some(rule) = reference.matches.iter().find(equals) else {
                return Vec::new();
            };
            let values = lookup(row, &rule.field);
            let values = values.iter().filter_map(|value| rule.referred(value));
            let comma = if nth == 0 { "" } else { "," };
            ids = values
                .flat_map(|value| ids.iter().map(move |id| format!("{id}{comma}{value}")))
                .collect();
        }
        ids
    }

    /// Returns the time at which a resource was created, as the cloud gives it. Clouds give whole seconds.
    pub fn created_at(&self, resource: &Resource) -> Option<DateTime<Utc>> {
        self.get(&resource.key.kind)?
            .created_at(&resource.attributes)
    }

    /// Returns the resources that one listed row shows: its edges, and the resource itself unless an edge
    /// replaces it.
    pub fn resources_in(&self, site: &Site, listed: &Kind, row: &Value) -> Vec<Resource> {
        let mut found = Vec::new();
        let mut replaced = false;
        for kind in self.kinds.values() {
            let Some(derived) = &kind.spec.derived else {
                continue;
            };
            if derived.from != listed.name || !holds(&derived.when, row) {
                continue;
            }
            replaced |= derived.replaces;
            found.extend(kind.derive(derived, site, listed, row));
        }
        if !replaced && let Some(own) = listed.own(site, row) {
            found.insert(0, own);
        }
        found
    }

    /// Returns the resources of one kind that these rows of its listed kind show.
    pub fn resources_of(&self, site: &Site, kind: &Kind, rows: &[Value]) -> Vec<Resource> {
        let listed = self.listed(kind);
        let shown = rows
            .iter()
            .flat_map(|row| self.resources_in(site, listed, row));
        shown.filter(|shown| shown.key.kind == kind.name).collect()
    }
}

impl Kind {
    /// Returns the kind's name within its provider.
    pub fn short_name(&self) -> &str {
        let of_provider = |provider: &str| {
            let rest = self.name.as_str().strip_prefix(provider)?;
            rest.strip_prefix('.')
        };
        let short = self.provider.and_then(of_provider);
        short.unwrap_or(self.name.as_str())
    }

    pub fn action(&self) -> Action {
        match self.spec.action {
            ActionWord::Delete => Action::Delete,
            ActionWord::Detach => Action::Detach,
        }
    }

    /// Returns the variable of a derived kind that has its parent's id.
    pub fn parent_variable(&self) -> Option<&str> {
        let derived = self.spec.derived.as_ref()?;
        derived
            .set
            .iter()
            .find(|(_, path)| path.as_str() == "id")
            .map(|(variable, _)| variable.as_str())
    }

    /// Whether a call must take this resource alone out of a row that contains several of its kind (N17).
    pub fn removes_one_of_row(&self, variables: &BTreeMap<String, String>) -> bool {
        self.calls.removes_one_of_row() && variables.contains_key(ONE_OF_SEVERAL)
    }

    /// Returns the names of the parts of the kind's ids, in order.
    fn id_parts(&self) -> Vec<&str> {
        if let Some(derived) = &self.spec.derived {
            let called = |path: &String| {
                let mut set = derived.set.iter();
                set.find_map(|(name, from)| (from == path).then_some(name.as_str()))
            };
            return derived.id.iter().filter_map(called).collect();
        }
        let list = self.spec.list.iter();
        list.flat_map(|list| list.id.iter().map(String::as_str))
            .collect()
    }

    /// Returns the references by which a resource of this kind has this bond to its target. A reference with `after`
    /// is not among them.
    pub fn bonds(&self, bond: Bond) -> impl Iterator<Item = &Reference> {
        let has_bond = move |reference: &&Reference| match reference.on_delete {
            OnDelete::Automatic | OnDelete::WithCascade => !reference.after,
            OnDelete::Cascade => bond == Bond::Child,
            OnDelete::Block | OnDelete::Unset | OnDelete::Dangling => false,
        };
        self.spec.references.iter().filter(has_bond)
    }

    /// Whether a row shows the incarnation that the step's variables name, and not a resource that was re-created
    /// under the same id. Always true if the kind has no incarnations, or the variables name none.
    pub fn same_incarnation(&self, row: &Value, variables: &BTreeMap<String, String>) -> bool {
        self.spec.incarnation.as_ref().is_none_or(|field| {
            let planned = variables.get(field);
            planned.is_none() || lookup_one(row, field).as_ref() == planned
        })
    }

    /// Returns the state of an asynchronous delete as the row shows it, with the row's status. None if the row shows
    /// neither a delete in progress nor a failed one.
    pub fn settling(&self, row: &Value) -> Option<(AsyncDelete, String)> {
        let settles = self.spec.settles.as_ref()?;
        let status = lookup_one(row, &settles.field)?;
        if settles.pending.contains(&status) {
            Some((AsyncDelete::GoesOn, status))
        } else if settles.failed.contains(&status) {
            Some((AsyncDelete::Failed, status))
        } else {
            None
        }
    }

    /// Returns the state that a row shows; empty if it shows none. A row that shows neither a delete in progress nor a
    /// failed one, after a delete that the cloud accepted, means that the cloud has put the resource back. None if rows
    /// of the kind do not show whether a resource was put back.
    pub fn put_back(&self, row: &Value) -> Option<String> {
        let settles = self.spec.settles.as_ref().filter(|it| it.at_once)?;
        let state = settles.state.as_ref().unwrap_or(&settles.field);
        Some(lookup_one(row, state).unwrap_or_default())
    }

    /// Whether rows of the kind show the state because of which the cloud refuses a delete or carries it out.
    pub fn shows_state(&self) -> bool {
        self.spec.settles.as_ref().is_some_and(|it| it.at_once)
    }

    /// Returns the cloud's reason for a failed delete, as the row shows it.
    pub fn failed_because(&self, row: &Value) -> Option<String> {
        lookup_one(row, self.spec.settles.as_ref()?.cause.as_ref()?)
    }

    /// Whether the kind's ids are natural keys, which a re-created resource gets again (M6). A tombstone then
    /// says nothing about the resource that exists after the deletion's end.
    pub fn has_natural_key(&self) -> bool {
        self.calls.creates_by_id() || self.is_native()
    }

    /// Whether the sweep searches by id for deleted resources of the kind that exist again, and deletes them (T14). A
    /// native resource under the id of a deleted one may be another resource.
    pub fn is_swept(&self) -> bool {
        self.calls.can(self.action()) && self.id_filter() == Some("id") && !self.is_native()
    }

    /// Returns the number of values of this filter above which the whole kind is listed instead, if that is
    /// possible.
    pub fn values_max(&self, filter: &str) -> usize {
        match self.calls.takes_several(filter) {
            _ if self.is_listed_within() || self.shows_own_project() => usize::MAX,
            _ if !self.calls.lists_all_projects() => usize::MAX,
            true => FILTER_VALUES_MAX,
            false => SINGLE_VALUES_MAX,
        }
    }

    /// Whether the cloud lists the kind below one parent at a time, and never as a whole.
    pub fn is_listed_within(&self) -> bool {
        let list = self.spec.list.as_ref();
        list.is_some_and(|list| list.within.is_some())
    }

    /// Whether a list shows a login the rows of its own project alone.
    pub fn shows_own_project(&self) -> bool {
        self.spec.list.as_ref().is_some_and(|list| list.own_project)
    }

    /// Whether a service shows a project's resources to few logins of other projects, or to none. A plan for
    /// another project then says that the kind was not listed.
    pub fn is_hidden_from_others(&self) -> bool {
        self.shows_own_project() || !self.calls.lists_all_projects()
    }

    /// Adds to a row the parts of an id that only the path of the request names, because a list below a
    /// parent need not repeat the parent.
    pub fn complete(&self, row: &mut Value, path: &BTreeMap<String, String>) {
        let within = self.spec.list.iter().filter_map(|it| it.within.as_ref());
        for name in within {
            if let (Some(row), Some(value)) = (row.as_object_mut(), path.get(name)) {
                row.entry(name).or_insert_with(|| value.as_str().into());
            }
        }
    }

    /// Returns the filter that finds resources of this listed kind by their ids, or by the first part of
    /// each id. None if each resource is read by itself.
    pub fn id_filter(&self) -> Option<&str> {
        let list = self.spec.list.as_ref().filter(|list| list.by_id)?;
        list.within.as_deref().or(Some(BY_ID))
    }

    /// Returns the parts of an id by name: `id`, and each field of a composite id.
    pub fn id_variables(&self, id: &str) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::from([("id".to_owned(), id.to_owned())]);
        if let Some(list) = self.spec.list.as_ref().filter(|list| list.id.len() > 1) {
            let separator = list.separator();
            // The id of a parent may have several parts itself.
            let from_behind = list.within.is_some() && list.separator.is_none();
            let parts: Vec<&str> = match from_behind {
                true => id.rsplitn(list.id.len(), separator).collect(),
                false => id.splitn(list.id.len(), separator).collect(),
            };
            let names: Vec<&String> = match from_behind {
                true => list.id.iter().rev().collect(),
                false => list.id.iter().collect(),
            };
            let parts = parts.into_iter().map(str::to_owned);
            variables.extend(names.into_iter().cloned().zip(parts));
        }
        variables
    }

    /// Returns the id of a row of this listed kind; none if the row lacks a part of the id.
    pub fn id_of(&self, row: &Value) -> Option<String> {
        let list = self.spec.list.as_ref()?;
        let parts: Option<Vec<String>> = list.id.iter().map(|it| lookup_one(row, it)).collect();
        Some(parts?.join(list.separator()))
    }

    /// Returns the id of the project that a row of this listed kind belongs to; empty if the row names none.
    pub fn project_of(&self, row: &Value) -> String {
        let list = self.spec.list.as_ref();
        list.and_then(|list| lookup_one(row, &list.project))
            .unwrap_or_default()
    }

    /// Returns the time at which the resource of a row was created, as the cloud gives it. Clouds give whole seconds.
    pub fn created_at(&self, row: &Value) -> Option<DateTime<Utc>> {
        value::time(row, &self.spec.list.as_ref()?.created)
    }

    fn own(&self, site: &Site, row: &Value) -> Option<Resource> {
        let list = self.spec.list.as_ref()?;
        Some(Resource {
            key: ResourceKey::new(site, &self.name, self.id_of(row)?),
            name: lookup_one(row, &list.name).unwrap_or_default(),
            project_id: self.project_of(row),
            tags: lookup(row, &list.tags),
            attributes: row.clone(),
        })
    }

    fn derive(
        &self,
        derived: &DerivedSpec,
        site: &Site,
        listed: &Kind,
        row: &Value,
    ) -> Vec<Resource> {
        let whole = [Value::Null];
        let elements = match &derived.each {
            None => &whole[..],
            Some(path) => row
                .get(path)
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice),
        };
        let at = |path: &str, element: &Value| match path.strip_prefix("each.") {
            Some(inner) => lookup_one(element, inner),
            None => lookup_one(row, path),
        };
        let Some(list) = &listed.spec.list else {
            return Vec::new();
        };
        let id_of = |element: &Value| {
            let parts: Option<Vec<String>> =
                derived.id.iter().map(|path| at(path, element)).collect();
            parts.map(|parts| parts.join(","))
        };
        let ids: BTreeSet<String> = elements.iter().filter_map(id_of).collect();
        let several = self.calls.removes_one_of_row() && ids.len() > 1;
        elements
            .iter()
            .filter_map(|element| {
                let mut set: serde_json::Map<String, Value> = derived
                    .set
                    .iter()
                    .filter_map(|(variable, path)| {
                        Some((variable.clone(), Value::String(at(path, element)?)))
                    })
                    .collect();
                if several {
                    set.insert(ONE_OF_SEVERAL.to_owned(), Value::Bool(true));
                }
                Some(Resource {
                    key: ResourceKey::new(site, &self.name, id_of(element)?),
                    name: lookup_one(row, &list.name).unwrap_or_default(),
                    project_id: listed.project_of(row),
                    tags: lookup(row, &list.tags),
                    attributes: Value::Object(set),
                })
            })
            .collect()
    }
}

impl Reference {
    /// Returns the fields of a row that determine the targets of this reference.
    pub fn row_fields(&self) -> impl Iterator<Item = &str> {
        let matches = self.matches.iter().map(|rule| rule.field.as_str());
        let conditions = self.when.keys().map(String::as_str);
        let paths = matches.chain(self.field.as_deref()).chain(conditions);
        paths.map(|path| path.split(['.', '[']).next().unwrap_or(path))
    }

    /// Returns the paths in the referrer that have the target's id.
    pub fn id_fields(&self) -> impl Iterator<Item = &str> {
        let by_id = self.matches.iter().filter(|rule| {
            let equals_id = rule.equals.as_deref().is_none_or(|path| path == "id");
            rule.strip_prefix.is_none() && !rule.only_narrows() && equals_id
        });
        let fields = by_id.map(|rule| rule.field.as_str());
        fields.chain(self.field.as_deref())
    }
}

impl Match {
    /// Whether the rule only tests that the referrer's value is in a network (`in_cidr`) or below a domain (`below`),
    /// without `equals`. The field of such a rule does not have the target's id.
    fn only_narrows(&self) -> bool {
        self.equals.is_none() && (self.in_cidr.is_some() || self.below.is_some())
    }

    /// Returns the target's value from the referrer's value, which may have a prefix or be a URL; none if the
    /// prefix is missing.
    pub fn referred<'v>(&self, value: &'v str) -> Option<&'v str> {
        let value = match &self.strip_prefix {
            Some(prefix) => value.strip_prefix(prefix.as_str())?,
            None => value,
        };
        match self.last_segment {
            true => value.rsplit('/').next(),
            false => Some(value),
        }
    }
}

/// Whether a row meets a condition: each path has one of its values.
pub fn holds(when: &BTreeMap<String, OneOf>, row: &Value) -> bool {
    when.iter().all(|(path, wanted)| {
        let texts = value::values(row, path).into_iter().filter_map(text);
        texts.into_iter().any(|text| wanted.accepts(&text))
    })
}

impl OneOf {
    /// Whether neither condition accepts a value of the other.
    pub fn excludes(&self, other: &Self) -> bool {
        let none_of = |of: &Self, by: &Self| {
            let values = match of {
                Self::One(one) => std::slice::from_ref(one),
                Self::Any(any) => any.as_slice(),
            };
            let mut texts = values.iter().filter_map(text);
            !texts.any(|text| by.accepts(&text))
        };
        none_of(self, other) && none_of(other, self)
    }

    /// Whether a value is accepted. Texts, numbers and booleans are compared as text. An accepted value that
    /// ends in `*` is a prefix.
    pub fn accepts(&self, found: &str) -> bool {
        let is = |one: &Value| {
            text(one).is_some_and(|one| match one.strip_suffix('*') {
                Some(prefix) => !found.is_empty() && found.starts_with(prefix),
                _ => one == found,
            })
        };
        match self {
            Self::One(one) => is(one),
            Self::Any(any) => any.iter().any(is),
        }
    }
}
