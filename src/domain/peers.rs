//! What deployments say to each other about what is being deleted (G), and what follows from it.
//!
//! An *owner* deletes; an *importer* has kinds that refer to the owner's. The importer keeps a watch: it
//! hears which of the owner's resources are going, each under a sequence. The owner asks the importer,
//! in its own terms only (G8), whether anything still points at them. Both are deployments of equal
//! right, and a deployment may import its own kinds (an asynchronous reference within one registry).
//!
//! Whoever a message is from bounds what it may say (P13): an owner speaks of resources that it keeps or of
//! the clouds that it manages ([`PeerScope`]), an importer of its own that point at them. What it says of others is refused with the whole message.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::model::{Blocker, KindName, Phase, ResourceKey, Site};
use super::text::escape;

/// One engine with its own ledger and kinds (G1). Others find it by its service and region, and name it
/// in references.
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

/// A name is at most so long.
const NAME_CHARS_MAX: usize = 100;
/// Ids, roots and names of resources in a message are at most so long.
const TEXT_BYTES_MAX: usize = 1_024;

/// Why nothing can be called so, if nothing can: it stands after the `@` of a target and in paths.
pub fn wrong_deployment_name(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_well = !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(fits);
    (!is_well).then(|| {
        format!(
            "the name of a deployment is 1 to {NAME_CHARS_MAX} letters, digits, \".\", \"_\" or \"-\""
        )
    })
}

/// Nothing in a message is empty where it must not be, or longer than any of ours.
fn fitting<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    match texts
        .into_iter()
        .all(|it| !it.is_empty() && it.len() <= TEXT_BYTES_MAX)
    {
        true => Ok(()),
        false => Err(format!(
            "an id or a root is empty, or longer than {TEXT_BYTES_MAX} bytes"
        )),
    }
}

/// What the settings say of a peer: what it must call itself, and of which regions of clouds it may speak
/// beside those that are called as its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerScope {
    pub name: Option<String>,
    pub sites: Vec<Site>,
}

impl PeerScope {
    /// Whether an owner speaks of its own: of what it keeps itself, or of a cloud that it manages. Kinds of a
    /// cloud are those of the owner's service; of which region is known by its name, or by the settings.
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
                "it speaks of {} at {}, and offers {}/{}; if that region is its, too, name it in `sites` \
                 of this peer in the settings",
                escape(key.kind.as_str()),
                escape(&key.site.to_string()),
                from.service,
                from.region
            )),
            false => own(from, key),
        }
    }
}

/// Whether a deployment speaks of what it keeps itself.
fn own(from: &Deployment, key: &ResourceKey) -> Result<(), String> {
    match key.site == from.site() {
        true => Ok(()),
        false => Err(format!(
            "it speaks of {} at {}, and may speak of its own resources only",
            escape(key.kind.as_str()),
            escape(&key.site.to_string())
        )),
    }
}

/// "I keep watching you": what an importer sends, again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    pub from: Deployment,
    /// Those of the owner's kinds that kinds of the importer refer to.
    pub kinds: BTreeSet<KindName>,
    /// Which of the owner's ledgers `after` counts in; empty before the first answer.
    pub ledger: String,
    /// Everything up to this sequence is durable at the importer.
    pub after: i64,
    /// How long the answer may take when there is nothing new: that is the heartbeat.
    pub wait_ms: u64,
}

/// The answer to a [`Watch`]: what changed, in the order of the sequence. Empty is a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct News {
    pub from: Deployment,
    pub ledger: String,
    /// The importer has heard everything up to this sequence when it has taken in `changes`. Lower than
    /// what was asked for: the ledger was set back, and is to be heard from the start.
    pub seq: i64,
    pub changes: Vec<DeletionNotice>,
    /// There is more behind `seq` already.
    pub more: bool,
}

/// A resource of the owner's, as its tombstone says now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionNotice {
    #[serde(flatten)]
    pub key: ResourceKey,
    pub phase: Phase,
    pub incarnation: u32,
    pub deletion: String,
    /// The deletion that all began with, in whichever deployment (G13).
    pub root: String,
}

impl News {
    /// Whether this owner may say so to a deployment that watches it for these kinds. What a deployment
    /// hears from itself is about anything of its own, the regions of its clouds too.
    ///
    /// # Errors
    /// What is wrong with it.
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
                fitting([key.id.as_str(), deletion, root])?;
            }
            if !kinds.contains(&key.kind) {
                let kind = escape(key.kind.as_str());
                return Err(format!(
                    "it speaks of a {kind}, which it was not asked about"
                ));
            }
            if !is_foreign_root(root) {
                return Err("it names no deployment with which a deletion began".to_owned());
            }
        }
        Ok(())
    }
}

impl Question {
    /// Whether this owner may ask that.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, home: &Deployment, scope: &PeerScope) -> Result<(), String> {
        if self.about.len() > ASKED_TOGETHER {
            return Err(format!(
                "{} resources in one question; at most {ASKED_TOGETHER}",
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
    /// Whether old references to it are seen to, and it may still come to be as before.
    pub fn is_going(&self) -> bool {
        matches!(self.phase, Phase::Checking | Phase::Deleting)
    }
}

/// `deployment/deletion`: which deletion this one began with, if not with itself.
pub fn root_of(home: &Site, root: Option<&str>, deletion_id: &str) -> String {
    match root {
        Some(root) => root.to_owned(),
        None => format!("{home}/{deletion_id}"),
    }
}

/// Of another deployment; a cause that is a deletion of our own is its bare id.
pub fn is_foreign_root(cause: &str) -> bool {
    cause.contains('/')
}

/// "Does anything of yours point at these?" At most [`ASKED_TOGETHER`] at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub from: Deployment,
    /// The answer counts only from a view that has heard this much of the owner's ledger (G7).
    pub ledger: String,
    pub seq: i64,
    pub about: Vec<ClearanceRequest>,
}

/// Resources in one question.
pub const ASKED_TOGETHER: usize = 1_000;
/// What holds one resource is named up to this many; more are counted.
pub const HOLDERS_MAX: usize = 20;
/// More deployments than that in one circle are taken for an echo.
const HOPS_MAX: u8 = 64;
/// Resources that wait for each other over several deployments are told from a queue up to this many.
pub const CIRCLE_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearanceRequest {
    #[serde(flatten)]
    pub key: ResourceKey,
    /// Which deletion of it is meant; of what is only planned none stands yet.
    pub deletion: Option<String>,
    pub incarnation: u32,
    pub root: String,
}

/// One for each that was asked about, in their order; nothing else is an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    pub from: Deployment,
    /// Of the owner's ledger, what the importer had heard when it looked.
    pub ledger: String,
    pub seq: i64,
    pub about: Vec<Answered>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    #[serde(flatten)]
    pub asked: ClearanceRequest,
    /// Nothing points at it, and nothing will.
    pub clear: bool,
    pub holders: Vec<Holder>,
    /// All that point at it, those that are not named included.
    pub count: u64,
}

/// A resource of an importer's that still points at one of the owner's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    #[serde(flatten)]
    pub key: ResourceKey,
    pub name: String,
    pub project_id: String,
    /// It goes only by itself: the deletion of what it points at is refused (G2).
    pub blocks: bool,
    /// The deletion that it goes under, by its root.
    pub root: Option<String>,
    /// Who waits for whom among what goes under the same root, itself first, as far as its deployment
    /// knows (G13).
    pub waits: Waits,
    /// Why it does not go, if it is held up: `blocked by contract c1`.
    pub why: String,
    /// What holds it up there, as far as its deployment knows.
    pub held_by: Vec<Blocker>,
}

impl Holder {
    /// Whether it waits for this in a circle, and for nothing else: such would wait for ever, so one of
    /// them goes first (G13).
    pub fn waits_for(&self, asked: &ClearanceRequest) -> bool {
        let same_root = self.root.as_deref() == Some(asked.root.as_str());
        same_root && self.waits.close_a_circle(&self.key, &asked.key)
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
    /// Whether these answers are to this question, from a view that is late enough (G7). An answer that is
    /// empty, short, about something else or from too early a view is none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, question: &Question) -> Result<(), String> {
        if self.ledger != question.ledger {
            return Err("it has heard of another ledger".to_owned());
        }
        if self.seq < question.seq {
            return Err(format!(
                "it has heard up to {} and not yet up to {}",
                self.seq, question.seq
            ));
        }
        let asked = question.about.iter();
        let same = asked.eq(self.about.iter().map(|answered| &answered.asked));
        if !same {
            return Err("its answer is not about what was asked".to_owned());
        }
        self.about
            .iter()
            .try_for_each(|answered| self.check_holders(answered))
    }

    /// An importer names its own, and says of its own alone what that waits for; of others it tells what
    /// it was told.
    fn check_holders(&self, answered: &Answered) -> Result<(), String> {
        let site = self.from.site();
        if answered.holders.len() > HOLDERS_MAX {
            return Err(format!("it names more than {HOLDERS_MAX} for one resource"));
        }
        for holder in &answered.holders {
            own(&self.from, &holder.key)?;
            fitting(std::iter::once(holder.key.id.as_str()).chain(holder.root.as_deref()))?;
            let waits = &holder.waits.0;
            if waits.len() > CIRCLE_MAX || holder.held_by.len() > BLOCKERS_MAX {
                return Err("it tells more of one resource than is ever told".to_owned());
            }
            if let Some(waiting) = waits.iter().find(|it| it.hops == 0 && it.key.site != site) {
                own(&self.from, &waiting.key)?;
            }
        }
        Ok(())
    }
}

impl Answered {
    /// What an importer says of one resource, from all that points at it.
    pub fn of(asked: ClearanceRequest, mut holders: Vec<Holder>, count: u64) -> Self {
        let all_named = count == holders.len() as u64;
        let clear = all_named && holders.iter().all(|holder| holder.waits_for(&asked));
        holders.sort_by_key(|holder| (!holder.blocks, holder.root.is_some()));
        holders.truncate(HOLDERS_MAX);
        Self {
            clear,
            holders,
            count,
            asked,
        }
    }

    pub fn blocking(&self) -> impl Iterator<Item = &Holder> {
        self.holders.iter().filter(|holder| holder.blocks)
    }
}

/// Resources that are being deleted under one root, each with all that it waits for. What waits for
/// something else, too (its turn, a blocker, an answer), is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Waits(Vec<Waiting>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Waiting {
    #[serde(flatten)]
    key: ResourceKey,
    on: BTreeSet<ResourceKey>,
    /// Over how many deployments this was told. What is nearer is newer: what went round in a circle, and
    /// was true once, loses to it, and dies out where nobody tells it any more.
    hops: u8,
}

impl Waits {
    /// Adds one of this deployment, with all that it waits for.
    pub fn add(&mut self, key: ResourceKey, on: BTreeSet<ResourceKey>) {
        self.put(Waiting { key, on, hops: 0 });
    }

    /// Adds what another deployment tells; of its own each knows best.
    pub fn hear(&mut self, home: &Site, others: &Self) {
        for told in &others.0 {
            let hops = told.hops.saturating_add(1);
            if hops <= HOPS_MAX && told.key.site != *home {
                self.put(Waiting {
                    hops,
                    ..told.clone()
                });
            }
        }
    }

    fn put(&mut self, waiting: Waiting) {
        let full = self.0.len() >= CIRCLE_MAX;
        match self.0.iter_mut().find(|it| it.key == waiting.key) {
            Some(known) if known.hops > waiting.hops => *known = waiting,
            None if !full => self.0.push(waiting),
            _ => {}
        }
    }

    /// All that anything here waits for.
    pub fn waited_for(&self) -> impl Iterator<Item = &ResourceKey> {
        self.0.iter().flat_map(|waiting| &waiting.on)
    }

    pub fn of(&self, key: &ResourceKey) -> Option<&BTreeSet<ResourceKey>> {
        let found = self.0.iter().find(|waiting| waiting.key == *key);
        found.map(|waiting| &waiting.on)
    }

    /// Whether all that `from` waits for, however far, is known, and waits for `to`.
    fn close_a_circle(&self, from: &ResourceKey, to: &ResourceKey) -> bool {
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

/// The type of the error of a step that waits for what importers say.
pub const AWAITED: &str = "AwaitingImporters";
/// The kind of what stands in the way where a deployment has said nothing yet: itself.
pub const SILENT: &str = "deployment";

/// An importer that has not confirmed yet, and what it said last; none: nothing, since then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingClearance {
    pub importer: String,
    pub said: Option<Answered>,
}

/// What a step that only importers hold is told, and what stands in its way: those who hold it, and those
/// who say nothing, by name (G7, G11). First what will not go by itself: that is what a person looks for.
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
        blockers.extend(said.holders.iter().map(Holder::blocker));
    }
    // Each once, and in a circle not what waits itself.
    let said = || awaited.iter().filter_map(|it| it.said.as_ref());
    let mut seen: BTreeSet<ResourceKey> = said().map(|said| said.asked.key.clone()).collect();
    seen.extend(blockers.iter().map(Blocker::key));
    for holder in said().flat_map(|said| &said.holders) {
        let below = holder.held_by.iter().filter(|by| seen.insert(by.key()));
        blockers.extend(below.map(|by| Blocker {
            holds: by.holds.clone().or_else(|| Some(holder.key.clone().into())),
            ..by.clone()
        }));
    }
    let more = lines.len().saturating_sub(DEPLOYMENTS_NAMED_MAX);
    lines.truncate(DEPLOYMENTS_NAMED_MAX);
    if more > 0 {
        lines.push(format!("{more} more deployments still have some"));
    }
    lines.extend(say_nothing(&silent));
    blockers.extend(silent.into_iter().map(self::silent));
    blockers.sort_by_key(|by| (by.in_plan, by.kind.as_str() == SILENT));
    blockers.truncate(BLOCKERS_MAX);
    (lines.join(". "), blockers)
}

/// Holders of one deployment that one line names.
const NAMED_MAX: usize = 3;
/// Deployments that one line names, of those that hold something and of those that are silent.
const DEPLOYMENTS_NAMED_MAX: usize = 20;
/// What stands in the way of one step is told up to this many; more are counted where they are.
const BLOCKERS_MAX: usize = 100;

fn still_has(importer: &str, said: &Answered) -> String {
    let named = said.holders.iter().take(NAMED_MAX).map(|holder| {
        let Holder { key, why, root, .. } = holder;
        let does = match (why.as_str(), root) {
            ("", Some(_)) => "which is being deleted".to_owned(),
            ("", None) if holder.blocks => "which this deletion will not remove".to_owned(),
            ("", None) => "which is not seen to yet".to_owned(),
            (why, _) => format!("which is {why}"),
        };
        format!("{}, {does}", key.called(&holder.name))
    });
    let mut named: Vec<String> = named.collect();
    let more = said.count.saturating_sub(named.len() as u64);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    format!("deployment {importer} still has {}", named.join("; "))
}

fn say_nothing(silent: &[&str]) -> Option<String> {
    let more = silent.len().saturating_sub(DEPLOYMENTS_NAMED_MAX);
    let named = silent.iter().take(DEPLOYMENTS_NAMED_MAX).copied();
    let named: Vec<&str> = named.collect();
    let named = named.join(", ");
    let said = "said yet that nothing of";
    match (silent.len(), more) {
        (0, _) => None,
        (1, _) => Some(format!(
            "deployment {named} has not {said} its own points here"
        )),
        (_, 0) => Some(format!(
            "deployments {named} have not {said} theirs points here"
        )),
        (_, more) => Some(format!(
            "deployments {named} and {more} more have not {said} theirs points here"
        )),
    }
}

fn silent(importer: &str) -> Blocker {
    let site = Site::Deployment {
        name: importer.into(),
    };
    let key = ResourceKey {
        site,
        kind: KindName::new(SILENT),
        id: importer.to_owned(),
    };
    Blocker::of(&key, "")
}
