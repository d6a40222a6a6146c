//! Observes resources: by lists, and by the witnesses that prove the lists complete (I13b).
//!
//! Parts of a resource that is deleted (ports of a network) are listed by that resource, if such a list shows
//! fewer rows than there are ids to ask for. All other resources are listed by id, as many at a time as one list
//! takes.
//!
//! A listing proves absence only if it also returned a *witness*: a living resource of the same kind that the
//! same call asked for, preferably of the same project. An edge's parent is its own witness. If only a few
//! resources are observed, each is read by id, where the kind's own not-found answer is proof by itself. Neither
//! proves whose rights it was seen with, so the cloud is asked afterwards ([`super::confirm`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use serde_json::Value;

use super::reads::Reads;
use super::sites::Witness;
use crate::cloud::{CloudFailure, Fields, ListRows, PAGE_ROWS};
use crate::domain::kinds::{Kind, Kinds, ListSpec, lookup_one};
use crate::domain::model::{ErrorClass, Identity, ResourceKey, Site};
use crate::domain::policy::Retry;
use crate::domain::query::{BY_ID, ListFilter};
use crate::ledger::{ClaimedStep, Views};

/// Up to this number of resources are read one by one, which is cheaper than finding a witness.
const READ_MAX: usize = 3;
/// Number of rows among which a witness is chosen.
const WITNESS_ROWS: usize = 50;

/// Observes resources: lists them, and decides whether an absence is proven.
pub(super) struct Observing {
    pub(super) ledger: Arc<dyn Views>,
    pub(super) reads: Arc<Reads>,
}

impl Observing {
    pub(super) async fn observe(
        &self,
        site: &Site,
        kind: &Kind,
        steps: &[ClaimedStep],
        unsent: u64,
    ) -> Observation {
        let mut left: BTreeSet<String> = steps
            .iter()
            .filter_map(|step| parent_id(&self.reads.kinds, step).map(str::to_owned))
            .collect();
        let project = project_of(steps);
        let mut seen = Observation::default();
        // A list below one parent may have no witness left, and a list of the login's own project lacks the rows of
        // all others.
        let list = kind.spec.list.as_ref();
        let list = list.filter(|list| list.within.is_none() && !list.own_project);
        let is_whole = kind.calls.lists_all_at_once();
        let few = left.len() <= READ_MAX;
        let filter = filter_by(project, list);
        let listed = match is_whole {
            // Listing a whole cloud is too expensive for a few resources.
            true => filter.is_some() || !few,
            false => kind.spec.settles.is_some() && !few,
        };
        if list.is_some() && !kind.calls.takes_several(BY_ID) && listed {
            // One list answers for all resources whose delete the cloud still works on, whatever values a
            // filter by id takes.
            self.list_around(site, kind, &mut left, filter.as_ref(), &mut seen)
                .await;
            if seen.failure.is_none() {
                self.read_each(site, kind, left, &mut seen).await;
            }
            return seen;
        }
        if few || list.is_none() || !is_whole {
            self.read_each(site, kind, left, &mut seen).await;
            return seen;
        }
        if let Some(scopes) = self.worth_listing_by_scope(kind, steps, unsent) {
            self.list_scopes(site, kind, &scopes, &mut seen).await;
            left.retain(|id| !seen.rows.contains_key(id));
        }
        let left: Vec<String> = left.into_iter().collect();
        for ids in left.chunks(kind.calls.values_a_list(BY_ID)) {
            let ids = ids.iter().cloned().collect();
            if seen.failure.is_some() || !self.list_by_id(site, kind, ids, project, &mut seen).await
            {
                break;
            }
        }
        seen
    }

    /// Returns false if no witness is found, because no resource of the kind lives there or because the list
    /// is wrong. These ids were then read one by one, and the others wait for the next observation.
    async fn list_by_id(
        &self,
        site: &Site,
        kind: &Kind,
        ids: BTreeSet<String>,
        project: Option<&str>,
        seen: &mut Observation,
    ) -> bool {
        // The stored witness may be gone. The second attempt uses a witness that lives now.
        for _ in 0..2 {
            match self.find_witness(site, kind, &ids, project).await {
                Ok(Some(witness)) => {
                    let vouched = self
                        .list_with_witness(site, kind, &ids, witness, seen)
                        .await;
                    if vouched || seen.failure.is_some() {
                        break;
                    }
                }
                Ok(None) => {
                    self.read_each(site, kind, ids, seen).await;
                    return false;
                }
                Err(failure) => {
                    seen.failure = Some(failure);
                    break;
                }
            }
        }
        true
    }

    async fn read_each(
        &self,
        site: &Site,
        kind: &Kind,
        ids: BTreeSet<String>,
        seen: &mut Observation,
    ) {
        let reads = ids.into_iter().map(|id| async move {
            let read = self
                .reads
                .once(site, self.reads.cloud.read(site, kind, &id))
                .await;
            self.reads.site_answered(site, read.as_ref().err());
            (id, read)
        });
        let at_once = self.reads.sites.concurrency_limit(site);
        let mut reads = pin!(stream::iter(reads).buffered(at_once));
        while let Some((id, read)) = reads.next().await {
            match read {
                Ok(read) if !read.offered => seen.failure = Some(not_offered(site, kind)),
                Ok(read) => {
                    seen.rights_in_doubt |= !read.own_project_gone;
                    seen.identity = read.identity.or(seen.identity.take());
                    seen.rows.insert(id, read.row);
                }
                Err(failure) => {
                    let is_away = matches!(failure.retry, Retry::Unavailable | Retry::Throttled);
                    seen.failure = Some(failure);
                    // The others wait for the next observation: a service that is away is not sent thousands of reads.
                    if is_away {
                        return;
                    }
                }
            }
        }
    }

    /// Lists all rows of a project, or of all projects. A row that is there is the witness for the ids in `left`
    /// that are not, unless the list leaves some rows out. Ids whose state stays unknown remain in `left`.
    async fn list_around(
        &self,
        site: &Site,
        kind: &Kind,
        left: &mut BTreeSet<String>,
        filter: Option<&ListFilter>,
        seen: &mut Observation,
    ) {
        let Some(rows) = self.list_rows(site, kind, filter, seen).await else {
            return;
        };
        let rows = rows.into_iter();
        let mut present: HashMap<String, Value> = rows
            .filter_map(|row| Some((kind.id_of(&row)?, row)))
            .collect();
        let vouched = kind.calls.lists_all_at_once() && !present.is_empty();
        left.retain(|id| {
            let row = present.remove(id);
            let known = vouched || row.is_some();
            if known {
                seen.rows.insert(id.clone(), row);
            }
            !known
        });
    }

    /// Returns the scopes of the steps, if listing by scope shows fewer rows than asking for each id. An edge
    /// in a row has the row's scope.
    fn worth_listing_by_scope<'s>(
        &self,
        kind: &'s Kind,
        steps: &'s [ClaimedStep],
        unsent: u64,
    ) -> Option<Scopes<'s>> {
        let key = kind.spec.list.as_ref()?.scope.as_deref()?;
        let mut ids: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for step in steps {
            let id = parent_id(&self.reads.kinds, step);
            if let (Some(value), Some(id)) = (step.vars.get(key), id) {
                ids.entry(value).or_default().insert(id);
            }
        }
        let count: usize = ids.values().map(BTreeSet::len).sum();
        let pages = usize::try_from(unsent).ok()?.div_ceil(PAGE_ROWS);
        let by_scope = pages + ids.len().div_ceil(kind.calls.values_a_list(key));
        let by_id = count.div_ceil(kind.calls.values_a_list(BY_ID));
        (by_scope < by_id).then_some(Scopes { key, ids })
    }

    /// Lists all rows of these scopes. A living row is the witness for the ids of its scope.
    async fn list_scopes(
        &self,
        site: &Site,
        kind: &Kind,
        scopes: &Scopes<'_>,
        seen: &mut Observation,
    ) {
        let filter = ListFilter {
            key: scopes.key.to_owned(),
            values: scopes.ids.keys().map(|&value| value.to_owned()).collect(),
        };
        let Some(rows) = self.list_rows(site, kind, Some(&filter), seen).await else {
            return;
        };
        let text = |row: &Value, field: &str| lookup_one(row, field).unwrap_or_default();
        let mut vouched = HashSet::new();
        let mut present: HashMap<String, Value> = HashMap::new();
        for row in rows {
            vouched.insert(text(&row, scopes.key));
            present.insert(kind.id_of(&row).unwrap_or_default(), row);
        }
        let vouched = |(value, _): &(&&str, &BTreeSet<&str>)| vouched.contains(**value);
        for (_, ids) in scopes.ids.iter().filter(vouched) {
            for id in ids {
                seen.rows.insert((*id).to_owned(), present.remove(*id));
            }
        }
    }

    /// Records each id with its row or its proven absence, and leaves out the ids about which nothing is
    /// proven. Returns false if the witness is gone, so that no absence is proven.
    async fn list_with_witness(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<String>,
        witness: Witness,
        seen: &mut Observation,
    ) -> bool {
        let filter = ListFilter::by_ids(ids.iter().cloned().chain([witness.id.clone()]));
        let Some(rows) = self.list_rows(site, kind, Some(&filter), seen).await else {
            return false;
        };
        let mut present: HashMap<String, Value> = rows
            .into_iter()
            .filter_map(|row| Some((kind.id_of(&row)?, row)))
            .collect();
        let vouched = present.contains_key(&witness.id);
        if !vouched {
            self.reads.sites.forget_witness(site, &kind.name);
        }
        for id in ids {
            match present.remove(id) {
                Some(row) => seen.rows.insert(id.clone(), Some(row)),
                None if vouched => seen.rows.insert(id.clone(), None),
                None => None,
            };
        }
        vouched
    }

    /// Returns none if the list failed. `seen` then has the failure.
    async fn list_rows(
        &self,
        site: &Site,
        kind: &Kind,
        filter: Option<&ListFilter>,
        seen: &mut Observation,
    ) -> Option<Vec<Value>> {
        let request = ListRows {
            site,
            kind,
            filter,
            fields: Fields::Planning,
            rows_max: None,
        };
        let listing = self.reads.once(site, self.reads.cloud.list(request)).await;
        self.reads.site_answered(site, listing.as_ref().err());
        match listing {
            Ok(listing) => {
                seen.identity = listing.identity.or(seen.identity.take());
                // Whoever has lost rights still sees the rows that are shared with everybody.
                seen.rights_in_doubt = true;
                Some(listing.rows)
            }
            Err(failure) => {
                seen.failure = Some(failure);
                None
            }
        }
    }

    /// Returns a resource of the kind that exists and is not being observed. If all steps are of one project,
    /// it belongs to that project.
    async fn find_witness(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<String>,
        project: Option<&str>,
    ) -> Result<Option<Witness>, CloudFailure> {
        let kept = self.reads.sites.witness(site, &kind.name);
        let fits = |witness: &Witness| {
            !ids.contains(&witness.id)
                && project.is_none_or(|project| project == witness.project_id)
        };
        if let Some(witness) = kept.filter(fits) {
            return Ok(Some(witness));
        }
        let mut candidates = Vec::new();
        if let Some(filter) = filter_by(project, kind.spec.list.as_ref()) {
            candidates = self.candidates(site, kind, ids, Some(&filter)).await?;
        }
        if candidates.is_empty() {
            candidates = self.candidates(site, kind, ids, None).await?;
        }
        // A witness that nobody deletes lasts. If there is none, any living resource serves.
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
            self.reads
                .sites
                .keep_witness(site, &kind.name, witness.clone());
        }
        Ok(witness)
    }

    async fn candidates(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<String>,
        filter: Option<&ListFilter>,
    ) -> Result<Vec<Witness>, CloudFailure> {
        let request = ListRows {
            site,
            kind,
            filter,
            fields: Fields::Planning,
            rows_max: Some(WITNESS_ROWS.max(ids.len() + 1)),
        };
        let listing = self
            .reads
            .once(site, self.reads.cloud.list(request))
            .await?;
        let found = listing.rows.iter().filter_map(|row| {
            Some(Witness {
                id: kind.id_of(row)?,
                project_id: kind.project_of(row),
            })
        });
        Ok(found.filter(|witness| !ids.contains(&witness.id)).collect())
    }
}

/// Returns the id of the listed row that shows a step's resource.
pub(super) fn parent_id<'s>(kinds: &Kinds, step: &'s ClaimedStep) -> Option<&'s str> {
    let kind = kinds.get(&step.key.kind)?;
    match kind.parent_variable() {
        Some(variable) => step.vars.get(variable).map(String::as_str),
        None => Some(&step.key.id),
    }
}

/// Whether a row shows a step's resource: the row's own, or an edge in it.
pub(super) fn shows(
    kinds: &Kinds,
    site: &Site,
    kind: &Kind,
    row: &Value,
    step: &ClaimedStep,
) -> bool {
    let shown = kinds.resources_in(site, kind, row);
    shown.iter().any(|found| found.key == step.key) && kind.same_incarnation(row, &step.vars)
}

/// The result of an observation.
#[derive(Default)]
pub(super) struct Observation {
    /// The requested ids, each with its row, or with none if its absence is proven.
    pub(super) rows: HashMap<String, Option<Value>>,
    pub(super) identity: Option<Identity>,
    /// Whether a login that lost its rights might see the same.
    pub(super) rights_in_doubt: bool,
    /// Why nothing is known about the other ids.
    pub(super) failure: Option<CloudFailure>,
}

/// The ids of the rows to observe, by the value of the kind's scope.
struct Scopes<'s> {
    key: &'s str,
    ids: BTreeMap<&'s str, BTreeSet<&'s str>>,
}

/// A resource that existed when it was planned is not gone because its service or extension is missing
/// now.
fn not_offered(site: &Site, kind: &Kind) -> CloudFailure {
    CloudFailure {
        retry: Retry::Scheduled,
        class: ErrorClass::Unavailable,
        forbidden: false,
        status: None,
        kind: String::new(),
        message: format!(
            "{site} no longer offers {}s, so whether any still exist is unknown",
            kind.name
        ),
        request_id: String::new(),
        retry_after: None,
    }
}

/// Returns the filter by a project, if the list takes one.
fn filter_by(project: Option<&str>, list: Option<&ListSpec>) -> Option<ListFilter> {
    let (project, list) = project.zip(list.filter(|list| list.by_project))?;
    Some(ListFilter {
        key: list.project_filter().to_owned(),
        values: vec![project.to_owned()],
    })
}

/// Returns the project of all these steps, if they share one.
fn project_of(batch: &[ClaimedStep]) -> Option<&str> {
    let first = batch.first()?.project_id.as_str();
    let all = batch.iter().all(|step| step.project_id == first);
    (all && !first.is_empty()).then_some(first)
}
