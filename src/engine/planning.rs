//! Makes plans: lists the cloud, and finds the blockers behind the fence and before the first write (T3,
//! N15).

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::belongings::unknown_resource;
use super::copies::Copies;
use super::errors::unreadable;
use super::resolve::{By, Wanted};
use super::{Done, PAGE_MAX, Shared, UnderWay};
use crate::cloud::{CloudFailure, Freshness};
use crate::domain::kinds::{Kind, Kinds, not_looked_at};
use crate::domain::model::{
    Deletion, DeletionState, ErrorClass, Identity, Plan, PlanOptions, Refusal, RefusalRule,
    Resource, ResourceKey, Site, Target,
};
use crate::domain::plan::{Frozen, Planner, changes, changes_line, drifted, ranks};
use crate::domain::text::{escape, fits_pattern};
use crate::ledger::{Change, Cursor, DeletionFilter, LedgerError};
use crate::system::config::ProtectRule;

/// Number of deletions that are planned at the same time.
const PLANNING_MAX: usize = 4;
/// A deletion is planned again after this, if a cloud did not answer for `[engine] read_patience`; after
/// [`PLAN_AGAIN_MAX`] at most, whatever the cloud asks for.
const PLAN_AGAIN_MIN: Duration = Duration::from_secs(10);
const PLAN_AGAIN_MAX: Duration = Duration::from_secs(60);
/// Number of resources that are planned in about a millisecond.
const SMALL_PLAN: usize = 100;

impl Shared {
    /// Starts planning the accepted deletions; after a crash, again. Returns how long until the next one is
    /// due whose cloud did not answer.
    pub(super) async fn plan(
        self: &Arc<Self>,
        tasks: &mut JoinSet<Done>,
        under_way: &mut UnderWay,
    ) -> Result<Duration, LedgerError> {
        let now = Instant::now();
        under_way.plan_again.retain(|_, again| *again > now);
        let mut after = None;
        while under_way.planning.len() < PLANNING_MAX {
            let filter = DeletionFilter {
                states: vec![DeletionState::Planning],
                oldest_first: true,
                ..DeletionFilter::default()
            };
            let limit = PAGE_MAX;
            let page = self
                .ledger
                .deletions(filter, Cursor { after, limit })
                .await?;
            self.plan_some(page.rows, tasks, under_way);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let next = under_way.plan_again.values().min();
        Ok(next.map_or(Duration::MAX, |next| *next - now))
    }

    /// Starts planning those that are not being planned yet, up to the limit.
    fn plan_some(
        self: &Arc<Self>,
        deletions: Vec<Deletion>,
        tasks: &mut JoinSet<Done>,
        under_way: &mut UnderWay,
    ) {
        for deletion in deletions {
            if under_way.planning.len() >= PLANNING_MAX
                || under_way.plan_again.contains_key(&deletion.id)
                || !under_way.planning.insert(deletion.id.clone())
            {
                continue;
            }
            let shared = self.clone();
            tasks.spawn(async move {
                let id = deletion.id.clone();
                let (change, again) = shared.planned(deletion).await;
                let committed = shared.journal.commit_until_done(vec![change]).await;
                if let Some(deployments) = &shared.deployments {
                    deployments.ask_again();
                }
                if let Err(error) = committed {
                    tracing::error!(%error, deletion = id, "a plan was not written to the ledger; \
                                                            the deletion is planned again at the \
                                                            next start");
                    shared.journal.set_fault(Some(error.to_string()));
                }
                Done::Planned(id, again.map(|wait| Instant::now() + wait))
            });
        }
    }

    /// Plans an accepted deletion: it starts with its steps, is refused with the reason, or waits until a
    /// cloud answers again, for as long as its deadline leaves (N16). Meanwhile others are planned.
    async fn planned(&self, deletion: Deletion) -> (Change, Option<Duration>) {
        self.writes_ended(&deletion.targets).await;
        let plan = self.plan_shown(&deletion.targets, deletion.options).await;
        if let Err(failure) = &plan
            && let Some(wait) = self.wait_for_cloud(&deletion, failure)
        {
            let change = Change::StillPlanning {
                deletion_id: deletion.id,
                note: format!(
                    "is still being planned, and nothing was sent: {}; the cloud is asked again until its deadline",
                    failure.message
                ),
                now: self.clock.now(),
            };
            return (change, Some(wait));
        }
        (self.plan_ended(deletion, plan).await, None)
    }

    /// Returns how long to wait before planning again; none if time does not help, or there is none left.
    fn wait_for_cloud(&self, deletion: &Deletion, failure: &CloudFailure) -> Option<Duration> {
        let left = (deletion.deadline? - self.clock.now()).to_std().ok()?;
        let is_away = matches!(
            failure.class,
            ErrorClass::Unavailable | ErrorClass::OutcomeUnknown
        );
        let wait = failure.retry_after.unwrap_or_default();
        (is_away && !left.is_zero()).then(|| wait.clamp(PLAN_AGAIN_MIN, PLAN_AGAIN_MAX).min(left))
    }

    async fn plan_ended(&self, deletion: Deletion, plan: Result<Plan, CloudFailure>) -> Change {
        let refuse = |refused: Vec<Refusal>, note: String| Change::Refuse {
            deletion_id: deletion.id.clone(),
            refused,
            note,
            now: self.clock.now(),
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(failure) if deletion.plan_hash.is_some() && failure.kind == VANISHED => {
                let (refused, why) = all_drifted(&deletion.targets, failure.message);
                let note = format!("nothing was sent: the cloud is not as approved: {why}");
                return refuse(refused, note);
            }
            Err(failure) => {
                let refused = deletion.targets.iter().map(|target| Refusal {
                    resource: target.clone(),
                    rule: match failure.class {
                        ErrorClass::Auth => RefusalRule::NotShown,
                        _ if failure.forbidden => RefusalRule::NotShown,
                        _ => RefusalRule::Unreadable,
                    },
                    reason: failure.message.clone(),
                    blocker: None,
                    changes: Vec::new(),
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
            let (refused, why) = self.drift_since(approved, &deletion.targets, &plan).await;
            let note = format!("nothing was sent: the cloud is not as approved: {why}");
            return refuse(refused, note);
        }
        if !plan.refused.is_empty() {
            let first = plan
                .refused
                .first()
                .map(|refusal| refusal.reason.clone())
                .unwrap_or_default();
            let note = format!("nothing was sent: {first}");
            return refuse(plan.refused.clone(), note);
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

    /// Returns how the cloud differs from the approved plan, for each target and in one line.
    async fn drift_since(
        &self,
        approved: &str,
        targets: &[Target],
        now: &Plan,
    ) -> (Vec<Refusal>, String) {
        match self.ledger.plan(approved, self.clock.now()).await {
            Ok(Some(before)) => {
                let changes = changes(&before, now);
                (drifted(targets, &changes), changes_line(&changes))
            }
            Ok(None) => {
                let why = "the approved plan is no longer kept (24 h)";
                all_drifted(targets, why.to_owned())
            }
            Err(why) => all_drifted(
                targets,
                format!("the approved plan could not be read: {why}"),
            ),
        }
    }

    /// Waits until the writes have ended that gates let through before this deletion's fence stood, so that
    /// the listings show their effects (T3, T14). A gate lets no such write take longer than a call may.
    async fn writes_ended(&self, targets: &[Target]) {
        let Some(tombstones) = &self.tombstones else {
            return;
        };
        let sites: BTreeSet<&Site> = targets.iter().map(|target| &target.key.site).collect();
        let mapped = self.settings.mapping.iter();
        let copied_to = mapped
            .filter(|mapping| sites.contains(&mapping.central))
            .flat_map(|mapping| &mapping.locals);
        for site in sites.iter().copied().chain(copied_to) {
            tombstones.drained(site).await;
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
        if options.chained {
            // The deployment that deletes them knows what they are.
            roots.extend(targets.iter().map(known_by_id));
            wanted.clear();
        }
        for (Wanted { site, kind }, ids) in wanted {
            let kind = self
                .kinds
                .get(kind)
                .ok_or_else(|| unreadable(format!("unknown kind {kind}")))?;
            if let btree_map::Entry::Vacant(entry) = identities.entry(site.to_string()) {
                entry.insert(self.reads.identity(site, Freshness::Now).await?.identity);
            }
            let mut found = self.find(site, kind, &ids, By::Id).await?;
            let is_missing = |id: &&str| !found.iter().any(|found| found.key.id == *id);
            let missing: Vec<&str> = ids.iter().copied().filter(is_missing).collect();
            match (missing.first(), &kind.spec.unknown) {
                (Some(missing), None) => return Err(vanished(site, kind, missing)),
                // A resource that its service no longer knows may still have resources that belong to it.
                _ => found.extend(missing.iter().map(|id| unknown_resource(site, kind, id))),
            }
            roots.extend(found);
        }
        self.complete_in_each_region(&roots, options)?;
        let copies = match options.chained {
            true => Copies::default(),
            false => self.copies_of(&roots).await?,
        };
        for site in copies.resources.iter().map(|copy| &copy.key.site) {
            if let btree_map::Entry::Vacant(entry) = identities.entry(site.to_string()) {
                entry.insert(self.reads.identity(site, Freshness::Now).await?.identity);
            }
        }
        let now = self.clock.now();
        let rules = &self.settings.guard.protect;
        let kinds = &self.kinds;
        let protection = move |resource: &Resource| protected(kinds, rules, resource, now);
        let mut planner = Planner::new(&self.kinds, options, &protection, roots)
            .with_copies(copies.mapping, copies.resources);
        loop {
            let wanted = at_length(planner.size(), || planner.wanted());
            if wanted.is_empty() {
                break;
            }
            let planner_so_far = &planner;
            let listings = wanted.iter().map(|lookup| {
                self.reads
                    .look_up_by_page(lookup, || planner_so_far.found(lookup))
            });
            let answers = futures_util::future::join_all(listings).await;
            for (lookup, answer) in wanted.iter().zip(answers) {
                let (found, identity) = match answer {
                    Err(failure) if failure.forbidden && planner.can_do_without(lookup) => {
                        planner.not_shown(lookup, failure.message);
                        continue;
                    }
                    answer => answer?,
                };
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
            let url = self.reads.endpoint(site, kind).await?;
            endpoints.insert(format!("{site} {service}"), url);
        }
        let frozen = Frozen {
            identities,
            endpoints,
        };
        let mut plan = at_length(planner.size(), || planner.finish(frozen));
        self.tell_not_looked_at(&mut plan).await?;
        Ok(plan)
    }

    /// Warns, in one line for each site, of services that may hold more resources of a target and were not
    /// looked at, where all that belongs to the target was asked for. A target that is deleted once it is
    /// empty is refused if that cannot be seen (N19).
    async fn tell_not_looked_at(&self, plan: &mut Plan) -> Result<(), CloudFailure> {
        let spec = |target: &Target| self.kinds.get(&target.key.kind).map(|kind| &kind.spec);
        let is_whole = |target: &&Target| spec(target).is_some_and(|spec| spec.stays.is_some());
        let goes = |target: &&Target| {
            let option = spec(target).and_then(|spec| spec.goes_with);
            option.is_some_and(|option| option.is_given(plan.options))
        };
        if !plan.options.cascade || plan.options.chained {
            return Ok(());
        }
        let whole = plan.targets.iter().filter(is_whole);
        let sites: BTreeSet<&Site> = whole.map(|target| &target.key.site).collect();
        let (mut lines, mut refused) = (Vec::new(), Vec::new());
        for site in sites {
            let offer = self.reads.offer(site).await?;
            let not_covered = self.kinds.not_covered(&offer);
            lines.extend(not_looked_at(&not_covered, &site.to_string()));
            let Some(why) =
                not_looked_at(&self.kinds.services_not_covered(&offer), &site.to_string())
            else {
                continue;
            };
            let here = plan
                .targets
                .iter()
                .filter(|target| target.key.site == *site);
            refused.extend(here.filter(goes).map(|target| Refusal {
                resource: target.clone(),
                rule: RefusalRule::InUse,
                reason: format!("gone cannot tell whether the project will be empty: {why}"),
                blocker: None,
                changes: Vec::new(),
            }));
        }
        plan.warnings.extend(lines);
        plan.refused.extend(refused);
        Ok(())
    }

    /// Refuses a target that is deleted once it is empty and is the same in all regions, unless all regions
    /// are named.
    fn complete_in_each_region(
        &self,
        roots: &[Resource],
        options: PlanOptions,
    ) -> Result<(), CloudFailure> {
        let goes_everywhere = |root: &&Resource| {
            let spec = self.kinds.get(&root.key.kind).map(|kind| &kind.spec);
            spec.is_some_and(|spec| {
                spec.in_all_regions && spec.goes_with.is_some_and(|it| it.is_given(options))
            })
        };
        for root in roots.iter().filter(goes_everywhere) {
            let named = |site: &Site| {
                roots.iter().any(|other| {
                    (&other.key.kind, &other.key.id) == (&root.key.kind, &root.key.id)
                        && other.key.site == *site
                })
            };
            let mut sites = self.cloud.sites().into_iter();
            let sites = sites.find(|site| site.cloud() == root.key.site.cloud() && !named(site));
            if let Some(missing) = sites {
                return Err(unreadable(format!(
                    "{} is the same in all regions, and {missing} is not looked at: name it as \
                     {}/…@{}, without a region, so that it is empty everywhere before it goes",
                    root.key.called(&root.name),
                    root.key.kind,
                    missing.cloud().unwrap_or_default()
                )));
            }
        }
        Ok(())
    }
}

fn known_by_id(target: &Target) -> Resource {
    Resource {
        key: target.key.clone(),
        name: target.name.clone(),
        project_id: String::new(),
        tags: Vec::new(),
        attributes: serde_json::json!({ "id": target.key.id }),
    }
}

/// The type of the failure if a target does not exist.
const VANISHED: &str = "Vanished";

fn vanished(site: &Site, kind: &Kind, id: &str) -> CloudFailure {
    let message = format!(
        "{} {} does not exist (any more) at {site}",
        kind.name,
        escape(id)
    );
    CloudFailure {
        kind: VANISHED.into(),
        ..unreadable(message)
    }
}

/// Does work that takes a second on a large plan: the thread's other tasks move to other threads meanwhile.
/// On a small plan that would cost more than the work, and one more thread for each plan at a time.
fn at_length<T>(resources: usize, work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread if resources > SMALL_PLAN => tokio::task::block_in_place(work),
        // The simulation has one thread: no other could take its tasks.
        _ => work(),
    }
}

/// Returns in words the protection rule that a resource falls under (P4).
pub(super) fn protected(
    kinds: &Kinds,
    rules: &[ProtectRule],
    resource: &Resource,
    now: DateTime<Utc>,
) -> Option<String> {
    let created = kinds.created_at(resource);
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
        // A resource that does not tell its age falls under every rule about age.
        if let Some(limit) = rule.younger_than {
            demand(
                age.is_none_or(|age| age < limit),
                format!("younger than {}", crate::domain::duration::format(limit)),
            );
        }
        if let Some(limit) = rule.older_than {
            demand(
                age.is_none_or(|age| age > limit),
                format!("older than {}", crate::domain::duration::format(limit)),
            );
        }
        (all && !said.is_empty()).then(|| said.join(", "))
    })
}

/// Refuses every target as drifted, for a reason that concerns no single resource of the plan.
fn all_drifted(targets: &[Target], reason: String) -> (Vec<Refusal>, String) {
    let refusal = |target: &Target| Refusal {
        resource: target.clone(),
        rule: RefusalRule::Drift,
        reason: reason.clone(),
        blocker: None,
        changes: Vec::new(),
    };
    let refused = targets.iter().map(refusal).collect();
    (refused, reason)
}
