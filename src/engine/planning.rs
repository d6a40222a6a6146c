//! From a command to a plan: targets resolved, the cloud listed, blockers found behind the fence and
//! before the first write (T3, N15).

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use chrono::{DateTime, NaiveDateTime, Utc};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinSet;

use super::{Done, Shared, UnderWay};
use crate::cloud::{Asked, CloudFailure, Fields, ListRows, Listed};
use crate::control::{ControlError, SiteSpec, TargetSpec};
use crate::domain::kinds::{Kind, lookup};
use crate::domain::model::{
    Deletion, DeletionState, ErrorClass, Identity, KindName, Plan, PlanOptions, PlanStep, Refusal,
    RefusalRule, Resource, ResourceKey, Site, Target,
};
use crate::domain::plan::{Filter, Frozen, Lookup, Planner, ranks};
use crate::domain::text::escape;
use crate::ledger::{Change, Cursor, DeletionFilter, LedgerError};
use crate::system::config::ProtectRule;

/// Deletions that are planned at the same time.
const PLANNING_MAX: usize = 4;
/// Resources that are planned in about a millisecond.
const SMALL_PLAN: usize = 100;

impl Shared {
    /// Starts planning what was accepted and is not yet planned; after a crash, again.
    pub(super) async fn plan(
        self: &Arc<Self>,
        tasks: &mut JoinSet<Done>,
        under_way: &mut UnderWay,
    ) -> Result<(), LedgerError> {
        let filter = DeletionFilter {
            states: vec![DeletionState::Planning],
            ..DeletionFilter::default()
        };
        let page = self
            .ledger
            .deletions(
                filter,
                Cursor {
                    after: None,
                    limit: 100,
                },
            )
            .await?;
        for deletion in page.rows {
            if under_way.planning.len() >= PLANNING_MAX
                || !under_way.planning.insert(deletion.id.clone())
            {
                continue;
            }
            let shared = self.clone();
            tasks.spawn(async move {
                let id = deletion.id.clone();
                let change = shared.planned(deletion).await;
                if let Err(error) = shared.commit_until_done(vec![change]).await {
                    tracing::error!(%error, deletion = id, "a plan was not written; it is made again at the next start");
                    shared.fault(Some(error.to_string()));
                }
                Done::Planned(id)
            });
        }
        Ok(())
    }

    /// What becomes of an accepted deletion: it starts with its steps, or is refused with why.
    async fn planned(&self, deletion: Deletion) -> Change {
        let refuse = |refused: Vec<Refusal>, note: String| Change::Refuse {
            deletion_id: deletion.id.clone(),
            refused,
            note,
            now: self.clock.now(),
        };
        let plan = match self.plan_shown(&deletion.targets, deletion.options).await {
            Ok(plan) => plan,
            Err(failure) => {
                let refused = deletion.targets.iter().map(|target| Refusal {
                    resource: target.clone(),
                    rule: RefusalRule::Unreadable,
                    reason: failure.message.clone(),
                    blocker: None,
                });
                return refuse(
                    refused.collect(),
                    format!("nothing was sent: {}", failure.message),
                );
            }
        };
        if let Some(approved) = &deletion.plan_hash
            && *approved != plan.hash
        {
            let before = self
                .ledger
                .plan(approved, self.clock.now())
                .await
                .ok()
                .flatten();
            let changes = match &before {
                Some(before) => differences(before, &plan),
                None => vec!["the approved plan is no longer kept (24 h)".to_owned()],
            };
            let refused = deletion.targets.iter().map(|target| Refusal {
                resource: target.clone(),
                rule: RefusalRule::Drift,
                reason: changes.join("; "),
                blocker: None,
            });
            return refuse(
                refused.collect(),
                format!(
                    "nothing was sent: the cloud is not as approved: {}",
                    changes.join("; ")
                ),
            );
        }
        if !plan.refused.is_empty() {
            let first = plan
                .refused
                .first()
                .map(|refusal| refusal.reason.clone())
                .unwrap_or_default();
            return refuse(plan.refused.clone(), format!("nothing was sent: {first}"));
        }
        Change::Start {
            deletion_id: deletion.id.clone(),
            ranks: ranks(&plan),
            max_attempts: plan
                .steps
                .iter()
                .map(|step| self.max_attempts(&step.kind))
                .collect(),
            plan: Arc::new(plan),
            now: self.clock.now(),
        }
    }

    /// Reads the targets as they are now and plans their deletion. Sends no write.
    pub(super) async fn plan_targets(
        &self,
        targets: &[Target],
        options: PlanOptions,
    ) -> Result<Plan, CloudFailure> {
        let mut identities: BTreeMap<String, Identity> = BTreeMap::new();
        let mut wanted: BTreeMap<Wanted<'_>, BTreeSet<&str>> = BTreeMap::new();
        for ResourceKey { site, kind, id } in targets.iter().map(|target| &target.key) {
            wanted
                .entry(Wanted { site, kind })
                .or_default()
                .insert(id.as_str());
        }
        let mut roots = Vec::new();
        for (Wanted { site, kind }, ids) in wanted {
            let kind = self
                .kinds
                .get(kind)
                .ok_or_else(|| unreadable(format!("unknown kind {kind}")))?;
            if let btree_map::Entry::Vacant(entry) = identities.entry(site.to_string()) {
                entry.insert(self.cloud.identity(site, Asked::Now).await?.identity);
            }
            let found = self.find(site, kind, &ids, By::Id).await?;
            if let Some(missing) = ids
                .iter()
                .find(|id| !found.iter().any(|found| found.key.id == **id))
            {
                return Err(unreadable(format!(
                    "{} {} is not there (any more) at {site}",
                    kind.name,
                    escape(missing)
                )));
            }
            roots.extend(found);
        }
        let copies = self.copies_of(&roots).await?;
        for site in copies.resources.iter().map(|copy| &copy.key.site) {
            if let btree_map::Entry::Vacant(entry) = identities.entry(site.to_string()) {
                entry.insert(self.cloud.identity(site, Asked::Now).await?.identity);
            }
        }
        let now = self.clock.now();
        let rules = &self.settings.guard.protect;
        let protection = move |resource: &Resource| protected(rules, resource, now);
        let mut planner = Planner::new(&self.kinds, options, &protection, roots)
            .with_copies(copies.mapping, copies.resources);
        loop {
            let wanted = at_length(planner.size(), || planner.wanted());
            if wanted.is_empty() {
                break;
            }
            let listings = wanted.iter().map(|lookup| {
                let mut found = planner.found(lookup);
                async move {
                    let mut take = |listed| match listed {
                        Listed::Part => found.begin(),
                        Listed::PartAgain => found.begin_again(),
                        Listed::Rows(rows) => found.add(&rows),
                    };
                    let identity = self.look_up_by_page(lookup, &mut take).await?;
                    Ok::<_, CloudFailure>((found, identity))
                }
            });
            let answers = futures_util::future::join_all(listings).await;
            for (lookup, answer) in wanted.iter().zip(answers) {
                let (found, identity) = answer?;
                let site = lookup.site.to_string();
                if let (Some(seen), Some(first)) = (identity, identities.get(&site))
                    && seen != *first
                {
                    return Err(unreadable(format!(
                        "{site}: the user's project or roles changed while it was listed"
                    )));
                }
                planner.feed(found);
            }
        }
        let mut endpoints = BTreeMap::new();
        for ((site, service), kind) in planner.services() {
            let url = self.cloud.endpoint(site, kind).await?;
            endpoints.insert(format!("{site} {service}"), url);
        }
        let frozen = Frozen {
            identities,
            endpoints,
        };
        Ok(at_length(planner.size(), || planner.finish(frozen)))
    }

    /// All rows that a lookup finds.
    pub(super) async fn look_up(
        &self,
        lookup: &Lookup,
    ) -> Result<(Vec<serde_json::Value>, Option<Identity>), CloudFailure> {
        let listing = self.cloud.list(self.rows_of(lookup)?).await;
        self.site_answered(&lookup.site, listing.as_ref().err());
        let listing = listing?;
        Ok((listing.rows, listing.identity))
    }

    async fn look_up_by_page(
        &self,
        lookup: &Lookup,
        take: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<Option<Identity>, CloudFailure> {
        let listing = self.cloud.list_by_page(self.rows_of(lookup)?, take).await;
        self.site_answered(&lookup.site, listing.as_ref().err());
        listing
    }

    fn rows_of<'r>(&'r self, lookup: &'r Lookup) -> Result<ListRows<'r>, CloudFailure> {
        let kind = self
            .kinds
            .get(&lookup.kind)
            .ok_or_else(|| unreadable(format!("unknown kind {}", lookup.kind)))?;
        Ok(ListRows {
            site: &lookup.site,
            kind,
            filter: lookup.filter.as_ref(),
            fields: Fields::Planning,
            rows_max: None,
        })
    }

    /// Resources of a kind by their ids, or by their names: one listing, however many.
    pub(super) async fn find(
        &self,
        site: &Site,
        kind: &Kind,
        words: &BTreeSet<&str>,
        by: By,
    ) -> Result<Vec<Resource>, CloudFailure> {
        let listed = self.kinds.listed(kind);
        let key = match (&kind.spec.derived, &listed.spec.list, by) {
            (Some(derived), _, By::Id) => derived.find_by.as_str(),
            // Below a parent that is not at this site there is no list, and that is an error; a row that
            // is not there is none.
            (None, Some(list), By::Id) if list.within.is_some() => {
                let whole = words.iter().copied().filter(|word| word.contains(','));
                return self.read_all(site, listed, &whole.collect()).await;
            }
            (None, _, By::Id) => match listed.id_filter() {
                Some(filter) => filter,
                None => return self.read_all(site, listed, words).await,
            },
            (None, Some(list), By::Name) if list.within.is_none() => list.name.as_str(),
            (_, _, By::Name) => return Ok(Vec::new()),
        };
        // A composite id begins with its parent's, by which it is found.
        let composite = kind.spec.derived.is_some() || listed.id_filter() != Some("id");
        let part = |word: &&str| match (word.split_once(','), by) {
            (Some((parent, _)), By::Id) if composite => parent.to_owned(),
            _ => (*word).to_owned(),
        };
        let values: BTreeSet<String> = words.iter().map(part).collect();
        let filter = Filter {
            key: key.to_owned(),
            values: values.into_iter().collect(),
        };
        let (rows, _) = self
            .look_up(&Lookup {
                site: site.clone(),
                kind: listed.name.clone(),
                filter: Some(filter),
            })
            .await?;
        let found = rows
            .iter()
            .flat_map(|row| self.kinds.resources_in(site, listed, row));
        Ok(found
            .filter(|found| found.key.kind == kind.name)
            .filter(|found| words.contains(by.word(found)))
            .collect())
    }

    /// The same where the cloud has no filter by id.
    async fn read_all(
        &self,
        site: &Site,
        kind: &Kind,
        ids: &BTreeSet<&str>,
    ) -> Result<Vec<Resource>, CloudFailure> {
        let mut found = Vec::new();
        for id in ids {
            let read = self.cloud.read(site, kind, id).await;
            self.site_answered(site, read.as_ref().err());
            let row = read?.row;
            found.extend(
                row.iter()
                    .flat_map(|row| self.kinds.resources_in(site, kind, row)),
            );
        }
        Ok(found)
    }

    /// Each target as exactly one resource; a word that fits several is refused, and they are listed.
    pub(super) async fn resolve(
        &self,
        specs: &[TargetSpec],
    ) -> Result<Vec<Resource>, ControlError> {
        let mut targets: Vec<Resource> = Vec::new();
        for found in self.resolve_all(specs).await? {
            if targets.iter().all(|target| target.key != found.key) {
                targets.push(found);
            }
        }
        if targets.is_empty() {
            return Err(ControlError::Usage {
                message: "no target is named".into(),
            });
        }
        Ok(targets)
    }

    pub(super) async fn resolve_one(&self, spec: &TargetSpec) -> Result<Resource, ControlError> {
        let mut found = self.resolve_all(std::slice::from_ref(spec)).await?;
        Ok(found.swap_remove(0))
    }

    /// One resource for each, in order, or one in each region of what all share: looked up by site and
    /// kind, not one by one.
    async fn resolve_all(&self, specs: &[TargetSpec]) -> Result<Vec<Resource>, ControlError> {
        let mut asked = Vec::new();
        for spec in specs {
            let kind = self
                .kinds
                .resolve(&spec.kind)
                .map_err(|message| ControlError::Usage { message })?;
            asked.push((kind, self.sites_of(&spec.site)?, spec.id_or_name.as_str()));
        }
        let mut wanted: BTreeMap<Wanted<'_>, BTreeSet<&str>> = BTreeMap::new();
        for (kind, sites, word) in &asked {
            let kind = &kind.name;
            for site in sites {
                wanted
                    .entry(Wanted { site, kind })
                    .or_default()
                    .insert(word);
            }
        }
        let looked = wanted.into_iter().map(|(at, words)| async move {
            let Some(kind) = self.kinds.get(at.kind) else {
                return Ok((at, Vec::new()));
            };
            let mut found = self.find(at.site, kind, &words, By::Id).await?;
            let is_id = |word: &&str| found.iter().any(|found| found.key.id == *word);
            let names: BTreeSet<&str> = words.into_iter().filter(|word| !is_id(word)).collect();
            if !names.is_empty() {
                let mut named = self.find(at.site, kind, &names, By::Name).await?;
                named.retain(|named| !found.iter().any(|found| found.key == named.key));
                found.extend(named);
            }
            Ok((at, found))
        });
        let mut found: BTreeMap<Wanted<'_>, Vec<Resource>> = BTreeMap::new();
        for answer in futures_util::future::join_all(looked).await {
            // One silent site could hide that the word fits twice.
            let (at, resources) = answer.map_err(control_error)?;
            found.insert(at, resources);
        }
        let mut meant = Vec::new();
        for (kind, sites, word) in &asked {
            let fits = sites.iter().flat_map(|site| {
                let kind = &kind.name;
                let here = found.get(&Wanted { site, kind }).into_iter().flatten();
                let here: Vec<&Resource> = here.collect();
                let by = match here.iter().any(|found| found.key.id == *word) {
                    true => By::Id,
                    false => By::Name,
                };
                here.into_iter()
                    .filter(move |found| by.word(found) == *word)
            });
            let fits = self.without_copies(fits.collect());
            meant.extend(the_one(kind, sites, word, fits)?);
        }
        Ok(meant)
    }

    pub(super) fn sites_of(&self, spec: &SiteSpec) -> Result<Vec<Site>, ControlError> {
        let all = self.cloud.sites();
        let sites: Vec<Site> = all
            .iter()
            .filter(|site| spec.matches(site))
            .cloned()
            .collect();
        if sites.is_empty() {
            let known: Vec<String> = all.iter().map(Site::to_string).collect();
            let wanted = match spec {
                SiteSpec::All => {
                    return Err(ControlError::Usage {
                        message: "no cloud is configured: gone doctor says where it looked".into(),
                    });
                }
                SiteSpec::Cloud(cloud) => cloud.to_string(),
                SiteSpec::Region(site) => site.to_string(),
            };
            return Err(ControlError::Usage {
                message: format!(
                    "no such site \"{}\"{}; configured: {}",
                    escape(&wanted),
                    crate::domain::text::did_you_mean(&wanted, known.iter().map(String::as_str)),
                    known.join(", ")
                ),
            });
        }
        Ok(sites)
    }
}

#[derive(Clone, Copy)]
pub(super) enum By {
    Id,
    Name,
}

impl By {
    fn word(self, resource: &Resource) -> &str {
        match self {
            By::Id => &resource.key.id,
            By::Name => &resource.name,
        }
    }
}

/// Where words are looked up together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted<'a> {
    site: &'a Site,
    kind: &'a KindName,
}

fn the_one(
    kind: &Kind,
    sites: &[Site],
    word: &str,
    fits: Vec<&Resource>,
) -> Result<Vec<Resource>, ControlError> {
    match fits.as_slice() {
        [one] => Ok(vec![(*one).clone()]),
        [first, others @ ..]
            if kind.spec.in_all_regions && others.iter().all(|it| it.key.id == first.key.id) =>
        {
            Ok(fits.into_iter().cloned().collect())
        }
        [] => {
            let sites: Vec<String> = sites.iter().map(Site::to_string).collect();
            Err(ControlError::NotFound {
                message: format!(
                    "no {} with the id or name \"{}\" at {}",
                    kind.name,
                    escape(word),
                    sites.join(", ")
                ),
            })
        }
        several => Err(ControlError::Ambiguous {
            message: format!(
                "{} resources fit {}/{}; name one by its id, or add @CLOUD/REGION",
                several.len(),
                kind.name,
                escape(word)
            ),
            candidates: several
                .iter()
                .map(|one| Target {
                    key: one.key.clone(),
                    name: one.name.clone(),
                })
                .collect(),
        }),
    }
}

pub(super) fn unreadable(message: String) -> CloudFailure {
    CloudFailure {
        retry: crate::domain::policy::Retry::Never,
        class: ErrorClass::Fatal,
        status: None,
        kind: String::new(),
        message,
        request_id: String::new(),
        retry_after: None,
    }
}

/// A failed look at a cloud, as a front end shows it.
pub(super) fn control_error(failure: CloudFailure) -> ControlError {
    let message = failure.message;
    match failure.class {
        ErrorClass::Auth => ControlError::Auth { message },
        ErrorClass::Unavailable | ErrorClass::OutcomeUnknown => {
            ControlError::Unreachable { message }
        }
        _ if failure.status == Some(403) => ControlError::Auth { message },
        _ => ControlError::Usage { message },
    }
}

/// Work that takes a second on a large plan: the other tasks of its thread move to others meanwhile.
/// On a small one that would cost more than the work, and a thread more for each plan at a time.
fn at_length<T>(resources: usize, work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread if resources > SMALL_PLAN => tokio::task::block_in_place(work),
        // The simulation has one thread, and no other could take its tasks.
        _ => work(),
    }
}

/// The protection rule that a resource falls under, in words (P4).
pub(super) fn protected(
    rules: &[ProtectRule],
    resource: &Resource,
    now: DateTime<Utc>,
) -> Option<String> {
    let created = lookup(&resource.attributes, "created_at");
    // Octavia writes UTC without saying so.
    let created = created.first().and_then(|text| {
        let utc = text.parse::<NaiveDateTime>().map(|time| time.and_utc());
        text.parse::<DateTime<Utc>>().or(utc).ok()
    });
    let age = created.and_then(|created| (now - created).to_std().ok());
    rules.iter().find_map(|rule| {
        let mut said = Vec::new();
        let mut all = true;
        let mut demand = |holds: bool, words: String| {
            all &= holds;
            said.push(words);
        };
        if let Some(kind) = &rule.kind {
            demand(resource.key.kind.as_str() == kind, format!("kind {kind}"));
        }
        if let Some(tag) = &rule.tag {
            demand(resource.tags.contains(tag), format!("tag {tag}"));
        }
        if let Some(pattern) = &rule.name {
            demand(
                fits_pattern(&resource.name, pattern),
                format!("name {pattern}"),
            );
        }
        if let Some(project) = &rule.project {
            demand(
                resource.project_id == *project,
                format!("project {project}"),
            );
        }
        // What does not tell its age is protected by a rule about age.
        if let Some(limit) = rule.younger_than {
            demand(
                age.is_none_or(|age| age < limit),
                format!(
                    "younger than {}",
                    crate::system::config::format_duration(limit)
                ),
            );
        }
        if let Some(limit) = rule.older_than {
            demand(
                age.is_none_or(|age| age > limit),
                format!(
                    "older than {}",
                    crate::system::config::format_duration(limit)
                ),
            );
        }
        (all && !said.is_empty()).then(|| said.join(", "))
    })
}

/// `*` stands for any text.
fn fits_pattern(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// What changed between an approved plan and a new one, for a person; at most ten lines.
fn differences(before: &Plan, after: &Plan) -> Vec<String> {
    let everything = |plan: &Plan| -> BTreeMap<ResourceKey, PlanStep> {
        plan.steps
            .iter()
            .chain(&plan.automatic)
            .chain(&plan.unset)
            .map(|step| (step.key(), step.clone()))
            .collect()
    };
    let (old, new) = (everything(before), everything(after));
    let called =
        |step: &PlanStep| format!("{} {} {}", step.kind, escape(&step.name), step.resource_id);
    let mut lines = Vec::new();
    lines.extend(
        new.iter()
            .filter(|(key, _)| !old.contains_key(*key))
            .map(|(_, step)| format!("new: {}", called(step))),
    );
    lines.extend(
        old.iter()
            .filter(|(key, _)| !new.contains_key(*key))
            .map(|(_, step)| format!("no longer there: {}", called(step))),
    );
    lines.extend(
        old.iter()
            .filter(|(key, step)| {
                new.get(*key).is_some_and(|other| {
                    other.fingerprint != step.fingerprint || other.action != step.action
                })
            })
            .map(|(_, step)| format!("changed: {}", called(step))),
    );
    if lines.is_empty() {
        lines.push("its order, endpoint or options differ".to_owned());
    }
    let more = lines.len().saturating_sub(10);
    lines.truncate(10);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}
