//! Removes old events, deletions that ended long ago, and rows that nothing needs any more, in small pieces, so that no
//! other change waits long.
//!
//! Between two pieces every rule of the ledger holds: a deletion's counts shrink with its steps. The audit is
//! kept for ever, and so are the records of natural keys, which may be used again (M1).

use chrono::{DateTime, Utc};

use crate::domain::model::{KindName, StepState};
use crate::ledger::store::LedgerRows;
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, AuditEntry};

/// Maximum number of events or steps that one piece removes, in some 50 ms.
const PIECE: usize = 2_000;

impl<S: LedgerRows> WorkingSet<S> {
    /// Removes a piece; see [`Change::Prune`](crate::ledger::Change::Prune).
    pub fn prune(
        &mut self,
        before: DateTime<Utc>,
        unique_id_kinds: &[KindName],
        audit: Option<&AuditEntry>,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        if let Some(audit) = audit {
            self.audit(audit, now);
        }
        let store = self.searched()?;
        store.prune_leftovers(before)?;
        let events = store.prune_events(before, PIECE)?;
        if events > 0 {
            return Ok(Applied::Moved(events));
        }
        let Some(num) = store.find_prunable(before)? else {
            return Ok(Applied::Moved(0));
        };
        if self.touched(num) {
            // The tables do not have this transaction's changes of the deletion yet, so the next piece decides
            // whether to remove the deletion.
            return Ok(Applied::Moved(1));
        }
        for state in [StepState::Gone, StepState::Skipped] {
            let removed = self
                .store()
                .prune_steps(num, state, before, unique_id_kinds, PIECE)?;
            if removed > 0 {
                let counts = &mut self.deletion(num)?.counts;
                let slot = counts.of_mut(state);
                *slot = slot.saturating_sub(removed);
                counts.total = counts.total.saturating_sub(removed);
                return Ok(Applied::Moved(removed));
            }
        }
        self.store().prune_deletion(num, unique_id_kinds)?;
        Ok(Applied::Moved(1))
    }
}
