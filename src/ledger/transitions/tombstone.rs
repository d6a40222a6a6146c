//! The phases of a tombstone. While its deletion has a step for it, tombstone and step move together (T9).

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use crate::domain::model::{Phase, ResourceKey};
use crate::ledger::store::{NewTombstone, RowStore, StoredTombstone};
use crate::ledger::working_set::{Changing, WorkingSet};

impl<S: RowStore> WorkingSet<S> {
    /// Raises the tombstones of these resources for a deletion, or keeps them, and returns their records, in the order
    /// of `keys`; none for a resource that another deletion is deleting, or, if `phase` is `checking`, that is gone.
    pub fn raise_tombstones(
        &mut self,
        num: i64,
        keys: &[ResourceKey],
        phase: Phase,
        now: DateTime<Utc>,
    ) -> Changing<S, Vec<Option<i64>>> {
        let before = self.searched()?.load_tombstones(keys)?;
        let mut records: HashMap<&ResourceKey, Option<i64>> = HashMap::with_capacity(keys.len());
        let mut new = Vec::new();
        for (key, before) in keys.iter().zip(before) {
            let Some(before) = before else {
                if records.insert(key, None).is_none() {
                    new.push(NewTombstone {
                        key,
                        deletion: num,
                        phase,
                        deleted_at: now,
                    });
                }
                continue;
            };
            let raised = raised(&before, num, phase, now);
            records.insert(key, raised.as_ref().map(|raised| raised.record));
            if let Some(raised) = raised {
                self.change_tombstone(raised);
            }
        }
        let inserted = self.store().insert_tombstones(&new)?;
        records.extend(
            new.iter()
                .zip(inserted)
                .map(|(new, record)| (new.key, Some(record))),
        );
        Ok(keys
            .iter()
            .map(|key| records.get(key).copied().flatten())
            .collect())
    }
}

/// The tombstone as it is after its release; none if the deletion has not ended, or the tombstone is released already.
/// A tombstone is released because its resource exists although the deletion has ended. A resource that exists after
/// `gone`, or was created, is another incarnation (M1). A resource that was left behind is the same incarnation.
pub(super) fn released(ended: &StoredTombstone, is_created: bool) -> Option<StoredTombstone> {
    let is_gone = match ended.phase {
        Phase::Gone => true,
        Phase::Purged => false,
        Phase::Checking | Phase::Deleting | Phase::Released => return None,
    };
    Some(StoredTombstone {
        incarnation: ended.incarnation + u32::from(is_gone || is_created),
        phase: Phase::Released,
        deleted_at: None,
        gone_at: None,
        recreated: 0,
        ..ended.clone()
    })
}

/// The tombstone after a deletion raised it again, or kept it; none if another deletion is deleting the resource.
/// A tombstone that is already raised keeps its `deleted_at` (T15). A resource that was gone is another incarnation
/// under the same record (M1, M3) once a plan has found it. Until then the resource counts as gone, and its tombstone
/// does not change (none).
pub(super) fn raised(
    before: &StoredTombstone,
    deletion: i64,
    phase: Phase,
    now: DateTime<Utc>,
) -> Option<StoredTombstone> {
    let (is_raised, is_gone) = match before.phase {
        Phase::Deleting if before.deletion != deletion => return None,
        Phase::Gone if phase == Phase::Checking => return None,
        Phase::Checking | Phase::Deleting => (true, false),
        Phase::Gone => (false, true),
        Phase::Released | Phase::Purged => (false, false),
    };
    Some(StoredTombstone {
        deletion,
        phase,
        incarnation: before.incarnation + u32::from(is_gone),
        deleted_at: before.deleted_at.filter(|_| is_raised).or(Some(now)),
        gone_at: None,
        ..before.clone()
    })
}
