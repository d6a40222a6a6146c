//! Adds the names of the projects that own blockers, for people (P2). A call is made only if a blocker belongs
//! to another project, and one call finds many names (N14).

use std::collections::{BTreeMap, BTreeSet};

use crate::cloud::{Cloud, NameLookup};
use crate::domain::model::{Blocker, Plan, Site};
use crate::domain::plan::name_owners;

/// Names the owners in a plan's refusals. The plan's hash does not cover these names.
pub(super) async fn name_refusals(cloud: &dyn Cloud, plan: &mut Plan) {
    if plan.refused.is_empty() {
        return;
    }
    let steps = plan.steps.iter();
    let blockers = plan.refused.iter().filter_map(|one| one.blocker.as_ref());
    // The projects that own the targets need no name: the caller knows them.
    let targets: BTreeSet<_> = plan.targets.iter().map(|target| &target.key).collect();
    let own = steps.filter(|step| targets.contains(&step.key()));
    let own: BTreeSet<&str> = own.map(|step| &*step.project_id).collect();
    let names = owners(cloud, blockers, &own).await;
    name_owners(&mut plan.refused, |blocker| {
        names.get(&of(blocker)).cloned()
    });
}

/// Names the owners of the blockers of a resource that belongs to the project `own`.
pub(super) async fn name_blockers(cloud: &dyn Cloud, blockers: &mut [Blocker], own: &str) {
    let names = owners(cloud, &*blockers, &BTreeSet::from([own])).await;
    for blocker in blockers {
        if let Some(name) = names.get(&of(blocker)) {
            blocker.owner_name.clone_from(name);
        }
    }
}

async fn owners<'b>(
    cloud: &dyn Cloud,
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
            NameLookup::Listed
        } else {
            NameLookup::Cached
        };
        (site, cloud.account_names(site, &ids, names).await)
    });
    let answers = futures_util::future::join_all(asked).await;
    let named = answers.into_iter().flat_map(|(site, names)| {
        let names = names.into_iter();
        names.map(move |(id, name)| ((site.clone(), id), name))
    });
    named.collect()
}

fn of(blocker: &Blocker) -> (Site, String) {
    (blocker.site.clone(), blocker.owner.clone())
}
