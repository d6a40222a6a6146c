//! Finds and counts the resources that belong to a resource that itself stays (a project). The project's own
//! service may no longer know the project while other services still keep its resources (N19).

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::reads::{Reads, rows_to_plan};
use crate::cloud::{CloudFailure, ListRows, Listed};
use crate::domain::kinds::Kind;
use crate::domain::model::{KindName, PlanOptions, Resource, ResourceKey, Site};
use crate::domain::plan::Planner;
use crate::domain::query::Lookup;

/// Maximum number of concurrent reads of owners that the list of owners did not show.
const READS_AT_ONCE: usize = 8;

/// Number of rows of each kind that belong to each owner, by the owner's id.
type Counts = BTreeMap<String, BTreeMap<KindName, u64>>;

/// Returns the owner with this id, which its own service does not know, if resources that belong to it exist.
pub(super) async fn unknown_owner(
    reads: &Reads,
    site: &Site,
    kind: &Kind,
    id: &str,
) -> Result<Option<Resource>, CloudFailure> {
    if kind.spec.unknown.is_none() || !kind.spec.ids.is_canonical(id) {
        return Ok(None);
    }
    let unknown = unknown_resource(site, kind, id);
    let options = PlanOptions::cascading();
    let protection = |_: &Resource| None;
    let mut planner = Planner::new(&reads.kinds, options, &protection, vec![unknown.clone()]);
    // The planner gets no answers, so it asks only for the resources that belong to the owner directly.
    let lookups = std::iter::from_fn(|| Some(planner.wanted()).filter(|more| !more.is_empty()));
    let lookups: Vec<Lookup> = lookups.flatten().collect();
    // Whole kinds are listed only if the narrower lookups found nothing.
    let (few, whole): (Vec<Lookup>, Vec<Lookup>) =
        lookups.into_iter().partition(|it| it.filter.is_some());
    let found = try_join_all(few.iter().map(|it| finds_row_of(reads, it, id, Some(1)))).await?;
    if found.contains(&true) {
        return Ok(Some(unknown));
    }
    let found = try_join_all(whole.iter().map(|it| finds_row_of(reads, it, id, None))).await?;
    Ok(found.contains(&true).then_some(unknown))
}

/// Whether a lookup finds a row that belongs to the owner with this id.
async fn finds_row_of(
    reads: &Reads,
    lookup: &Lookup,
    owner: &str,
    rows_max: Option<usize>,
) -> Result<bool, CloudFailure> {
    let Some(kind) = reads.kinds.get(&lookup.kind) else {
        return Ok(false);
    };
    let rows = reads.list(ListRows {
        rows_max,
        ..rows_to_plan(&lookup.site, kind, lookup.filter.as_ref())
    });
    let rows = match rows.await {
        // The service shows a project's rows to few logins of other projects, so its refusal says nothing about
        // the owner.
        Err(failure) if failure.forbidden && kind.is_hidden_from_others() => return Ok(false),
        rows => rows?.rows,
    };
    Ok(rows.iter().any(|row| kind.project_of(row) == owner))
}

/// Records for each owner how many resources belong to it, and adds the owners that their own service no longer
/// knows.
pub(super) async fn tally(
    reads: &Reads,
    site: &Site,
    kind: &Kind,
    owners: &mut Vec<Resource>,
) -> Result<(), CloudFailure> {
    let referrers = reads.kinds.referrers(&kind.name);
    let listed: BTreeSet<&KindName> = referrers
        .filter(|(referrer, _)| !referrer.is_native())
        .map(|(referrer, _)| &reads.kinds.listed(referrer).name)
        .collect();
    let listed = listed.into_iter().filter_map(|name| reads.kinds.get(name));
    let counted = try_join_all(listed.map(|kind| count_of(reads, site, kind))).await?;
    let mut counts = Counts::new();
    for (kind, of_kind) in counted {
        for (owner, count) in of_kind {
            counts.entry(owner).or_default().insert(kind.clone(), count);
        }
    }
    let known: BTreeSet<&str> = owners.iter().map(|owner| owner.key.id.as_str()).collect();
    let others = counts.keys().filter(|id| !known.contains(id.as_str()));
    let others: Vec<String> = others.cloned().collect();
    let answers = others.into_iter().map(|id| async move {
        let read = reads.read(site, kind, &id).await;
        (id, read)
    });
    let answers = stream::iter(answers).buffered(READS_AT_ONCE);
    for (id, read) in answers.collect::<Vec<_>>().await {
        // A list that lacks the owner does not prove that the service no longer knows it; the answer to a read by its
        // id does prove that.
        match read {
            Ok(read) if read.offered && read.row.is_none() => {
                owners.push(unknown_resource(site, kind, &id));
            }
            Err(failure) if !failure.forbidden => return Err(failure),
            Ok(_) | Err(_) => {}
        }
    }
    for owner in owners {
        let counts = counts.remove(&owner.key.id).unwrap_or_default();
        if let Value::Object(fields) = &mut owner.attributes {
            fields.insert("resources".into(), counts.values().sum::<u64>().into());
            fields.insert("counts".into(), json!(counts));
        }
    }
    Ok(())
}

async fn count_of(
    reads: &Reads,
    site: &Site,
    kind: &Kind,
) -> Result<(KindName, BTreeMap<String, u64>), CloudFailure> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    // The owners of the rows in the current part of the list. The part may be listed again.
    let mut part: Vec<String> = Vec::new();
    let mut take = |listed| match listed {
        Listed::Part => count_part(&mut counts, &mut part),
        Listed::PartAgain => part.clear(),
        Listed::Rows(rows) => part.extend(rows.iter().map(|row| kind.project_of(row))),
    };
    let rows = rows_to_plan(site, kind, None);
    let permit = reads.sites.read_permit(site).await;
    let listing = reads.cloud.list_by_page(rows, &mut take).await;
    reads.sites.read_ended(&permit, listing.as_ref().err());
    drop(permit);
    listing?;
    count_part(&mut counts, &mut part);
    counts.remove("");
    Ok((kind.name.clone(), counts))
}

fn count_part(counts: &mut BTreeMap<String, u64>, part: &mut Vec<String>) {
    for owner in part.drain(..) {
        *counts.entry(owner).or_default() += 1;
    }
}

/// Builds the resource for the id of an owner that the owner's own service does not know.
pub(super) fn unknown_resource(site: &Site, kind: &Kind, id: &str) -> Resource {
    Resource {
        key: ResourceKey::new(site, &kind.name, id),
        name: String::new(),
        project_id: id.to_owned(),
        tags: Vec::new(),
        attributes: json!({ "id": id, "unknown": true, "note": kind.spec.unknown }),
    }
}
