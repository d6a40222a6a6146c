//! Deletes re-created resources again, each in a deletion of its own (T14b).

use std::sync::Arc;

use super::audit::{engine_audit, new_deletion};
use super::journal::Journal;
use crate::domain::kinds::Kind;
use crate::domain::model::{PlanOptions, ResourceKey, Target, Tombstone};
use crate::domain::text::counted;
use crate::ledger::{Change, LedgerError, NewDeletion, RecreationReason};
use crate::system::clock::Clock;

/// Maximum number of tombstones that a sweep reads at a time.
pub(super) const PAGE: usize = 2_000;

pub(super) struct Removal {
    pub(super) clock: Clock,
    pub(super) journal: Arc<Journal>,
    /// How many times a re-created resource is deleted again, before a person must decide about it.
    pub(super) recreate_max: u32,
}

impl Removal {
    /// Counts that a resource, or a copy of it, was re-created, and deletes it again. If that has happened more often
    /// than `recreate_max`, a person must decide about it instead.
    pub(super) async fn remove_again(
        &self,
        tombstone: &Tombstone,
        copy: Option<&ResourceKey>,
    ) -> Result<(), LedgerError> {
        let now = self.clock.now();
        let times = tombstone.recreated + 1;
        let back = copy.unwrap_or(&tombstone.key);
        let count = counted(u64::from(times), "time");
        let over = times > self.recreate_max;
        let mut changes = vec![Change::Recreated {
            key: tombstone.key.clone(),
            copy: copy.cloned(),
            stuck: over.then_some(RecreationReason::TooOften),
            now,
        }];
        if !over {
            let detail = serde_json::json!({ "recreated": times });
            let audit = engine_audit("delete", back, format!("re-created {count}"), detail);
            let (targets, options) = (vec![Target::of(back, "")], PlanOptions::cascading());
            changes.push(Change::Accept(Box::new(NewDeletion {
                cause: Some(tombstone.deletion_id.clone()),
                ..new_deletion(&self.clock, targets, options, audit)
            })));
        }
        self.journal.commit(changes).await?;
        Ok(())
    }
}

/// Returns the number of resources of a kind for which one list searches. If the filter takes only one value, a list
/// without the filter searches for all of them.
pub(super) fn swept_together(kind: &Kind, filter: &str) -> usize {
    match kind.calls.takes_several(filter) {
        true => kind.calls.values_per_list(filter),
        false => usize::MAX,
    }
}
