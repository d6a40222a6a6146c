//! Observes resources: by lists, and by the witnesses that prove the lists complete (I13b).
//!
//! A few resources are read one by one. So are the resources of a kind that has no list, or whose lists are below a
//! parent, show only the login's own project or may leave rows out. Otherwise resources that share a parent (the ports
//! of a network) are listed by that parent, if that takes fewer lists than listing them by id. All others are listed by
//! id, as many at a time as one list takes. If no list takes several ids, the project (even for a few resources) or the
//! whole site is listed, and ids about which this list proves nothing are read one by one.
//!
//! A listing proves absence only if it also returned a *witness*: a living resource of the same kind that the
//! same call asked for, preferably of the same project. An edge's parent is its own witness. A read by id needs
//! no witness, because the kind's own not-found answer is proof by itself. Neither a list nor a read shows which rights
//! the login had, so the cloud is asked for the login's identity afterwards ([`super::confirm`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use serde_json::Value;

use super::errors::unreadable;
use super::reads::{Reads, rows_to_plan};
use super::sites::Witness;
use crate::cloud::{CloudFailure, ListRows, PAGE_ROWS};
use crate::domain::kinds::{Kind, Kinds, ListSpec, lookup_one};
use crate::domain::model::{ErrorClass, Identity, ResourceKey, Site};
use crate::domain::policy::Retry;
use crate::domain::query::{BY_ID, ListFilter};
use crate::ledger::{ClaimedStep, Views};

/// Up to this number of resources are read one by one, which is cheaper than finding a witness.
const READ_MAX: usize = 3;
/// Minimum number of rows that are requested to find a witness.
const WITNESS_ROWS: usize = 50;

/// Observes resources: lists them, and decides whether an absence is proven.
pub(super) struct Observing {
    pub(super) ledger: Arc<dyn Views>,
    pub(super) reads: Arc<Reads>,
}

impl Observing {
    /// Observes the resources of these steps. `unsent` is the number of steps of the same deletions that can still be
    /// sent or are in flight: a list by scope may return their resources too.
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
        let mut observed = Observation::default();
        // A list below one parent may have no witness left, and a list of the login's own project lacks the rows of
        // all other projects.
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
            // No list takes several ids, so one list of all rows replaces as many lists as there are ids.
            self.list_all_rows(site, kind, &mut left, filter.as_ref(), &mut observed)
                .await;
            if observed.failure.is_none() {
                self.read_each(site, kind, left, &mut observed).await;
            }
            return observed;
        }
        if few || list.is_none() || !is_whole {
            self.read_each(site, kind, left, &mut observed).await;
            return observed;
        }
        if let Some(scopes) = self.worth_listing_by_scope(kind, steps, unsent) {
            self.list_scopes(site, kind, &scopes, &mut observed).await;
            left.retain(|id| !observed.rows.contains_key(id));
        }
        let left: Vec<String> = left.into_iter().collect();
        for ids in left.chunks(kind.calls.values_per_list(BY_ID)) {
            let ids = ids.iter().cloned().collect();
            if observed.failure.is_some()
                || !self
                    .list_by_id(site, kind, ids, project, &mut observed)
                    .await
            {
                break;
            }
        }
        observed
    }

    /// Lists these ids together with a witness. If no witness is found, because no other resource of the kind exists or
    /// because the list is wrong, reads these ids one by one and returns false. The ids that are not listed yet then
    /// wait for the next observation.
    async fn list_by_id(
        &self,
        site: &Site,
        kind: &Kind,
        ids: BTreeSet<String>,
        project: Option<&str>,
        observed: &mut Observation,
    ) -> bool {
        // The stored witness may be gone. The second attempt uses a witness that lives now.
        for _ in 0..2 {
            match self.find_witness(site, kind, &ids, project).await {
                Ok(Some(witness)) => {
                    let vouched = self
                        .list_with_witness(site, kind, &ids, witness, observed)
                        .await;
                    if vouched || observed.failure.is_some() {
                        break;
                    }
                }
                Ok(None) => {
                    self.read_each(site, kind, ids, observed).await;
                    return false;
                }
                Err(failure) => {
                    observed.failure = Some(failure);
                    break;
                }
            }
        }
        true
    }

    /// Reads each of these ids, where the kind's own not-found answer proves absence.
    async fn read_each(
        &self,
        site: &Site,
        kind: &Kind,
        ids: BTreeSet<String>,
        observed: &mut Observation,
    ) {
        let reads = ids.into_iter().map(|id| async move {
            let read = self.reads.read_once(site, kind, &id).await;
            self.reads.site_answered(site, read.as_ref().err());
            (id, read)
        });
        let at_once = self.reads.sites.concurrency_limit(site);
        let mut reads = pin!(stream::iter(reads).buffered(at_once));
        while let Some((id, read)) = reads.next().await {
            match read {
                Ok(read) if !read.offered => observed.failure = Some(not_offered(site, kind)),
                Ok(read) => {
                    observed.rights_in_doubt |= !read.own_project_gone;
                    observed.identity = read.identity.or(observed.identity.take());
                    observed.rows.insert(id, read.row);
                }
                Err(failure) => {
                    let is_away = matches!(failure.retry, Retry::Unavailable | Retry::Throttled);
                    observed.failure = Some(failure);
                    // The other ids wait for the next observation: a service that is unavailable is not sent
                    // thousands of reads.
                    if is_away {
                        return;
                    }
                }
            }
        }
    }

    /// Lists all rows of a project, or of all projects. Each listed row is a witness for the ids in `left` that are not
    /// listed, unless the list leaves some rows out. Ids about which nothing is known remain in `left`.
    async fn list_all_rows(
        &self,
        site: &Site,
        kind: &Kind,
        left: &mut BTreeSet<String>,
        filter: Option<&ListFilter>,
        observed: &mut Observation,
    ) {
        let Some(rows) = self.list_rows(site, kind, filter, observed).await else {
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
                observed.rows.insert(id.clone(), row);
            }
            !known
        });
    }

    /// Returns the scopes of the steps, if listing by scope takes fewer lists than listing by id. An edge in a
    /// row has the row's scope.
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
        let by_scope = pages + ids.len().div_ceil(kind.calls.values_per_list(key));
        let by_id = count.div_ceil(kind.calls.values_per_list(BY_ID));
        (by_scope < by_id).then_some(Scopes { key, ids })
    }

    /// Lists all rows of these scopes. A living row is the witness for the ids of its scope.
    async fn list_scopes(
        &self,
        site: &Site,
        kind: &Kind,
        scopes: &Scopes<'_>,
        observed: &mut Observation,
    ) {
        let filter = ListFilter {
            key: scopes.key.to_owned(),
            values: scopes.ids.keys().map(|&value| value.to_owned()).collect(),
        };
        let Some(rows) = self.list_rows(site, kind, Some(&filter), observed).await else {
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
                observed.rows.insert((*id).to_owned(), present.remove(*id));
            }
        }
    }

    /// Lists these ids together with the witness. Records each id with its row or its proven absence, and leaves out
    /// the ids about which nothing is proven. Returns false if the list fails or the witness is gone, so that no
    /// absence is proven.
    async fn list_with_witness(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<String>,
        witness: Witness,
        observed: &mut Observation,
    ) -> bool {
        let filter = ListFilter::by_ids(ids.iter().cloned().chain([witness.id.clone()]));
        let Some(rows) = self.list_rows(site, kind, Some(&filter), observed).await else {
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
                Some(row) => observed.rows.insert(id.clone(), Some(row)),
                None if vouched => observed.rows.insert(id.clone(), None),
                None => None,
            };
        }
        vouched
    }

    /// Lists rows. If the list fails, returns none, and `observed` then has the failure.
    async fn list_rows(
        &self,
        site: &Site,
        kind: &Kind,
        filter: Option<&ListFilter>,
        observed: &mut Observation,
    ) -> Option<Vec<Value>> {
        let listing = self.reads.list_once(rows_to_plan(site, kind, filter)).await;
        self.reads.site_answered(site, listing.as_ref().err());
        match listing {
            Ok(listing) => {
                observed.identity = listing.identity.or(observed.identity.take());
                // Whoever has lost rights still sees the rows that are shared with everybody.
                observed.rights_in_doubt = true;
                Some(listing.rows)
            }
            Err(failure) => {
                observed.failure = Some(failure);
                None
            }
        }
    }

    /// Finds a resource of the kind that exists and is not being observed, preferably of this project.
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
            .map(|witness| ResourceKey::new(site, &kind.name, &witness.id))
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
            rows_max: Some(WITNESS_ROWS.max(ids.len() + 1)),
            ..rows_to_plan(site, kind, filter)
        };
        let listing = self.reads.list_once(request).await?;
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

/// Whether a row shows a step's resource in the planned incarnation: as the row itself, or as an edge in the row.
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

/// The result of an observation, before [`super::confirm`] interprets it.
#[derive(Default)]
pub(super) struct Observation {
    /// The requested ids, each with its row, or with none if its absence is proven.
    pub(super) rows: HashMap<String, Option<Value>>,
    pub(super) identity: Option<Identity>,
    /// Whether a login that has lost rights might get the same answers.
    pub(super) rights_in_doubt: bool,
    /// The failure of a call, or a failure that says that the site no longer offers the kind. Because of it, nothing is
    /// known about some ids that `rows` lacks. `rows` may lack ids without a failure too, if a list had no witness.
    pub(super) failure: Option<CloudFailure>,
}

/// The ids of the rows to observe, by the value of the kind's scope.
struct Scopes<'s> {
    key: &'s str,
    ids: BTreeMap<&'s str, BTreeSet<&'s str>>,
}

/// Builds the failure for a kind whose service or extension is missing now. A resource that existed when its
/// deletion was planned is not gone because of that.
fn not_offered(site: &Site, kind: &Kind) -> CloudFailure {
    CloudFailure {
        retry: Retry::Scheduled,
        class: ErrorClass::Unavailable,
        ..unreadable(format!(
            "{site} no longer offers resources of the kind {}, so it is unknown whether any still exist",
            kind.name
        ))
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
