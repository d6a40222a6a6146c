//! The `call` sections of OpenStack's kinds files: how resources are listed, read and deleted over REST, and what
//! the answers mean. The words of `[defaults.call]` (of a service) and `[kind.X.call]`:
//!
//! | word | meaning |
//! |---|---|
//! | `prefix` | of a service: prepended to every path (`/v2.0`) |
//! | `list` | the collection's path, the key of the array in its answer (`items`; none if the answer is the array) and the key of one row that is read by id (`item`) |
//! | `account` | of a service: its endpoint ends with the account of the login's project. With the id of another project in place of that project's id, it leads to the other project's account. A list shows one account |
//! | `unguarded` | of a service: a gate forwards all calls as they are, and guards no resource of it |
//! | `natural` | ids may be used again, by calls that no gate reads |
//! | `head` | of a list: one row is read by HEAD; its fields come from the headers that are named here, and from the parts of its id |
//! | `seconds` | of a list: a field that gets the time of another field, as whole seconds since 1970; the other field has seconds, or ISO 8601 |
//! | `otherwise` | of a list: fields that a row gets if the service leaves them out |
//! | `markers` | of a list whose paging is `marker`: the parameters that ask for the page after a row, each with the row's field |
//! | `filters` | of a list: filters that have another name in the service, which may find more rows: Swift's `prefix`, for a filter by name |
//! | `none_if_absent` | of a list: if the service answers it with 404, it has no rows, because its parent is gone |
//! | `values`, `listed` | of a service: whether a filter may be repeated or takes a single value; the filters that take several values as a list |
//! | `also` | sets of filters, each of which needs a list of its own: a list without such a filter leaves some rows out, and a list with it shows only those |
//! | `always` | filters that every list needs, because a list without them leaves rows out |
//! | `admin_filters` | filters that the service takes only from admins: another login's list needs none, since it shows the login's own project |
//! | `project_of_login` | rows show their project only to admins: for another login it is the login's own project |
//! | `absent` | the fields by which a row says that its resource is gone, although the service still shows it by its id |
//! | `leaves_out` | every list leaves out some resources that are there, so only a read by id proves that one is gone |
//! | `paging` | of a list: `marker` or `offset`, if its pages have no links to the next page; `whole`, if it takes no limit |
//! | `id_in` | a field with a URL whose last segment is the id of a row |
//! | `admin_headers` | of a service: headers without which an admin's calls reach only the rows of the admin's own project |
//! | `for_admins` | filters without which an admin's list shows only the rows of the admin's own project; the service refuses them to other logins |
//! | `one` | the path of one row, if not the list's path followed by the id |
//! | `api_version` | of a service, or of a kind that needs a later one: the header `OpenStack-API-Version` of every call (`compute 2.53`), which names the microversion that the words of the file are written for |
//! | `requires_api_version` | a cloud whose service does not offer the kind's own `api_version` has no resources of the kind |
//! | `headers` | of a service: headers of every call |
//! | `version_header` | of a service: another header that names the microversion, without the service's name |
//! | `also_at` | of a service: other prefixes under which clients find the same resources; of a list: other paths |
//! | `picked` | of a list: a field with the values under `take` of those elements of the array `each` that meet `when` and have no value under `lacks`; with `segments`, only the last segments of a URL, joined by commas |
//! | `split` | of a list: a field with the parts of another field's text between `/`, `:` and `=` |
//! | `secret` | of a list: fields of rows that contain secrets, and that gone drops as it reads the rows |
//! | `parent` | of a list below a parent whose id has several parts: the names of these parts |
//! | `details` | of a list: another path, read once with the list; each row gets fields of the answer from that path |
//! | `project_in_path` | of a service: clients may put the id of a project between the prefix and the rest of a path |
//! | `methods` | of a service: the closed list of methods that a gate forwards to it; a call with another method is answered 405 |
//! | `uploads` | of a service: the media type of uploads, bodies of any size that name no resource |
//! | `delete_one` | the call that deletes one resource of a row that has several of the kind (N17) |
//! | `needs_project` | of a service: it shows nothing to a login without a project (for the system, for a domain), or refuses it |
//! | `shown_to` | of a service: the roles that a login needs to see any resource, in words; empty if it needs none |
//! | `delete`, `enable`, `reset`, `force` | call template: method, path and body with `{variables}`; `{cascade}` is `true` or `false`, `{null}` in a body is null |
//! | `answer` | (status, type, text) → class, first match; `ids` names the kind that the message lists |
//! | `created` | the calls that create a resource under an id that may be used again (M6) |
//! | `requires_extension` | the extension without which a cloud has no resources of the kind |
//! | `if_absent` | the call to another service that may still have the resource when the kind's own service no longer knows it |
//! | `not_found`, `not_found_says` | the error types, or the whole messages, that say that this very resource does not exist (I13) |

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::list::{ListOptions, Paging};
use super::session::Service;
use crate::cloud::CloudFailure;
use crate::domain::kinds::{
    AnswerClass, Kind, KindCalls, KindSpec, KindsError, NULL, OneOf, Provider, Source, fill, holds,
    lookup, lookup_one, values, variables,
};
use crate::domain::model::{Action, KindName, StepError};
use crate::domain::text::did_you_mean;

macro_rules! embedded {
    ($($name:literal)*) => {
        &[$((
            concat!("kinds/openstack/", $name, ".toml"),
            include_str!(concat!("../../../assets/kinds/openstack/", $name, ".toml")),
        )),*]
    };
}

/// The built-in files of this provider.
pub const EMBEDDED: &[(&str, &str)] = embedded! {
    "block-storage" "compute" "dns" "identity" "image" "key-manager"
    "load-balancer" "network" "network-more"
    "object-store" "orchestration" "shared-file-system"
};

/// OpenStack as a provider of kinds.
#[derive(Clone, Copy, Debug)]
pub struct OpenStackKinds;

/// Maximum number of values of a filter, such as ids, in one list. A URL of 6 KB is too short for more ids in addition
/// to the witness.
const IDS_A_LIST_MAX: usize = 139;

/// How a service takes several values of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterValues {
    /// `id=A&id=B`.
    #[default]
    Repeated,
    /// One call for each value.
    Single,
    /// `id=in:A,B`.
    #[serde(skip)]
    Listed,
}

/// The words that apply to all calls of a service: `[defaults.call]` of a file. The table above explains them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceCalls {
    pub prefix: String,
    pub api_version: Option<String>,
    pub version_header: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub admin_headers: BTreeMap<String, String>,
    pub also_at: Vec<String>,
    pub project_in_path: bool,
    pub account: bool,
    pub unguarded: bool,
    pub uploads: Option<String>,
    /// The methods that a gate forwards to the service. A file that lists none means `USUAL_METHODS`.
    pub methods: Vec<String>,
    pub values: FilterValues,
    /// The filters whose values the service takes as a list.
    pub listed: Vec<String>,
    pub needs_project: bool,
    pub shown_to: String,
    /// Rules for the service's answers, which come after the kind's own.
    #[serde(rename = "answer")]
    pub answers: Vec<AnswerRule>,
}

/// The methods of a service whose file lists none.
const USUAL_METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// The calls of one kind: `[kind.X.call]`. The table above explains its words.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RestCalls {
    /// The words that apply to all calls of the service.
    #[serde(skip)]
    pub service: Arc<ServiceCalls>,
    pub api_version: Option<String>,
    pub requires_api_version: bool,
    pub list: Option<ListCall>,
    pub delete: Option<CallTemplate>,
    /// The call for a row that has several resources of the kind, where `delete` would remove all of them
    /// (N17). The call does not name the row, so the row is read just before, to check that it still has
    /// the planned resource (I10).
    pub delete_one: Option<CallTemplate>,
    /// The call that must come before the delete, as the kind's `enable` says.
    pub enable: Option<CallTemplate>,
    pub if_absent: Option<CallElsewhere>,
    /// The calls of the kind's rungs of the purge ladder.
    pub reset: Option<CallTemplate>,
    pub force: Option<CallTemplate>,
    pub created: Vec<Created>,
    pub natural: bool,
    pub not_found: Vec<String>,
    pub not_found_says: Vec<String>,
    pub requires_extension: Option<String>,
    /// The kind's own rules. After loading, the rules of its service and those for every service follow them.
    #[serde(rename = "answer")]
    pub answers: Vec<AnswerRule>,
}

/// How the rows of a kind are listed, and one of them is read: `list` of `[kind.X.call]`. The table above explains its
/// words.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListCall {
    pub path: String,
    /// The key of the array in the answer; empty if the answer is the array.
    #[serde(default)]
    pub items: String,
    /// The path of one resource, which ends with a part of the id in braces, if not `{path}/{id}`.
    pub one: Option<String>,
    #[serde(default)]
    pub also_at: Vec<String>,
    /// The key of the object in the answer if one resource is read; none if the answer is the object.
    pub item: Option<String>,
    #[serde(default)]
    pub also: Vec<BTreeMap<String, String>>,
    #[serde(default)]
    pub always: BTreeMap<String, String>,
    #[serde(default)]
    pub admin_filters: Vec<String>,
    #[serde(default)]
    pub project_of_login: bool,
    #[serde(default)]
    pub leaves_out: bool,
    #[serde(default)]
    pub absent: BTreeMap<String, OneOf>,
    #[serde(default)]
    pub for_admins: BTreeMap<String, String>,
    #[serde(default)]
    pub paging: Paging,
    pub id_in: Option<String>,
    #[serde(default)]
    pub picked: BTreeMap<String, Picked>,
    #[serde(default)]
    pub split: BTreeMap<String, String>,
    #[serde(default)]
    pub parent: Vec<String>,
    pub details: Option<Details>,
    #[serde(default)]
    pub secret: Vec<String>,
    #[serde(default)]
    pub head: BTreeMap<String, String>,
    #[serde(default)]
    pub seconds: BTreeMap<String, String>,
    #[serde(default)]
    pub otherwise: BTreeMap<String, String>,
    #[serde(default)]
    pub markers: BTreeMap<String, String>,
    #[serde(default)]
    pub filters: BTreeMap<String, String>,
    #[serde(default)]
    pub none_if_absent: bool,
}

/// A second path of the service, whose answer has more fields of the rows of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Details {
    pub path: String,
    /// The field that a row gets → the paths of keys in the answer; the first path that exists counts. A key `{field}`
    /// stands for the row's value of that field.
    pub take: BTreeMap<String, Vec<Vec<String>>>,
}

impl Details {
    /// Adds to a row the values that the answer has for it.
    pub fn complete(&self, row: &mut Value, answer: &Value) {
        for (field, paths) in &self.take {
            let found = paths.iter().find_map(|path| {
                path.iter().try_fold(answer, |at, key| {
                    let named = key.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
                    let key = match named {
                        Some(name) => row.get(name)?.as_str()?,
                        None => key,
                    };
                    at.get(key)
                })
            });
            if let (Some(found), Some(row)) = (found.cloned(), row.as_object_mut()) {
                row.insert(field.clone(), found);
            }
        }
    }
}

/// The values that a field gets from the elements of an array in the same row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picked {
    /// The path of the array.
    pub each: String,
    /// Values are taken only from elements in which each path has one of these values.
    #[serde(default)]
    pub when: BTreeMap<String, OneOf>,
    /// Values are taken only from elements without a value under this path.
    pub lacks: Option<String>,
    /// The path of the value in an element; by default, the value is the whole element.
    pub take: Option<String>,
    /// Number of the last segments of a URL to take, joined by commas.
    pub segments: Option<usize>,
}

impl Picked {
    /// Returns the values from a row.
    pub fn values(&self, row: &Value) -> Vec<Value> {
        let elements = values(row, &format!("{}[]", self.each));
        let fitting = elements.into_iter().filter(|it| {
            let lacks = self.lacks.as_ref();
            holds(&self.when, it) && lacks.is_none_or(|path| lookup(it, path).is_empty())
        });
        let Some(take) = &self.take else {
            return fitting.cloned().collect();
        };
        let taken = fitting.flat_map(|it| lookup(it, take));
        let of_url = |url: String| match self.segments {
            Some(count) => {
                let mut last: Vec<&str> = url.rsplit('/').take(count).collect();
                last.reverse();
                last.join(",").into()
            }
            None => url.into(),
        };
        taken.map(of_url).collect()
    }
}

/// A call with `{variables}` in its path and body.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallTemplate {
    pub method: String,
    /// The path without the service's prefix.
    pub path: String,
    pub body: Option<Value>,
}

/// A call to a service that is not the kind's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallElsewhere {
    pub service: String,
    /// The microversion of the call.
    pub api_version: Option<String>,
    pub method: String,
    /// The path with its prefix.
    pub path: String,
}

/// A call that creates resources of a kind whose ids may be used again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Created {
    pub method: String,
    /// The path without the service's prefix, with variables for the parts of the id.
    pub path: String,
    /// An array in the body. Each of its elements creates a resource.
    pub each: Option<String>,
    /// The parts of the id: a `{variable}` of the path, or a path in the body. A path within the element
    /// begins with `each.`.
    pub id: Vec<String>,
}

/// A rule for answers. The first rule that matches wins. A key that is not set matches everything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRule {
    pub status: Option<u16>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// A text that the message contains.
    pub text: Option<String>,
    pub class: AnswerClass,
    /// The kind of the ids that the message lists.
    pub ids: Option<KindName>,
}

/// The rules for every service, which come after all others.
fn common_answers() -> impl Iterator<Item = AnswerRule> {
    use AnswerClass::{Auth, Blocked, Failed, Unavailable};
    // A 409 whose type no rule knows is still a refusal: something blocks.
    let rules = [
        (429, Unavailable),
        (502, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
        (500, Failed),
        (401, Auth),
        (409, Blocked),
    ];
    rules.into_iter().map(|(status, class)| AnswerRule {
        status: Some(status),
        kind: None,
        text: None,
        class,
        ids: None,
    })
}

/// A kinds file, as far as its calls are concerned.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    kind: BTreeMap<KindName, OfKind>,
}

#[derive(Default, Deserialize)]
struct Defaults {
    #[serde(default)]
    call: ServiceCalls,
}

#[derive(Deserialize)]
struct OfKind {
    native: Option<IgnoredAny>,
    #[serde(default)]
    call: RestCalls,
}

impl Provider for OpenStackKinds {
    fn name(&self) -> &'static str {
        "openstack"
    }

    fn calls(&self, source: &Source) -> Result<BTreeMap<KindName, Arc<dyn KindCalls>>, KindsError> {
        let mut file: File = source.parse()?;
        let methods = &mut file.defaults.call.methods;
        if methods.is_empty() {
            methods.extend(USUAL_METHODS.map(str::to_owned));
        }
        let service = Arc::new(file.defaults.call);
        let kinds = file.kind.into_iter().filter(|(_, it)| it.native.is_none());
        let calls = kinds.map(|(name, OfKind { mut call, .. })| {
            call.answers.extend(service.answers.iter().cloned());
            call.answers.extend(common_answers());
            call.service = service.clone();
            (name, Arc::new(call) as Arc<dyn KindCalls>)
        });
        Ok(calls.collect())
    }
}

/// Returns the resource in an answer that shows a single resource of this kind.
pub fn item_in<'v>(kind: &Kind, answer: &'v mut Value) -> Option<&'v mut Value> {
    let calls: &RestCalls = kind.calls_of()?;
    match &calls.list.as_ref()?.item {
        Some(item) => answer.get_mut(item),
        None => Some(answer),
    }
}

/// Returns the calls of a kind of this provider.
///
/// # Errors
/// The kind belongs to another provider.
pub(super) fn calls_of(kind: &Kind) -> Result<&RestCalls, CloudFailure> {
    kind.calls_of().ok_or_else(|| {
        CloudFailure::configuration(format!("the kind {} is not one of OpenStack's", kind.name))
    })
}

/// Returns the service of a kind, with the version of its API.
pub fn service_of(kind: &Kind) -> Service<'_> {
    let calls: Option<&RestCalls> = kind.calls_of();
    Service {
        name: &kind.service,
        api_version: calls.and_then(|calls| {
            let own = calls.api_version.as_deref();
            own.or(calls.service.api_version.as_deref())
        }),
        version_header: calls.and_then(|calls| calls.service.version_header.as_deref()),
        headers: calls.map(|calls| &calls.service.headers),
        admin_headers: calls.map(|calls| &calls.service.admin_headers),
        account: calls.filter(|calls| calls.service.account).map(|_| ""),
    }
}

impl KindCalls for RestCalls {
    fn validate(&self, kind: &Kind) -> Result<(), String> {
        let own = self.answers.len() - common_answers().count();
        validate_answers(self.answers.get(..own).unwrap_or_default())?;
        if kind.spec.list.is_some() != self.list.is_some() {
            return Err("needs both \"list\" and \"call.list\", or neither".into());
        }
        let one = self.list.as_ref().and_then(|list| list.one.as_ref());
        if let Some(one) = one.filter(|one| !one.ends_with('}')) {
            return Err(format!(
                "call.list.one is \"{one}\", and must end with a part of the id"
            ));
        }
        if self.requires_api_version && self.needed_version().is_none() {
            return Err(
                "\"call.requires_api_version\" requires \"call.api_version\", which ends with a version such as \
                 2.81"
                    .into(),
            );
        }
        if let (Some(list), Some(spec)) = (&self.list, &kind.spec.list) {
            if !list.markers.is_empty() && list.paging != Paging::Marker {
                return Err("\"call.list.markers\" requires paging = \"marker\"".into());
            }
            let named = |part: &String| list.parent.contains(part) || spec.id.contains(part);
            if self.service.account && !named(&spec.project) {
                return Err(format!(
                    "\"account\" requires ids that name the account's project (\"{}\"): other accounts have \
                     resources of the same names",
                    spec.project
                ));
            }
        }
        if kind.spec.enable.is_some() != self.enable.is_some() {
            return Err("needs both \"enable\" and \"call.enable\", or neither".into());
        }
        let absence = !self.not_found.is_empty() || !self.not_found_says.is_empty();
        if self.delete.is_some() && !absence {
            return Err(
                "needs \"call.not_found\" or \"call.not_found_says\": absence is never assumed"
                    .into(),
            );
        }
        let of_several =
            |spec: &KindSpec| spec.derived.as_ref().is_some_and(|it| it.each.is_some());
        if self.delete_one.is_some() && !(self.delete.is_some() && of_several(&kind.spec)) {
            return Err(
                "\"call.delete_one\" requires \"call.delete\", and \"each\" of \"derived\"".into(),
            );
        }
        for (field, call) in [
            ("call.delete", &self.delete),
            ("call.delete_one", &self.delete_one),
            ("call.enable", &self.enable),
            ("call.reset", &self.reset),
            ("call.force", &self.force),
        ] {
            if let Some(call) = call {
                validate_method(field, &call.method)?;
                let mut named = call.variables();
                let parents = self.list.iter().flat_map(|list| &list.parent);
                let parents: Vec<&String> = parents.collect();
                named.retain(|name| !parents.contains(&name));
                validate_variables(kind, field, named.iter().map(String::as_str))?;
            }
        }
        if let Some(call) = &self.if_absent {
            validate_method("call.if_absent", &call.method)?;
            validate_variables(kind, "call.if_absent", variables(&call.path))?;
        }
        for action in [Action::Reset, Action::Force] {
            let has_rung = kind.spec.rungs.iter().any(|rung| rung.call == action);
            if has_rung != self.can(action) {
                let word = action.as_str();
                return Err(format!(
                    "needs both a \"rung\" with call = \"{word}\" and \"call.{word}\", or neither"
                ));
            }
        }
        for template in &self.not_found_says {
            validate_variables(kind, "call.not_found_says", variables(template))?;
        }
        let mut created = self.created.iter();
        created.try_for_each(|created| validate_created(&kind.spec, created))
    }

    fn kinds(&self) -> Vec<&KindName> {
        self.answers
            .iter()
            .filter_map(|rule| rule.ids.as_ref())
            .collect()
    }

    fn can(&self, action: Action) -> bool {
        self.call_for(action).is_some()
    }

    fn removes_one_of_row(&self) -> bool {
        self.delete_one.is_some()
    }

    fn cascades_by_itself(&self) -> bool {
        let mut calls = self.delete.iter().chain(&self.delete_one);
        calls.any(|call| call.variables().iter().any(|name| name == "cascade"))
    }

    fn creates_by_id(&self) -> bool {
        self.natural || !self.created.is_empty()
    }

    fn lists_all_projects(&self) -> bool {
        !self.service.account
    }

    fn values_per_list(&self, filter: &str) -> usize {
        match self.values_of(filter) {
            FilterValues::Single => 1,
            _ => IDS_A_LIST_MAX,
        }
    }

    fn lists_all_at_once(&self) -> bool {
        let all = |list: &ListCall| list.also.is_empty() && !list.leaves_out;
        self.list.as_ref().is_none_or(all)
    }

    fn extension(&self) -> Option<&str> {
        self.requires_extension.as_deref()
    }

    fn meaning(&self, error: &StepError) -> Option<AnswerClass> {
        let status = error.status.unwrap_or_default();
        let rule = self.classify(status, &error.kind, &error.message);
        rule.map(|rule| rule.class)
    }

    fn line(&self, action: Action, variables: &BTreeMap<String, String>) -> Option<String> {
        let call = self.call_for(action)?;
        let path = fill(&call.path, variables).ok()?;
        // Only the body of a rung's call says what the call does.
        let is_rung = matches!(action, Action::Reset | Action::Force);
        let body = call.body.as_ref().filter(|_| is_rung);
        let body = body.map(|body| format!(" {body}").replace(&format!("\"{NULL}\""), "null"));
        let body = body.unwrap_or_default();
        let prefix = &self.service.prefix;
        Some(format!("{} {prefix}{path}{body}", call.method))
    }
}

/// Reads a microversion: `2.81`.
pub(super) fn microversion(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl RestCalls {
    /// Returns the microversion without which a cloud has no resources of the kind.
    pub(super) fn needed_version(&self) -> Option<(u32, u32)> {
        let own = self.api_version.as_ref();
        let needed = own.filter(|_| self.requires_api_version)?;
        microversion(needed.rsplit(' ').next()?)
    }

    /// Returns the call of an action; none if the kind has none.
    pub fn call_for(&self, action: Action) -> Option<&CallTemplate> {
        match action {
            Action::Delete | Action::Detach => self.delete.as_ref(),
            Action::Enable => self.enable.as_ref(),
            Action::Reset => self.reset.as_ref(),
            Action::Force => self.force.as_ref(),
            // OpenStack clears references by itself.
            Action::Unset => None,
        }
    }

    /// Returns the first rule that an answer matches.
    pub fn classify(&self, status: u16, error_type: &str, message: &str) -> Option<&AnswerRule> {
        self.answers.iter().find(|rule| {
            let (kind, text) = (rule.kind.as_deref(), rule.text.as_deref());
            rule.status.is_none_or(|wanted| wanted == status)
                && kind.is_none_or(|wanted| wanted == error_type)
                && text.is_none_or(|part| message.contains(part))
        })
    }

    /// Returns the error type with which the service refuses to delete a resource in use: the type for this kind of
    /// blocker, or else the only type.
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

    /// Whether an answer with this status, type and message says that this very resource does not exist (I13).
    pub fn is_not_found(
        &self,
        (status, error_type, message): (u16, &str, &str),
        variables: &BTreeMap<String, String>,
    ) -> bool {
        let says = |template: &String| fill(template, variables).is_ok_and(|text| text == message);
        status == 404
            && (self.not_found.iter().any(|known| known == error_type)
                || self.not_found_says.iter().any(says))
    }

    /// Returns the path prefixes under which clients find the resources.
    pub fn prefixes(&self) -> impl Iterator<Item = &String> {
        [&self.service.prefix]
            .into_iter()
            .chain(&self.service.also_at)
    }

    /// Returns how several values of this filter are sent.
    pub fn values_of(&self, filter: &str) -> FilterValues {
        match self.service.listed.iter().any(|listed| listed == filter) {
            true => FilterValues::Listed,
            false => self.service.values,
        }
    }

    /// Returns the query parameters with which one list asks for the rows that have one of these values of a filter.
    pub fn filter(
        &self,
        list: &ListCall,
        filter: &str,
        values: &[impl AsRef<str>],
    ) -> Vec<(String, String)> {
        let key = list.filters.get(filter).map_or(filter, String::as_str);
        let pair = |value: String| (key.to_owned(), value);
        let values = values.iter().map(AsRef::as_ref);
        match self.values_of(filter) {
            FilterValues::Listed => {
                let quoted: Vec<String> = values.map(quoted).collect();
                vec![pair(format!("in:{}", quoted.join(",")))]
            }
            FilterValues::Repeated | FilterValues::Single => {
                values.map(|value| pair(value.to_owned())).collect()
            }
        }
    }
}

/// Quotes a value for Glance, which reads a list of values: a comma outside quotes ends a value.
fn quoted(value: &str) -> String {
    match value.contains([',', '"', '\\']) {
        true => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
        false => value.to_owned(),
    }
}

impl ListCall {
    /// Returns the field that identifies a row.
    pub fn row_id(&self) -> &str {
        self.id_in.as_deref().unwrap_or("id")
    }

    /// Returns the options that the lists of few services need.
    pub fn options(&self) -> ListOptions<'_> {
        let some = |map: &'_ BTreeMap<String, String>| !map.is_empty();
        ListOptions {
            markers: Some(&self.markers).filter(|it| some(it)),
            otherwise: Some(&self.otherwise).filter(|it| some(it)),
            none_if_absent: self.none_if_absent,
        }
    }

    /// Returns the path below which each resource is read, and at which it is created.
    pub fn collection(&self) -> &str {
        let parent = self.one.as_ref().and_then(|one| one.rsplit_once('/'));
        parent.map_or(&*self.path, |(parent, _)| parent)
    }

    /// Whether the row says that its resource is gone.
    pub fn shows_absence(&self, row: &Value) -> bool {
        !self.absent.is_empty() && holds(&self.absent, row)
    }
}

impl CallTemplate {
    fn variables(&self) -> Vec<String> {
        let mut names: Vec<String> = variables(&self.path).map(str::to_owned).collect();
        let mut rest: Vec<&Value> = self.body.iter().collect();
        while let Some(value) = rest.pop() {
            match value {
                Value::String(text) if text == NULL => {}
                Value::String(text) => names.extend(variables(text).map(str::to_owned)),
                Value::Array(elements) => rest.extend(elements),
                Value::Object(fields) => rest.extend(fields.values()),
                _ => {}
            }
        }
        names
    }
}

impl Created {
    /// Returns the ids under which a call creates resources, from the variables of its path and from its body
    /// or its answer.
    pub fn ids(&self, variables: &BTreeMap<String, String>, body: &Value) -> Vec<String> {
        let elements = match &self.each {
            Some(each) => values(body, &format!("{each}[]")),
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

fn validate_method(field: &str, method: &String) -> Result<(), String> {
    const METHODS: [&str; 4] = ["DELETE", "PUT", "POST", "PATCH"];
    if METHODS.contains(&method.as_str()) {
        return Ok(());
    }
    Err(format!(
        "{field}.method: \"{method}\" is not one of {}{}",
        METHODS.join(", "),
        did_you_mean(method, METHODS)
    ))
}

fn validate_variables<'n>(
    kind: &Kind,
    field: &str,
    mut names: impl Iterator<Item = &'n str>,
) -> Result<(), String> {
    match names.find(|name| !kind.variables().any(|known| known == *name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "{field}: no variable \"{{{name}}}\"{}",
            did_you_mean(name, kind.variables())
        )),
    }
}

/// Checks that `created` names every part of the kind's id.
fn validate_created(spec: &KindSpec, created: &Created) -> Result<(), String> {
    validate_method("call.created", &created.method)?;
    let listed = spec.list.as_ref().map(|list| list.id.len());
    let derived = spec.derived.as_ref().map(|derived| derived.id.len());
    let parts = listed.or(derived).unwrap_or_default();
    if created.id.len() != parts {
        return Err(format!(
            "call.created.id must name all {parts} parts of the kind's id"
        ));
    }
    let known: Vec<&str> = variables(&created.path).collect();
    let mut named = created.id.iter().flat_map(|part| variables(part));
    match named.find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "call.created.id: no variable \"{{{name}}}\" in its path{}",
            did_you_mean(name, known)
        )),
    }
}

/// Refuses a rule that is never reached, because an earlier one matches the same answers.
fn validate_answers(answers: &[AnswerRule]) -> Result<(), String> {
    for (at, rule) in answers.iter().enumerate() {
        let earlier = answers.get(..at).unwrap_or_default();
        if earlier.iter().any(|wider| covers(wider, rule)) {
            return Err(format!(
                "call.answer: the rule for status {}, type {}, text {} is never read: an earlier rule \
                 matches the same answers",
                rule.status.map_or("any".to_owned(), |it| it.to_string()),
                rule.kind.as_deref().unwrap_or("any"),
                rule.text.as_deref().unwrap_or("any"),
            ));
        }
    }
    Ok(())
}

fn covers(wider: &AnswerRule, rule: &AnswerRule) -> bool {
    let text = match (&wider.text, &rule.text) {
        (None, _) => true,
        (Some(part), Some(whole)) => whole.contains(part.as_str()),
        (Some(_), None) => false,
    };
    text && (wider.status.is_none() || wider.status == rule.status)
        && (wider.kind.is_none() || wider.kind == rule.kind)
}
