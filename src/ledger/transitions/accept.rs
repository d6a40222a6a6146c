//! Accepts a deletion, refuses its plan, or plans it again.

use chrono::{DateTime, Utc};

use super::{deletion, refuse};
use crate::domain::model::{DeletionState, Phase, Refusal, ResourceKey, short_id};
use crate::ledger::events;
use crate::ledger::store::{KEPT, LedgerRows, StoredRequest};
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, KeyedRequest, NewDeletion};

impl<S: LedgerRows> WorkingSet<S> {
    /// Accepts a deletion; see [`Change::Accept`](crate::ledger::Change::Accept).
    pub fn accept(&mut self, wanted: &NewDeletion) -> Changing<S, Applied> {
        if wanted.targets.is_empty() {
            return refuse("the deletion has no target: name at least one resource");
        }
        if let Some(answer) = self.answered_before(wanted)? {
            return Ok(answer);
        }
        let targets: Vec<ResourceKey> = wanted.targets.iter().map(|it| it.key.clone()).collect();
        let going = self.deletions_of(&targets)?;
        // If another deletion has only some of the targets, the new deletion leaves the steps of these targets to the
        // other one (I9).
        if let Some(deletion_id) = same_deletion(&going) {
            self.prolong(&deletion_id, wanted.deadline)?;
            self.keep_key(wanted, &deletion_id)?;
            return Ok(Applied::Accepted {
                deletion_id,
                existing: true,
            });
        }
        if let Some((copy, deletion_id)) = self.first_in_deletion(&wanted.copies)? {
            let by = short_id(&deletion_id);
            return refuse(format!(
                "copy {copy} of a target is being deleted by deletion {by}; request this deletion again once \
                 deletion {by} has ended"
            ));
        }
        let num = self.insert_deletion(wanted)?;
        self.guard(num, &targets, &wanted.copies, wanted.now)?;
        self.keep_shown(wanted)?;
        self.keep_key(wanted, &wanted.id)?;
        self.audit(&wanted.audit, wanted.now);
        let draft = events::accepted(&wanted.id, wanted.targets.len());
        self.event(Some(num), None, draft, wanted.now);
        Ok(Applied::Accepted {
            deletion_id: wanted.id.clone(),
            existing: false,
        })
    }

    /// Answers a repeated request, which has the id or idempotency key of an earlier one: with the same deletion, or
    /// with a refusal if the key was used for another request.
    fn answered_before(&self, wanted: &NewDeletion) -> Changing<S, Option<Applied>> {
        if self.store().find_deletion(&wanted.id)?.is_some() {
            return Ok(Some(Applied::Accepted {
                deletion_id: wanted.id.clone(),
                existing: true,
            }));
        }
        let Some(KeyedRequest { actor, key, body }) = &wanted.request else {
            return Ok(None);
        };
        let before = self.store().find_request(actor, key, wanted.now - KEPT)?;
        Ok(before.map(|before| match before.body == *body {
            true => Applied::Accepted {
                deletion_id: before.deletion,
                existing: true,
            },
            false => Applied::KeyReused(before.other_use()),
        }))
    }

    /// Keeps the idempotency key, so that a repeated request is answered with this deletion.
    fn keep_key(&self, wanted: &NewDeletion, deletion_id: &str) -> Changing<S> {
        let Some(request) = &wanted.request else {
            return Ok(());
        };
        let store = self.store();
        Ok(store.keep_request(request, deletion_id, None, wanted.now)?)
    }

    fn keep_shown(&mut self, wanted: &NewDeletion) -> Changing<S> {
        if wanted.shown.is_empty() {
            return Ok(());
        }
        let keys: Vec<ResourceKey> = wanted.shown.iter().map(|(key, _)| key.clone()).collect();
        let tombstones = self.searched()?.load_tombstones(&keys)?;
        for ((_, shown), tombstone) in wanted.shown.iter().zip(tombstones) {
            if let Some(tombstone) = tombstone {
                self.store().save_snapshot(tombstone.record, shown)?;
            }
        }
        Ok(())
    }

    /// Returns the first of these resources that a deletion is deleting or will delete, and that deletion's id.
    pub fn first_in_deletion(
        &mut self,
        keys: &[ResourceKey],
    ) -> Changing<S, Option<(ResourceKey, String)>> {
        let deletions = self.deletions_of(keys)?;
        let mut going = keys.iter().zip(deletions);
        Ok(going.find_map(|(key, deletion)| Some((key.clone(), deletion?))))
    }

    /// Returns, for each of these resources, the id of the deletion that is deleting the resource or will delete it:
    /// the deletion that raised the tombstone or, if the resource is gone, one that is being planned or awaits
    /// approval. None if there is no such deletion, or if it was refused or cancelled and has ended.
    fn deletions_of(&mut self, keys: &[ResourceKey]) -> Changing<S, Vec<Option<String>>> {
        let tombstones = self.searched()?.load_tombstones(keys)?;
        let mut deletions = Vec::with_capacity(keys.len());
        for (key, tombstone) in keys.iter().zip(tombstones) {
            let num = match tombstone.as_ref().map(|it| (it.phase, it.deletion)) {
                Some((Phase::Checking | Phase::Deleting, num)) => Some(num),
                Some((Phase::Gone, _)) => self.searched()?.find_planned(key)?,
                Some((Phase::Released | Phase::Purged, _)) | None => None,
            };
            let Some(num) = num else {
                deletions.push(None);
                continue;
            };
            let row = self.deletion(num)?;
            let is_over = row.finished_at.is_some()
                && matches!(row.state, DeletionState::Refused | DeletionState::Cancelled);
            deletions.push((!is_over).then(|| row.id.clone()));
        }
        Ok(deletions)
    }

    /// Extends a deletion's deadline to that of a repeated request, if that is later.
    fn prolong(&mut self, deletion_id: &str, deadline: Option<DateTime<Utc>>) -> Changing<S> {
        let num = self.existing_deletion(deletion_id)?;
        let mut request = self.request(num)?;
        if deadline > request.deadline {
            request.deadline = deadline;
            self.store().save_request(num, &request)?;
        }
        Ok(())
    }

    /// Writes the row of a new deletion, whose state is `planning`.
    pub fn insert_deletion(&mut self, wanted: &NewDeletion) -> Changing<S, i64> {
        let root = self.root_by(wanted.cause.as_deref())?;
        let num = self.store().insert_deletion(wanted, root.as_deref())?;
        self.adopt(num)?;
        Ok(num)
    }

    /// Raises the write guard over the targets and their copies. The tombstone of a resource that is gone stays as it
    /// is: this tombstone is stricter than the guard, and a refusal must not end it (T1).
    fn guard(
        &mut self,
        num: i64,
        targets: &[ResourceKey],
        copies: &[ResourceKey],
        now: DateTime<Utc>,
    ) -> Changing<S> {
        self.raise_tombstones(num, targets, Phase::Checking, now)?;
        self.raise_tombstones(num, copies, Phase::Checking, now)?;
        Ok(())
    }

    /// Refuses a plan; see [`Change::Refuse`](crate::ledger::Change::Refuse).
    pub fn refuse_plan(
        &mut self,
        deletion_id: &str,
        refused: &[Refusal],
        note: &str,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let num = self.before_start(deletion_id)?;
        self.release_checking(num, now)?;
        self.store().save_refusals(num, refused)?;
        let why = refused.first().map_or(note, |first| first.reason.as_str());
        let draft = events::refused(deletion_id, refused.len(), why, note);
        self.event(Some(num), None, draft, now);
        note.clone_into(&mut self.deletion(num)?.note);
        self.move_deletion(num, deletion::Trigger::PlanRefused, now)?;
        Ok(Applied::Done)
    }

    /// Notes why a deletion is still being planned.
    pub fn still_planning(
        &mut self,
        deletion_id: &str,
        note: &str,
        now: DateTime<Utc>,
    ) -> Changing<S, Applied> {
        let num = self.before_start(deletion_id)?;
        if self.deletion(num)?.note == note {
            return Ok(Applied::Done);
        }
        note.clone_into(&mut self.deletion(num)?.note);
        self.event(Some(num), None, events::delayed(deletion_id, note), now);
        Ok(Applied::Done)
    }

    /// The deletion's number. Refuses the change if the deletion is neither planning nor awaiting approval.
    pub(super) fn before_start(&mut self, deletion_id: &str) -> Changing<S, i64> {
        let num = self.existing_deletion(deletion_id)?;
        self.check(num, deletion::Trigger::PlanStarted)?;
        Ok(num)
    }

    /// Plans a refused deletion again, behind its write guard.
    pub(super) fn plan_again(
        &mut self,
        num: i64,
        retried: deletion::Trigger,
        now: DateTime<Utc>,
    ) -> Changing<S, u64> {
        let StoredRequest {
            targets,
            copies,
            options,
            ..
        } = self.request(num)?;
        // The targets of a chained deletion already have a write guard: that of the other deletion, which deletes them.
        if !options.chained {
            let targets: Vec<ResourceKey> = targets.into_iter().map(|it| it.key).collect();
            for keys in [&targets, &copies] {
                if let Some((key, other)) = self.first_in_deletion(keys)? {
                    let other = short_id(&other);
                    return refuse(format!(
                        "this deletion cannot be planned again while deletion {other} includes {key}; retry it once deletion {other} has ended"
                    ));
                }
            }
            self.guard(num, &targets, &copies, now)?;
        }
        self.store().save_refusals(num, &[])?;
        self.move_deletion(num, retried, now)?;
        Ok(1)
    }
}

/// The deletion that has all the targets, if there is one.
fn same_deletion(going: &[Option<String>]) -> Option<String> {
    let first = going.first()?.as_ref()?;
    let all = going
        .iter()
        .all(|deletion| deletion.as_ref() == Some(first));
    all.then(|| first.clone())
}
