//! Looks: absence is confirmed, never assumed (I13).
//!
//! Steps to look at are gathered by site and listed kind, so that one listing answers for about 140 of
//! them (N14). A group is looked at when no call of its kind is in flight, when it fills a listing, or
//! when its oldest has waited long enough.
//!
//! A listing tells of absence only if it also returned a *witness*: a living resource of the same kind
//! that was asked for in the same call, best of the same project. An edge's parent is its own witness. A few are simply read by
//! id, where the kind's own not-found answer is proof by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::task::JoinSet;

use super::dispatch::facts;
use super::{Done, Shared, UnderWay};
use crate::cloud::{Asked, CloudFailure, Fields, ListRows};
use crate::domain::kinds::Kind;
use crate::domain::model::{ErrorClass, Identity, KindName, ResourceKey, Site, StepError};
use crate::domain::plan::Filter;
use crate::domain::policy::{Looked, Retry, after_look};
use crate::ledger::{ClaimedStep, LedgerError};

/// Ids that fit a URL of 6 KB beside the witness.
const BATCH: usize = 139;
/// Up to this many are read one by one: cheaper than finding a witness.
const READ_MAX: usize = 3;
/// Steps in `verifying` that one pass considers.
const CONSIDERED_MAX: usize = 2_000;
/// A part-filled group waits for more of its kind no longer than this.
const GATHER_MAX: Duration = Duration::from_secs(10);
/// Deletions whose frozen rights are kept in memory; more than run at once on any site we know.
const RIGHTS_KEPT_MAX: usize = 256;
/// Rows among which a witness is looked for.
const WITNESS_ROWS: usize = 50;

impl Shared {
    /// Starts looks; says when a group that still gathers falls due.
    pub(super) async fn verify(
        self: &Arc<Self>,
        tasks: &mut JoinSet<Done>,
        under_way: &mut UnderWay,
    ) -> Result<Duration, LedgerError> {
        let now = self.clock.now();
        let due = self.ledger.verifying(now, CONSIDERED_MAX).await?;
        let mut groups: BTreeMap<(Site, KindName), Vec<ClaimedStep>> = BTreeMap::new();
        for step in due {
            let Some(kind) = self.kinds.get(&step.key.kind) else {
                continue;
            };
            let listed = self.kinds.listed(kind).name.clone();
            groups
                .entry((step.key.site.clone(), listed))
                .or_default()
                .push(step);
        }
        let mut hold = Duration::MAX;
        for ((site, listed), steps) in groups {
            let at = (site.clone(), listed.clone());
            if under_way.looking.contains(&at) || !self.sites.may_look(&site) {
                continue;
            }
            if let Some(wait) = self.gathers(&site, &steps, now) {
                hold = hold.min(wait);
                continue;
            }
            under_way.looking.insert(at);
            let shared = self.clone();
            tasks.spawn(async move {
                shared.look_at_all(&site, &listed, steps).await;
                shared.wake.notify_one();
                Done::Looked(site, listed)
            });
        }
        Ok(hold)
    }

    /// How much longer a group waits for more of its kind; none if it is looked at now.
    fn gathers(&self, site: &Site, steps: &[ClaimedStep], now: DateTime<Utc>) -> Option<Duration> {
        let more_to_come = steps
            .iter()
            .any(|step| self.sites.acting(site, &step.key.kind));
        if steps.len() >= BATCH || !more_to_come {
            return None;
        }
        let oldest = steps
            .iter()
            .filter_map(|step| step.due_at)
            .min()
            .unwrap_or(now);
        let waited = (now - oldest).to_std().unwrap_or_default();
        GATHER_MAX
            .checked_sub(waited)
            .filter(|wait| !wait.is_zero())
    }

    async fn look_at_all(&self, site: &Site, listed: &KindName, steps: Vec<ClaimedStep>) {
        let Some(kind) = self.kinds.get(listed) else {
            return;
        };
        for batch in steps.chunks(BATCH) {
            let looked = self.look(site, kind, batch).await;
            let settled = batch.iter().zip(looked).map(|(step, looked)| async move {
                let message = match &looked {
                    Looked::Absent => "looked: gone".to_owned(),
                    Looked::Present => "looked: still there".to_owned(),
                    Looked::Unclear(error) => format!("looked: unclear: {}", error.message),
                };
                let decision = after_look(
                    facts(step),
                    looked,
                    self.clock.now(),
                    &self.schedule(&step.key.kind),
                    self.clock.chance(),
                );
                self.settle(step, decision, message).await;
            });
            futures_util::future::join_all(settled).await;
        }
    }

    /// What a look finds for each step of a batch, in order.
    pub(super) async fn look(
        &self,
        site: &Site,
        kind: &Kind,
        batch: &[ClaimedStep],
    ) -> Vec<Looked> {
        let parents: BTreeSet<String> = batch
            .iter()
            .filter_map(|step| self.parent_id(step))
            .collect();
        let seen = if parents.len() <= READ_MAX {
            self.read_each(site, kind, &parents).await
        } else {
            self.list_with_witness(site, kind, &parents, project_of(batch))
                .await
        };
        let seen = match seen {
            Ok(seen) => self.on_whose_rights(site, seen).await,
            Err(failure) => Err(failure),
        };
        let Seen { rows, identity, .. } = match seen {
            Ok(seen) => seen,
            Err(failure) => {
                let error = failure.to_step_error(self.clock.now());
                if failure.retry == Retry::SitePaused {
                    self.pause_site(site, &failure.message, None).await;
                }
                return batch
                    .iter()
                    .map(|_| Looked::Unclear(error.clone()))
                    .collect();
            }
        };
        let mut looked = Vec::with_capacity(batch.len());
        for step in batch {
            let there = self
                .parent_id(step)
                .and_then(|id| rows.get(&id))
                .is_some_and(|row| {
                    row.as_ref().is_some_and(|row| {
                        self.kinds
                            .resources_in(site, kind, row)
                            .iter()
                            .any(|found| found.key == step.key)
                    })
                });
            let known = self
                .parent_id(step)
                .is_some_and(|id| rows.contains_key(&id));
            looked.push(if there {
                Looked::Present
            } else if !known {
                Looked::Unclear(self.unclear(format!(
                    "the list of {} at {site} did not return its witness",
                    kind.name
                )))
            } else {
                match self.rights_lost(step, identity.as_ref()).await {
                    None => Looked::Absent,
                    Some(error) => {
                        self.pause_site(site, &error.message, self.expected(step).await)
                            .await;
                        Looked::Unclear(error)
                    }
                }
            });
        }
        looked
    }

    /// Who loses rights sees less and is told of nothing: unless a witness of the same project
    /// vouches for what was not seen, the cloud is asked, after the look, who we are now (I13).
    async fn on_whose_rights(&self, site: &Site, seen: Seen) -> Result<Seen, CloudFailure> {
        if seen.same_project || seen.rows.values().all(Option::is_some) {
            return Ok(seen);
        }
        let now = self.cloud.identity(site, Asked::Now).await?;
        Ok(Seen {
            identity: Some(now.identity),
            ..seen
        })
    }

    /// The id of the listed row that shows a step's resource.
    fn parent_id(&self, step: &ClaimedStep) -> Option<String> {
        let kind = self.kinds.get(&step.key.kind)?;
        match kind.parent_variable() {
            Some(variable) => step.vars.get(variable).cloned(),
            None => Some(step.key.id.clone()),
        }
    }

    async fn read_each(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<String>,
    ) -> Result<Seen, CloudFailure> {
        let mut rows = HashMap::new();
        let mut identity = None;
        for id in ids {
            let read = self.cloud.read(site, kind, id).await;
            self.site_answered(site, read.as_ref().err());
            let read = read?;
            identity = read.identity.or(identity);
            rows.insert(id.clone(), read.row);
        }
        Ok(Seen {
            rows,
            identity,
            same_project: false,
        })
    }

    /// Each asked id with its row or its proven absence; ids that nothing is proven of are left out.
    async fn list_with_witness(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<String>,
        project: Option<&str>,
    ) -> Result<Seen, CloudFailure> {
        let witness = self.find_witness(site, kind, ids, project).await?;
        let Some(witness) = witness else {
            // Nothing of the kind lives there, or the list lies: a few by id, the rest next time.
            let few = ids.iter().take(READ_MAX).cloned().collect();
            return self.read_each(site, kind, &few).await;
        };
        let filter = Filter {
            key: "id".into(),
            values: ids.iter().cloned().chain([witness.id.clone()]).collect(),
        };
        let listing = self
            .cloud
            .list(ListRows {
                site,
                kind,
                filter: Some(&filter),
                fields: Fields::Planning,
                rows_max: None,
            })
            .await;
        self.site_answered(site, listing.as_ref().err());
        let listing = listing?;
        let mut present: HashMap<String, Value> = listing
            .rows
            .into_iter()
            .filter_map(|row| Some((row.get("id")?.as_str()?.to_owned(), row)))
            .collect();
        let vouched = present.contains_key(&witness.id);
        if !vouched {
            self.sites.forget_witness(site, &kind.name);
        }
        let rows = ids
            .iter()
            .filter_map(|id| match present.remove(id) {
                Some(row) => Some((id.clone(), Some(row))),
                None if vouched => Some((id.clone(), None)),
                None => None,
            })
            .collect();
        Ok(Seen {
            rows,
            identity: listing.identity,
            same_project: project.is_some_and(|project| project == witness.project_id),
        })
    }

    /// A resource of the kind that is there and is not among those that are looked for; of their
    /// project, if there is one.
    async fn find_witness(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<String>,
        project: Option<&str>,
    ) -> Result<Option<Witness>, CloudFailure> {
        let kept = self.sites.witness(site, &kind.name);
        let fits = |witness: &Witness| {
            !ids.contains(&witness.id)
                && project.is_none_or(|project| project == witness.project_id)
        };
        if let Some(witness) = kept.filter(fits) {
            return Ok(Some(witness));
        }
        let mut candidates = Vec::new();
        if let Some(project) = project {
            let filter = Filter {
                key: "project_id".into(),
                values: vec![project.to_owned()],
            };
            candidates = self.candidates(site, kind, ids, Some(&filter)).await?;
        }
        if candidates.is_empty() {
            candidates = self.candidates(site, kind, ids, None).await?;
        }
        // One that nobody deletes lasts; any living one will do.
        let keys = candidates
            .iter()
            .map(|witness| ResourceKey {
                site: site.clone(),
                kind: kind.name.clone(),
                id: witness.id.clone(),
            })
            .collect();
        let doomed: BTreeSet<String> = match self.ledger.tombstones_of(keys).await {
            Ok(tombstones) => tombstones.into_iter().map(|found| found.key.id).collect(),
            Err(_) => BTreeSet::new(),
        };
        let lasting = candidates
            .iter()
            .find(|witness| !doomed.contains(&witness.id));
        let witness = lasting.or(candidates.last()).cloned();
        if let Some(witness) = &witness {
            self.sites.keep_witness(site, &kind.name, witness.clone());
        }
        Ok(witness)
    }

    async fn candidates(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<String>,
        filter: Option<&Filter>,
    ) -> Result<Vec<Witness>, CloudFailure> {
        let request = ListRows {
            site,
            kind,
            filter,
            fields: Fields::Planning,
            rows_max: Some(WITNESS_ROWS.max(ids.len() + 1)),
        };
        let listing = self.cloud.list(request).await?;
        let text = |row: &Value, field: &str| Some(row.get(field)?.as_str()?.to_owned());
        let found = listing.rows.iter().filter_map(|row| {
            Some(Witness {
                id: text(row, "id")?,
                project_id: text(row, "project_id").unwrap_or_default(),
            })
        });
        Ok(found.filter(|witness| !ids.contains(&witness.id)).collect())
    }

    /// On whose rights the plan saw the step's site.
    async fn expected(&self, step: &ClaimedStep) -> Option<Identity> {
        let site = step.key.site.to_string();
        let known = self
            .rights()
            .get(&step.deletion_id)
            .map(|sites| sites.get(&site).cloned());
        if let Some(known) = known {
            return known;
        }
        let sites = self.ledger.identities(&step.deletion_id).await.ok()?;
        let expected = sites.get(&site).cloned();
        let mut rights = self.rights();
        if rights.len() >= RIGHTS_KEPT_MAX {
            rights.clear();
        }
        rights.insert(step.deletion_id.clone(), sites);
        expected
    }

    /// Whether an absence was seen on other rights than those of the plan: a cloud answers 404 to who
    /// has lost the right to see.
    pub(super) async fn rights_lost(
        &self,
        step: &ClaimedStep,
        now: Option<&Identity>,
    ) -> Option<StepError> {
        let expected = self.expected(step).await?;
        if now == Some(&expected) {
            return None;
        }
        let shown = |identity: &Identity| {
            format!(
                "user {} in project {} with roles {}",
                identity.user_id,
                identity.project_id,
                identity.roles.join(", ")
            )
        };
        let error = self.unclear(format!(
            "{}: absent, but seen as {}, and the plan was made as {}",
            step.key,
            now.map_or_else(|| "nobody".to_owned(), shown),
            shown(&expected)
        ));
        Some(StepError {
            class: ErrorClass::Auth,
            kind: "RightsLost".into(),
            ..error
        })
    }

    fn unclear(&self, message: String) -> StepError {
        StepError {
            class: ErrorClass::Unavailable,
            status: None,
            kind: "Unclear".into(),
            message,
            request_id: String::new(),
            at: self.clock.now(),
        }
    }
}

/// What a look has seen.
struct Seen {
    /// Asked ids with their row, or with none where absence is proven.
    rows: HashMap<String, Option<Value>>,
    identity: Option<Identity>,
    /// A witness of the very project vouched: who sees that one would see the others.
    same_project: bool,
}

/// A living resource that vouches for a listing (I13b).
#[derive(Clone, Debug)]
pub(super) struct Witness {
    pub(super) id: String,
    pub(super) project_id: String,
}

/// The project that all have, if they have one.
fn project_of(batch: &[ClaimedStep]) -> Option<&str> {
    let first = batch.first()?.project_id.as_str();
    let all = batch.iter().all(|step| step.project_id == first);
    (all && !first.is_empty()).then_some(first)
}
