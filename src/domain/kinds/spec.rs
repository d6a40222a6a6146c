//! The fields of a kinds file.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::domain::model::{Action, KindName, PlanOptions};

/// One kind of a kinds file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KindSpec {
    /// Whether this kind replaces the kind of the same name that an earlier file defines.
    #[serde(rename = "override")]
    pub overrides: bool,
    pub aliases: Vec<String>,
    /// How the kind's ids are spelled in a path (T22).
    pub ids: IdSpelling,
    /// How the kind's rows are listed. A kind has exactly one of `list`, `derived` and `native`.
    pub list: Option<ListSpec>,
    pub derived: Option<DerivedSpec>,
    /// The kind's resources are kept in the registry of a deployment. How they are listed and deleted follows
    /// from this.
    pub native: Option<NativeSpec>,
    /// How the provider lists and deletes the kind's resources, in the provider's own words. A native kind
    /// has none.
    pub call: Option<IgnoredAny>,
    /// Why a resource of the kind is not deleted itself. A kind has either `stays` or a delete call, or both if it has
    /// `goes_with`. A kind whose resources the cloud removes with their parent may have neither.
    pub stays: Option<String>,
    /// The plan option with which the resource is deleted too, after everything that belongs to it.
    pub goes_with: Option<PlanOption>,
    /// Why a resource that its service does not know can still be a target while other resources belong to
    /// it, such as a deleted project whose resources still exist.
    pub unknown: Option<String>,
    /// Whether a resource is the same in all regions of a cloud, so that a target names it in every region.
    pub in_all_regions: bool,
    pub action: ActionWord,
    pub settles: Option<Settles>,
    pub runbook: Option<Runbook>,
    /// The cloud's own calls for a resource whose step is stuck or blocked.
    #[serde(rename = "rung")]
    pub rungs: Vec<RungRule>,
    pub enable: Option<EnableSpec>,
    #[serde(rename = "reference")]
    pub references: Vec<Reference>,
    /// Whether the kind has the reference to its project that the file gives for its kinds.
    pub in_project: bool,
    pub takes: Vec<Takes>,
    #[serde(rename = "guard")]
    pub guards: Vec<GuardRule>,
    /// Warnings that a plan gives about resources that it deletes.
    #[serde(rename = "remark")]
    pub remarks: Vec<Remark>,
    /// Fields of a request's body that name a resource, in addition to the references: field → kinds (T17).
    pub names: BTreeMap<String, Vec<KindName>>,
    /// For ids that may be used again (images and objects): the field that differs for a re-created resource.
    /// The field is read just before the call (I10).
    pub incarnation: Option<String>,
    /// Fields of a row that the templates of the kind's calls may name. A field without a value is an empty text.
    pub passes: Vec<String>,
    /// The field of a row that says what the resource serves (`device_owner`). A change of it is drift (P1).
    pub owner: Option<String>,
    /// How readers are shown that a resource is being deleted: field → value. The file's `defaults.deleting` replaces
    /// an empty map.
    pub deleting: BTreeMap<String, String>,
    /// Fields that the cloud shows only to admins.
    pub admin_fields: Vec<String>,
    /// The columns of a list for people: heading and path of each, left to right.
    pub columns: Vec<(String, String)>,
    /// Paths of a row, beyond those of its references, that have ids of resources of another kind.
    pub shows: BTreeMap<String, KindName>,
    /// Whether a cloud has so few resources of the kind that all of them may be listed to name some.
    pub few: bool,
    /// The resources of other kinds that rows of this kind stand for, because a service made them.
    pub made: Option<MadeSpec>,
}

/// How rows name resources that a service made, and deletes with these rows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeSpec {
    /// The path of a row to the type of the made resources, one of the keys of `kinds`.
    #[serde(rename = "type")]
    pub of_type: String,
    /// The path of a row to the ids of the made resources.
    pub ids: String,
    /// The service does not delete the made resources while the row meets this condition.
    #[serde(default)]
    pub kept_when: BTreeMap<String, OneOf>,
    pub kinds: BTreeMap<String, MadeKind>,
}

/// The kind of the resources of one type that a service made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeKind {
    pub kind: KindName,
    /// The fields of a made resource's row whose values are among the ids at [`MadeSpec::ids`].
    #[serde(default = "id_fields")]
    pub by: Vec<String>,
    /// The filter that finds the rows of made resources. By default `id`, if the cloud has that filter; otherwise all
    /// rows of the kind are listed.
    pub find: Option<String>,
}

/// How the ids of a kind are spelled in a path. A service may read other spellings as the same id: another
/// case, a suffix, or blanks and accents that its database ignores. A gate forwards none of these
/// other spellings (T22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdSpelling {
    /// Lower-case letters, digits, `-` and `_`, none of them percent-encoded: UUIDs and the like.
    #[default]
    Plain,
    /// UUIDs. The service refuses a search by id for any other word, so such a word can only be a name.
    Uuid,
    /// Free text, which the service compares byte by byte.
    Text,
}

impl IdSpelling {
    /// Whether `raw`, one part of a path as the client sent it, is the canonical spelling of an id.
    pub fn is_canonical(self, raw: &str) -> bool {
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        match self {
            Self::Plain | Self::Uuid => raw.bytes().all(plain),
            Self::Text => true,
        }
    }

    /// Whether a word that a person wrote may be an id.
    pub fn may_be(self, word: &str) -> bool {
        match self {
            Self::Plain | Self::Text => true,
            Self::Uuid => word.len() == 36 && Uuid::try_parse(word).is_ok(),
        }
    }
}

/// How the rows of a kind are listed, and which of their fields have the values that gone needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListSpec {
    /// The fields of a row that planning needs, requested with `fields=`. Empty if the service does not
    /// support that.
    pub fields: Vec<String>,
    /// The fields that form the id, joined by `separator`. They are also variables of the templates.
    pub id: Vec<String>,
    /// The separator of the id's fields; a comma if not set. If it is set, only the last field, which is free text, may
    /// contain it.
    pub separator: Option<String>,
    /// The path of the shown name, if not `name`.
    pub name: String,
    /// The path of the project's id, if not `project_id`.
    pub project: String,
    /// The cloud's filter for the project's id, if its name differs from the path.
    pub project_filter: Option<String>,
    /// The path of the field that has the time of creation.
    pub created: String,
    /// The path of the field that has the tags.
    pub tags: String,
    /// The filter without which the kind is not listed. It is a part of the path
    /// (`/images/{image_id}/members`), and the first part of the id.
    pub within: Option<String>,
    /// The filter that finds resources with one of several tags; none if rows have no tags.
    pub tagged: Option<String>,
    /// Whether a login that may not list sees exactly one resource: its own project.
    pub own_only: bool,
    /// Whether a list shows a login the rows of its own project alone, whatever its role. Rows need not name the
    /// project. A plan for another project says that the kind was not listed.
    pub own_project: bool,
    /// Whether the kind may be listed by project. Some services have no filter by project, and in Neutron the filter
    /// creates the project's default security group, even for a project that no longer exists.
    pub by_project: bool,
    /// Whether the cloud can filter by the id. If not, each resource is read by itself.
    pub by_id: bool,
    /// A field that never changes, that the cloud filters by, and that names the parent of a row. When the
    /// parent is deleted with all its rows, one list by this field observes all of them (N14).
    pub scope: Option<String>,
}

impl Default for ListSpec {
    fn default() -> Self {
        Self {
            fields: Vec::new(),
            id: id_fields(),
            separator: None,
            name: "name".to_owned(),
            project: "project_id".to_owned(),
            project_filter: None,
            created: "created_at".to_owned(),
            tags: "tags[]".to_owned(),
            within: None,
            tagged: None,
            own_only: false,
            own_project: false,
            by_project: true,
            by_id: true,
            scope: None,
        }
    }
}

impl ListSpec {
    /// Returns the separator between the fields of an id.
    pub fn separator(&self) -> &str {
        self.separator.as_deref().unwrap_or(",")
    }

    /// Returns the filter for the resources of a project.
    pub fn project_filter(&self) -> &str {
        self.project_filter.as_deref().unwrap_or(&self.project)
    }
}

fn id_fields() -> Vec<String> {
    vec!["id".into()]
}

/// A native kind: its resources are in no cloud, but in the registry of the deployment that offers its
/// service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NativeSpec {
    /// The fields of a resource in addition to those of every native resource (`id`, `name`, `project_id`, `tags`,
    /// `status`, `incarnation`, `created_at`, `updated_at`).
    pub fields: BTreeMap<String, FieldSpec>,
}

/// A field of a native kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FieldSpec {
    /// Whether every resource must have the field, so that it cannot be unset.
    pub required: bool,
}

/// How a row shows a delete that the cloud accepts and then works on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settles {
    /// The field of a row that shows whether a delete is in progress or has failed.
    pub field: String,
    /// Values of the field while the delete is in progress.
    pub pending: Vec<String>,
    /// Values of the field when the delete has failed.
    pub failed: Vec<String>,
    /// Whether a row shows a pending or a failed delete as soon as the cloud has accepted it. A resource whose later
    /// row shows neither was put back: the delete has failed.
    #[serde(default)]
    pub at_once: bool,
    /// The path of the resource's state, if `field` is about the delete alone.
    pub state: Option<String>,
    /// The path of the cloud's reason for a failed delete.
    pub cause: Option<String>,
    /// After how many minutes a person is warned, with the text of `warning`, that the delete takes long.
    pub minutes_warn: u64,
    pub warning: String,
    /// For how many minutes the delete may be in progress, if nothing else is configured (I6).
    pub minutes_max: u64,
    /// The interval, in minutes, at which the delete is sent again while it is in progress. Only for a cloud in which
    /// a repeated delete does no harm.
    pub minutes_again: Option<u64>,
}

/// A rung of the purge ladder that sends a call of the kind (P3).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RungRule {
    /// `reset` or `force`.
    pub call: Action,
    /// The states of a row for which the call is meant.
    pub when: BTreeMap<String, OneOf>,
    /// The role without which the cloud refuses the call.
    pub role: Option<String>,
    /// What the call may destroy, in words for a person.
    pub risk: String,
}

/// The manual steps for a person when no call helps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runbook {
    /// Texts in the type or message of the errors that the runbook is for.
    pub says: Vec<String>,
    /// The steps, with `{id}`, `{name}`, `{project}`, `{site}` and `{step}`. A name is hostile text, so no
    /// command may contain it.
    pub text: String,
}

/// How the resources of a derived kind are found in the rows of a listed kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DerivedSpec {
    /// The listed kind in whose rows resources of the derived kind are found.
    pub from: KindName,
    #[serde(default)]
    pub when: BTreeMap<String, OneOf>,
    /// An array in the row, with one resource for each element. Without it, the row itself is the only
    /// element.
    pub each: Option<String>,
    /// The paths whose values, joined by commas, are the composite id.
    pub id: Vec<String>,
    /// Variable → path. A path within the element begins with `each.`. One of the paths is `id`, the parent's
    /// id.
    pub set: BTreeMap<String, String>,
    /// Whether the row is this edge, and not a resource of the listed kind (a router's interface port).
    #[serde(default)]
    pub replaces: bool,
    /// The filter that finds the parent's row by the first part of the composite id.
    pub find_by: String,
    pub join: Option<Join>,
}

/// Copies the fields `take` from the row of another kind whose id is in the field `by`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    pub kind: KindName,
    pub by: String,
    pub take: Vec<String>,
}

/// The values that a condition accepts for a path.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOf {
    Any(Vec<Value>),
    One(Value),
}

/// What the delete call of a kind does.
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
    /// The plan's word for what the call does: `port web` is *enabled* first.
    #[serde(default = "enabled")]
    pub word: String,
    /// The reason that the plan gives.
    pub why: String,
}

fn enabled() -> String {
    "enabled".into()
}

/// A reference of this kind's resources, and what happens to them when its target is deleted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub to: KindName,
    /// The path of the target's id in a row; short for `match = [{ field = "…", equals = "id" }]`.
    pub field: Option<String>,
    #[serde(default, rename = "match")]
    pub matches: Vec<Match>,
    #[serde(default)]
    pub when: BTreeMap<String, OneOf>,
    /// A condition on the target. The reference exists only to a target that meets it.
    #[serde(default)]
    pub to_when: BTreeMap<String, OneOf>,
    pub on_delete: OnDelete,
    /// With `unset`: whether the resource loses only a part (one address of several), and still blocks its
    /// other targets (N18).
    #[serde(default)]
    pub partial: bool,
    /// Whether the resource is deleted after its target if both are deleted, because the target's own deletion may
    /// take the resource along. With `unset`, the resource stays if no step deletes it. With `automatic`, the cloud
    /// decides whether to delete it with the target, and the plan does not delete the resource's dependents.
    #[serde(default)]
    pub after: bool,
    /// Whether a service made the resource for the target, in a project of its own. A plan is not refused
    /// because of that project (N20).
    #[serde(default)]
    pub of_service: bool,
    /// Whether the reference follows from `made` in the target's kind. The plan also deletes the dependents that block
    /// the deletion of the resource.
    #[serde(skip)]
    pub made: bool,
    /// Whether the resource is unset or deleted by a deletion of its own, after the target was accepted for
    /// deletion (G3).
    #[serde(default)]
    pub asynchronous: bool,
    /// The filter that finds the referrers. Without one, the whole collection is listed. For a kind with
    /// `list.within`, the lists that other references request show the referrers.
    pub find: Option<Find>,
    /// The kind in which each referrer also shows, and whose resources are deleted with it (a load balancer
    /// shows in its VIP's port). A login that may not list the referrers learns from the resources of this kind whether
    /// there are any referrers.
    pub shown_by: Option<KindName>,
    /// The words between the two names in the plan's reasons: `port a` *on* `network web`.
    pub says: String,
    /// The plan option with which the referrer is deleted instead of unset.
    pub released_by: Option<PlanOption>,
    /// The plan option without which the reference does not count.
    pub only_with: Option<PlanOption>,
    /// The kind of an edge in the referrer's row. Once the edge is removed, the referrer no longer refers to the
    /// target, and stays.
    pub unpinned_by: Option<KindName>,
}

/// An option of a plan, as kinds files write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanOption {
    #[serde(rename = "release_floating_ips")]
    DeleteDetached,
    IncludePublic,
    WithProject,
    WithServers,
}

impl PlanOption {
    pub fn is_given(self, options: PlanOptions) -> bool {
        match self {
            Self::DeleteDetached => options.delete_detached,
            Self::IncludePublic => options.include_public,
            Self::WithProject => options.with_project,
            Self::WithServers => options.with_servers,
        }
    }
}

/// A rule that compares a value of the referrer with a value of the target.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// Path in the referrer.
    pub field: String,
    /// A prefix that is removed from the referrer's value. A value without it refers to nothing.
    pub strip_prefix: Option<String>,
    /// Whether the referrer's value is a URL, of which the last segment counts.
    #[serde(default)]
    pub last_segment: bool,
    /// Path in the target; `id` means the target's id.
    pub equals: Option<String>,
    /// Path in the target to a network in CIDR notation.
    pub in_cidr: Option<String>,
    /// Path in the target to a domain name. The referrer's value is a name below it.
    pub below: Option<String>,
}

/// The filter of a list that finds the referrers of a target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// The query parameter.
    pub key: String,
    /// The parameter's value, with `{}` for the target's value.
    #[serde(default = "braces")]
    pub value: String,
    /// Path in the target; `id` means the target's id.
    #[serde(default = "id_path")]
    pub of: String,
    /// A condition on the target. Only a target that meets it has referrers of this kind.
    #[serde(default)]
    pub when: BTreeMap<String, OneOf>,
    /// Whether all referrers are in the target's own scope, because their rows and the target's have the same value in
    /// the referrers' `list.scope` field: a subnet's ports are on the subnet's network. Where that scope is listed, the
    /// filter finds nothing more.
    #[serde(default)]
    pub in_scope: bool,
}

fn braces() -> String {
    "{}".into()
}

fn id_path() -> String {
    "id".into()
}

/// The action on a referrer when the target of its reference is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnDelete {
    /// The referrer is not deleted by this deletion, and must be gone before its target is deleted.
    Block,
    /// With a cascade, the referrer is deleted too, before its target unless `after` or `asynchronous` says otherwise;
    /// without one, it blocks the target.
    Cascade,
    /// The cloud removes the referrer along with the target.
    Automatic,
    /// With a cascade, the target's delete call makes the cloud remove the referrer along with the target; without one,
    /// the referrer blocks the target.
    WithCascade,
    /// The referrer stays, and the reference is cleared.
    Unset,
    /// The reference stays and points at nothing.
    Dangling,
}

impl OnDelete {
    /// Returns the word that kinds files use.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Resources that a cascade deletes together with a resource of the kind, after it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Takes {
    pub kind: KindName,
    /// Path to the ids of the resources that are deleted with this one.
    pub field: String,
    pub says: String,
}

/// A warning that a plan gives once, for all the kind's resources that it deletes and whose rows meet a condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remark {
    pub when: BTreeMap<String, OneOf>,
    pub says: String,
}

/// A rule by which a resource of the kind is never deleted, in addition to the protection in the settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardRule {
    pub when: BTreeMap<String, OneOf>,
    pub reason: String,
    /// The kind of a parent. When the parent is deleted, the guard keeps this resource and does not refuse
    /// the deletion.
    pub left_in: Option<KindName>,
    /// A condition on the parent. The resource stays only while the parent meets it.
    #[serde(default)]
    pub left_while: BTreeMap<String, OneOf>,
    /// Whether the guard applies only when the parent is deleted. As a target itself, the resource may be
    /// deleted.
    #[serde(default)]
    pub only_left: bool,
    /// The plan option with which the guard does not apply.
    pub unless: Option<PlanOption>,
    /// The plan option without which the guard does not apply.
    pub only_with: Option<PlanOption>,
    /// Paths to the ids of the resources that use this one, or to URLs that end with the ids. The guard does not
    /// apply if there are such resources and all of them are deleted too.
    #[serde(default)]
    pub users: Vec<String>,
}
