//! Kinds as data: what the engine knows of a cloud, read from `assets/kinds/**/*.toml`.
//!
//! A kind says how it is listed, read and deleted, what it refers to and what becomes of it when that
//! goes, and what its cloud's answers mean. The language is a closed list of operators:
//!
//! | operator | meaning |
//! |---|---|
//! | `values`, `listed` | of a service: a filter's values may be repeated, or only a single one; some as a list |
//! | `also` | filters without which a list leaves some out |
//! | path | `fixed_ips[].subnet_id`: all values under a dotted path, `[]` steps into an array |
//! | `when` | each path has one of these values, compared as they are written |
//! | `each` | one resource for each element of an array in a parent (routes, subports, fixed IPs) |
//! | `join` | copies fields of a row of another kind, found by id |
//! | `within` | a kind that the cloud lists below its parent alone (an image's members) |
//! | `match` | `equals` a value of the target, behind a prefix or not, or is an address `in_cidr` of it |
//! | `find` | the server-side filter that finds referrers set at a time |
//! | call template | method, path and body with `{variables}`; `{cascade}` is `true` or `false` |
//! | `answer` | (status, type, text) → class, first match; `ids` names the kind that the message lists |
//! | `enable` | a call that must come before the delete while `when` holds |
//! | `takes` | what goes along, after it |
//! | `scope` | the field by which one list looks for all rows of what goes |
//! | `guard` | never deleted while `when` holds; or left where it is, when that goes which it is `left_in` |
//! | `settles` | a delete that the cloud only begins: how a row shows that it goes on, or failed |
//! | `stays` | only what belongs to it goes (a project) |
//! | `incarnation` | the field by which one made anew under the same id is known (I10) |
//! | `owner` | the field that says what a resource serves; when that changes, it is drift |
//! | `requires_extension` | where the cloud lacks it, there are none |
//!
//! Anything else is a new named operator here with a table test, never an expression language.

mod load;
mod value;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

pub use load::{KindsError, Source};
pub use value::{fill, lookup, lookup_one, text};

use super::model::{Action, KindName, Resource, ResourceKey, Site};

/// All kinds, validated: every name that a kind mentions exists.
#[derive(Clone, Debug)]
pub struct Kinds {
    kinds: BTreeMap<KindName, Kind>,
}

/// One kind. Field by field what the file says, with the file's service and answers folded in.
#[derive(Clone, Debug)]
pub struct Kind {
    pub name: KindName,
    /// The catalog's service type: `network`.
    pub service: String,
    pub spec: KindSpec,
    /// The kind's own rules, then those of its file.
    pub answers: Vec<AnswerRule>,
    /// Prepended to every path: `/v2.0`.
    pub prefix: String,
    /// How its service takes several values of a filter, if not as a list.
    pub values: FilterValues,
    /// The filters whose values it takes as a list.
    pub listed: Vec<String>,
}

/// How a service takes several values of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterValues {
    /// `id=A&id=B`.
    #[default]
    Repeated,
    /// One call for each.
    Single,
    /// `id=in:A,B`.
    #[serde(skip)]
    Listed,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindSpec {
    #[serde(default)]
    pub aliases: Vec<String>,
    /// How it is listed; a kind has this or `derived`.
    pub list: Option<ListSpec>,
    pub derived: Option<DerivedSpec>,
    /// A kind has this or `stays`.
    pub delete: Option<CallTemplate>,
    /// Why it is not deleted itself.
    pub stays: Option<String>,
    /// The same in all regions of a cloud: to name it is to name it in each.
    #[serde(default)]
    pub in_all_regions: bool,
    #[serde(default)]
    pub action: ActionWord,
    pub settles: Option<Settles>,
    pub enable: Option<EnableSpec>,
    #[serde(default, rename = "reference")]
    pub references: Vec<Reference>,
    #[serde(default)]
    pub takes: Vec<Takes>,
    #[serde(default, rename = "answer")]
    pub answers: Vec<AnswerRule>,
    /// Error types that mean: this very resource does not exist (I13).
    #[serde(default)]
    pub not_found: Vec<String>,
    /// The same for services whose errors have no type: whole messages, with `{variables}`.
    #[serde(default)]
    pub not_found_says: Vec<String>,
    #[serde(default, rename = "guard")]
    pub guards: Vec<GuardRule>,
    pub requires_extension: Option<String>,
    /// For ids that may be given again (image and project): a field that is another's then. It is read
    /// just before the call (I10).
    pub incarnation: Option<String>,
    /// Where a row says what it serves (`device_owner`): a change of that is drift (P1).
    pub owner: Option<String>,
    /// How "deleting" is shown to readers: field → value.
    #[serde(default)]
    pub deleting: BTreeMap<String, String>,
    /// For browsing: heading and path, left to right.
    #[serde(default)]
    pub columns: Vec<(String, String)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSpec {
    pub path: String,
    /// The key of the array in the answer.
    pub items: String,
    /// The key of the object when one is read by `{path}/{id}`; none where it stands by itself.
    pub item: Option<String>,
    /// What planning needs of each row; asked for with `fields=`. None where the service cannot.
    #[serde(default)]
    pub fields: Vec<String>,
    /// The fields that make its id, with commas between; the templates' variables too.
    #[serde(default = "id_fields")]
    pub id: Vec<String>,
    /// Where the shown name is, if not under `name`.
    #[serde(default = "name_field")]
    pub name: String,
    /// Where the project's id is, and by what the cloud filters by it, if not `project_id`.
    #[serde(default = "project_field")]
    pub project: String,
    /// The filter without which it is not listed: it stands in the path (`/images/{image_id}/members`),
    /// and is the first part of the id.
    pub within: Option<String>,
    /// Filters without which a list leaves some out, and with which it shows those alone: each is asked
    /// for as well.
    #[serde(default)]
    pub also: Vec<BTreeMap<String, String>>,
    /// Whether the cloud filters by the id. Else each is read.
    #[serde(default = "yes")]
    pub by_id: bool,
    /// A field that never changes, and by which the cloud filters, of what a row is part of: when that
    /// goes with all its rows, one list by it looks for all of them (N14).
    pub scope: Option<String>,
}

fn id_fields() -> Vec<String> {
    vec!["id".into()]
}

fn name_field() -> String {
    "name".into()
}

fn project_field() -> String {
    "project_id".into()
}

fn yes() -> bool {
    true
}

/// A delete that the cloud accepts and then works on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settles {
    /// Where a row shows it.
    pub field: String,
    /// While it goes on.
    pub pending: Vec<String>,
    /// When it has failed.
    pub failed: Vec<String>,
    /// When a person is told that it takes long, and what of.
    pub minutes_warn: u64,
    pub warning: String,
    /// How long it may go on, if nothing else is configured (I6).
    pub minutes_max: u64,
}

/// Where a delete is that the cloud works on, as a row shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    GoesOn,
    Failed,
    /// Nothing is under way.
    None,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DerivedSpec {
    /// The listed kind in whose rows it is found.
    pub from: KindName,
    #[serde(default)]
    pub when: BTreeMap<String, OneOf>,
    /// An array in the row; without it, the row itself is the one element.
    pub each: Option<String>,
    /// The paths whose values, joined by commas, are the composite id.
    pub id: Vec<String>,
    /// Variable → path; in the element under `each.`. One of them has the path `id`: the parent's.
    pub set: BTreeMap<String, String>,
    /// The row is this edge and not a resource of its own kind (a router's interface port).
    #[serde(default)]
    pub replaces: bool,
    /// The filter that finds the parent's row by the first part of the composite id.
    pub find_by: String,
    pub join: Option<Join>,
}

/// Copies fields from the row of another kind whose id is in `by`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    pub kind: KindName,
    pub by: String,
    pub take: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOf {
    Any(Vec<Value>),
    One(Value),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallTemplate {
    pub method: String,
    pub path: String,
    pub body: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionWord {
    #[default]
    Delete,
    Detach,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnableSpec {
    pub when: BTreeMap<String, OneOf>,
    pub call: CallTemplate,
    /// What the plan says of it.
    pub why: String,
}

/// What a resource of this kind points at, and what becomes of it when that goes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub to: KindName,
    /// Short for `match = [{ field = "…", equals = "id" }]`.
    pub field: Option<String>,
    #[serde(default, rename = "match")]
    pub matches: Vec<Match>,
    #[serde(default)]
    pub when: BTreeMap<String, OneOf>,
    pub on_delete: OnDelete,
    /// Without it the whole collection is listed.
    pub find: Option<Find>,
    /// Between the two names in the plan's reasons: `port a` *on* `network web`.
    pub says: String,
    /// With this plan option, what would be unset is deleted.
    pub released_by: Option<ReleaseOption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseOption {
    ReleaseFloatingIps,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// Path in the referrer.
    pub field: String,
    /// Cut off the referrer's value first; one without it does not refer.
    pub strip_prefix: Option<String>,
    /// Path in the target; `id` is its id.
    pub equals: Option<String>,
    /// Path in the target to a network in CIDR notation.
    pub in_cidr: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// The query parameter.
    pub key: String,
    /// Its value, with `{}` for the target's.
    #[serde(default = "braces")]
    pub value: String,
    /// Path in the target; `id` is its id.
    #[serde(default = "id_path")]
    pub of: String,
    /// Only such targets have referrers of this kind.
    #[serde(default)]
    pub when: BTreeMap<String, OneOf>,
}

fn braces() -> String {
    "{}".into()
}

fn id_path() -> String {
    "id".into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDelete {
    /// Whoever points at it must be gone before, and goes only by himself.
    Block,
    /// Goes first.
    Cascade,
    /// The cloud removes it along with the target.
    Automatic,
    /// The same, if the call says so: where a cascade was asked for. Else it blocks.
    WithCascade,
    /// The cloud clears the reference.
    Unset,
    /// The reference stays and points at nothing.
    Dangling,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Takes {
    pub kind: KindName,
    /// Path to the ids that go along.
    pub field: String,
    pub says: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardRule {
    pub when: BTreeMap<String, OneOf>,
    pub reason: String,
    /// Does not refuse the deletion of what it belongs to by being of this kind, but stays.
    pub left_in: Option<KindName>,
}

/// First match wins; an absent key matches all.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRule {
    pub status: Option<u16>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// A part of the message.
    pub text: Option<String>,
    pub class: AnswerClass,
    /// The kind of the ids that the message lists.
    pub ids: Option<KindName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerClass {
    /// Something is in the way: for the collector (I1).
    Blocked,
    /// In progress: a snooze, no attempt (I6).
    Pending,
    /// Throttled or down: retried as such.
    Unavailable,
    /// The service failed on this call: retried on the collector's schedule.
    Failed,
    /// The rights are gone; the site is paused (N13).
    Auth,
    Fatal,
    /// Not what was planned any more.
    Drift,
}

impl Kinds {
    pub fn get(&self, name: &KindName) -> Option<&Kind> {
        self.kinds.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values()
    }

    /// By name, alias, or with `-` for `_`: what a person types.
    pub fn resolve(&self, word: &str) -> Result<&Kind, String> {
        let wanted = word.to_lowercase().replace('-', "_");
        self.kinds
            .values()
            .find(|kind| kind.name.as_str() == wanted || kind.spec.aliases.contains(&wanted))
            .ok_or_else(|| {
                let names = self.kinds.keys().map(KindName::as_str);
                format!(
                    "unknown kind \"{}\"{}; known kinds: {}",
                    super::text::escape(word),
                    super::text::did_you_mean(&wanted, names.clone()),
                    names.collect::<Vec<_>>().join(", ")
                )
            })
    }

    /// The listed kind whose rows show this kind: itself, or what it is derived from.
    pub fn listed(&self, kind: &Kind) -> &Kind {
        match &kind.spec.derived {
            // Validated at load: what a derived kind names is there, and is listed.
            Some(derived) => self
                .kinds
                .get(&derived.from)
                .unwrap_or_else(|| unreachable!("validated at load")),
            None => self
                .kinds
                .get(&kind.name)
                .unwrap_or_else(|| unreachable!("of these kinds")),
        }
    }

    /// What may have to go before a resource of this kind.
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

    /// The resources that one listed row shows: itself unless an edge replaces it, and its edges.
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
}

impl Kind {
    pub fn action(&self) -> Action {
        match self.spec.action {
            ActionWord::Delete => Action::Delete,
            ActionWord::Detach => Action::Detach,
        }
    }

    /// The variable of a derived kind that holds its parent's id.
    pub fn parent_variable(&self) -> Option<&str> {
        let derived = self.spec.derived.as_ref()?;
        derived
            .set
            .iter()
            .find(|(_, path)| path.as_str() == "id")
            .map(|(variable, _)| variable.as_str())
    }

    /// What an answer means, by this kind's rules.
    pub fn classify(&self, status: u16, error_type: &str, message: &str) -> Option<&AnswerRule> {
        self.answers.iter().find(|rule| {
            rule.status.is_none_or(|wanted| wanted == status)
                && rule
                    .kind
                    .as_deref()
                    .is_none_or(|wanted| wanted == error_type)
                && rule
                    .text
                    .as_deref()
                    .is_none_or(|part| message.contains(part))
        })
    }

    /// Whether a 404 of this type and message says that this very resource is not there (I13).
    pub fn is_not_found(
        &self,
        (status, error_type, message): (u16, &str, &str),
        variables: &BTreeMap<String, String>,
    ) -> bool {
        let says = |template: &String| fill(template, variables).is_ok_and(|text| text == message);
        status == 404
            && (self.spec.not_found.iter().any(|known| known == error_type)
                || self.spec.not_found_says.iter().any(says))
    }

    /// Whether a row shows what the step's variables tell of, and not one made anew under its id.
    pub fn same_incarnation(&self, row: &Value, variables: &BTreeMap<String, String>) -> bool {
        self.spec.incarnation.as_ref().is_none_or(|field| {
            let planned = variables.get(field);
            planned.is_none() || lookup_one(row, field).as_ref() == planned
        })
    }

    /// Where a delete of what the row shows is, with the status that tells it.
    pub fn settling(&self, row: &Value) -> (Settling, String) {
        let Some(settles) = &self.spec.settles else {
            return (Settling::None, String::new());
        };
        let status = lookup_one(row, &settles.field).unwrap_or_default();
        let settling = if settles.pending.contains(&status) {
            Settling::GoesOn
        } else if settles.failed.contains(&status) {
            Settling::Failed
        } else {
            Settling::None
        };
        (settling, status)
    }

    /// How several values of this filter are asked for.
    pub fn values_of(&self, filter: &str) -> FilterValues {
        match self.listed.iter().any(|listed| listed == filter) {
            true => FilterValues::Listed,
            false => self.values,
        }
    }

    /// The filter that finds resources of this listed kind by their ids, or by what those begin with;
    /// none where each is read.
    pub fn id_filter(&self) -> Option<&str> {
        let list = self.spec.list.as_ref().filter(|list| list.by_id)?;
        list.within.as_deref().or(Some("id"))
    }

    /// The parts of an id, by their names: `id`, and for a composite one each of its fields.
    pub fn id_variables(&self, id: &str) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::from([("id".to_owned(), id.to_owned())]);
        if let Some(list) = self.spec.list.as_ref().filter(|list| list.id.len() > 1) {
            let parts = id.splitn(list.id.len(), ',').map(str::to_owned);
            variables.extend(list.id.iter().cloned().zip(parts));
        }
        variables
    }

    /// The id that a row of this listed kind has.
    pub fn id_of(&self, row: &Value) -> Option<String> {
        let fields = &self.spec.list.as_ref()?.id;
        let parts: Option<Vec<String>> = fields.iter().map(|it| lookup_one(row, it)).collect();
        Some(parts?.join(","))
    }

    /// The project that a row of this listed kind belongs to; empty where the cloud tells none.
    pub fn project_of(&self, row: &Value) -> String {
        let list = self.spec.list.as_ref();
        list.and_then(|list| lookup_one(row, &list.project))
            .unwrap_or_default()
    }

    fn own(&self, site: &Site, row: &Value) -> Option<Resource> {
        let list = self.spec.list.as_ref()?;
        Some(Resource {
            key: ResourceKey {
                site: site.clone(),
                kind: self.name.clone(),
                id: self.id_of(row)?,
            },
            name: lookup_one(row, &list.name).unwrap_or_default(),
            project_id: self.project_of(row),
            tags: lookup(row, "tags[]"),
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
        let name_path = listed
            .spec
            .list
            .as_ref()
            .map_or("name", |list| list.name.as_str());
        elements
            .iter()
            .filter_map(|element| {
                let parts: Option<Vec<String>> =
                    derived.id.iter().map(|path| at(path, element)).collect();
                let set: serde_json::Map<String, Value> = derived
                    .set
                    .iter()
                    .filter_map(|(variable, path)| {
                        Some((variable.clone(), Value::String(at(path, element)?)))
                    })
                    .collect();
                Some(Resource {
                    key: ResourceKey {
                        site: site.clone(),
                        kind: self.name.clone(),
                        id: parts?.join(","),
                    },
                    name: lookup_one(row, name_path).unwrap_or_default(),
                    project_id: listed.project_of(row),
                    tags: lookup(row, "tags[]"),
                    attributes: Value::Object(set),
                })
            })
            .collect()
    }
}

impl Match {
    /// What the referrer's value says of the target's.
    pub fn referred<'v>(&self, value: &'v str) -> Option<&'v str> {
        match &self.strip_prefix {
            Some(prefix) => value.strip_prefix(prefix.as_str()),
            None => Some(value),
        }
    }
}

/// Whether each path has one of its values.
fn holds(when: &BTreeMap<String, OneOf>, row: &Value) -> bool {
    when.iter().all(|(path, wanted)| {
        let texts = value::values(row, path).into_iter().filter_map(text);
        texts.into_iter().any(|text| wanted.accepts(&text))
    })
}

impl OneOf {
    /// Texts, numbers and booleans are compared as they are written.
    pub fn accepts(&self, found: &str) -> bool {
        let is = |one: &Value| text(one).is_some_and(|one| one == found);
        match self {
            Self::One(one) => is(one),
            Self::Any(any) => any.iter().any(is),
        }
    }
}
