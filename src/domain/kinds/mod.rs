//! Kinds as data: what the engine knows of a cloud, read from `assets/kinds/**/*.toml`.
//!
//! A kind says how it is listed, read and deleted, what it refers to and what becomes of it when that
//! goes, and what its cloud's answers mean. The language is a closed list of operators:
//!
//! | operator | meaning |
//! |---|---|
//! | `values`, `listed` | of a service: a filter's values may be repeated, or only a single one; some as a list |
//! | `also` | filters without which a list leaves some out, and with which it leaves out the others |
//! | `always` | filters without which a list leaves some out |
//! | `admin_fields` | what a row shows to admins alone |
//! | `also_at` | of a service: other prefixes under which clients find the same |
//! | `methods` | of a service: the closed list of what a gate forwards to it; anything else is 405 |
//! | `ids` | how an id of the kind is spelled in a path: `plain` (the default) or `text` |
//! | `uploads` | of a service: the media type of bodies that are data of any size, and name nothing |
//! | `deleting` | of a service or a kind: the fields that show readers that a resource is being deleted |
//! | path | `fixed_ips[].subnet_id`: all values under a dotted path, `[]` steps into an array |
//! | `when`, `to_when` | each path, of the row or of what it points at, has one of these values, compared as they are written; one that ends in `*` is a prefix |
//! | `partial` | of an `unset` reference: the resource still holds whatever else it points at (N18) |
//! | `of_service` | of a reference: a service made the resource, in its own project (N20) |
//! | `delete_one` | the call for a row that holds more of these, which takes this one alone (N17) |
//! | `each` | one resource for each element of an array in a parent (routes, subports, fixed IPs) |
//! | `join` | copies fields of a row of another kind, found by id |
//! | `native` | a kind of our own: a deployment keeps it in its registry, with these fields |
//! | `needs_project` | of a service: a login for no project (for the system, for a domain) is shown nothing |
//! | `shown_to` | of a service: the roles without which it refuses to show anything |
//! | `own_only` | of a list: who may not have it is shown the one resource that the login is for |
//! | `by_project` | of a list: false where a list by project would change something |
//! | `unknown` | what is not in its service's list may still have what belongs to it, and is found by that |
//! | `shown_by` | of a reference: who may not list the referrers sees by resources of this kind whether there are any |
//! | `imports` | of a service: others whose kinds its own refer to |
//! | `asynchronous` | of a reference: seen to after the target was accepted for deletion (G3) |
//! | `within` | a kind that the cloud lists below its parent alone (an image's members); a row may leave the parent's id out |
//! | `match` | `equals` a value of the target, behind a prefix or not; beside that, is an address `in_cidr` of it |
//! | `find` | the server-side filter that finds referrers set at a time |
//! | call template | method, path and body with `{variables}`; `{cascade}` is `true` or `false`, `{null}` in a body is null |
//! | `answer` | (status, type, text) → class, first match; `ids` names the kind that the message lists |
//! | `enable` | a call that must come before the delete while `when` holds; only for a login without a role, where that is said |
//! | `names` | fields by which a request refers to a resource, and a row does not |
//! | `takes` | what goes along, after it |
//! | `tagged` | the filter that finds what has one of several tags: copies at other sites |
//! | `scope` | the field by which one list looks for all rows of what goes |
//! | `guard` | never deleted while `when` holds, `unless` a plan option is given; or left where it is, when that goes which it is `left_in`, `left_while` that is so; `only_left`: and is deleted when it is named itself |
//! | `settles` | a delete that the cloud only begins: how a row shows that it goes on, or failed |
//! | `unpinned_by` | the edge by which what blocks lets go, and stays: for the ladder alone, in no plan |
//! | `runbook` | what a person does by hand for one id, when no call helps |
//! | `stays` | only what belongs to it goes (a project); where a plan option is given that it `goes_with`, it does too |
//! | `created` | the calls that create one under an id that may be given again (M6) |
//! | `incarnation` | the field by which one made anew under the same id is known (I10) |
//! | `override` | replaces the kind of this name that an earlier file defines; without it that is an error |
//! | `owner` | the field that says what a resource serves; when that changes, it is drift |
//! | `requires_extension` | where the cloud lacks it, there are none |
//! | `not_covered` | of a file: `resources` of its service, `extensions` and `services` that have no kinds, with what they hold; a project's plan names them (N19) |
//! | `nothing_to_cover` | of a file: `extensions` and `services` that hold nothing of a project beyond the kinds |
//!
//! Anything else is a new named operator here with a table test, never an expression language.

mod coverage;
mod effect;
mod load;
mod native;
mod spec;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub use coverage::{Offer, not_looked_at};
pub use load::{KindsError, Source};
pub use native::{IN_USE, INCARNATION, NOT_FOUND, base, refer_to, referred};
pub use spec::{
    ActionWord, AnswerClass, AnswerRule, CallTemplate, Created, DerivedSpec, EnableSpec, FieldSpec,
    FilterValues, Find, GuardRule, IdSpelling, Join, KindSpec, ListSpec, Match, NativeSpec,
    OnDelete, OneOf, PlanOption, Reference, Runbook, Settles, Takes,
};
pub use value::{NULL, created_at, fill, lookup, lookup_one, text, variables};

use super::model::{Action, KindName, Resource, ResourceKey, Site};

/// The variable of a step whose row held more resources of its kind when it was planned.
const ONE_OF_SEVERAL: &str = "one_of_several";

/// More filter values than this, and listing the whole collection is cheaper than asking for them.
const FILTER_VALUES_MAX: usize = 700;
/// The same where each value takes a call of its own.
const SINGLE_VALUES_MAX: usize = 4;

/// All kinds, validated: every name that a kind mentions exists.
#[derive(Clone, Debug)]
pub struct Kinds {
    kinds: BTreeMap<KindName, Kind>,
    home: Option<Home>,
    coverage: coverage::Coverage,
}

/// The deployment whose kinds these are: what it offers is kept at its own site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub site: Site,
    pub service: String,
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
    /// Where clients find the same, beside the prefix.
    pub also_at: Vec<String>,
    /// The media type of what clients upload to it.
    pub uploads: Option<String>,
    /// The methods that a gate forwards to its service.
    pub methods: Vec<String>,
    /// How its service takes several values of a filter, if not as a list.
    pub values: FilterValues,
    /// The filters whose values it takes as a list.
    pub listed: Vec<String>,
    /// Its service shows a login that is for no project nothing, or refuses it.
    pub needs_project: bool,
    /// To whom its service shows anything, in words; empty: to any login.
    pub shown_to: String,
    /// Other services whose kinds those of its service refer to.
    pub imports: Vec<String>,
}

/// Where a delete is that the cloud works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncDelete {
    GoesOn,
    Failed,
}

/// How closely a resource belongs to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// The cloud itself removes it with the other (T20).
    Part,
    /// That, or a cascade deletes it before the other (N9).
    Child,
}

impl Created {
    /// The ids under which a call creates: with the variables of its path, and what its body says, or
    /// its answer.
    pub fn ids(&self, variables: &BTreeMap<String, String>, body: &Value) -> Vec<String> {
        let elements = match &self.each {
            Some(each) => value::values(body, &format!("{each}[]")),
            None => vec![body],
        };
        let id_in = |element: &Value| {
            let parts = self.id.iter().map(|part| {
                let variable = part.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
                match (variable, part.strip_prefix("each.")) {
                    (Some(variable), _) => variables.get(variable).cloned(),
                    (None, Some(path)) if self.each.is_some() => lookup_one(element, path),
                    (None, _) => lookup_one(body, part),
                }
            });
            parts.collect::<Option<Vec<_>>>().map(|it| it.join(","))
        };
        elements.into_iter().filter_map(id_in).collect()
    }
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

    /// The ids of what a row refers to by this reference; none where an id alone does not tell (an address
    /// in a network).
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

    /// Whether a call takes this resource alone out of a row that holds more of its kind (N17).
    pub fn takes_one(&self, variables: &BTreeMap<String, String>) -> bool {
        self.spec.delete_one.is_some() && variables.contains_key(ONE_OF_SEVERAL)
    }

    /// What the parts of its id are called, in the order of the id.
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

    /// The references to what takes a resource of this kind along when it goes.
    pub fn bonds(&self, bond: Bond) -> impl Iterator<Item = &Reference> {
        let is_such = move |reference: &&Reference| match reference.on_delete {
            OnDelete::Automatic | OnDelete::WithCascade => true,
            OnDelete::Cascade => bond == Bond::Child,
            OnDelete::Block | OnDelete::Unset | OnDelete::Dangling => false,
        };
        self.spec.references.iter().filter(is_such)
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

    /// The type by which its service refuses to delete what is in use.
    pub fn in_use_type(&self, blocker: Option<&KindName>) -> Option<&str> {
        let blocked = |rule: &&AnswerRule| rule.class == AnswerClass::Blocked;
        let types = self.answers.iter().filter(blocked);
        let typed = types.filter_map(|rule| Some((rule.ids.as_ref(), rule.kind.as_deref()?)));
        let typed: Vec<_> = typed.collect();
        let mut named = typed
            .iter()
            .filter(|(ids, _)| ids.is_some() && *ids == blocker);
        match (named.next(), &typed[..]) {
            (Some((_, named)), _) | (None, [(_, named)]) => Some(named),
            (None, _) => None,
        }
    }

    /// Whether its service deletes what belongs to it in the same call, when that says so.
    pub fn cascades_by_itself(&self) -> bool {
        let delete = self.spec.delete.as_ref();
        delete.is_some_and(|call| call.path.contains("{cascade}"))
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

    /// Where a delete of what the row shows is, with the status that tells it; none if none is under
    /// way.
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

    /// Whether its ids are natural keys, given again to what is made anew (M). Then a tombstone says
    /// nothing, after the end, of what is there.
    pub fn has_natural_key(&self) -> bool {
        !self.spec.created.is_empty() || self.is_native()
    }

    /// Whether what is there under an id of the dead has certainly come back, and is removed again (T14).
    /// A natural key is another's the next time.
    pub fn is_swept(&self) -> bool {
        self.spec.delete.is_some() && self.id_filter() == Some("id") && !self.is_native()
    }

    /// Under which its service has it, for clients.
    pub fn prefixes(&self) -> impl Iterator<Item = &String> {
        [&self.prefix].into_iter().chain(&self.also_at)
    }

    /// How several values of this filter are asked for.
    pub fn values_of(&self, filter: &str) -> FilterValues {
        match self.listed.iter().any(|listed| listed == filter) {
            true => FilterValues::Listed,
            false => self.values,
        }
    }

    /// With more values of this filter than that, all of a kind is listed, if that can be.
    pub fn values_max(&self, filter: &str) -> usize {
        match self.values_of(filter) {
            _ if self.is_listed_within() => usize::MAX,
            FilterValues::Single => SINGLE_VALUES_MAX,
            FilterValues::Repeated | FilterValues::Listed => FILTER_VALUES_MAX,
        }
    }

    /// Whether the cloud lists it below one parent at a time, and never as a whole.
    pub fn is_listed_within(&self) -> bool {
        let list = self.spec.list.as_ref();
        list.is_some_and(|list| list.within.is_some())
    }

    /// Writes the parts of an id that only the path of the request names into a row: a list below a parent
    /// need not repeat the parent.
    pub fn complete(&self, row: &mut Value, path: &BTreeMap<String, String>) {
        let within = self.spec.list.iter().filter_map(|it| it.within.as_ref());
        for name in within {
            if let (Some(row), Some(value)) = (row.as_object_mut(), path.get(name)) {
                row.entry(name).or_insert_with(|| value.as_str().into());
            }
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

    /// The resource in an answer that shows one of this listed kind.
    pub fn item_in<'v>(&self, answer: &'v mut Value) -> Option<&'v mut Value> {
        match &self.spec.list.as_ref()?.item {
            Some(item) => answer.get_mut(item),
            None => Some(answer),
        }
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
        let id_of = |element: &Value| {
            let parts: Option<Vec<String>> =
                derived.id.iter().map(|path| at(path, element)).collect();
            parts.map(|parts| parts.join(","))
        };
        let ids: BTreeSet<String> = elements.iter().filter_map(id_of).collect();
        let several = self.spec.delete_one.is_some() && ids.len() > 1;
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
                    key: ResourceKey {
                        site: site.clone(),
                        kind: self.name.clone(),
                        id: id_of(element)?,
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

impl Reference {
    /// The fields of a row that tell what it refers to by this.
    pub fn row_fields(&self) -> impl Iterator<Item = &str> {
        let matches = self.matches.iter().map(|rule| rule.field.as_str());
        let conditions = self.when.keys().map(String::as_str);
        let paths = matches.chain(self.field.as_deref()).chain(conditions);
        paths.map(|path| path.split(['.', '[']).next().unwrap_or(path))
    }

    /// The paths in the referrer that hold the target's id.
    pub fn id_fields(&self) -> impl Iterator<Item = &str> {
        let by_id = self.matches.iter().filter(|rule| {
            let equals_id = rule.equals.as_deref().is_none_or(|path| path == "id");
            rule.strip_prefix.is_none() && rule.in_cidr.is_none() && equals_id
        });
        let fields = by_id.map(|rule| rule.field.as_str());
        fields.chain(self.field.as_deref())
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
    /// Texts, numbers and booleans are compared as they are written; what ends in `*` is a prefix.
    pub fn accepts(&self, found: &str) -> bool {
        let is = |one: &Value| {
            text(one).is_some_and(|one| match one.strip_suffix('*') {
                Some(prefix) if !prefix.is_empty() => found.starts_with(prefix),
                _ => one == found,
            })
        };
        match self {
            Self::One(one) => is(one),
            Self::Any(any) => any.iter().any(is),
        }
    }
}
