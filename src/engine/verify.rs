//! Looks: absence is confirmed, never assumed (I13).
//!
//! Steps to look at are gathered by site and listed kind, so that one list answers for many (N14);
//! [`look_wait`] says when it is time. What is part of something that goes along (ports of a network)
//! is listed by that, if this shows fewer rows than there are ids to ask for; all else by id, about 140
//! at a time.
//!
//! A listing tells of absence only if it also returned a *witness*: a living resource of the same kind
//! that was asked for in the same call, best of the same project. An edge's parent is its own witness.
//! A few are simply read by id, where the kind's own not-found answer is proof by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::dispatch::facts;
use super::{Done, LEDGER_RETRY, Shared, UnderWay};
use crate::cloud::{Asked, CloudFailure, Fields, ListRows, PAGE_ROWS};
use crate::domain::kinds::{FilterValues, Kind, Settling, lookup_one};
use crate::domain::model::{ErrorClass, Identity, KindName, ResourceKey, Site, StepError};
use crate::domain::plan::Filter;
use crate::domain::policy::{LOOKED_FOR_TOGETHER, Looked, Retry, after_look, look_wait};
use crate::ledger::{ClaimedStep, LedgerError, LooksDue};

/// How often it is asked at most what there is to look at, while calls are in flight: not more often
/// than what makes up a tenth of the time, since the answer goes through all that was accepted.
const LOOKS_EVERY_MIN: Duration = Duration::from_millis(25);
const LOOKS_SHARE: u32 = 10;
/// When it is asked again about what is to be gathered for longer.
const LOOKS_EVERY: Duration = Duration::from_millis(250);
/// Looks for one kind at a site, each of other deletions: the list of a large one takes its time.
const LOOKS_AT_ONCE: usize = 4;
/// Steps that one look takes: some 10 MB of rows.
const LOOKED_AT_MAX: usize = 10_000;
/// Up to this many are read one by one: cheaper than finding a witness.
const READ_MAX: usize = 3;
/// Reads by id in flight, where there is no witness.
const READS_AT_ONCE: usize = 8;
/// Deletions whose frozen rights are kept in memory; more than run at once on any site we know.
const RIGHTS_KEPT_MAX: usize = 256;
/// Rows among which a witness is looked for.
const WITNESS_ROWS: usize = 50;

impl Shared {
    /// Starts looks; says when the next one may be due.
    pub(super) async fn verify(
        self: &Arc<Self>,
        tasks: &mut JoinSet<Done>,
        under_way: &mut UnderWay,
    ) -> Result<Duration, LedgerError> {
        let now = self.clock.now();
        if let Some(next) = under_way.next_looks
            && now < next
            && self.sites.busy()
        {
            return Ok((next - now).to_std().unwrap_or_default());
        }
        let asked = Instant::now();
        let looks_due = self.ledger.looks_due(now).await?;
        under_way.next_looks = Some(now + LOOKS_EVERY_MIN.max(asked.elapsed() * LOOKS_SHARE));
        let mut hold = Duration::MAX;
        let mut groups: BTreeMap<(Site, KindName), Vec<LooksDue>> = BTreeMap::new();
        for due in looks_due {
            let Some(kind) = self.kinds.get(&due.kind) else {
                continue;
            };
            let at = (due.site.clone(), self.kinds.listed(kind).name.clone());
            let looks = under_way.looking.get(&at).map_or(&[][..], Vec::as_slice);
            let looked_at = looks.iter().flatten().any(|it| *it == due.deletion);
            if looked_at || looks.len() >= LOOKS_AT_ONCE || !self.sites.may_look(&due.site) {
                continue;
            }
            let wait = look_wait(&due.gathered, now);
            if wait.is_zero() {
                groups.entry(at).or_default().push(due);
            } else {
                hold = hold.min(wait.max(LOOKS_EVERY));
            }
        }
        for ((site, listed), due) in groups {
            let deletions: Vec<i64> = due.iter().map(|due| due.deletion).collect();
            let at = (site.clone(), listed.clone());
            under_way
                .looking
                .entry(at)
                .or_default()
                .push(deletions.clone());
            let shared = self.clone();
            tasks.spawn(async move {
                if let Err(error) = shared.look_at_all(&site, &listed, due).await {
                    tracing::warn!(%error, %site, kind = %listed, "a look was cut short; it is made again");
                    tokio::time::sleep(LEDGER_RETRY).await;
                }
                shared.wake.notify_one();
                Done::Looked((site, listed), deletions)
            });
        }
        Ok(hold)
    }

    async fn look_at_all(
        &self,
        site: &Site,
        listed: &KindName,
        due: Vec<LooksDue>,
    ) -> Result<(), LedgerError> {
        let Some(kind) = self.kinds.get(listed) else {
            return Ok(());
        };
        let unsent = due.iter().map(|due| due.gathered.unsent).sum();
        let steps = self
            .ledger
            .verifying(due, self.clock.now(), LOOKED_AT_MAX)
            .await?;
        let looked = self.look(site, kind, &steps, unsent).await;
        let changes = steps
            .iter()
            .zip(looked)
            .map(|(step, looked)| {
                let message = match &looked {
                    Looked::Absent => "looked: gone".to_owned(),
                    Looked::Present => "looked: still there".to_owned(),
                    Looked::Settling(error) | Looked::Failed(error) => {
                        format!("looked: {}", error.message)
                    }
                    Looked::Unclear(error) => format!("looked: unclear: {}", error.message),
                };
                let decision = after_look(
                    facts(step),
                    looked,
                    self.clock.now(),
                    &self.schedule(&step.key.kind),
                    self.clock.chance(),
                );
                self.settled(step, decision, message, None)
            })
            .collect();
        self.settle(changes).await;
        Ok(())
    }

    /// What a look finds for each step, in order. `unsent`: how many more of their deletions a list by
    /// scope may show.
    pub(super) async fn look(
        &self,
        site: &Site,
        kind: &Kind,
        steps: &[ClaimedStep],
        unsent: u64,
    ) -> Vec<Looked> {
        let seen = self.see(site, kind, steps, unsent).await;
        let seen = self.on_whose_rights(site, seen).await;
        if let Some(failure) = &seen.failure
            && failure.retry == Retry::SitePaused
        {
            self.pause_site(site, &failure.message, None).await;
        }
        let mut looked = Vec::with_capacity(steps.len());
        for step in steps {
            let row = self.parent_id(step).and_then(|id| seen.rows.get(&id));
            looked.push(match (row, &seen.failure) {
                (Some(Some(row)), _) if self.shows(site, kind, row, step) => {
                    self.still_there(kind, row, step)
                }
                (Some(_), _) => self.absent(site, step, seen.identity.as_ref()).await,
                (None, Some(failure)) => Looked::Unclear(failure.to_step_error(self.clock.now())),
                (None, None) => Looked::Unclear(self.unclear(format!(
                    "the list of {} at {site} did not return its witness",
                    kind.name
                ))),
            });
        }
        looked
    }

    /// Whether a row shows a step's resource: the row's own, or an edge in it.
    fn shows(&self, site: &Site, kind: &Kind, row: &Value, step: &ClaimedStep) -> bool {
        let shown = self.kinds.resources_in(site, kind, row);
        shown.iter().any(|found| found.key == step.key) && kind.same_incarnation(row, &step.vars)
    }

    /// What a row that is still there says of the delete.
    fn still_there(&self, kind: &Kind, row: &Value, step: &ClaimedStep) -> Looked {
        // An edge's parent tells of itself.
        let own = step.key.kind == kind.name;
        let Some((settling, status)) = own.then(|| kind.settling(row)).flatten() else {
            return Looked::Present;
        };
        let words = match settling {
            Settling::GoesOn => "is still",
            Settling::Failed => "has become",
        };
        let error = StepError {
            class: ErrorClass::Blocked,
            status: None,
            message: format!(
                "the delete was accepted; the {} {words} {status}{}",
                kind.name,
                self.slow(kind, step)
            ),
            kind: status,
            request_id: String::new(),
            at: self.clock.now(),
        };
        match settling {
            Settling::GoesOn => Looked::Settling(error),
            Settling::Failed => Looked::Failed(error),
        }
    }

    /// What is said of a delete that the cloud works on for long.
    fn slow(&self, kind: &Kind, step: &ClaimedStep) -> String {
        let since = step.blocked_since.unwrap_or_else(|| self.clock.now());
        let minutes = (self.clock.now() - since).num_minutes().unsigned_abs();
        match &kind.spec.settles {
            Some(settles) if minutes >= settles.minutes_warn => {
                format!(", since {minutes} min; {}", settles.warning)
            }
            _ => String::new(),
        }
    }

    /// Absence counts on the rights that the plan froze.
    async fn absent(&self, site: &Site, step: &ClaimedStep, now: Option<&Identity>) -> Looked {
        match self.rights_lost(step, now).await {
            None => Looked::Absent,
            Some(error) => {
                self.pause_site(site, &error.message, self.expected(step).await)
                    .await;
                Looked::Unclear(error)
            }
        }
    }

    async fn see(&self, site: &Site, kind: &Kind, steps: &[ClaimedStep], unsent: u64) -> Seen {
        let mut left: BTreeSet<String> = steps
            .iter()
            .filter_map(|step| self.parent_id(step))
            .collect();
        let project = project_of(steps);
        let mut seen = Seen::default();
        let list = kind.spec.list.as_ref();
        if kind.values_of("id") == FilterValues::Single
            && list.is_some_and(|it| it.within.is_none())
        {
            // One list for all that settles, whatever a filter by id takes.
            let filter = project.map(|project| Filter {
                key: list.map(|list| list.project.clone()).unwrap_or_default(),
                values: vec![project.to_owned()],
            });
            self.list_around(site, kind, &mut left, (filter.as_ref(), project), &mut seen)
                .await;
            if seen.failure.is_none() {
                self.read_each(site, kind, left, &mut seen).await;
            }
            return seen;
        }
        // No witness vouches for a list that shows only what others leave out (`also`), and what goes
        // with all that its parent holds leaves none.
        let no_witness = list.is_some_and(|it| it.within.is_some() || !it.also.is_empty());
        if left.len() <= READ_MAX || no_witness {
            self.read_each(site, kind, left, &mut seen).await;
            return seen;
        }
        if let Some(scopes) = worth_listing_by_scope(kind, steps, unsent) {
            self.list_scopes(site, kind, &scopes, project, &mut seen)
                .await;
            left.retain(|id| !seen.rows.contains_key(id));
        }
        let left: Vec<String> = left.into_iter().collect();
        for ids in left.chunks(LOOKED_FOR_TOGETHER) {
            if seen.failure.is_some() {
                break;
            }
            let ids = ids.iter().cloned().collect();
            match self.find_witness(site, kind, &ids, project).await {
                Ok(Some(witness)) => {
                    self.list_with_witness(site, kind, &ids, project, witness, &mut seen)
                        .await;
                }
                // Nothing of the kind lives there, or the list lies: these by id, the rest next time.
                Ok(None) => {
                    self.read_each(site, kind, ids, &mut seen).await;
                    break;
                }
                Err(failure) => seen.failure = Some(failure),
            }
        }
        seen
    }

    /// Who loses rights sees less and is told of nothing: unless a witness of the same project
    /// vouches for what was not seen, the cloud is asked, after the look, who we are now (I13).
    async fn on_whose_rights(&self, site: &Site, mut seen: Seen) -> Seen {
        if !seen.vouched_by_another_project || seen.rows.values().all(Option::is_some) {
            return seen;
        }
        match self.cloud.identity(site, Asked::Now).await {
            Ok(now) => seen.identity = Some(now.identity),
            Err(failure) => {
                seen.rows.retain(|_, row| row.is_some());
                seen.failure = Some(failure);
            }
        }
        seen
    }

    /// The id of the listed row that shows a step's resource.
    fn parent_id(&self, step: &ClaimedStep) -> Option<String> {
        let kind = self.kinds.get(&step.key.kind)?;
        match kind.parent_variable() {
            Some(variable) => step.vars.get(variable).cloned(),
            None => Some(step.key.id.clone()),
        }
    }

    async fn read_each(&self, site: &Site, kind: &Kind, ids: BTreeSet<String>, seen: &mut Seen) {
        let reads = ids.into_iter().map(|id| async move {
            let read = self.cloud.read(site, kind, &id).await;
            self.site_answered(site, read.as_ref().err());
            (id, read)
        });
        let reads: Vec<_> = stream::iter(reads).buffered(READS_AT_ONCE).collect().await;
        seen.vouched_by_another_project = true;
        for (id, read) in reads {
            match read {
                Ok(read) => {
                    seen.identity = read.identity.or(seen.identity.take());
                    seen.rows.insert(id, read.row);
                }
                Err(failure) => seen.failure = Some(failure),
            }
        }
    }

    /// All rows of a project, or of all; if one is not looked for, it vouches for those that are. What
    /// nothing is known of is left.
    async fn list_around(
        &self,
        site: &Site,
        kind: &Kind,
        left: &mut BTreeSet<String>,
        (filter, project): (Option<&Filter>, Option<&str>),
        seen: &mut Seen,
    ) {
        let Some(rows) = self.list_rows(site, kind, filter, seen).await else {
            return;
        };
        let rows = rows.into_iter();
        let mut present: HashMap<String, Value> = rows
            .filter_map(|row| Some((kind.id_of(&row)?, row)))
            .collect();
        // A page's link may have lost the filter, so that others' rows come too.
        let witnesses = || present.iter().filter(|(id, _)| !left.contains(*id));
        let same = witnesses().any(|(_, row)| Some(kind.project_of(row).as_str()) == project);
        let vouched = witnesses().next().is_some();
        seen.vouched_by_another_project |= !same;
        left.retain(|id| {
            let row = present.remove(id);
            let known = vouched || row.is_some();
            if known {
                seen.rows.insert(id.clone(), row);
            }
            !known
        });
    }

    /// All rows of what goes along with them; a living one vouches for those of its scope.
    async fn list_scopes(
        &self,
        site: &Site,
        kind: &Kind,
        scopes: &Scopes<'_>,
        project: Option<&str>,
        seen: &mut Seen,
    ) {
        let filter = Filter {
            key: scopes.key.to_owned(),
            values: scopes.steps.keys().map(|&value| value.to_owned()).collect(),
        };
        let Some(rows) = self.list_rows(site, kind, Some(&filter), seen).await else {
            return;
        };
        let text = |row: &Value, field: &str| lookup_one(row, field).unwrap_or_default();
        let mut vouched: HashMap<String, bool> = HashMap::new();
        let mut present: HashMap<String, Value> = HashMap::new();
        for row in rows {
            let same = project.is_some_and(|project| kind.project_of(&row) == project);
            *vouched.entry(text(&row, scopes.key)).or_default() |= same;
            present.insert(text(&row, "id"), row);
        }
        for (value, ids) in &scopes.steps {
            let Some(same_project) = vouched.get(*value) else {
                continue;
            };
            seen.vouched_by_another_project |= !same_project;
            for id in ids {
                seen.rows.insert((*id).to_owned(), present.remove(*id));
            }
        }
    }

    /// Each asked id with its row or its proven absence; ids that nothing is proven of are left out.
    async fn list_with_witness(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<String>,
        project: Option<&str>,
        witness: Witness,
        seen: &mut Seen,
    ) {
        let filter = Filter {
            key: "id".into(),
            values: ids.iter().cloned().chain([witness.id.clone()]).collect(),
        };
        let Some(rows) = self.list_rows(site, kind, Some(&filter), seen).await else {
            return;
        };
        let mut present: HashMap<String, Value> = rows
            .into_iter()
            .filter_map(|row| Some((kind.id_of(&row)?, row)))
            .collect();
        let vouched = present.contains_key(&witness.id);
        if !vouched {
            self.sites.forget_witness(site, &kind.name);
        }
        seen.vouched_by_another_project |= project != Some(witness.project_id.as_str());
        for id in ids {
            match present.remove(id) {
                Some(row) => seen.rows.insert(id.clone(), Some(row)),
                None if vouched => seen.rows.insert(id.clone(), None),
                None => None,
            };
        }
    }

    /// None where the list failed, which is then what is known.
    async fn list_rows(
        &self,
        site: &Site,
        kind: &Kind,
        filter: Option<&Filter>,
        seen: &mut Seen,
    ) -> Option<Vec<Value>> {
        let listing = self
            .cloud
            .list(ListRows {
                site,
                kind,
                filter,
                fields: Fields::Planning,
                rows_max: None,
            })
            .await;
        self.site_answered(site, listing.as_ref().err());
        match listing {
            Ok(listing) => {
                seen.identity = listing.identity.or(seen.identity.take());
                Some(listing.rows)
            }
            Err(failure) => {
                seen.failure = Some(failure);
                None
            }
        }
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
                key: kind
                    .spec
                    .list
                    .as_ref()
                    .map(|it| it.project.clone())
                    .unwrap_or_default(),
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
        let found = listing.rows.iter().filter_map(|row| {
            Some(Witness {
                id: kind.id_of(row)?,
                project_id: kind.project_of(row),
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
#[derive(Default)]
struct Seen {
    /// Asked ids with their row, or with none where absence is proven.
    rows: HashMap<String, Option<Value>>,
    identity: Option<Identity>,
    /// No witness of the very project vouched: who lost the rights there would see the same.
    vouched_by_another_project: bool,
    /// Why nothing is known of the other ids.
    failure: Option<CloudFailure>,
}

/// What goes along with something, by the value of the kind's scope: the ids under each.
struct Scopes<'s> {
    key: &'s str,
    steps: BTreeMap<&'s str, Vec<&'s str>>,
}

/// The scopes of the steps, if listing by them shows less than asking for each id.
fn worth_listing_by_scope<'s>(
    kind: &'s Kind,
    steps: &'s [ClaimedStep],
    unsent: u64,
) -> Option<Scopes<'s>> {
    let key = kind.spec.list.as_ref()?.scope.as_deref()?;
    let mut scopes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut count = 0_usize;
    for step in steps.iter().filter(|step| step.key.kind == kind.name) {
        if let Some(value) = step.vars.get(key) {
            scopes.entry(value).or_default().push(&step.key.id);
            count += 1;
        }
    }
    let pages = usize::try_from(unsent).ok()?.div_ceil(PAGE_ROWS);
    let lists = pages + scopes.len().div_ceil(LOOKED_FOR_TOGETHER);
    (lists < count.div_ceil(LOOKED_FOR_TOGETHER)).then_some(Scopes { key, steps: scopes })
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
