//! Importers and their clearances, and the notices between deployments.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{deletions, deletions_of, requests_of};
use crate::domain::model::{Action, Deletion, KindName, ResourceKey, Site, Target};
use crate::domain::peers::{
    ClearanceRequest, DeletionNotice, DeletionNotices, Deployment, root_of,
};
use crate::ledger::store::{LedgerReads, PeerReads, StepRow, Stored};
use crate::ledger::{Importer, LiveStep};

/// The importers on record, with the number of steps that wait for the clearance of each.
pub fn importers<R: PeerReads>(rows: &R) -> Stored<R, Vec<Importer>> {
    let mut kinds: BTreeMap<String, BTreeSet<KindName>> = BTreeMap::new();
    for (kind, importer) in rows.load_importer_kinds()? {
        kinds.entry(importer).or_default().insert(kind);
    }
    let mut importers = Vec::new();
    for (deployment, since) in rows.load_importers()? {
        importers.push(Importer {
            kinds: kinds.remove(&deployment.name).unwrap_or_default(),
            pending_clearances: rows.count_pending_clearances(&deployment.name)?,
            deployment,
            since,
        });
    }
    Ok(importers)
}

/// The id and the root of each of these deletions, by the deletions' numbers.
fn roots<R: LedgerReads>(
    rows: &R,
    home: &Site,
    nums: impl Iterator<Item = i64>,
) -> Stored<R, HashMap<i64, (String, String)>> {
    let deletions = deletions_of(rows, nums)?;
    let requests = requests_of(rows, deletions.keys().copied())?;
    let roots = deletions.into_iter().map(|(num, deletion)| {
        let root = requests.get(&num).and_then(|it| it.root.as_deref());
        let root = root_of(home, root, &deletion.id);
        (num, (deletion.id, root))
    });
    Ok(roots.collect())
}

/// The notices about these kinds after a sequence number, at most `limit`. Starts from the beginning for the id of
/// another ledger, or a number that this ledger has not reached.
pub fn notices<R: LedgerReads>(
    rows: &R,
    from: &Deployment,
    (ledger, after): (&str, i64),
    kinds: &BTreeSet<KindName>,
    limit: usize,
) -> Stored<R, DeletionNotices> {
    let (own, newest) = (rows.ledger_id()?, rows.newest_notice()?);
    let after = match own == ledger && after <= newest {
        true => after,
        false => 0,
    };
    let mut found = rows.load_notices(after, kinds, limit + 1)?;
    let more = found.len() > limit;
    found.truncate(limit);
    let home = from.site();
    let roots = roots(rows, &home, found.iter().map(|(_, row)| row.now.deletion))?;
    let seq = found.last().map_or(newest, |(seq, _)| *seq);
    let changes = found.into_iter().map(|(_, row)| {
        let of = roots.get(&row.now.deletion);
        let (deletion, root) = of.cloned().unwrap_or_else(|| {
            // The deletion was pruned.
            (String::new(), root_of(&home, None, ""))
        });
        DeletionNotice {
            key: row.key,
            phase: row.now.phase,
            incarnation: row.now.incarnation,
            deletion,
            root,
        }
    });
    Ok(DeletionNotices {
        from: from.clone(),
        ledger: own,
        changes: changes.collect(),
        seq: if more { seq } else { newest },
        more,
    })
}

/// The steps after the step `after` that wait for an importer's clearance, and the sequence number of the newest notice
/// to importers about any of them; 0 if there is none.
pub fn steps_awaiting_clearance<R: LedgerReads>(
    rows: &R,
    home: &Site,
    importer: &str,
    after: i64,
    limit: usize,
) -> Stored<R, (Vec<(i64, ClearanceRequest)>, i64)> {
    let found = rows.find_pending_clearances(importer, after, limit)?;
    let seq = found.iter().map(|(_, seq)| *seq).max().unwrap_or(0);
    let ids: Vec<i64> = found.iter().map(|(step, _)| *step).collect();
    let steps = rows.load_step_rows(&ids)?;
    let roots = roots(rows, home, steps.iter().map(|row| row.now.deletion))?;
    let records: Vec<i64> = steps.iter().filter_map(|row| row.now.record).collect();
    let records = rows.load_records(&records)?.into_iter();
    let incarnations: HashMap<i64, u32> = records
        .map(|it| (it.now.record, it.now.incarnation))
        .collect();
    let requests = steps.into_iter().filter_map(|StepRow { now, .. }| {
        let (deletion, root) = roots.get(&now.deletion)?.clone();
        let incarnation = now.record.and_then(|record| incarnations.get(&record));
        let request = ClearanceRequest {
            key: now.key,
            incarnation: incarnation.copied().unwrap_or(1),
            root,
            deletion: Some(deletion),
        };
        Some((now.id, request))
    });
    Ok((requests.collect(), seq))
}

/// The deletion that handles the referrers of this resource.
pub fn handled_by<R: LedgerReads>(rows: &R, key: &ResourceKey) -> Stored<R, Option<Deletion>> {
    match rows.find_handler(key)? {
        Some(num) => deletions::by_num(rows, num),
        None => Ok(None),
    }
}

/// The live step of each of these resources. Any other step takes precedence over one that unsets a reference.
pub fn live_steps<R: LedgerReads>(
    rows: &R,
    home: &Site,
    keys: &[ResourceKey],
) -> Stored<R, Vec<Option<LiveStep>>> {
    let mut found = rows.load_step_rows(&rows.find_live(keys)?)?;
    let roots = roots(rows, home, found.iter().map(|row| row.now.deletion))?;
    found.sort_by_key(|row| (row.now.action == Action::Unset, row.now.id));
    let live = keys.iter().map(|key| {
        let step = found.iter().find(|row| row.now.key == *key)?.now.clone();
        let root = roots.get(&step.deletion)?.1.clone();
        Some(LiveStep {
            step: step.id,
            state: step.state,
            action: step.action,
            blockers: step.blockers,
            error: step.error,
            root,
        })
    });
    Ok(live.collect())
}

/// The resources of the live steps that a step waits for.
pub fn live_dependencies<R: LedgerReads>(rows: &R, step: i64) -> Stored<R, Vec<Target>> {
    let before = rows.load_dependencies(&[step], None)?.into_iter();
    let before: Vec<i64> = before.map(|(dependency, _)| dependency).collect();
    let steps = rows.load_step_rows(&before)?.into_iter();
    let live = steps.filter(|row| row.now.ended_at.is_none());
    let targets = live.map(|row| Target {
        key: row.now.key,
        name: row.now.name,
    });
    Ok(targets.collect())
}
