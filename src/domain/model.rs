//! The data model that all modules but `sandbox` share, in the shapes that the HTTP API serves.
//!
//! Times are UTC and RFC 3339 in JSON. Everything that comes from a cloud (ids, names, messages)
//! is hostile text: it is kept verbatim here and escaped where it is shown ([`super::text`]).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::text::escape;

/// Where a resource is: a region of a cloud, or a deployment.
///
/// Written `cloud/region`, or the bare name of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    Region { cloud: Arc<str>, region: Arc<str> },
    Deployment { name: Arc<str> },
}

impl Site {
    pub fn region(cloud: &str, region: &str) -> Self {
        Self::Region {
            cloud: cloud.into(),
            region: region.into(),
        }
    }

    /// Returns the cloud of a region; none for a deployment. A project has the same id in all regions of its cloud.
    pub fn cloud(&self) -> Option<&str> {
        match self {
            Self::Region { cloud, .. } => Some(cloud),
            Self::Deployment { .. } => None,
        }
    }

    /// Returns the cloud and the region as people choose them; a deployment counts as a cloud without regions.
    pub fn parts(&self) -> (&str, Option<&str>) {
        match self {
            Self::Region { cloud, region } => (cloud, Some(region)),
            Self::Deployment { name } => (name, None),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Region { cloud, region } => write!(f, "{cloud}/{region}"),
            Self::Deployment { name } => f.write_str(name),
        }
    }
}

impl FromStr for Site {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('/') {
            Some((cloud, region)) => Self::region(cloud, region),
            None => Self::Deployment { name: text.into() },
        })
    }
}

impl Serialize for Site {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Site {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Ok(site) = Self::from_str(&String::deserialize(deserializer)?);
        Ok(site)
    }
}

impl PartialSchema for Site {
    fn schema() -> RefOr<Schema> {
        let text = "`CLOUD/REGION`, or the bare name of a deployment.";
        let site = Object::builder().schema_type(Type::String);
        site.description(Some(text)).into()
    }
}

impl ToSchema for Site {}

/// The name of a kind, as the kinds files spell it (`network`, `router_interface`). The name of a kind of a
/// provider other than the first begins with that provider (`toy.subnet`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String)]
pub struct KindName(Arc<str>);

impl KindName {
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of one resource in plans, steps, tombstones and blockers.
///
/// `id` is the cloud's own id. The id of an edge, and of a kind whose `list.id` has several fields, has several parts,
/// joined by the kind's separator: a comma unless the kind sets another one (`router_interface/ROUTER,SUBNET`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct ResourceKey {
    pub site: Site,
    pub kind: KindName,
    pub id: String,
}

impl ResourceKey {
    pub fn new(site: &Site, kind: &KindName, id: impl Into<String>) -> Self {
        Self {
            site: site.clone(),
            kind: kind.clone(),
            id: id.into(),
        }
    }

    /// Writes kind, name and id for a person, escaped: `router interface gw (3f2a…)`.
    pub fn called(&self, name: &str) -> String {
        let kind = self.kind.as_str().replace('_', " ");
        match name {
            "" => format!("{kind} {}", escape(&self.id)),
            name => format!("{kind} {} ({})", escape(name), escape(&self.id)),
        }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.kind, self.id, self.site)
    }
}

/// One resource as its cloud or its registry showed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    #[serde(flatten)]
    pub key: ResourceKey,
    pub name: String,
    /// Id of the project that owns the resource; empty where the cloud keeps none (gateway and floating-IP ports).
    pub project_id: String,
    pub tags: Vec<String>,
    /// The listed row, verbatim. For a resource of a derived kind: the variables that the kind sets from the row.
    pub attributes: serde_json::Value,
}

impl Resource {
    pub fn target(&self) -> Target {
        Target::of(&self.key, &self.name)
    }
}

/// The author of a command: the person who typed it (with sudo, the user behind sudo), a uid on the engine's socket
/// (`uid:N`), the Keystone user of a request at a gate, another deployment, or gone itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct Actor {
    /// A person's user name, over SSH with the client's address (`anna@192.0.2.7`), `uid:N`, the name, id, project and
    /// address of a gate's caller, `deployment NAME`, or `gone`.
    pub name: String,
    /// The interface by which the command came; `engine` if the engine acts by itself.
    pub origin: Origin,
}

impl Actor {
    pub fn new(name: impl Into<String>, origin: Origin) -> Self {
        let name = name.into();
        Self { name, origin }
    }
}

/// The interface by which a command came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Console,
    Cli,
    Api,
    Gate,
    Peer,
    /// The engine itself, for example when it deletes a re-created resource again (T14).
    Engine,
}

/// The rights of a caller; each scope includes those before it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Scope {
    /// Reads and plans; changes neither clouds nor deletions.
    View,
    /// Deletes; retries, cancels, pauses and resumes; answers drift; creates and changes native resources.
    #[default]
    Operate,
    /// Takes a rung of the purge ladder, and releases a tombstone or an importer.
    Force,
    /// Prunes the ledger, and moves a notification cursor.
    Admin,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The identity under which a site is observed. Absence counts only under an identity that covers the one that the
/// plan froze (I13), because a cloud also answers 404 to a login that has lost its rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Identity {
    pub user_id: String,
    pub project_id: String,
    /// Names of the login's roles, sorted.
    pub roles: Vec<String>,
}

impl Identity {
    /// Whether this identity is of the same user in the same project as the other, with the same roles or more: a
    /// further role never takes rights away.
    pub fn covers(&self, other: &Self) -> bool {
        let has = |role: &String| self.roles.contains(role);
        self.is_same_login(other) && other.roles.iter().all(has)
    }

    /// Whether this identity is of the same user in the same project as the other.
    pub fn is_same_login(&self, other: &Self) -> bool {
        (&self.user_id, &self.project_id) == (&other.user_id, &other.project_id)
    }
}

/// What a step does to its resource.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    strum::VariantArray,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Action {
    Delete,
    /// Removes an edge (router interface, subport, route); both ends stay.
    Detach,
    /// The resource stays and loses its reference.
    Unset,
    /// Prepares the resource for its deletion (a disabled trunk cannot be deleted).
    Enable,
    /// Gives the resource a state from which it may be deleted; the delete follows (P3).
    Reset,
    /// Deletes the resource by the cloud's own call for resources that its normal delete does not remove (P3).
    Force,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the resource or edge is gone after the action.
    pub fn takes_away(self) -> bool {
        match self {
            Self::Delete | Self::Detach | Self::Reset | Self::Force => true,
            Self::Unset | Self::Enable => false,
        }
    }

    /// Returns the action that the plan has for the step. A rung of the ladder may have replaced that action with this
    /// one.
    pub fn planned(self) -> Self {
        match self {
            Self::Reset | Self::Force => Self::Delete,
            planned => planned,
        }
    }
}

/// Whether the steps that do not depend on a failed step are still sent.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Steps that do not depend on the failed step are still sent.
    // N11.
    #[default]
    Continue,
    Stop,
}

/// What happens to resources that appeared after the plan was frozen.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum DriftPolicy {
    #[default]
    Ask,
    Absorb,
    Refuse,
}

/// A resource by its key and its name: a target of a deletion, or another resource that a plan or an answer names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Target {
    #[serde(flatten)]
    pub key: ResourceKey,
    #[serde(default)]
    #[schema(required)]
    pub name: String,
}

impl Target {
    /// `name` is empty if the resource's name is not known.
    pub fn of(key: &ResourceKey, name: &str) -> Self {
        Self {
            key: key.clone(),
            name: name.to_owned(),
        }
    }
}

/// A frozen plan: exactly what was approved is deleted (P1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// SHA-256, in hex, over the canonical JSON of targets, options, endpoints, mapping, steps, automatic and
    /// unset. Two plans of an unchanged cloud hash alike.
    pub hash: String,
    pub targets: Vec<Target>,
    pub options: PlanOptions,
    /// `SITE SERVICE` → the service's URL, so that a plan is not carried out on another cloud.
    pub endpoints: BTreeMap<String, String>,
    /// Site → the identity under which the site was read (I13). Not in the hash: two admins may share a plan.
    pub identities: BTreeMap<String, Identity>,
    pub steps: Vec<PlanStep>,
    /// Resources that the cloud removes by itself, without a call of the engine (N5).
    pub automatic: Vec<PlanStep>,
    /// Resources that stay and lose a reference, without a call of the engine (N2).
    pub unset: Vec<PlanStep>,
    /// Targets for which this plan has no step, while it deletes resources that belong to them: projects that stay or
    /// that the step of another region deletes, and the targets of a chained plan, which another deletion deletes. This
    /// deletion never makes their tombstones gone.
    #[serde(default)]
    #[schema(required)]
    pub kept: Vec<Target>,
    /// Resources that stay although they belong to a resource that is deleted, and why (N19).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Left>,
    /// Copies of the targets at other sites, which are deleted with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mapping: Vec<Mapped>,
    /// Why this plan must not start; empty if it may.
    pub refused: Vec<Refusal>,
    pub warnings: Vec<String>,
    /// Estimated number of calls that the deletion makes, without faults: one for each step, one observation for 140
    /// steps, and 20 other calls.
    pub calls_estimate: u64,
}

/// How a copy is recognised.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CopiedBy {
    /// The copy carries a tag with the original's id.
    #[default]
    Tag,
    /// The copy is the only resource with the original's name and project.
    Name,
    /// The copy has the original's id. Only for services in which copies keep the ids of their originals.
    Id,
}

/// The sites where copies of one resource were searched for, and the copies found; frozen with the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mapped {
    pub original: ResourceKey,
    #[serde(rename = "match")]
    pub by: CopiedBy,
    /// Each local site once, including those without copies.
    pub locals: Vec<Local>,
    /// The parts that the cloud removes with the original at its own site, which have no tombstone: the sweep
    /// deletes their copies, and gates refuse new ones, as for the original (T20). The parts follow from the plan,
    /// and are not stored in it.
    #[serde(skip)]
    pub parts: Vec<ResourceKey>,
}

/// The copies of one resource at one site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Local {
    pub site: Site,
    /// Ids of the copies, sorted.
    pub copies: Vec<String>,
}

impl Mapped {
    /// Returns the keys of the copies at all sites.
    pub fn copies(&self) -> impl Iterator<Item = ResourceKey> {
        self.locals.iter().flat_map(|local| {
            local
                .copies
                .iter()
                .map(|id| ResourceKey::new(&local.site, &self.original.kind, id))
        })
    }
}

/// A resource that stays although it belongs to a resource that is deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Left {
    pub resource: Target,
    /// Id of the resource's project; empty where the cloud keeps none.
    #[serde(default)]
    #[schema(required)]
    pub project_id: String,
    pub reason: String,
}

/// The options of a deletion. `drift` and `on_failure` may be changed while it runs (P11); the others are frozen with
/// the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanOptions {
    /// Whether the resources that depend on the targets are deleted too.
    #[serde(default)]
    #[schema(required)]
    pub cascade: bool,
    #[serde(default)]
    #[schema(required)]
    pub on_failure: OnFailure,
    #[serde(default)]
    #[schema(required)]
    pub drift: DriftPolicy,
    /// Whether resources that the deletion would only detach are deleted too, where their kind allows it: floating
    /// IPs of deleted ports.
    #[serde(default, rename = "release_floating_ips")]
    #[schema(required)]
    pub delete_detached: bool,
    /// Whether resources that other projects may use are deleted too: public and community images, shared
    /// networks (N19).
    #[serde(default, skip_serializing_if = "is_false")]
    pub include_public: bool,
    /// Whether the project itself is deleted too, once everything that belongs to it is gone (N19).
    #[serde(default, skip_serializing_if = "is_false")]
    pub with_project: bool,
    /// Whether servers are deleted together with their ports, instead of only losing these ports (N4).
    #[serde(default, skip_serializing_if = "is_false")]
    pub with_servers: bool,
    /// Whether the step of a resource in use waits in the retry queue until nothing blocks it, instead of the plan
    /// being refused.
    #[serde(default, skip_serializing_if = "is_false")]
    pub park: bool,
    /// Whether the targets are deleted by another deletion, in any deployment. This deletion then handles
    /// those references to the targets that the other deletion does not handle itself (G6).
    #[serde(default, skip_serializing_if = "is_false")]
    pub chained: bool,
}

impl PlanOptions {
    /// Returns the options of a deletion with its cascade; all other options have their defaults.
    pub fn cascading() -> Self {
        Self {
            cascade: true,
            ..Self::default()
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A step of a plan, or a resource that the cloud removes or unsets by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanStep {
    /// Position in the plan's `steps`, by which `depends_on` names the step. The numbers continue in `automatic` and
    /// then in `unset`.
    pub id: u32,
    pub site: Site,
    pub kind: KindName,
    pub resource_id: String,
    pub name: String,
    /// Id of the project that owns the resource; empty where the cloud keeps none.
    pub project_id: Arc<str>,
    pub action: Action,
    /// Numbers of the steps that must end before this one is sent, sorted.
    pub depends_on: Vec<u32>,
    /// Whether the cloud removes the resource by itself (N5).
    pub automatic: bool,
    /// Why the resource is in the plan, for a person, such as `target` or `on network web (3f2a…)`; for a step that
    /// enables a resource, why it must be enabled.
    pub why: Arc<str>,
    /// SHA-256, in hex, over what drift compares: project, name, tags, owner and references.
    pub fingerprint: String,
    /// The tags, owner and references that the fingerprint covers, so that a drift message can give the old
    /// values. Not in the hash, which covers the fingerprint; empty in plans of older versions.
    #[serde(default, skip_serializing_if = "Compared::is_empty")]
    pub compared: Compared,
    /// The variables that the kind's calls need in addition to the id (`router_id`, `port_id` of an interface),
    /// including the field that distinguishes the incarnation (I10). Also the scope by which one list observes many
    /// steps, and the references that a step unsets.
    #[serde(default, skip_serializing_if = "no_vars")]
    pub vars: Arc<BTreeMap<String, String>>,
}

fn no_vars(vars: &BTreeMap<String, String>) -> bool {
    vars.is_empty()
}

/// Values of a resource under the names of their fields, sorted. In JSON an object of lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, ToSchema)]
#[schema(value_type = BTreeMap<String, Vec<String>>)]
pub struct Compared(Arc<[(Arc<str>, Arc<str>)]>);

impl Compared {
    pub fn new(mut fields: Vec<(Arc<str>, Arc<str>)>) -> Self {
        fields.sort_unstable();
        fields.dedup();
        Self(fields.into())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each field once, with its values.
    pub fn fields(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut fields: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (field, value) in self.0.iter() {
            fields.entry(field).or_default().push(value);
        }
        fields
    }
}

impl Serialize for Compared {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Compared {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::<Arc<str>, Vec<Arc<str>>>::deserialize(deserializer)?;
        let pairs = fields.into_iter().flat_map(|(field, values)| {
            let each = values.into_iter();
            each.map(move |value| (field.clone(), value))
        });
        Ok(Self::new(pairs.collect()))
    }
}

impl PlanStep {
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.site, &self.kind, &self.resource_id)
    }

    pub fn target(&self) -> Target {
        Target::of(&self.key(), &self.name)
    }
}

/// Why a plan must not start, or a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    pub resource: Target,
    pub rule: RefusalRule,
    /// The reason, for a person. It may say what to do.
    pub reason: String,
    pub blocker: Option<Blocker>,
    /// The differences from the approved plan (P1); empty for any other rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PlanChange>,
}

impl Refusal {
    /// Makes a refusal that names no blocker and no changes.
    pub fn new(resource: &Target, rule: RefusalRule, reason: String) -> Self {
        Self {
            resource: resource.clone(),
            rule,
            reason,
            blocker: None,
            changes: Vec::new(),
        }
    }
}

/// How one resource differs from the approved plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanChange {
    pub resource: Target,
    pub change: ChangeKind,
    /// Each field that differs, if the resource was changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The resource is not in the approved plan.
    New,
    /// The resource is in the approved plan, but not in the plan that was made again: it is gone, or the deletion no
    /// longer affects it.
    Missing,
    Changed,
}

/// A field with its approved and its current value. An empty text means no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldChange {
    /// `name`, `project_id`, `tags`, the path of an owner or of a reference, a variable of the calls, or `action`.
    /// If the values were not recorded, words for the fields that may differ.
    pub field: String,
    pub before: String,
    pub after: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusalRule {
    /// A resource that this plan does not remove refers to the resource (N15). Also: the plan would not empty a project
    /// that must be empty, or it is unknown whether it would (N19).
    InUse,
    /// The resource belongs to another project than the target that led to it (P4).
    OtherProject,
    /// A protection rule of the settings, or a guard, forbids the change of the resource, or it is unknown whether one
    /// does (P4).
    Protected,
    /// Copies are matched by name alone, and a site does not have exactly one resource that matches.
    Copies,
    /// Steps wait for each other, or for steps that do.
    Cycle,
    /// A target does not exist, or the cloud or an importer cannot be asked, so nothing can be planned.
    Unreadable,
    /// The login is refused, or is not shown a resource that a plan must list.
    NotShown,
    /// The cloud differs from the approved plan; nothing was sent (P1).
    Drift,
}

/// A resource that blocks the deletion of another one, or a deployment whose clearance is pending (P2, G7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Blocker {
    pub kind: KindName,
    pub id: String,
    pub name: String,
    pub site: Site,
    /// Id of the project that owns the blocker; empty if the cloud did not say.
    pub owner: String,
    /// Name of the project that owns the blocker, for people; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner_name: String,
    /// Since when the blocker has blocked the step; for a newcomer, when it was created, as far as the cloud says so.
    pub since: Option<DateTime<Utc>>,
    /// Whether the deletion of the blocked step removes the blocker too. For a blocker in another deployment, whether a
    /// deletion there removes it.
    pub in_plan: bool,
    /// The resource that the blocker blocks, if that is not the step's own resource but a blocker in another
    /// deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub holds: Option<Box<ResourceKey>>,
}

impl Blocker {
    /// Makes a blocker that is in no plan, and of which only key and name are known.
    pub fn of(key: &ResourceKey, name: &str) -> Self {
        Self {
            kind: key.kind.clone(),
            id: key.id.clone(),
            name: name.to_owned(),
            site: key.site.clone(),
            owner: String::new(),
            owner_name: String::new(),
            since: None,
            in_plan: false,
            holds: None,
        }
    }

    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.site, &self.kind, &self.id)
    }

    /// Returns the owning project for a person: its name, or its id if the name is unknown.
    pub fn owner_shown(&self) -> &str {
        if self.owner_name.is_empty() {
            &self.owner
        } else {
            &self.owner_name
        }
    }
}

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DeletionState {
    Planning,
    Refused,
    AwaitingApproval,
    Running,
    Paused,
    Stuck,
    Gone,
    Cancelled,
    Purged,
}

impl DeletionState {
    pub const ALL: [Self; 9] = [
        Self::Planning,
        Self::Refused,
        Self::AwaitingApproval,
        Self::Running,
        Self::Paused,
        Self::Stuck,
        Self::Gone,
        Self::Cancelled,
        Self::Purged,
    ];
    pub fn as_str(self) -> &'static str {
        self.into()
    }
    /// Whether the engine does nothing more for the deletion by itself: the deletion is refused, stuck, gone, cancelled
    /// or abandoned. A deletion that is paused or awaits approval is only interrupted.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::Stuck | Self::Gone | Self::Cancelled | Self::Purged
        )
    }
}

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum StepState {
    /// Another step must end first.
    Waiting,
    Ready,
    /// An engine has claimed the step, and sends its call.
    Running,
    /// The engine observes whether the resource is gone, after a call that was accepted or whose answer was lost.
    Verifying,
    /// The step cannot be carried out for now; the retry worker makes it ready at `next_attempt_at`.
    Blocked,
    /// A person must act.
    Stuck,
    Gone,
    /// The deletion was cancelled, and the resource stays (P8).
    Skipped,
    /// The step was abandoned: the resource is left behind as an orphan (P3).
    Purged,
}

impl StepState {
    pub const ALL: [Self; 9] = [
        Self::Waiting,
        Self::Ready,
        Self::Running,
        Self::Verifying,
        Self::Blocked,
        Self::Stuck,
        Self::Gone,
        Self::Skipped,
        Self::Purged,
    ];
    pub fn as_str(self) -> &'static str {
        self.into()
    }
    /// Whether the engine will still work on the step by itself.
    pub fn is_live(self) -> bool {
        matches!(
            self,
            Self::Waiting | Self::Ready | Self::Running | Self::Verifying | Self::Blocked
        )
    }
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// The deletion is being planned, and gates refuse writes.
    Checking,
    Deleting,
    /// The absence of the resource was confirmed.
    Gone,
    /// The resource stays, because its deletion was refused or cancelled or a person released the tombstone, or the
    /// resource lives again.
    Released,
    /// The resource's step was abandoned, and the resource may still exist.
    Purged,
}

impl Phase {
    /// Whether a deletion works on the resource.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Checking | Self::Deleting)
    }

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The class of a failure: of a cloud's answer, of an observation, or of a step that gone itself stops.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ErrorClass {
    Blocked,
    Fatal,
    Drift,
    Guard,
    OutcomeUnknown,
    Auth,
    Unavailable,
}

impl ErrorClass {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A failure as it is stored and shown: in the cloud's own words if a cloud answered, otherwise in gone's words (P2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepError {
    pub class: ErrorClass,
    /// HTTP status; null if no cloud answered.
    pub status: Option<u16>,
    /// Type of the error: the one that the answer's body names (`NetworkInUse`), or one of gone's own
    /// (`DependencyStuck`).
    #[serde(rename = "type")]
    pub kind: String,
    /// Message of the error. A cloud's message is verbatim, cut at 4 KiB.
    pub message: String,
    pub request_id: String,
    pub at: DateTime<Utc>,
}

impl StepError {
    /// Makes an error that no cloud sent.
    pub fn own(class: ErrorClass, kind: &str, message: String, at: DateTime<Utc>) -> Self {
        Self {
            class,
            status: None,
            kind: kind.to_owned(),
            message,
            request_id: String::new(),
            at,
        }
    }
}

/// The answer to a call, for the call's line in the timeline; its fields are empty if no answer came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: Option<u16>,
    pub request_id: Option<String>,
}

/// How many steps of a deletion are in each state; the counts sum to `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    pub waiting: u64,
    pub ready: u64,
    pub running: u64,
    pub verifying: u64,
    pub blocked: u64,
    pub stuck: u64,
    pub gone: u64,
    pub skipped: u64,
    pub purged: u64,
    pub total: u64,
}

impl Counts {
    pub fn of(mut self, state: StepState) -> u64 {
        *self.of_mut(state)
    }
    pub fn of_mut(&mut self, state: StepState) -> &mut u64 {
        match state {
            StepState::Waiting => &mut self.waiting,
            StepState::Ready => &mut self.ready,
            StepState::Running => &mut self.running,
            StepState::Verifying => &mut self.verifying,
            StepState::Blocked => &mut self.blocked,
            StepState::Stuck => &mut self.stuck,
            StepState::Gone => &mut self.gone,
            StepState::Skipped => &mut self.skipped,
            StepState::Purged => &mut self.purged,
        }
    }
    /// Number of steps that have ended.
    pub fn ended(&self) -> u64 {
        self.gone + self.skipped + self.purged
    }
    /// Number of steps that have ended or are verifying, as accepted deletes are. This is the measure of progress,
    /// since one observation ends accepted steps by the hundred.
    pub fn accepted(&self) -> u64 {
        self.ended() + self.verifying
    }
    /// Number of steps on which the engine still works by itself.
    pub fn live(&self) -> u64 {
        self.waiting + self.ready + self.running + self.verifying + self.blocked
    }
}

/// One accepted request, with its steps, until it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Deletion {
    pub id: String,
    pub targets: Vec<Target>,
    pub state: DeletionState,
    pub requested_by: Actor,
    pub requested_at: DateTime<Utc>,
    pub reason: String,
    /// The deletion that caused this one. It is given by its id if this one deletes a re-created resource, newcomers or
    /// blocking edges of that deletion, and as `DEPLOYMENT/ID` if it is another deployment's.
    pub cause: Option<String>,
    #[serde(flatten)]
    pub options: PlanOptions,
    pub plan_hash: Option<String>,
    pub counts: Counts,
    /// Number of steps that clouds accepted per second, over the last minute; zero while nothing is under way.
    #[serde(default)]
    pub rate_per_second: f64,
    /// Seconds left at `rate_per_second`; null while the end is not known.
    pub eta_seconds: Option<u64>,
    /// When the next attempt is due, if all steps that are left are blocked or wait for blocked ones; otherwise null.
    #[serde(default)]
    pub next_attempt_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
    /// Why the deletion was refused (N15); empty otherwise.
    #[serde(default)]
    #[schema(required)]
    pub refused: Vec<Refusal>,
    /// One line about the deletion's progress, or about the reason why it makes none.
    #[serde(default)]
    #[schema(required)]
    pub note: String,
    /// The time until which planning is repeated if a cloud does not answer (N16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deadline: Option<DateTime<Utc>>,
}

/// Maximum number of entries of a step's `depends_on` in a page of steps.
pub const DEPENDENCIES_MAX: usize = 500;

/// One resource inside a deletion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    pub id: i64,
    pub deletion_id: String,
    pub resource: StepResource,
    pub action: Action,
    pub state: StepState,
    /// The steps that must end first. In pages of steps, the list is cut at 500 entries; a single step has all.
    pub depends_on: Vec<i64>,
    /// Number of failures that count as attempts: refused calls, and accepted deletes that failed or had no effect.
    /// Answers that say "not yet" (I6), throttle calls or come from a service that is down do not count.
    pub attempts: u32,
    pub max_attempts: u32,
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Since when the step has been blocked, or its delete has been observed to be under way, without a break.
    pub blocked_since: Option<DateTime<Utc>>,
    pub blockers: Vec<Blocker>,
    pub last_error: Option<StepError>,
    /// The stuck step that is the only reason why this step is stuck and was not sent: this step waits for that step,
    /// directly or not, or the deletion stops at failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub held_by: Option<i64>,
    /// How many times the resource, or a copy of it, was re-created (T14).
    pub recreated: u32,
    pub project_id: String,
    pub why: String,
}

impl Step {
    pub fn target(&self) -> Target {
        Target::of(&self.resource.key, &self.resource.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepResource {
    #[serde(flatten)]
    pub key: ResourceKey,
    pub name: String,
}

/// The durable record that a resource is being, or was, deleted (T1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tombstone {
    pub record_id: i64,
    #[serde(flatten)]
    pub key: ResourceKey,
    pub phase: Phase,
    /// When the write guard was first raised; set once (T15). None while the resource lives again (M1).
    pub deleted_at: Option<DateTime<Utc>>,
    pub gone_at: Option<DateTime<Utc>>,
    /// Grows each time the resource is created again under a natural key (M1).
    pub incarnation: u32,
    pub recreated: u32,
    /// Id of the deletion to which the tombstone belongs; empty if the deletion is no longer kept.
    pub deletion_id: String,
}

impl Tombstone {
    /// Whether the absence of the resource was confirmed at this time or later.
    pub fn is_gone_since(&self, then: DateTime<Utc>) -> bool {
        self.phase == Phase::Gone && self.gone_at.is_some_and(|at| at >= then)
    }
}

/// A resource that a purge left in a cloud (P3); its tombstone is `purged`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Orphan {
    pub resource: StepResource,
    pub project_id: String,
    /// When the resource's step was abandoned.
    pub since: DateTime<Utc>,
    /// The step's last error: in the cloud's own words if a cloud answered.
    pub why: String,
    pub deletion_id: String,
    pub step_id: i64,
    pub there: Presence,
}

/// Whether an orphan still exists, observed when the orphans are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Presence {
    Present,
    /// The orphan's absence was confirmed (I13).
    Absent,
    /// The observation proved nothing.
    Unclear,
}

impl Presence {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A site that a person paused, until a person resumes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SitePause {
    pub site: Site,
    pub by: Actor,
    pub reason: String,
    pub at: DateTime<Utc>,
}

/// One event. Consoles and scripts follow the stream of events, which is in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub seq: i64,
    pub at: DateTime<Utc>,
    pub deletion_id: Option<String>,
    pub step_id: Option<i64>,
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// One line for a person.
    pub message: String,
    /// The fields for programs, which depend on the type: for a step, among others, `state`, `status`, `request_id` and
    /// `attempts`.
    #[serde(default)]
    #[schema(required)]
    pub data: serde_json::Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EventKind {
    DeletionAccepted,
    DeletionPlanned,
    DeletionRefused,
    DeletionState,
    StepState,
    /// A step's call was answered, its answer was lost, or the call was not sent (one line of the step's timeline).
    Attempt,
    Recreated,
    /// A resource that was gone was created again, under a natural key (M1).
    Revived,
    /// A rung of the ladder was taken (P3).
    Purge,
    /// A person accepted or refused newcomers, or changed the options of a deletion that runs (P11).
    Drift,
    /// A native resource was created or changed.
    Registry,
    /// Another deployment was put on record, was released, or has changed (G12).
    Deployment,
    Site,
    Engine,
    /// A step is stuck, and a person is notified once (I7).
    NeedsPerson,
}

impl EventKind {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Returns the last eight characters of a deletion's id, by which people name the deletion. Plans and resources are
/// shown by the same part of their hash or id.
pub fn short_id(id: &str) -> &str {
    let cut = id.len().saturating_sub(8);
    id.get(cut..).unwrap_or(id)
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paged<T> {
    pub rows: Vec<T>,
    /// The cursor of the next page; none on the last page.
    pub next: Option<String>,
}
