//! Resources that exist again after they were gone (T14), and released tombstones.

use chrono::{DateTime, Utc};

use super::step::{Facts, Trigger};
use super::{has_ended, own_error, refuse, tombstone};
use crate::domain::drift::RECREATED;
use crate::domain::model::{ErrorClass, Phase, ResourceKey, StepState, short_id};
use crate::ledger::events;
use crate::ledger::store::{RowStore, StoredTombstone};
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, AuditEntry, RecreationReason};

impl<S: RowStore> WorkingSet<S> {
    /// Counts a re-creation of a resource; see [`Change::Recreated`](crate::ledger::Change::Recreated).
    pub fn recreated(
        &mut self,
        key: &ResourceKey,
        copy: Option<&ResourceKey>,
        stuck: Option<RecreationReason>,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let counts = |found: &StoredTombstone| match found.phase {
            Phase::Gone => true,
            Phase::Deleting => copy.is_some(),
            Phase::Checking | Phase::Released | Phase::Purged => false,
        };
        let Some(mut found) = self.tombstone(key)?.filter(counts) else {
            return refuse(format!(
                "{key} is not gone, so it cannot have been re-created"
            ));
        };
        let existing = copy.unwrap_or(key);
        if self.searched()?.find_planned(existing)?.is_some() {
            return refuse(format!(
                "{existing} is a target of a deletion that has not started yet, so its re-creation is not counted"
            ));
        }
        found.recreated += 1;
        let (num, record) = (found.deletion, found.record);
        let (draft, why) = events::recreated(key, copy, found.recreated, stuck);
        self.change_tombstone(found);
        if let Some(why) = why {
            self.mark_recreated(num, record, why, now)?;
        }
        self.event(Some(num), None, draft, now);
        Ok(Applied::Done)
    }

    /// Marks the step that deleted the resource as stuck, with this message: a person must find out who re-creates the
    /// resource. If a dependent of the step has not ended, the step stays as it is, because the resource blocks the
    /// dependent's own call. If no step has deleted the resource yet, or that step was pruned, the re-creation is only
    /// counted.
    fn mark_recreated(
        &mut self,
        num: i64,
        record: i64,
        message: String,
        now: DateTime<Utc>,
    ) -> Changing<S> {
        let Some(id) = self.searched()?.find_gone_step(num, record)? else {
            return Ok(());
        };
        for dependent in self.dependents(id)? {
            if !has_ended(self.step(dependent)?.state) {
                return Ok(());
            }
        }
        let error = own_error(ErrorClass::Drift, RECREATED, message, now);
        let next = Self::next(StepState::Gone, Trigger::Recreated, Facts::default())?;
        self.move_step(id, next.state, Some(error), now)?;
        self.step_mut(id)?.notified = false;
        self.end_tombstone(num, Some(record), next.effects.tombstone, now);
        self.follow(id, next.effects, now)?;
        self.derive_state(num, now)
    }

    /// Releases the tombstone of a resource that exists after its deletion ended. Refuses if the resource has no
    /// tombstone, or if the phase of the tombstone is neither `gone` nor `purged`.
    pub fn release(
        &mut self,
        key: &ResourceKey,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let Some(found) = self.tombstone(key)? else {
            return refuse(format!("{key} has no tombstone"));
        };
        let being = match found.phase {
            Phase::Gone | Phase::Purged => None,
            Phase::Released => {
                return refuse(format!("the tombstone of {key} is released already"));
            }
            Phase::Checking => Some("checked"),
            Phase::Deleting => Some("deleted"),
        };
        if let Some(being) = being {
            let deletion = self.deletion(found.deletion)?;
            return refuse(format!(
                "{key} is being {being} by deletion {}: cancel that deletion, or abandon its step, first",
                short_id(&deletion.id)
            ));
        }
        self.release_ended(&found, false);
        self.audit(audit, now);
        let draft = events::tombstone_released(key, &audit.actor.name);
        self.event(Some(found.deletion), None, draft, now);
        Ok(Applied::Done)
    }

    /// Revives the record of a resource that was created again after its deletion ended (M1, M3). A record whose
    /// deletion has not ended does not change.
    pub fn revive(
        &mut self,
        key: &ResourceKey,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let found = self.tombstone(key)?;
        let revived = found.and_then(|found| self.release_ended(&found, true));
        if let Some(revived) = revived {
            self.audit(audit, now);
            let draft = events::revived(key, &audit.actor.name, revived.incarnation);
            self.event(Some(revived.deletion), None, draft, now);
        }
        Ok(Applied::Done)
    }

    /// Releases a tombstone whose deletion has ended, and returns the released tombstone; none if its phase is neither
    /// `gone` nor `purged`.
    fn release_ended(&mut self, ended: &StoredTombstone, created: bool) -> Option<StoredTombstone> {
        let released = tombstone::released(ended, created)?;
        self.change_tombstone(released.clone());
        Some(released)
    }
}
