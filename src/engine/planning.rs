//! Makes plans: lists the clouds, and finds the blockers before anything is written (N15).

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::belongings::unknown_resource;
use super::copies::{Copies, CopySearch};
use super::errors::unreadable;
use super::owner_names::name_refusals;
use super::peers::OwnerSide;
use super::protection::protected;
use super::reads::Reads;
use super::resolve::{By, Resolver, ids_by_kind};
use crate::cloud::{CloudFailure, Freshness};
use crate::domain::kinds::{Kind, unlisted_warning};
use crate::domain::model::{
    Identity, Plan, PlanOptions, Refusal, RefusalRule, Resource, Site, Target,
};
use crate::domain::plan::{Frozen, Planner};
use crate::domain::text::escape;
use crate::system::clock::Clock;
use crate::system::config::ProtectRule;

/// Number of resources that are planned in about a millisecond.
const SMALL_PLAN: usize = 100;

/// Makes plans from the present state of the clouds.
pub(super) struct Planning {
    pub(super) clock: Clock,
    pub(super) reads: Arc<Reads>,
    pub(super) resolver: Arc<Resolver>,
    pub(super) copies: Arc<CopySearch>,
    /// The settings' rules that protect resources (P4).
    pub(super) protect: Vec<ProtectRule>,
    /// Asks the importers; none for an engine without `[deployment]`.
    pub(super) owner: Option<Arc<OwnerSide>>,
}

impl Planning {
    /// Makes a complete plan: also asks other deployments for blockers, and adds the names of the owners of
    /// blockers.
    pub(super) async fn plan_completely(
        &self,
        targets: &[Target],
        options: PlanOptions,
    ) -> Result<Plan, CloudFailure> {
        let mut plan = self.plan_targets(targets, options).await?;
        if let Some(owner) = &self.owner {
            owner.ask_elsewhere(&mut plan).await;
        }
        name_refusals(&*self.reads.cloud, &mut plan).await;
        Ok(plan)
    }

    /// Reads the targets as they are now and plans their deletion. Sends no write.
    pub(super) async fn plan_targets(
        &self,
        targets: &[Target],
        options: PlanOptions,
    ) -> Result<Plan, CloudFailure> {
        let (roots, mut identities) = self.read_targets(targets, options).await?;
        self.require_all_regions(&roots, options)?;
        let copies = match options.chained {
            true => Copies::default(),
            false => self.copies.copies_of(&roots).await?,
        };
        for site in copies.resources.iter().map(|copy| &copy.key.site) {
            if let btree_map::Entry::Vacant(entry) = identities.entry(site.to_string()) {
                entry.insert(self.reads.identity(site, Freshness::Now).await?.identity);
            }
        }
        let now = self.clock.now();
        let rules = &self.protect;
        let kinds = &self.reads.kinds;
        let protection = move |resource: &Resource| protected(kinds, rules, resource, now);
        let mut planner = Planner::new(&self.reads.kinds, options, &protection, roots)
            .with_copies(copies.mapping, copies.resources);
        loop {
            let wanted = run_blocking_if_large(planner.size(), || planner.wanted());
            if wanted.is_empty() {
                break;
            }
            let planner_so_far = &planner;
            let calls = wanted.iter().flat_map(|lookup| {
                let calls = self.reads.by_call(lookup).into_iter();
                calls.map(move |call| (lookup, call))
            });
            let listings = calls.map(|(lookup, call)| async move {
                let found = || planner_so_far.found(&call);
                (lookup, self.reads.look_up_by_page(&call, found).await)
            });
            for (lookup, answer) in futures_util::future::join_all(listings).await {
                let (found, identity) = match answer {
                    Err(failure)
                        if planner.is_for_people(lookup)
                            || (failure.forbidden && planner.can_do_without(lookup)) =>
                    {
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
        let mut plan = run_blocking_if_large(planner.size(), || planner.finish(frozen));
        self.warn_of_unlisted_services(&mut plan).await?;
        Ok(plan)
    }

    /// Reads the targets as they are now, and the identity of the login at each site. Reads nothing for a chained
    /// deletion.
    async fn read_targets(
        &self,
        targets: &[Target],
        options: PlanOptions,
    ) -> Result<(Vec<Resource>, BTreeMap<String, Identity>), CloudFailure> {
        let mut identities: BTreeMap<String, Identity> = BTreeMap::new();
        if options.chained {
            // These targets belong to the deployment that deletes them; only their ids are known here.
            return Ok((targets.iter().map(known_by_id).collect(), identities));
        }
        let mut roots = Vec::new();
        for ((site, kind), ids) in ids_by_kind(targets.iter().map(|target| &target.key)) {
            let kind = self
                .reads
                .kinds
                .get(kind)
                .ok_or_else(|| unreadable(format!("unknown kind {kind}")))?;
            if let btree_map::Entry::Vacant(entry) = identities.entry(site.to_string()) {
                entry.insert(self.reads.identity(site, Freshness::Now).await?.identity);
            }
            let mut found = self.resolver.find(site, kind, &ids, By::Id).await?;
            let is_missing = |id: &&str| !found.iter().any(|found| found.key.id == *id);
            let missing: Vec<&str> = ids.iter().copied().filter(is_missing).collect();
            match (missing.first(), &kind.spec.unknown) {
                (Some(missing), None) => return Err(vanished(site, kind, missing)),
                // A resource that its service no longer knows may still have resources that belong to it.
                _ => found.extend(missing.iter().map(|id| unknown_resource(site, kind, id))),
            }
            roots.extend(found);
        }
        Ok((roots, identities))
    }

    /// If a target stands for everything that belongs to it (a project), warns, in one line for each site, of the
    /// services and extensions for which gone has no kinds. If some of these are services, and the target itself is
    /// deleted once it is empty, refuses the target, because gone cannot tell whether it will be empty (N19). Does
    /// nothing without a cascade or for a chained deletion.
    async fn warn_of_unlisted_services(&self, plan: &mut Plan) -> Result<(), CloudFailure> {
        let spec = |target: &Target| {
            self.reads
                .kinds
                .get(&target.key.kind)
                .map(|kind| &kind.spec)
        };
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
            let not_covered = self.reads.kinds.not_covered(&offer);
            lines.extend(unlisted_warning(&not_covered, &site.to_string()));
            let Some(why) = unlisted_warning(
                &self.reads.kinds.services_not_covered(&offer),
                &site.to_string(),
            ) else {
                continue;
            };
            let here = plan
                .targets
                .iter()
                .filter(|target| target.key.site == *site);
            let reason = format!("gone cannot tell whether the project will be empty: {why}");
            let refusal =
                |target: &Target| Refusal::new(target, RefusalRule::InUse, reason.clone());
            refused.extend(here.filter(goes).map(refusal));
        }
        plan.warnings.extend(lines);
        plan.refused.extend(refused);
        Ok(())
    }

    /// Refuses a target that is deleted once it is empty and that all regions share, unless the request names
    /// all regions.
    fn require_all_regions(
        &self,
        roots: &[Resource],
        options: PlanOptions,
    ) -> Result<(), CloudFailure> {
        let goes_everywhere = |root: &&Resource| {
            let spec = self.reads.kinds.get(&root.key.kind).map(|kind| &kind.spec);
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
            let mut sites = self.reads.cloud.sites().into_iter();
            let sites = sites.find(|site| site.cloud() == root.key.site.cloud() && !named(site));
            if let Some(missing) = sites {
                return Err(unreadable(format!(
                    "{} is the same in all regions, but the request leaves out {missing}: name it as \
                     {}/…@{}, without a region, so that gone deletes it only when it is empty everywhere",
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
pub(super) const VANISHED: &str = "Vanished";

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

/// Does work that takes a second on a large plan. Meanwhile the thread's other tasks move to other threads. On a small
/// plan, that move would cost more than the work itself, and would need one more thread for each plan that is being
/// made.
fn run_blocking_if_large<T>(resources: usize, work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread if resources > SMALL_PLAN => tokio::task::block_in_place(work),
        // A small plan, or the simulation: it has one thread, so no other thread could take its tasks.
        _ => work(),
    }
}
