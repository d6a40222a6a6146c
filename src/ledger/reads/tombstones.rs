//! Tombstones: pages of them, and those that a gate or the sweep needs.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{deletions, deletions_of, page};
use crate::domain::model::{DeletionState, KindName, Paged, Phase, ResourceKey, Site, Tombstone};
use crate::ledger::store::{LedgerReads, OriginalCopies, Stored, TombstoneRow};
use crate::ledger::{DeletionFilter, Original, OriginalName, TombstoneFilter};

/// These tombstones with the ids of their deletions; the id of a deletion that was pruned is empty.
fn shown<R: LedgerReads>(rows: &R, found: Vec<TombstoneRow>) -> Stored<R, Vec<Tombstone>> {
    let deletions = deletions_of(rows, found.iter().map(|row| row.now.deletion))?;
    let tombstones = found
        .into_iter()
        .map(|TombstoneRow { key, now }| Tombstone {
            record_id: now.record,
            key,
            phase: now.phase,
            deleted_at: now.deleted_at,
            gone_at: now.gone_at,
            incarnation: now.incarnation,
            recreated: now.recreated,
            deletion_id: deletions
                .get(&now.deletion)
                .map_or_else(String::new, |deletion| deletion.id.clone()),
        });
    Ok(tombstones.collect())
}

/// Lists tombstones in the order of their records; the cursor is the last record.
pub fn tombstones<R: LedgerReads>(
    rows: &R,
    filter: &TombstoneFilter,
    after: Option<[i64; 1]>,
    limit: usize,
) -> Stored<R, Paged<Tombstone>> {
    let [after] = after.unwrap_or_default();
    let found = rows.find_tombstones(filter, after, limit + 1)?;
    let found = shown(rows, found)?.into_iter();
    Ok(page(found.map(|it| (it.record_id, it)).collect(), limit))
}

/// The tombstones of these resources, in the same order, without the released ones.
pub fn of_keys<R: LedgerReads>(rows: &R, keys: &[ResourceKey]) -> Stored<R, Vec<Tombstone>> {
    let found = rows.load_tombstones(keys)?;
    let found = keys.iter().zip(found).filter_map(|(key, found)| {
        let now = found.filter(|now| now.phase != Phase::Released)?;
        let key = key.clone();
        Some(TombstoneRow { key, now })
    });
    shown(rows, found.collect())
}

/// A resource as its cloud showed it before its deletion; none once the deletion of the resource has ended.
pub fn shown_before<R: LedgerReads>(rows: &R, key: &ResourceKey) -> Stored<R, Option<Value>> {
    let found = rows.load_tombstones(std::slice::from_ref(key))?;
    let found = found.into_iter().flatten().next();
    match found.filter(|it| matches!(it.phase, Phase::Checking | Phase::Deleting)) {
        Some(it) => rows.load_snapshot(it.record),
        None => Ok(None),
    }
}

pub fn held_down<R: LedgerReads>(
    rows: &R,
    since: DateTime<Utc>,
    after_record: i64,
    limit: usize,
) -> Stored<R, Vec<Tombstone>> {
    let found = rows.find_held_down((since, after_record), limit)?;
    shown(rows, found)
}

pub fn originals<R: LedgerReads>(
    rows: &R,
    since: DateTime<Utc>,
    after_record: i64,
    limit: usize,
) -> Stored<R, Vec<Original>> {
    let found = rows.find_originals(since, after_record, limit)?;
    let records: Vec<i64> = found.iter().map(|row| row.now.record).collect();
    let mut copies: HashMap<i64, OriginalCopies> =
        rows.load_copies(&records)?.into_iter().collect();
    let originals = shown(rows, found)?.into_iter().filter_map(|tombstone| {
        let of = copies.remove(&tombstone.record_id)?;
        let mut parts: Vec<ResourceKey> = of.parts.into_iter().collect();
        parts.sort_by(|a, b| (&a.kind, &a.id).cmp(&(&b.kind, &b.id)));
        Some(Original {
            tombstone,
            locals: of.sites.into_iter().collect(),
            name: of.name.map(original_name),
            parts,
        })
    });
    Ok(originals.collect())
}

fn original_name((name, project_id): (String, String)) -> OriginalName {
    OriginalName { name, project_id }
}

/// The tombstone of the original with which the cloud removes this part.
pub fn whole_of<R: LedgerReads>(rows: &R, part: &ResourceKey) -> Stored<R, Option<Tombstone>> {
    let Some(record) = rows.find_whole(part)? else {
        return Ok(None);
    };
    let mut found = rows.load_records(&[record])?;
    found.retain(|row| row.now.phase != Phase::Released);
    Ok(shown(rows, found)?.pop())
}

/// The tombstones of originals whose copies are known by this name, and of targets with this name that are being
/// checked. The project of such a target is not kept yet.
pub fn namesakes<R: LedgerReads>(
    rows: &R,
    site: &Site,
    kind: &KindName,
    name: &str,
) -> Stored<R, Vec<(Tombstone, Option<OriginalName>)>> {
    let records = rows.find_namesakes(site, kind, name)?;
    let mut known = rows.load_records(&records)?;
    known.retain(|row| matches!(row.now.phase, Phase::Deleting | Phase::Gone | Phase::Purged));
    let mut copies: BTreeMap<i64, OriginalCopies> =
        rows.load_copies(&records)?.into_iter().collect();
    let known = shown(rows, known)?.into_iter().map(|tombstone| {
        let of = copies.remove(&tombstone.record_id);
        let name = of.and_then(|of| of.name).map(original_name);
        (tombstone, name)
    });
    let mut found: Vec<_> = known.collect();
    let checked = checked(rows, site, kind, name)?;
    found.extend(checked.into_iter().map(|tombstone| (tombstone, None)));
    Ok(found)
}

/// The tombstones in phase `checking` of targets with this name.
fn checked<R: LedgerReads>(
    rows: &R,
    site: &Site,
    kind: &KindName,
    name: &str,
) -> Stored<R, Vec<Tombstone>> {
    let planning = DeletionFilter {
        states: vec![DeletionState::Planning],
        site: Some(site.clone()),
        kind: Some(kind.clone()),
        ..DeletionFilter::default()
    };
    let mut keys = Vec::new();
    deletions::each_request(rows, planning, |request| {
        let targets = request.targets.into_iter();
        let named = targets
            .filter(|it| (&it.key.site, &it.key.kind, it.name.as_str()) == (site, kind, name));
        keys.extend(named.map(|it| it.key));
    })?;
    let mut found = of_keys(rows, &keys)?;
    found.retain(|tombstone| tombstone.phase == Phase::Checking);
    Ok(found)
}
