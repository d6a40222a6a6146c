//! The phases of a tombstone. While its deletion has a step for it, tombstone and step move together (T9).

use crate::domain::model::Phase;
use crate::ledger::store::StoredTombstone;

/// The tombstone after its release, because its resource exists after its deletion ended; none if the deletion
/// has not ended. A resource that exists after `gone`, or was created, is another incarnation (M1); one that was
/// left behind is the same.
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
