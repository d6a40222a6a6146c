//! What a kinds file says, field by field.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::model::{KindName, PlanOptions};

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
    /// Replaces the kind of the same name that an earlier file defines.
    #[serde(default, rename = "override")]
    pub overrides: bool,
    #[serde(default)]
    pub aliases: Vec<String>,
    /// How its ids are spelled in a path (T22).
    #[serde(default)]
    pub ids: IdSpelling,
    /// How it is listed; a kind has this, `derived` or `native`.
    pub list: Option<ListSpec>,
    pub derived: Option<DerivedSpec>,
    /// Kept in the registry of a deployment; how it is listed and deleted follows from that.
    pub native: Option<NativeSpec>,
    /// A kind has this, or `stays`; or both, where `goes_with` says when it does not stay.
    pub delete: Option<CallTemplate>,
    /// The call where the row holds more of these, and `delete` would take them all (N17). It does not name
    /// the row, so this is read just before: that it still holds the planned one (I10).
    pub delete_one: Option<CallTemplate>,
    /// Why it is not deleted itself.
    pub stays: Option<String>,
    /// The plan option with which it is deleted all the same, after all that belongs to it.
    pub goes_with: Option<PlanOption>,
    /// Why one that its service does not know is a target all the same, while something belongs to it: what a
    /// deleted project has left behind.
    pub unknown: Option<String>,
    /// The same in all regions of a cloud: to name it is to name it in each.
    #[serde(default)]
    pub in_all_regions: bool,
    #[serde(default)]
    pub action: ActionWord,
    pub settles: Option<Settles>,
    pub runbook: Option<Runbook>,
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
    /// Fields of a request's body that name a resource, beside the references: field → kinds (T17).
    #[serde(default)]
    pub names: BTreeMap<String, Vec<KindName>>,
    /// For ids that may be given again: the calls that create one under its id (M6).
    #[serde(default)]
    pub created: Vec<Created>,
    pub requires_extension: Option<String>,
    /// For ids that may be given again (image and project): a field that is another's then. It is read
    /// just before the call (I10).
    pub incarnation: Option<String>,
    /// Where a row says what it serves (`device_owner`): a change of that is drift (P1).
    pub owner: Option<String>,
    /// How "deleting" is shown to readers: field → value; if not as the file says for all its kinds.
    #[serde(default)]
    pub deleting: BTreeMap<String, String>,
    /// Fields that the cloud shows to admins alone.
    #[serde(default)]
    pub admin_fields: Vec<String>,
    /// For browsing: heading and path, left to right.
    #[serde(default)]
    pub columns: Vec<(String, String)>,
}

/// How the ids of a kind are spelled in a path. A service may read other spellings as the same id (another
/// case, a suffix, blanks or accents that its database folds): a gate forwards none of these (T22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdSpelling {
    /// Lower-case letters, digits, `-` and `_`, none of them percent-encoded: UUIDs and the like.
    #[default]
    Plain,
    /// Free text, which the service compares byte by byte.
    Text,
}

impl IdSpelling {
    /// Whether `raw`, one part of a path as it came, is the one spelling of an id.
    pub fn is_canonical(self, raw: &str) -> bool {
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        match self {
            Self::Plain => raw.bytes().all(plain),
            Self::Text => true,
        }
    }
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
    /// Filters that are sent with every list: what it leaves out without them.
    #[serde(default)]
    pub always: BTreeMap<String, String>,
    /// The filter that finds what has one of several tags; none where rows have no tags.
    pub tagged: Option<String>,
    /// Who may not have the list is shown the one resource that the login is for: its own project.
    #[serde(default)]
    pub own_only: bool,
    /// Whether a list may be asked for by project. Neutron makes a default group for each project that a
    /// list of groups is asked for, also for one that is no more.
    #[serde(default = "yes")]
    pub by_project: bool,
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

/// A kind of our own: its resources are in no cloud, but in the registry of the deployment that offers
/// its service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeSpec {
    /// What one may say beside its id, `name`, `project_id` and `tags`.
    #[serde(default)]
    pub fields: BTreeMap<String, FieldSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldSpec {
    /// There is none without it: it cannot be unset.
    #[serde(default)]
    pub required: bool,
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

/// What a person does by hand when no call helps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runbook {
    /// Parts of the type or message of the errors that it is for.
    pub says: Vec<String>,
    /// With `{id}`, `{name}`, `{project}`, `{site}` and `{step}`. A name is hostile text: it stands in no
    /// command.
    pub text: String,
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

/// A call that creates resources of a kind whose ids may be given again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Created {
    pub method: String,
    /// With variables, for parts of the id.
    pub path: String,
    /// An array in the body, each of whose elements creates one.
    pub each: Option<String>,
    /// The parts of the id: a `{variable}` of the path, or a path in the body; in the element under
    /// `each.`.
    pub id: Vec<String>,
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
    /// Only for a login without this role.
    pub unless_role: Option<String>,
    /// What was done then, as the plan says it: `port web` is *enabled* first.
    #[serde(default = "enabled")]
    pub word: String,
    /// What the plan says of it.
    pub why: String,
}

fn enabled() -> String {
    "enabled".into()
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
    /// Only to such targets.
    #[serde(default)]
    pub to_when: BTreeMap<String, OneOf>,
    pub on_delete: OnDelete,
    /// With `unset`: only a part is lost (one address of several). Whatever else the resource points at, it
    /// still holds (N18).
    #[serde(default)]
    pub partial: bool,
    /// It belongs to a service that made it for the target, in a project of the service's own: that project
    /// is no reason to refuse (N20).
    #[serde(default)]
    pub of_service: bool,
    /// Unset or deleted after what it points at was accepted for deletion, by a deletion of its own (G3).
    #[serde(default)]
    pub asynchronous: bool,
    /// Without it the whole collection is listed.
    pub find: Option<Find>,
    /// Each referrer shows itself as a resource of this kind too, which goes along with it (a balancer by its
    /// VIP's port). Whoever may not list the referrers sees by these whether there are any.
    pub shown_by: Option<KindName>,
    /// Between the two names in the plan's reasons: `port a` *on* `network web`.
    pub says: String,
    /// With this plan option, what would be unset is deleted.
    pub released_by: Option<PlanOption>,
    /// A kind of edge in this row: with it gone, the row refers no more, and stays.
    pub unpinned_by: Option<KindName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanOption {
    ReleaseFloatingIps,
    IncludePublic,
    WithProject,
}

impl PlanOption {
    pub fn is_given(self, options: PlanOptions) -> bool {
        match self {
            Self::ReleaseFloatingIps => options.release_floating_ips,
            Self::IncludePublic => options.include_public,
            Self::WithProject => options.with_project,
        }
    }
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl OnDelete {
    /// As the files write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Cascade => "cascade",
            Self::Automatic => "automatic",
            Self::WithCascade => "with_cascade",
            Self::Unset => "unset",
            Self::Dangling => "dangling",
        }
    }
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
    /// And only while that is so.
    #[serde(default)]
    pub left_while: BTreeMap<String, OneOf>,
    /// It only stays there: whoever names the resource itself may delete it.
    #[serde(default)]
    pub only_left: bool,
    /// The plan option with which the rule does not hold.
    pub unless: Option<PlanOption>,
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
