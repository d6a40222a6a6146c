//! Names the owners of blockers as people know them (P2). The names cost a call only where another
//! project's resource must be shown, and that call is one for many (N14).

use std::collections::{BTreeMap, BTreeSet};

use super::Shared;
use crate::cloud::{CloudFailure, NameLookup};
use crate::domain::model::{Blocker, Plan, PlanOptions, Site, Target};
use crate::domain::plan::name_owners;

impl Shared {
    /// Makes a plan for people, whose refusals name the owners. Its hash is that of the plan
    /// without the names.
    pub(super) async fn plan_shown(
        &self,
        targets: &[Target],
        options: PlanOptions,
    ) -> Result<Plan, CloudFailure> {
        let mut plan = self.plan_targets(targets, options).await?;
        self.ask_elsewhere(&mut plan).await;
        if plan.refused.is_empty() {
            return Ok(plan);
        }
        let steps = plan.steps.iter();
        let blockers = plan.refused.iter().filter_map(|one| one.blocker.as_ref());
        // The targets' own projects need no name: the caller knows whose the targets are.
        let targets: BTreeSet<_> = plan.targets.iter().map(|target| &target.key).collect();
        let own = steps.filter(|step| targets.contains(&step.key()));
        let own: BTreeSet<&str> = own.map(|step| &*step.project_id).collect();
        let names = self.owners(blockers, &own).await;
        name_owners(&mut plan.refused, |blocker| {
            names.get(&of(blocker)).cloned()
        });
        Ok(plan)
    }

    /// Names the owners of the blockers of a resource that belongs to the project `own`.
    pub(super) async fn name_blockers(&self, blockers: &mut [Blocker], own: &str) {
        let names = self.owners(&*blockers, &BTreeSet::from([own])).await;
        for blocker in blockers {
            if let Some(name) = names.get(&of(blocker)) {
                blocker.owner_name.clone_from(name);
            }
        }
    }

    async fn owners<'b>(
        &self,
        blockers: impl IntoIterator<Item = &'b Blocker>,
        own: &BTreeSet<&str>,
    ) -> BTreeMap<(Site, String), String> {
        let mut wanted: BTreeMap<&Site, (BTreeSet<String>, bool)> = BTreeMap::new();
        for blocker in blockers.into_iter().filter(|one| !one.owner.is_empty()) {
            let (ids, foreign) = wanted.entry(&blocker.site).or_default();
            ids.insert(blocker.owner.clone());
            *foreign |= !own.contains(blocker.owner.as_str());
        }
        let asked = wanted.into_iter().map(|(site, (ids, foreign))| async move {
            let names = if foreign {
                NameLookup::Asked
            } else {
                NameLookup::Known
            };
            (site, self.cloud.project_names(site, &ids, names).await)
        });
        let told = futures_util::future::join_all(asked).await;
        let named = told.into_iter().flat_map(|(site, names)| {
            let names = names.into_iter();
            names.map(move |(id, name)| ((site.clone(), id), name))
        });
        named.collect()
    }
}

fn of(blocker: &Blocker) -> (Site, String) {
    (blocker.site.clone(), blocker.owner.clone())
}
