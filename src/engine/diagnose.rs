//! Diagnoses a refused step: finds its blockers, and whether they will be deleted without a person (P2, I6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::audit::{engine_audit, new_deletion};
use super::journal::Journal;
use super::owner_names::name_blockers;
use super::planning::Planning;
use super::reads::{Reads, may_pass};
use super::resolve::ids_by_kind;
use crate::cloud::CloudFailure;
use crate::domain::drift::newcomers_line;
use crate::domain::kinds::AsyncDelete;
use crate::domain::model::{
    Blocker, DriftPolicy, ErrorClass, KindName, Phase, Plan, PlanOptions, PlanStep, Resource,
    ResourceKey, Site, Target, Tombstone,
};
use crate::domain::policy::{Failure, Retry};
use crate::domain::query::{ListFilter, Lookup};
use crate::domain::text::escape;
use crate::ledger::{Applied, Change, ClaimedStep, LedgerError, NewDeletion, Views};
use crate::system::clock::Clock;

/// Maximum number of newcomers that one step absorbs at a time. More newcomers come from a steady writer and not from
/// a race, so a person decides.
const ABSORBED_MAX: usize = 50;
/// Maximum number of blockers that are stored and shown with a step, and of the blockers of one kind that are taken
/// from the refusal itself.
const BLOCKERS_MAX: usize = 50;

pub(super) struct Diagnosis {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Views>,
    pub(super) journal: Arc<Journal>,
    pub(super) reads: Arc<Reads>,
    pub(super) planning: Arc<Planning>,
}

impl Diagnosis {
    /// Adds the blockers to a refusal, and decides how the step continues. If the blockers or the state of the resource
    /// cannot be determined, the step is retried without using an attempt. Otherwise:
    ///
    /// 1. a blocker was abandoned (P3): a person must decide again;
    /// 2. all blockers are being deleted too: the step waits for them (I6);
    /// 3. newcomers appeared after the plan, and the cascade would delete them: this is drift, and a person decides,
    ///    unless the deletion absorbs them (P1). A deletion without a cascade deletes nothing more;
    /// 4. an earlier delete of the resource is under way: the step waits for it;
    /// 5. otherwise the retry schedule applies, and the blockers are named.
    pub(super) async fn diagnose(
        &self,
        step: &ClaimedStep,
        failure: Failure,
        named: &[(KindName, String)],
    ) -> Failure {
        let began = self.clock.now();
        let found = match self.find_blockers(step, named).await {
            Ok(found) => found,
            Err(why) => return with_unknown_blockers(failure, &why.message),
        };
        // The error of a delete that was accepted and then failed already names the state.
        let failure = match failure.error.status {
            None => failure,
            Some(_) => match self.state_of(step).await {
                Ok(state) => with_state(failure, state),
                Err(why) => return with_unknown_blockers(failure, &why.message),
            },
        };
        let keys: Vec<ResourceKey> = found.keys().cloned().collect();
        let tombstones = match self.ledger.tombstones_of(keys).await {
            Ok(tombstones) => tombstones,
            Err(why) => return with_unknown_blockers(failure, &why.to_string()),
        };
        let going: BTreeSet<&ResourceKey> = tombstones
            .iter()
            .filter(|tombstone| self.will_go(tombstone, began))
            .map(|tombstone| &tombstone.key)
            .collect();
        let ours: BTreeSet<&ResourceKey> = tombstones
            .iter()
            .filter(|tombstone| tombstone.deletion_id == step.deletion_id)
            .filter(|tombstone| tombstone.phase != Phase::Purged)
            .map(|tombstone| &tombstone.key)
            .collect();
        let is_abandoned = tombstones
            .iter()
            .any(|tombstone| tombstone.phase == Phase::Purged);
        let newcomers: Vec<&ResourceKey> = found
            .iter()
            .filter(|(key, blocker)| blocker.cascades && !going.contains(key))
            .map(|(key, _)| key)
            .collect();
        let all_going = !found.is_empty() && found.keys().all(|key| going.contains(key));
        let mut blockers: Vec<Blocker> = found
            .iter()
            .map(|(key, blocker)| Blocker {
                owner: blocker.owner.clone(),
                since: step.blocked_since.or(Some(failure.error.at)),
                in_plan: ours.contains(key),
                ..Blocker::of(key, &blocker.name)
            })
            .take(BLOCKERS_MAX)
            .collect();
        name_blockers(&*self.reads.cloud, &mut blockers, &step.project_id).await;
        let retry = match failure.retry {
            _ if is_abandoned => Retry::Never,
            _ if all_going => Retry::Pending,
            retry => retry,
        };
        let failure = Failure {
            retry,
            blockers,
            ..failure
        };
        match is_abandoned || all_going || newcomers.is_empty() {
            true => failure,
            false => self.diagnose_newcomers(step, failure, &newcomers).await,
        }
    }

    /// Absorbs the newcomers if the deletion's drift policy says so and [`Self::absorb`] can; otherwise the refusal is
    /// due to drift. A deletion without a cascade would not delete the newcomers, so its refusal stays as it is.
    async fn diagnose_newcomers(
        &self,
        step: &ClaimedStep,
        failure: Failure,
        newcomers: &[&ResourceKey],
    ) -> Failure {
        let absorbed = match self.drift_policy_of(step).await {
            Ok(None) => return failure,
            Ok(Some(DriftPolicy::Absorb)) => self.absorb(step, newcomers).await,
            Ok(Some(DriftPolicy::Ask | DriftPolicy::Refuse)) => Ok(false),
            Err(why) => Err(why),
        };
        match absorbed {
            Err(why) => with_unknown_blockers(failure, &why.to_string()),
            Ok(true) => Failure {
                retry: Retry::Pending,
                ..failure
            },
            Ok(false) => {
                let Failure {
                    mut error,
                    mut blockers,
                    ..
                } = failure;
                error.class = ErrorClass::Drift;
                error.message = self
                    .newcomers_message(&step.deletion_id, &error.message, &mut blockers, newcomers)
                    .await;
                Failure {
                    retry: Retry::Never,
                    error,
                    blockers,
                    retry_after: None,
                }
            }
        }
    }

    /// Returns the state that the resource's row shows, if a refusal may be due to it; none if the resource is
    /// gone or may not be read, or if rows of its kind show no such state.
    async fn state_of(&self, step: &ClaimedStep) -> Result<Option<State>, CloudFailure> {
        let Some(kind) = self.reads.kinds.get(&step.key.kind) else {
            return Ok(None);
        };
        if kind.spec.list.is_none() || !kind.shows_state() {
            return Ok(None);
        }
        let read = self.reads.read(&step.key.site, kind, &step.key.id).await;
        let row = match read {
            Ok(read) => read.row,
            Err(why) if may_pass(&why) => return Err(why),
            Err(_) => None,
        };
        Ok(row.and_then(|row| {
            let goes_on = matches!(kind.settling(&row), Some((AsyncDelete::GoesOn, _)));
            Some(State {
                says: kind.put_back(&row)?,
                goes_on,
            })
        }))
    }

    /// Deletes the newcomers in a deletion of their own, under the guards of every deletion. The step waits for
    /// that deletion. Returns false if there are too many newcomers, or if the ledger refuses that deletion.
    async fn absorb(
        &self,
        step: &ClaimedStep,
        newcomers: &[&ResourceKey],
    ) -> Result<bool, LedgerError> {
        if newcomers.len() > ABSORBED_MAX {
            return Ok(false);
        }
        let reason = format!("appeared after the plan to delete {}", step.key);
        let detail = serde_json::json!({ "newcomers": newcomers });
        let audit = engine_audit("absorb", &step.key, reason, detail);
        let targets = newcomers.iter().map(|key| Target::of(key, ""));
        let options = PlanOptions {
            drift: DriftPolicy::Absorb,
            ..PlanOptions::cascading()
        };
        let new = NewDeletion {
            cause: Some(step.deletion_id.clone()),
            ..new_deletion(&self.clock, targets.collect(), options, audit)
        };
        let accept = Change::Accept(Box::new(new));
        let applied = self.journal.commit_one(accept).await?;
        Ok(matches!(applied, Some(Applied::Accepted { .. })))
    }

    /// Whether a blocker is deleted without a person: it is being deleted or about to be, or it was gone and the sweep
    /// may delete it again, because its kind has a list and no natural key. Under a natural key, a resource that exists
    /// after the deletion's end is another incarnation, which nothing removes (I10, T14), unless the deletion ended
    /// during this diagnosis, which began at `began`.
    fn will_go(&self, tombstone: &Tombstone, began: DateTime<Utc>) -> bool {
        match tombstone.phase {
            Phase::Checking | Phase::Deleting => true,
            Phase::Gone if tombstone.gone_at >= Some(began) => true,
            Phase::Gone => self
                .reads
                .kinds
                .get(&tombstone.key.kind)
                .is_some_and(|kind| kind.spec.list.is_some() && !kind.has_natural_key()),
            Phase::Released | Phase::Purged => false,
        }
    }

    /// Returns the deletion's drift policy; none if it has no cascade. If the ledger has no such deletion, a
    /// person is asked.
    async fn drift_policy_of(
        &self,
        step: &ClaimedStep,
    ) -> Result<Option<DriftPolicy>, LedgerError> {
        let deletion = self.ledger.deletion(&step.deletion_id).await?;
        Ok(match deletion {
            Some(deletion) => {
                let options = deletion.options;
                options.cascade.then_some(options.drift)
            }
            None => Some(DriftPolicy::Ask),
        })
    }

    /// Finds the dependents and the blockers that a new plan of this one resource has, and the blockers that
    /// the refusal itself names.
    async fn find_blockers(
        &self,
        step: &ClaimedStep,
        named: &[(KindName, String)],
    ) -> Result<BTreeMap<ResourceKey, FoundBlocker>, CloudFailure> {
        let target = Target::of(&step.key, &step.name);
        let options = PlanOptions::cascading();
        let mut found: BTreeMap<ResourceKey, FoundBlocker> = BTreeMap::new();
        // A router interface is also identified by its port.
        let mut handles: BTreeSet<String> = BTreeSet::new();
        let plan = match self.planning.plan_targets(&[target], options).await {
            Ok(plan) => Some(plan),
            Err(why) if may_pass(&why) => return Err(why),
            // There is no plan, for example because the resource itself is already gone or this login may not list, so
            // only the refusal is known.
            Err(_) => None,
        };
        if let Some(plan) = plan {
            for other in steps_before(&plan, &step.key) {
                handles.extend(other.vars.values().cloned());
                found.insert(
                    other.key(),
                    FoundBlocker {
                        name: other.name.clone(),
                        owner: other.project_id.to_string(),
                        cascades: true,
                    },
                );
            }
            for blocker in plan
                .refused
                .into_iter()
                .filter_map(|refusal| refusal.blocker)
            {
                found.insert(
                    blocker.key(),
                    FoundBlocker {
                        name: blocker.name,
                        owner: blocker.owner,
                        cascades: false,
                    },
                );
            }
        }
        let mut only_named: BTreeMap<&KindName, BTreeSet<&str>> = BTreeMap::new();
        for (kind, id) in named {
            let known = handles.contains(id) || found.keys().any(|other| other.id == *id);
            if !known {
                only_named.entry(kind).or_default().insert(id);
            }
        }
        for (kind, ids) in only_named {
            found.extend(self.named(&step.key.site, kind, &ids).await);
        }
        Ok(found)
    }

    /// Describes the resources of one kind that only the refusal names, at most [`BLOCKERS_MAX`], by one lookup,
    /// because an id alone means little to a person. A resource that is not found keeps its id alone.
    async fn named(
        &self,
        site: &Site,
        kind: &KindName,
        ids: &BTreeSet<&str>,
    ) -> BTreeMap<ResourceKey, FoundBlocker> {
        let ids = ids.iter().take(BLOCKERS_MAX);
        let ids: Vec<String> = ids.map(|id| (*id).to_owned()).collect();
        let key = |id: &String| ResourceKey::new(site, kind, id);
        let named = ids.iter().map(|id| (key(id), FoundBlocker::default()));
        let mut named: BTreeMap<ResourceKey, FoundBlocker> = named.collect();
        for resource in self.list_by_ids(site, kind, ids).await {
            if let Some(blocker) = named.get_mut(&resource.key) {
                blocker.name = resource.name;
                blocker.owner = resource.project_id;
            }
        }
        named
    }

    /// Returns the resources that the rows with these ids show. Returns none if the kind is not listed, or if the list
    /// fails.
    async fn list_by_ids(&self, site: &Site, kind: &KindName, ids: Vec<String>) -> Vec<Resource> {
        let listed = self.reads.kinds.get(kind);
        let Some(listed) = listed.filter(|it| it.spec.list.is_some()) else {
            return Vec::new();
        };
        let lookup = Lookup {
            site: site.clone(),
            kind: kind.clone(),
            filter: Some(ListFilter::by_ids(ids)),
        };
        let Ok((rows, _)) = self.reads.look_up(&lookup).await else {
            return Vec::new();
        };
        let rows = rows.iter();
        rows.flat_map(|row| self.reads.kinds.resources_in(site, listed, row))
            .collect()
    }

    /// Returns the step's message, which names the newcomers and says what to do (P11). Puts the newcomers
    /// first among the blockers, with their age.
    async fn newcomers_message(
        &self,
        deletion_id: &str,
        refusal: &str,
        blockers: &mut [Blocker],
        newcomers: &[&ResourceKey],
    ) -> String {
        for blocker in blockers
            .iter_mut()
            .filter(|it| newcomers.contains(&&it.key()))
        {
            blocker.since = None;
        }
        for ((site, kind), ids) in ids_by_kind(newcomers.iter().copied()) {
            let ids = ids.into_iter().map(str::to_owned).collect();
            // The age only helps a person to decide, so newcomers without a known age are named as well.
            for resource in self.list_by_ids(site, kind, ids).await {
                if let Some(blocker) = blockers.iter_mut().find(|it| it.key() == resource.key) {
                    blocker.since = self.reads.kinds.created_at(&resource);
                }
            }
        }
        blockers.sort_by_key(|blocker| !newcomers.contains(&&blocker.key()));
        let named: Vec<&Blocker> = blockers
            .iter()
            .filter(|blocker| newcomers.contains(&&blocker.key()))
            .collect();
        newcomers_line(deletion_id, &named, newcomers.len(), refusal)
    }
}

/// The state of a resource whose delete was refused.
struct State {
    says: String,
    /// Whether an earlier delete is under way.
    goes_on: bool,
}

/// Adds the state to a refusal, because some services give one text for all causes. If an earlier delete is
/// under way, the step waits for it.
fn with_state(failure: Failure, state: Option<State>) -> Failure {
    let Some(State { says, goes_on }) = state.filter(|it| !it.says.is_empty()) else {
        return failure;
    };
    let mut error = failure.error;
    error.message = format!("{} (the resource is {})", error.message, escape(&says));
    let retry = match goes_on {
        true => Retry::Pending,
        false => failure.retry,
    };
    Failure {
        retry,
        error,
        ..failure
    }
}

/// Describes a failure whose blockers could not be determined. The step is retried, and uses no attempt.
fn with_unknown_blockers(failure: Failure, why: &str) -> Failure {
    let mut error = failure.error;
    error.message = format!(
        "{}; the resource's blockers could not be determined: {why}",
        error.message
    );
    Failure {
        retry: Retry::Pending,
        error,
        ..failure
    }
}

/// Returns the steps of a plan that must end before this resource can be deleted. Resources that are
/// deleted along with it (a trunk's subports) come after it, and block nothing.
pub(super) fn steps_before<'p>(plan: &'p Plan, key: &ResourceKey) -> Vec<&'p PlanStep> {
    let mut reached: BTreeSet<u32> = BTreeSet::new();
    let own = plan.steps.iter().filter(|step| step.key() == *key);
    let mut open: Vec<u32> = own.flat_map(|step| step.depends_on.clone()).collect();
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            let found = plan.steps.iter().filter(|step| step.id == id);
            open.extend(found.flat_map(|step| step.depends_on.clone()));
        }
    }
    let steps = plan.steps.iter();
    steps
        .filter(|step| reached.contains(&step.id) && step.key() != *key)
        .collect()
}

#[derive(Clone, Debug, Default)]
struct FoundBlocker {
    name: String,
    owner: String,
    /// Whether the cascade would remove the resource.
    cascades: bool,
}
