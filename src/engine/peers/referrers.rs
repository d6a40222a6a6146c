//! The importer's side: finds this deployment's resources that refer to resources of the deployment that asks
//! (G5, G7, G13).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::Deployments;
use crate::control::ControlError;
use crate::domain::awaiting::silent_deployment;
use crate::domain::kinds::{IN_USE, Kind, Kinds, OnDelete, base};
use crate::domain::ladder::DEPENDENCY_STUCK;
use crate::domain::model::{
    Action, Blocker, DeletionState, KindName, ResourceKey, Site, StepState, Target, short_id,
};
use crate::domain::peers::{
    AWAITED, Answers, CYCLE_MAX, ClearanceAnswer, ClearanceRequest, NamedReferrer, Question,
    REFERRERS_NAMED_MAX, Waits,
};
use crate::domain::text::escape;
use crate::ledger::{Ledger, LiveStep, Referrer, Referrers};
use crate::peers::Peer;

/// Maximum number of referrers that are named as blockers.
const NAMED_MAX: usize = 3;
/// Maximum number of blockers reported for one referrer.
const BLOCKERS_OF_REFERRER_MAX: usize = 12;
/// Maximum number of blockers in one answer: some megabytes.
const BLOCKERS_OF_ANSWER_MAX: usize = 10_000;
/// How long a question waits for the notices that it is about.
const ARRIVAL_WITHIN: Duration = Duration::from_secs(2);

/// Finds this deployment's resources that refer to a resource, and what they wait for.
pub(in crate::engine) struct BackReferences {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) deployments: Arc<Deployments>,
}

impl BackReferences {
    /// Answers a question about referrers, only from a view that includes the notices that the question is
    /// about (G7).
    pub(in crate::engine) async fn points_at(
        &self,
        question: Question,
    ) -> Result<Answers, ControlError> {
        let deployments = &self.deployments;
        let scope = deployments.peers.scope(&Peer::from(&question.from));
        deployments
            .check_sender(&question.from)
            .map_err(ControlError::usage)?;
        question
            .check(&deployments.home, &scope)
            .map_err(ControlError::usage)?;
        self.check_services(&question)
            .map_err(ControlError::usage)?;
        let view = deployments.view(&question).await?;
        let keys: Vec<ResourceKey> = question.about.iter().map(|it| it.key.clone()).collect();
        let fields = self.pointing_fields();
        let pointed = self
            .ledger
            .referrers(keys, fields, REFERRERS_NAMED_MAX + 1)
            .await?;
        let home = deployments.home.site();
        let mut about = Vec::with_capacity(question.about.len());
        let mut left = BLOCKERS_OF_ANSWER_MAX;
        for (asked, pointed) in question.about.into_iter().zip(pointed) {
            let mut answered = self.answered(&home, asked, pointed).await?;
            for holder in &mut answered.referrers {
                holder.held_by.truncate(left);
                left -= holder.held_by.len();
            }
            about.push(answered);
        }
        Ok(Answers {
            from: deployments.home.clone(),
            ledger: question.ledger,
            seq: view,
            about,
        })
    }

    /// Checks that another deployment asks only about kinds of its own service (P13). An importer watches a deployment
    /// only for those kinds.
    fn check_services(&self, question: &Question) -> Result<(), String> {
        let from = &question.from;
        if *from == self.deployments.home {
            return Ok(());
        }
        let mut asked = question.about.iter();
        let others = |kind: &&Kind| kind.service != from.service;
        match asked.find_map(|it| self.kinds.get(&it.key.kind).filter(others)) {
            None => Ok(()),
            Some(kind) => Err(format!(
                "it asks about {}, a kind of the service {}, but serves {}/{}",
                kind.name,
                kind.service,
                escape(&from.service),
                escape(&from.region)
            )),
        }
    }

    async fn answered(
        &self,
        home: &Site,
        asked: ClearanceRequest,
        pointed: Referrers,
    ) -> Result<ClearanceAnswer, ControlError> {
        let Referrers { named, count } = pointed;
        let mut by_key: BTreeMap<&ResourceKey, Vec<&Referrer>> = BTreeMap::new();
        for referrer in &named {
            by_key.entry(&referrer.key).or_default().push(referrer);
        }
        let keys: Vec<ResourceKey> = by_key.keys().map(|key| (*key).clone()).collect();
        let live = self.ledger.live_steps(home.clone(), keys).await?;
        let mut holders = Vec::with_capacity(by_key.len());
        for ((key, referrers), live) in by_key.into_iter().zip(live) {
            holders.push(self.holder(&asked, key, &referrers, live).await?);
        }
        Ok(ClearanceAnswer::of(asked, holders, count))
    }

    async fn holder(
        &self,
        asked: &ClearanceRequest,
        key: &ResourceKey,
        referrers: &[&Referrer],
        live: Option<LiveStep>,
    ) -> Result<NamedReferrer, ControlError> {
        let goes = live.filter(|it| it.action != Action::Enable);
        let held_by = match &goes {
            Some(live) => self.blocked_by(key, live).await?,
            None => Vec::new(),
        };
        let why = match &goes {
            Some(live) if is_blocked_or_stuck(live) => blocked_reason(live, held_by.first()),
            Some(_) => String::new(),
            None => self.unhandled_reason(&asked.key).await?,
        };
        let waits = match &goes {
            Some(live) if live.action != Action::Unset => self.waits(key, &live.root).await?,
            _ => Waits::default(),
        };
        Ok(NamedReferrer {
            key: key.clone(),
            name: referrers
                .first()
                .map(|it| it.name.clone())
                .unwrap_or_default(),
            project_id: String::new(),
            blocks: referrers.iter().any(|it| self.blocks(it)),
            root: goes.map(|live| live.root),
            waits,
            why,
            held_by,
        })
    }

    /// Lists the blockers of a live step, at most [`BLOCKERS_OF_REFERRER_MAX`], each with the resource that it blocks.
    /// If the step waits for other steps, its blockers are the dependents that are deleted first, and the blockers of
    /// those in turn. If the step is blocked or stuck, its blockers are the referrers that stay, or else the blockers
    /// that its last attempt met, here or in other deployments.
    async fn blocked_by(
        &self,
        key: &ResourceKey,
        live: &LiveStep,
    ) -> Result<Vec<Blocker>, ControlError> {
        let mut held_by: Vec<Blocker> = Vec::new();
        let mut open = VecDeque::from([(key.clone(), live.clone())]);
        while let Some((key, live)) = open.pop_front() {
            let mut direct = match (waits_for_other_steps(&live), is_blocked_or_stuck(&live)) {
                (true, _) => self.goes_before(&live).await?,
                (false, true) => self.blockers_found(&key, &live).await?,
                (false, false) => Vec::new(),
            };
            direct.retain(|by| held_by.iter().all(|known| known.key() != by.key()));
            direct.truncate(BLOCKERS_OF_REFERRER_MAX - held_by.len());
            for by in direct {
                if waits_for_other_steps(&live) {
                    let next = self.live_step_of(&by.key()).await?;
                    open.extend(next.map(|it| (by.key(), it)));
                }
                held_by.push(Blocker {
                    holds: by.holds.clone().or_else(|| Some(key.clone().into())),
                    ..by
                });
            }
        }
        Ok(held_by)
    }

    async fn goes_before(&self, live: &LiveStep) -> Result<Vec<Blocker>, ControlError> {
        let before = self.ledger.live_dependencies(live.step).await?.into_iter();
        let goes = before.map(|Target { key, name }| Blocker {
            in_plan: true,
            ..Blocker::of(&key, &name)
        });
        Ok(goes.collect())
    }

    /// Returns the referrers that stay and block the step of this resource. If there are none, returns the
    /// blockers that the last attempt met.
    async fn blockers_found(
        &self,
        key: &ResourceKey,
        live: &LiveStep,
    ) -> Result<Vec<Blocker>, ControlError> {
        let stays = self.referrers_that_stay(key).await?;
        Ok(match stays.is_empty() {
            true => live.blockers.clone(),
            false => stays.iter().map(Referrer::blocker).collect(),
        })
    }

    async fn live_step_of(&self, key: &ResourceKey) -> Result<Option<LiveStep>, ControlError> {
        let live = self
            .ledger
            .live_steps(key.site.clone(), vec![key.clone()])
            .await?;
        Ok(live.into_iter().next().flatten())
    }

    /// Returns why the referrers of this resource are not handled: the deletion that should handle them was refused or
    /// cancelled. Empty if that deletion was neither, or if there is none.
    async fn unhandled_reason(&self, key: &ResourceKey) -> Result<String, ControlError> {
        let deletion = self
            .ledger
            .handled_by_deletion(key.clone())
            .await?
            .filter(|deletion| {
                let state = deletion.state;
                matches!(state, DeletionState::Refused | DeletionState::Cancelled)
            });
        Ok(deletion.map_or_else(String::new, |deletion| {
            let (short, state) = (short_id(&deletion.id), deletion.state.as_str());
            let note = match deletion.note.as_str() {
                "" => String::new(),
                note => format!(": {note}"),
            };
            format!("not handled: deletion {short} there is {state}{note}")
        }))
    }

    /// Collects which resources wait for which, starting from this resource, as far as this deployment knows.
    /// Resources that wait for something else, or for a resource under another root, are left out, so that no
    /// false cycle is found.
    async fn waits(&self, key: &ResourceKey, root: &str) -> Result<Waits, ControlError> {
        let home = key.site.clone();
        let mut waits = Waits::default();
        let mut open = vec![key.clone()];
        let mut seen = BTreeSet::from([key.clone()]);
        while let Some(key) = open.pop() {
            let live = self.live_step_of(&key).await?;
            let Some(live) = live.filter(|it| it.root == root) else {
                continue;
            };
            let Some(here) = self.waited_for_here(&key, &live).await? else {
                continue;
            };
            let mut on: BTreeSet<ResourceKey> = here.into_iter().collect();
            let mut known = true;
            for awaited in self.ledger.pending_clearances(live.step).await? {
                let Some(said) = awaited.said else {
                    known = false;
                    continue;
                };
                known &= said.count == said.referrers.len() as u64;
                for holder in said.referrers {
                    known &= holder.root.as_deref() == Some(root);
                    waits.merge_reported(&home, &holder.waits);
                    on.insert(holder.key);
                }
            }
            if known {
                waits.add(key, on.clone());
            }
            // A cycle may pass through this deployment more than once.
            let others = waits.waited_for().filter(|it| it.site == home).cloned();
            let next: Vec<ResourceKey> = on.into_iter().chain(others).collect();
            for key in next.into_iter().filter(|it| it.site == home) {
                if seen.len() < CYCLE_MAX && seen.insert(key.clone()) {
                    open.push(key);
                }
            }
        }
        Ok(waits)
    }

    /// Returns the resources of this deployment that a step waits for: those whose steps in the same deletion must end
    /// first, and registry resources that refer to the step's resource. Resources of importers are left out. None means
    /// that the step waits for something else or for nothing, or that there are too many referrers to name.
    async fn waited_for_here(
        &self,
        key: &ResourceKey,
        live: &LiveStep,
    ) -> Result<Option<Vec<ResourceKey>>, ControlError> {
        let before = match last_error_type(live) {
            _ if waits_for_other_steps(live) => self.goes_before(live).await?,
            Some(AWAITED | IN_USE) if is_blocked_or_stuck(live) => Vec::new(),
            _ => return Ok(None),
        };
        let referrers = self.referrers_here(key).await?;
        let all_named = referrers.count <= referrers.named.len() as u64;
        let holders = referrers.named.into_iter().map(|it| it.key);
        let before = before.iter().map(Blocker::key);
        Ok(all_named.then(|| before.chain(holders).collect()))
    }

    /// Returns the registry's resources whose references to this one must be removed first. Asynchronous references are
    /// not among them: a clearance covers those.
    async fn referrers_here(&self, key: &ResourceKey) -> Result<Referrers, ControlError> {
        let fields = self.kinds.blocking_fields(&key.kind);
        let referrers = self
            .ledger
            .referrers(vec![key.clone()], fields, REFERRERS_NAMED_MAX);
        let referrers = referrers.await?;
        Ok(referrers.into_iter().next().unwrap_or_default())
    }

    /// Returns a few of the referrers whose references to this resource must be removed first: those that are not being
    /// deleted under the resource's root.
    pub(super) async fn referrers_that_stay(
        &self,
        key: &ResourceKey,
    ) -> Result<Vec<Referrer>, ControlError> {
        let mut referrers = self.referrers_here(key).await?.named;
        if referrers.is_empty() {
            return Ok(referrers);
        }
        let own = std::iter::once(key).chain(referrers.iter().map(|it| &it.key));
        let live = self
            .ledger
            .live_steps(key.site.clone(), own.cloned().collect());
        let mut live = live.await?.into_iter();
        let root = live.next().flatten().map(|it| it.root);
        referrers.retain(|_| live.next().flatten().map(|it| it.root) != root);
        referrers.truncate(NAMED_MAX);
        Ok(referrers)
    }

    /// Whether the referrer is deleted only on a request of its own. If so, the deletion of the resource to
    /// which it refers is refused (G2).
    fn blocks(&self, referrer: &Referrer) -> bool {
        let kind = self.kinds.get(&referrer.key.kind);
        kind.is_some_and(|kind| {
            let references = kind.spec.references.iter().filter(|reference| {
                reference.to == referrer.to.kind
                    && reference.field.as_deref().map(base) == Some(referrer.field.as_str())
            });
            references
                .into_iter()
                .any(|reference| match reference.on_delete {
                    OnDelete::Block => true,
                    OnDelete::Unset => kind.spec.requires(reference),
                    _ => false,
                })
        })
    }

    /// Lists the fields of native kinds whose references must be cleared before the resource to which they refer is
    /// deleted.
    pub(super) fn pointing_fields(&self) -> Arc<[(KindName, String)]> {
        let fields_of = |kind: &Kind| -> Vec<(KindName, String)> {
            let holding = kind.spec.references.iter();
            let holding = holding.filter(|it| it.on_delete != OnDelete::Dangling);
            let fields = holding.filter_map(|it| it.field.as_deref().map(base));
            fields
                .map(|field| (kind.name.clone(), field.to_owned()))
                .collect()
        };
        let native = self.kinds.iter().filter(|kind| kind.is_native());
        native.flat_map(fields_of).collect()
    }
}

impl Deployments {
    /// Returns the sequence number up to which the owner's notices were received. If that is not far enough for the
    /// question, waits up to [`ARRIVAL_WITHIN`] for more notices, and then fails. Also fails if this deployment does
    /// not watch the owner.
    async fn view(&self, question: &Question) -> Result<i64, ControlError> {
        let deadline = tokio::time::Instant::now() + ARRIVAL_WITHIN;
        let peer = Peer::from(&question.from);
        loop {
            let arrival = self.arrived.notified();
            tokio::pin!(arrival);
            // A notice that arrives after this line ends the wait.
            arrival.as_mut().enable();
            let Some(watching) = self.watching().get(&peer).cloned() else {
                return Err(ControlError::not_found(format!(
                    "deployment {} does not watch {peer}",
                    self.home.name
                )));
            };
            let is_owner = watching.owner.as_ref() == Some(&question.from);
            if is_owner && watching.ledger == question.ledger && watching.seq >= question.seq {
                return Ok(watching.seq);
            }
            if tokio::time::timeout_at(deadline, arrival).await.is_err() {
                return Err(ControlError::conflict(format!(
                    "deployment {} has received the notices of {peer} up to number {}, but the question is about notices up to number {}; ask again",
                    self.home.name, watching.seq, question.seq
                )));
            }
        }
    }
}

/// Returns the message about a blocker: `blocked by contract c1 at d0-1, which this deletion will not remove`.
pub(super) fn blocker_message(by: &Blocker) -> String {
    if let Some(name) = silent_deployment(by) {
        return format!(
            "waiting: clearance of deployment {} is pending",
            escape(name)
        );
    }
    let does = match by.in_plan {
        true => "",
        false => ", which this deletion will not remove",
    };
    format!(
        "blocked by {} at {}{does}",
        by.key().called(&by.name),
        by.site
    )
}

/// Returns in a few words why a step is blocked or stuck.
fn blocked_reason(live: &LiveStep, by: Option<&Blocker>) -> String {
    let state = live.state.as_str();
    match (by, &live.error) {
        (Some(by), _) => blocker_message(by),
        (None, Some(error)) => format!("{state}: {}", error.message),
        (None, None) => state.to_owned(),
    }
}

fn is_blocked_or_stuck(live: &LiveStep) -> bool {
    matches!(live.state, StepState::Blocked | StepState::Stuck)
}

/// Whether the step waits for other steps of its deletion.
fn waits_for_other_steps(live: &LiveStep) -> bool {
    match live.state {
        StepState::Waiting => true,
        StepState::Stuck => last_error_type(live) == Some(DEPENDENCY_STUCK),
        _ => false,
    }
}

/// Returns the type of the error of the step's last attempt.
fn last_error_type(live: &LiveStep) -> Option<&str> {
    live.error.as_ref().map(|error| error.kind.as_str())
}
