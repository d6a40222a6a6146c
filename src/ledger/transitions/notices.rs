//! Notices from the deployments to which resources here refer (G4, G10).

use chrono::{DateTime, Utc};

use crate::domain::model::{Phase, ResourceKey};
use crate::domain::peers::{DeletionNotices, is_foreign_root};
use crate::ledger::events;
use crate::ledger::store::LedgerRows;
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, NewDeletion, WatchCursor};

impl<S: LedgerRows> WorkingSet<S> {
    /// Records the notices of a watch. Earlier notices about a resource that its owner released or abandoned are
    /// removed.
    pub fn advance_watch(
        &mut self,
        (service, region): (&str, &str),
        notices: &DeletionNotices,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let owner = notices.from.name.as_str();
        self.check_name(&notices.from)?;
        let watches = self.store().load_watches()?;
        let before = watches
            .into_iter()
            .find(|it| it.owner.service == service && it.owner.region == region);
        // The owner has another name or ledger, or its ledger was set back: earlier notices no longer count.
        let replaced = before.filter(|before| {
            before.owner.name != owner
                || before.ledger != notices.ledger
                || before.seq > notices.seq
        });
        if let Some(before) = replaced {
            self.store().remove_notices_of(&before.owner.name)?;
            self.event(None, None, events::owner_replaced(owner), now);
        }
        let mut from = notices.from.clone();
        (from.service, from.region) = (service.to_owned(), region.to_owned());
        self.store().save_watch(&WatchCursor {
            owner: from,
            ledger: notices.ledger.clone(),
            seq: notices.seq,
        })?;
        for notice in &notices.changes {
            match notice.phase {
                Phase::Released | Phase::Purged => {
                    self.store().remove_notice(owner, &notice.key)?;
                }
                Phase::Checking | Phase::Deleting | Phase::Gone => {
                    let gone_at = (!notice.is_under_way()).then_some(now);
                    self.store().save_notice(owner, notice, gone_at)?;
                }
            }
        }
        Ok(Applied::Done)
    }

    /// Accepts a deletion that handles the referrers of `keys` (resources that another deployment deletes), and records
    /// the deletion with `keys`. Without a deletion, records that no resource here refers to `keys`. Stale if the
    /// deletion exists already.
    pub fn mark_handled(
        &mut self,
        keys: &[ResourceKey],
        deletion: Option<&NewDeletion>,
    ) -> Changing<S, Applied> {
        let Some(wanted) = deletion else {
            self.store().save_handled(keys, None)?;
            return Ok(Applied::Done);
        };
        if self.store().find_deletion(&wanted.id)?.is_some() {
            return Ok(Applied::Stale);
        }
        let num = self.insert_deletion(wanted)?;
        self.audit(&wanted.audit, wanted.now);
        let (targets, owner) = (wanted.targets.len(), &wanted.actor.name);
        let draft = events::handles_referrers(&wanted.id, targets, owner);
        self.event(Some(num), None, draft, wanted.now);
        self.store().save_handled(keys, Some(num))?;
        Ok(Applied::Accepted {
            deletion_id: wanted.id.clone(),
            existing: false,
        })
    }

    /// The root of a new deletion, from its cause: the cause in another deployment, or the root of the cause here.
    /// None if the deletion counts as a root itself.
    pub(super) fn root_by(&self, cause: Option<&str>) -> Changing<S, Option<String>> {
        let Some(cause) = cause else {
            return Ok(None);
        };
        if is_foreign_root(cause) {
            return Ok(Some(cause.to_owned()));
        }
        match self.store().find_deletion(cause)? {
            Some(num) => Ok(self.request(num)?.root),
            None => Ok(None),
        }
    }
}
