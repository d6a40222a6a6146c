//! The messages that deployments exchange about deletions (G), and the decisions that follow from them.
//!
//! The *owner* deletes a resource; an *importer* has kinds that refer to the owner's kinds. The importer
//! keeps a watch, which delivers notices of the owner's deletions, each under a sequence number. The owner
//! asks the importer for clearance, in terms of the owner's own resources only (G8): whether any resource still refers
//! to those that it deletes. Owners and importers are equals, and a deployment may import its own kinds (an
//! asynchronous reference within one registry).
//!
//! The sender of a message determines what the message may contain (P13). An owner may name resources that it
//! keeps or that are in the cloud regions that it manages ([`PeerScope`]). An importer may name as referrers only its own
//! resources; what these wait for, and what blocks them, may be elsewhere. Any other message is refused as a whole, and
//! so is one about kinds that are not of the owner's service.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::model::{Blocker, KindName, Phase, ResourceKey, Site};
use super::text::escape;

/// One ledger with its engines and kinds (G1). Other deployments find it by its service and region, and name it in
/// references.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Deployment {
    pub name: String,
    pub service: String,
    pub region: String,
}

impl Deployment {
    pub fn site(&self) -> Site {
        Site::Deployment {
            name: self.name.as_str().into(),
        }
    }
}

/// Maximum length of a deployment's name, in characters.
const NAME_CHARS_MAX: usize = 100;
/// Maximum length of a resource's id, a deletion's id or a root in a message, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;

/// Returns why a text cannot be the name of a deployment; none if it can. The name is used after the `@` of a target
/// and in paths.
pub fn wrong_deployment_name(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_well = !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(fits);
    (!is_well).then(|| {
        format!(
            "the name of a deployment must be 1 to {NAME_CHARS_MAX} letters, digits, \".\", \"_\" or \"-\""
        )
    })
}

/// Checks that none of the texts is empty or longer than `TEXT_BYTES_MAX`.
fn check_text_lengths<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    match texts
        .into_iter()
        .all(|it| !it.is_empty() && it.len() <= TEXT_BYTES_MAX)
    {
        true => Ok(()),
        false => Err(format!(
            "the id of a resource or of a deletion is empty, or longer than {TEXT_BYTES_MAX} bytes"
        )),
    }
}

/// The settings about a peer: the name that it must have, and the cloud regions that it may name in addition
/// to those that have its own region's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerScope {
    pub name: Option<String>,
    pub sites: Vec<Site>,
}

impl PeerScope {
    /// Checks that an owner may name a resource. The owner must either keep the resource itself or manage its
    /// cloud region. It manages the regions that have the same name as its own region, and those that the
    /// settings list.
    fn allows(&self, from: &Deployment, key: &ResourceKey) -> Result<(), String> {
        let region_is_its = match &key.site {
            Site::Region { region, .. } => {
                **region == from.region || self.sites.contains(&key.site)
            }
            Site::Deployment { .. } => false,
        };
        match region_is_its {
            true => Ok(()),
            false if key.site.cloud().is_some() => Err(format!(
                "deployment {} names a {} at {}, but serves {}/{}; if it serves that region too, add the \
                 region to `sites` of this peer in the settings",
                escape(&from.name),
                escape(key.kind.as_str()),
                escape(&key.site.to_string()),
                from.service,
                from.region
            )),
            false => own(from, key),
        }
    }
}

/// Checks that a deployment keeps the resource that it names.
fn own(from: &Deployment, key: &ResourceKey) -> Result<(), String> {
    match key.site == from.site() {
        true => Ok(()),
        false => Err(format!(
            "deployment {} names a {} at {}, but may name only its own resources",
            escape(&from.name),
            escape(key.kind.as_str()),
            escape(&key.site.to_string())
        )),
    }
}

/// The request of an importer that keeps a watch; sent again after each answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    pub from: Deployment,
    /// The owner's kinds to which kinds of the importer refer.
    pub kinds: BTreeSet<KindName>,
    /// Id of the owner's ledger whose sequence numbers `after` counts; empty before the first answer.
    pub ledger: String,
    /// The notices up to this sequence number are durable at the importer.
    pub after: i64,
    /// How long the answer may take if there is nothing new, in milliseconds: the time between heartbeats.
    pub wait_ms: u64,
}

/// The answer to a [`Watch`]: the changes, in the order of their sequence numbers. An answer without changes is a
/// heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionNotices {
    pub from: Deployment,
    pub ledger: String,
    /// The importer knows every notice up to this sequence number once it has applied `changes`. If the number is lower
    /// than `after` in the request, the ledger was restored from a backup, and the importer starts from the beginning.
    pub seq: i64,
    pub changes: Vec<DeletionNotice>,
    /// Whether there are already more changes after `seq`.
    pub more: bool,
}

/// A resource that the owner keeps or whose cloud it manages, as the resource's tombstone describes it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionNotice {
    #[serde(flatten)]
    pub key: ResourceKey,
    pub phase: Phase,
    pub incarnation: u32,
    pub deletion: String,
    /// The deletion with which the cascade began, in any deployment (G13).
    pub root: String,
}

impl DeletionNotices {
    /// Checks that this owner may send these notices to a deployment that watches it for these kinds. A
    /// deployment may send itself notices about anything of its own, including the regions of its clouds.
    ///
    /// # Errors
    /// The message is not acceptable; the error says why.
    pub fn check(
        &self,
        home: &Deployment,
        kinds: &BTreeSet<KindName>,
        scope: &PeerScope,
    ) -> Result<(), String> {
        for DeletionNotice {
            key,
            deletion,
            root,
            ..
        } in &self.changes
        {
            if self.from != *home {
                scope.allows(&self.from, key)?;
                check_text_lengths([key.id.as_str(), deletion, root])?;
            }
            if !kinds.contains(&key.kind) {
                return Err(format!(
                    "the notice about {} is of a kind that this deployment does not watch",
                    escape(&key.to_string())
                ));
            }
            if !is_foreign_root(root) {
                return Err(format!(
                    "the notice about {} does not name the deployment where deletion {} began",
                    escape(&key.to_string()),
                    escape(deletion)
                ));
            }
        }
        Ok(())
    }
}

impl Question {
    /// Checks that this owner may ask this question.
    ///
    /// # Errors
    /// The question is not acceptable; the error says why.
    pub fn check(&self, home: &Deployment, scope: &PeerScope) -> Result<(), String> {
        if self.about.len() > RESOURCES_PER_QUESTION_MAX {
            return Err(format!(
                "the question is about {} resources; at most {RESOURCES_PER_QUESTION_MAX} are allowed",
                self.about.len()
            ));
        }
        if self.from == *home {
            return Ok(());
        }
        self.about
            .iter()
            .try_for_each(|asked| scope.allows(&self.from, &asked.key))
    }
}

impl DeletionNotice {
    /// Whether the deletion of the resource is under way: the phase of its tombstone is `checking` or `deleting`.
    pub fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Checking | Phase::Deleting)
    }
}

/// Returns the root of a deletion, as `deployment/deletion`: the given root, or the deletion itself.
pub fn root_of(home: &Site, root: Option<&str>, deletion_id: &str) -> String {
    match root {
        Some(root) => root.to_owned(),
        None => format!("{home}/{deletion_id}"),
    }
}

/// Whether a cause is a deletion of another deployment. A deletion of this deployment is given by its bare
/// id.
pub fn is_foreign_root(cause: &str) -> bool {
    cause.contains('/')
}

/// The owner's request for clearance: whether any resource of the importer refers to these resources, at most
/// [`RESOURCES_PER_QUESTION_MAX`] of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub from: Deployment,
    /// The answer counts only if the importer knows the owner's ledger up to `seq` (G7).
    pub ledger: String,
    pub seq: i64,
    pub about: Vec<ClearanceRequest>,
}

/// Maximum number of resources in one question.
pub const RESOURCES_PER_QUESTION_MAX: usize = 1_000;
/// Maximum number of referrers that are named for one resource. The other referrers are counted.
pub const REFERRERS_NAMED_MAX: usize = 20;
/// Maximum number of deployments through which a relation (`Waiting`) is passed on. A relation that was passed on more
/// often is dropped, because it only travels in a circle.
const HOPS_MAX: u8 = 64;
/// Maximum number of resources in a cycle over several deployments. A longer cycle is not recognised.
pub const CYCLE_MAX: usize = 200;

/// One resource in an owner's question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearanceRequest {
    #[serde(flatten)]
    pub key: ResourceKey,
    /// The deletion of the resource; none while it is only planned.
    pub deletion: Option<String>,
    pub incarnation: u32,
    /// The deletion with which the cascade began, in any deployment (G13).
    pub root: String,
}

/// The answers of an importer: one for each resource in the question, in the same order. A message with other
/// answers does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    pub from: Deployment,
    /// The owner's ledger, which the importer knew up to `seq` when it answered.
    pub ledger: String,
    pub seq: i64,
    pub about: Vec<ClearanceAnswer>,
}

/// An importer's answer about one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearanceAnswer {
    #[serde(flatten)]
    pub asked: ClearanceRequest,
    /// Whether this is a clearance: no resource refers to the requested one, except those that wait for it in a
    /// cycle and for nothing else (G13), and none will.
    pub clear: bool,
    /// The resources that refer to the requested one, at most [`REFERRERS_NAMED_MAX`].
    #[serde(rename = "holders")]
    pub referrers: Vec<NamedReferrer>,
    /// Number of all resources that refer to the requested one, including those that are not named.
    pub count: u64,
}

/// A resource of an importer that still refers to a resource of the owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedReferrer {
    #[serde(flatten)]
    pub key: ResourceKey,
    pub name: String,
    pub project_id: String,
    /// Whether the reference blocks: the referrer is not deleted, and so the deletion of its target is
    /// refused (G2).
    pub blocks: bool,
    /// The root of the deletion that deletes the referrer; none if no deletion does.
    pub root: Option<String>,
    /// Resources that are deleted under the same root, this referrer first, each with the resources that it waits for,
    /// as far as its deployment knows (G13).
    pub waits: Waits,
    /// Why the referrer is not gone yet, such as `blocked by contract c1 at d0-1`; empty if nothing is known to block
    /// it.
    pub why: String,
    /// The blockers of the referrer in its deployment, as far as that deployment knows them.
    pub held_by: Vec<Blocker>,
}

impl NamedReferrer {
    /// Whether the referrer waits for the requested resource in a cycle, and for nothing else. The resources of the
    /// cycle would wait for ever, so one of them is deleted first (G13).
    pub fn waits_for(&self, asked: &ClearanceRequest) -> bool {
        let same_root = self.root.as_deref() == Some(asked.root.as_str());
        same_root && self.waits.close_a_cycle(&self.key, &asked.key)
    }

    pub fn blocker(&self) -> Blocker {
        Blocker {
            owner: self.project_id.clone(),
            in_plan: self.root.is_some(),
            ..Blocker::of(&self.key, &self.name)
        }
    }
}

impl Answers {
    /// Checks that these answers belong to this question, that the importer had received all notices that the question
    /// requires (G7), and that the importer names only resources that it may name (P13). A message that lacks answers,
    /// has answers about something else, or was sent before those notices arrived does not count.
    ///
    /// # Errors
    /// The answers do not count; the error says why.
    pub fn check(&self, question: &Question) -> Result<(), String> {
        if self.ledger != question.ledger {
            return Err("that deployment watches another ledger".to_owned());
        }
        if self.seq < question.seq {
            return Err(format!(
                "that deployment has received the notices up to number {}, but not yet up to number {}",
                self.seq, question.seq
            ));
        }
        let asked = question.about.iter();
        let same = asked.eq(self.about.iter().map(|answered| &answered.asked));
        if !same {
            return Err("the answer is not about the resources in the question".to_owned());
        }
        self.about
            .iter()
            .try_for_each(|answered| self.check_referrers(answered))
    }

    /// Checks that the importer names only its own resources as referrers, and keeps to the protocol's limits. A
    /// relation that the importer adds itself (`hops` is 0) must be about one of its own resources. The importer may
    /// only pass on relations of other resources, as another deployment reported them.
    fn check_referrers(&self, answered: &ClearanceAnswer) -> Result<(), String> {
        let site = self.from.site();
        if answered.referrers.len() > REFERRERS_NAMED_MAX {
            return Err(format!(
                "the answer names more than {REFERRERS_NAMED_MAX} referrers for one resource"
            ));
        }
        for referrer in &answered.referrers {
            own(&self.from, &referrer.key)?;
            check_text_lengths(
                std::iter::once(referrer.key.id.as_str()).chain(referrer.root.as_deref()),
            )?;
            let waits = &referrer.waits.0;
            if waits.len() > CYCLE_MAX || referrer.held_by.len() > BLOCKERS_MAX {
                return Err(
                    "the part about one resource is longer than the protocol allows".to_owned(),
                );
            }
            if let Some(waiting) = waits.iter().find(|it| it.hops == 0 && it.key.site != site) {
                own(&self.from, &waiting.key)?;
            }
        }
        Ok(())
    }
}

impl ClearanceAnswer {
    /// Makes an importer's answer about one resource, from resources that refer to it and the number of all that do.
    pub fn of(asked: ClearanceRequest, mut referrers: Vec<NamedReferrer>, count: u64) -> Self {
        let all_named = count == referrers.len() as u64;
        let clear = all_named && referrers.iter().all(|referrer| referrer.waits_for(&asked));
        referrers.sort_by_key(|referrer| (!referrer.blocks, referrer.root.is_some()));
        referrers.truncate(REFERRERS_NAMED_MAX);
        Self {
            clear,
            referrers,
            count,
            asked,
        }
    }

    pub fn blocking(&self) -> impl Iterator<Item = &NamedReferrer> {
        self.referrers.iter().filter(|referrer| referrer.blocks)
    }
}

/// Resources that are being deleted under one root, each with all resources that it waits for. A resource that also
/// waits for something else (a blocker, an answer) is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Waits(Vec<Waiting>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Waiting {
    #[serde(flatten)]
    key: ResourceKey,
    on: BTreeSet<ResourceKey>,
    /// Number of deployments through which this relation was passed on. A lower number means newer information: an
    /// outdated relation that travels in a circle loses to a newer one, and disappears once no deployment
    /// repeats it.
    hops: u8,
}

impl Waits {
    /// Adds a resource of this deployment, with everything that it waits for.
    pub fn add(&mut self, key: ResourceKey, on: BTreeSet<ResourceKey>) {
        self.put(Waiting { key, on, hops: 0 });
    }

    /// Adds the relations that another deployment reports, except those of this deployment's own resources, about
    /// which this deployment knows better.
    pub fn merge_reported(&mut self, home: &Site, others: &Self) {
        for waiting in &others.0 {
            let hops = waiting.hops.saturating_add(1);
            if hops <= HOPS_MAX && waiting.key.site != *home {
                self.put(Waiting {
                    hops,
                    ..waiting.clone()
                });
            }
        }
    }

    fn put(&mut self, waiting: Waiting) {
        let full = self.0.len() >= CYCLE_MAX;
        match self.0.iter_mut().find(|it| it.key == waiting.key) {
            Some(known) if known.hops > waiting.hops => *known = waiting,
            None if !full => self.0.push(waiting),
            _ => {}
        }
    }

    /// Returns the resources that any of these resources waits for.
    pub fn waited_for(&self) -> impl Iterator<Item = &ResourceKey> {
        self.0.iter().flat_map(|waiting| &waiting.on)
    }

    pub fn of(&self, key: &ResourceKey) -> Option<&BTreeSet<ResourceKey>> {
        let found = self.0.iter().find(|waiting| waiting.key == *key);
        found.map(|waiting| &waiting.on)
    }

    /// Whether everything that `from` waits for, directly or not, is known and waits for `to`.
    fn close_a_cycle(&self, from: &ResourceKey, to: &ResourceKey) -> bool {
        let mut reached = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(next) = open.pop() {
            if next == to {
                continue;
            }
            let Some(on) = self.of(next) else {
                return false;
            };
            open.extend(on.iter().filter(|it| reached.insert(*it)));
        }
        let mut waiting = BTreeSet::from([to]);
        loop {
            let more = reached.iter().copied().filter(|key| {
                let on = self.of(key).into_iter().flatten();
                !waiting.contains(*key) && on.into_iter().any(|it| waiting.contains(it))
            });
            let more: Vec<&ResourceKey> = more.collect();
            if more.is_empty() {
                return reached.is_subset(&waiting);
            }
            waiting.extend(more);
        }
    }
}

/// The error type of a step that waits for the clearances of importers.
pub const AWAITED: &str = "AwaitingImporters";
/// The kind of the blocker that stands for a deployment that has not answered yet.
pub const SILENT: &str = "deployment";

/// An importer that has not given its clearance yet, and its last answer; none if it has not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingClearance {
    pub importer: String,
    pub said: Option<ClearanceAnswer>,
}

/// Returns the message and the blockers (at most `BLOCKERS_MAX`) of a step that waits for importers only. The blockers
/// are the resources that refer to the step's resource, the blockers of these in their deployments, and the deployments
/// that have not answered, by name (G7, G11). Blockers that no deletion deletes come first, because a person must act
/// on those.
pub fn awaiting(awaited: &[PendingClearance]) -> (String, Vec<Blocker>) {
    let mut lines = Vec::new();
    let mut silent = Vec::new();
    let mut blockers = Vec::new();
    for PendingClearance { importer, said } in awaited {
        let Some(said) = said else {
            silent.push(importer.as_str());
            continue;
        };
        lines.push(still_has(importer, said));
        blockers.extend(said.referrers.iter().map(NamedReferrer::blocker));
    }
    // Each blocker of a referrer is listed once. A blocker that is itself a referrer or one of the waiting resources
    // (in a cycle) is left out.
    let said = || awaited.iter().filter_map(|it| it.said.as_ref());
    let mut seen: BTreeSet<ResourceKey> = said().map(|said| said.asked.key.clone()).collect();
    seen.extend(blockers.iter().map(Blocker::key));
    for referrer in said().flat_map(|said| &said.referrers) {
        let below = referrer.held_by.iter().filter(|by| seen.insert(by.key()));
        blockers.extend(below.map(|by| {
            Blocker {
                holds: by
                    .holds
                    .clone()
                    .or_else(|| Some(referrer.key.clone().into())),
                ..by.clone()
            }
        }));
    }
    let more = lines.len().saturating_sub(DEPLOYMENTS_NAMED_MAX);
    lines.truncate(DEPLOYMENTS_NAMED_MAX);
    match more {
        0 => {}
        1 => lines.push("1 more deployment still has referrers".to_owned()),
        _ => lines.push(format!("{more} more deployments still have referrers")),
    }
    lines.extend(pending_line(&silent));
    blockers.extend(silent.into_iter().map(silent_blocker));
    blockers.sort_by_key(|by| (by.in_plan, by.kind.as_str() == SILENT));
    blockers.truncate(BLOCKERS_MAX);
    (lines.join(". "), blockers)
}

/// Number of one deployment's referrers that one line names.
const NAMED_MAX: usize = 3;
/// Number of deployments with referrers, and of deployments that have not answered, that one line names.
const DEPLOYMENTS_NAMED_MAX: usize = 20;
/// Maximum number of blockers that are stored for one step, and that a message may have for one referrer.
const BLOCKERS_MAX: usize = 100;

fn still_has(importer: &str, said: &ClearanceAnswer) -> String {
    let named = said.referrers.iter().take(NAMED_MAX).map(|referrer| {
        let NamedReferrer { key, why, root, .. } = referrer;
        let does = match (why.as_str(), root) {
            ("", Some(_)) => "which is being deleted".to_owned(),
            ("", None) if referrer.blocks => "which this deletion will not remove".to_owned(),
            ("", None) => "which is not handled yet".to_owned(),
            (why, _) => format!("which is {why}"),
        };
        format!("{}, {does}", key.called(&referrer.name))
    });
    let mut named: Vec<String> = named.collect();
    let more = said.count.saturating_sub(named.len() as u64);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    format!("deployment {importer} still has {}", named.join("; "))
}

fn pending_line(silent: &[&str]) -> Option<String> {
    let more = silent.len().saturating_sub(DEPLOYMENTS_NAMED_MAX);
    let named = silent.iter().take(DEPLOYMENTS_NAMED_MAX).copied();
    let named: Vec<&str> = named.collect();
    let named = named.join(", ");
    match (silent.len(), more) {
        (0, _) => None,
        (1, _) => Some(format!("clearance of deployment {named} is pending")),
        (_, 0) => Some(format!("clearances of deployments {named} are pending")),
        (_, more) => Some(format!(
            "clearances of deployments {named} and {more} more are pending"
        )),
    }
}

fn silent_blocker(importer: &str) -> Blocker {
    let name = importer.into();
    let key = ResourceKey::new(&Site::Deployment { name }, &KindName::new(SILENT), importer);
    Blocker::of(&key, "")
}
