//! The fields of a kinds file.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::model::{KindName, PlanOptions};

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
    /// How its rows are read; a kind has this, `derived` or `native`.
    pub list: Option<ListSpec>,
    pub derived: Option<DerivedSpec>,
    /// Its resources are kept in the registry of a deployment; how they are listed and deleted follows from
    /// that.
    pub native: Option<NativeSpec>,
    /// How its provider lists and deletes it, in the provider's own words; a native kind has none.
    pub call: Option<IgnoredAny>,
    /// Why it is not deleted itself. A kind has this or a delete call; with `goes_with`, which says when it does
    /// not stay, it has both.
    pub stays: Option<String>,
    /// The plan option with which it is deleted too, after everything that belongs to it.
    pub goes_with: Option<PlanOption>,
    /// Why a resource that its service does not know can still be a target while something belongs to it:
    /// what a deleted project has left behind.
    pub unknown: Option<String>,
    /// Whether a resource is the same in all regions of a cloud: naming it names it in each.
    #[serde(default)]
    pub in_all_regions: bool,
    #[serde(default)]
    pub action: ActionWord,
    pub settles: Option<Settles>,
    pub runbook: Option<Runbook>,
    pub enable: Option<EnableSpec>,
    #[serde(default, rename = "reference")]
    pub references: Vec<Reference>,
    /// Whether it has the reference to its project that the file gives for its kinds.
    #[serde(default)]
    pub in_project: bool,
    #[serde(default)]
    pub takes: Vec<Takes>,
    #[serde(default, rename = "guard")]
    pub guards: Vec<GuardRule>,
    /// Fields of a request's body that name a resource, beside the references: field → kinds (T17).
    #[serde(default)]
    pub names: BTreeMap<String, Vec<KindName>>,
    /// For ids that may be used again (image and project): a field that differs then. It is read just before
    /// the call (I10).
    pub incarnation: Option<String>,
    /// The field of a row that says what it serves (`device_owner`); a change of it is drift (P1).
    pub owner: Option<String>,
    /// How readers are shown that it is being deleted: field → value; empty if the file says it for all its
    /// kinds.
    #[serde(default)]
    pub deleting: BTreeMap<String, String>,
    /// Fields that the cloud shows only to admins.
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
    /// Whether `raw`, one part of a path as it came, is the canonical spelling of an id.
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
    /// The fields of a row that planning needs, requested with `fields=`; empty if the service does not
    /// support that.
    #[serde(default)]
    pub fields: Vec<String>,
    /// The fields that form the id, joined by commas; they are variables of the templates too.
    #[serde(default = "id_fields")]
    pub id: Vec<String>,
    /// The path of the shown name, if not `name`.
    #[serde(default = "name_field")]
    pub name: String,
    /// The path of the project's id, and the cloud's filter for it, if not `project_id`.
    #[serde(default = "project_field")]
    pub project: String,
    /// The path of the time of creation.
    #[serde(default = "created_field")]
    pub created: String,
    /// The path of the tags.
    #[serde(default = "tags_field")]
    pub tags: String,
    /// The filter without which the kind is not listed: it stands in the path (`/images/{image_id}/members`),
    /// and is the first part of the id.
    pub within: Option<String>,
    /// The filter that finds resources with one of several tags; none if rows have no tags.
    pub tagged: Option<String>,
    /// Whether a login that may not list is shown the one resource that it is for: its own project.
    #[serde(default)]
    pub own_only: bool,
    /// Whether the kind may be listed by project. Neutron creates a default group for each project by which
    /// groups are listed, also for one that no longer exists.
    #[serde(default = "yes")]
    pub by_project: bool,
    /// Whether the cloud filters by the id; otherwise each resource is read by itself.
    #[serde(default = "yes")]
    pub by_id: bool,
    /// A field that never changes, that the cloud filters by, and that names what a row is part of. When that
    /// goes with all its rows, one list by this field observes all of them (N14).
    pub scope: Option<String>,
}

fn id_fields() -> Vec<String> {
    vec!["id".into()]
}

fn name_field() -> String {
    "name".into()
}

fn created_field() -> String {
    "created_at".into()
}

fn tags_field() -> String {
    "tags[]".into()
}

fn project_field() -> String {
    "project_id".into()
}

fn yes() -> bool {
    true
}

/// A native kind: its resources are in no cloud, but in the registry of the deployment that offers its
/// service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeSpec {
    /// The fields of a resource beside its id, `name`, `project_id` and `tags`.
    #[serde(default)]
    pub fields: BTreeMap<String, FieldSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldSpec {
    /// Whether every resource must have it, so that it cannot be unset.
    #[serde(default)]
    pub required: bool,
}

/// A delete that the cloud accepts and then works on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settles {
    /// The field of a row that shows its state.
    pub field: String,
    /// Values of the field while it goes on.
    pub pending: Vec<String>,
    /// Values of the field when it has failed.
    pub failed: Vec<String>,
    /// After how many minutes a person is told that it takes long, by `warning`.
    pub minutes_warn: u64,
    pub warning: String,
    /// How many minutes it may go on, if nothing else is configured (I6).
    pub minutes_max: u64,
}

/// The manual steps for a person when no call helps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runbook {
    /// Texts in the type or message of the errors that it is for.
    pub says: Vec<String>,
    /// The steps, with `{id}`, `{name}`, `{project}`, `{site}` and `{step}`. A name is hostile text: it must
    /// not stand in a command.
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
    /// Variable → path; one in the element begins with `each.`. One of the paths is `id`, the parent's.
    pub set: BTreeMap<String, String>,
    /// Whether the row is this edge, and not a resource of its own kind (a router's interface port).
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionWord {
    #[default]
    Delete,
    Detach,
}

/// A call that must come before the delete.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnableSpec {
    pub when: BTreeMap<String, OneOf>,
    /// If set, the call is only for a login without this role.
    pub unless_role: Option<String>,
    /// The word of the plan for what was done: `port web` is *enabled* first.
    #[serde(default = "enabled")]
    pub word: String,
    /// The reason that the plan gives.
    pub why: String,
}

fn enabled() -> String {
    "enabled".into()
}

/// A reference of this kind's resources, and what becomes of them when its target goes.
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
    /// The reference leads only to targets for which this holds.
    #[serde(default)]
    pub to_when: BTreeMap<String, OneOf>,
    pub on_delete: OnDelete,
    /// With `unset`: the resource loses only a part (one address of several), and still holds its other
    /// targets (N18).
    #[serde(default)]
    pub partial: bool,
    /// Whether a service made the resource for the target, in a project of its own: that project is no reason
    /// to refuse (N20).
    #[serde(default)]
    pub of_service: bool,
    /// Whether the resource is unset or deleted by a deletion of its own, after the target was accepted for
    /// deletion (G3).
    #[serde(default)]
    pub asynchronous: bool,
    /// The filter that finds the referrers; without it the whole collection is listed.
    pub find: Option<Find>,
    /// Each referrer also shows in a resource of this kind, which goes along with it (a load balancer in its
    /// VIP's port). A login that may not list the referrers learns from these whether there are any.
    pub shown_by: Option<KindName>,
    /// The words between the two names in the plan's reasons: `port a` *on* `network web`.
    pub says: String,
    /// The plan option with which the referrer is deleted instead of unset.
    pub released_by: Option<PlanOption>,
    /// The kind of an edge in this row. Without the edge, the row no longer refers to the target, and stays.
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
    /// A prefix that is removed from the referrer's value; a value without it does not refer.
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
    /// Only targets for which this holds have referrers of this kind.
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
    /// The referrer must be gone before, and does not go along.
    Block,
    /// The referrer goes first.
    Cascade,
    /// The cloud removes the referrer along with the target.
    Automatic,
    /// The same if the delete call says so, since a cascade was requested; otherwise it blocks.
    WithCascade,
    /// The referrer stays, and the reference is cleared.
    Unset,
    /// The reference stays and points at nothing.
    Dangling,
}

impl OnDelete {
    /// Returns the word that the files use.
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
    /// Path to the ids of the resources that go along.
    pub field: String,
    pub says: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardRule {
    pub when: BTreeMap<String, OneOf>,
    pub reason: String,
    /// The kind of a resource to which this one belongs: when that goes, this one stays, and does not refuse
    /// the deletion.
    pub left_in: Option<KindName>,
    /// It stays only while this holds for that resource.
    #[serde(default)]
    pub left_while: BTreeMap<String, OneOf>,
    /// The guard only makes it stay there; as a target itself, the resource may be deleted.
    #[serde(default)]
    pub only_left: bool,
    /// The plan option with which the rule does not apply.
    pub unless: Option<PlanOption>,
}
