//! Applies changes to the rows of one transaction.

use crate::ledger::store::{LedgerRows, Stop};
use crate::ledger::working_set::{Changing, WorkingSet};
use crate::ledger::{Applied, Change};

impl<S: LedgerRows> WorkingSet<S> {
    /// Applies a change. Only outcomes share the rows in memory, because only they come by the thousand. Before any
    /// other change, the rows are saved; after it, the steps are dropped from memory.
    pub fn apply(&mut self, change: &Change) -> Changing<S, Applied> {
        if let Change::Step(change) = change {
            return self.record_outcome(change);
        }
        self.save()?;
        let applied = match self.make(change) {
            // After a failure, a database takes no further statement until the change is undone.
            Err(stop @ (Stop::Failed(_) | Stop::Impossible(_))) => return Err(stop),
            applied => applied,
        };
        self.save()?;
        self.forget_steps();
        applied
    }

    /// Updates the steps that are left to other deletions, and saves the rows in memory.
    pub fn flush(&mut self) -> Changing<S> {
        if let Some(now) = self.moved_at {
            self.update_left_steps(now)?;
        }
        self.save()?;
        Ok(self.save_deletions()?)
    }

    #[rustfmt::skip]
    fn make(&mut self, change: &Change) -> Changing<S, Applied> {
        use Change as C;
        match change {
            C::SavePlan { plan, now } => self.write(|store| store.save_plan(plan, *now)),
            C::KeepAnswer { request, answer, now } =>
                self.write(|store| store.keep_request(request, "", Some(answer), *now)),
            C::Accept(wanted) => self.accept(wanted),
            C::Start { deletion_id, plan, ranks, max_attempts, now } =>
                self.start(deletion_id, plan, ranks, max_attempts, *now),
            C::Refuse { deletion_id, refused, note, now } =>
                self.refuse_plan(deletion_id, refused, note, *now),
            C::StillPlanning { deletion_id, note, now } =>
                self.still_planning(deletion_id, note, *now),
            C::Step(change) => self.record_outcome(change),
            C::WakeDue { now } => self.wake_due(*now),
            C::Retry { selection, by, audit, now } => self.retry(selection, *by, audit, *now),
            C::AnswerDrift(answer) => self.answer_drift(answer),
            C::SetOptions(options) => self.set_options(options),
            C::Cancel { deletion_id, audit, now } => self.cancel(deletion_id, audit, *now),
            C::Pause { deletion_id, paused, audit, now } =>
                self.pause(deletion_id, *paused, audit, *now),
            C::Purge(purge) => self.purge(purge),
            C::Release { key, audit, now } => self.release(key, audit, *now),
            C::Revive { key, audit, now } => self.revive(key, audit, *now),
            C::PauseSite { site, paused, audit, now } =>
                self.pause_site(site, *paused, audit, *now),
            C::DrainEngines { name, is_drained, audit, now } =>
                self.drain_engines(name, *is_drained, audit, *now),
            C::Recreated { key, copy, stuck, now } =>
                self.recreated(key, copy.as_ref(), *stuck, *now),
            C::Note { event, now } => self.note(event, *now),
            C::MoveNotificationCursor { channel, position } =>
                self.write(|store| store.save_notification_cursor(channel, position.as_ref())),
            C::Add(new) => self.add_native(new),
            C::Amend { new, read_at } => self.amend_native(new, *read_at),
            C::DeleteNative { key, incarnation, unless, now } =>
                self.delete_native(key, *incarnation, unless, *now),
            C::Unset { key, references, now } => self.unset_native(key, references, *now),
            C::Prune { before, unique_id_kinds, audit, now } =>
                self.prune(*before, unique_id_kinds, audit.as_ref(), *now),
            C::RecordImporter { importer, kinds, now } => self.record_importer(importer, kinds, *now),
            C::AdvanceWatch { service, region, notices, now } =>
                self.advance_watch((service, region), notices, *now),
            C::MarkHandled { keys, deletion } => self.mark_handled(keys, deletion.as_deref()),
            C::RecordAnswers { importer, answers, now } => self.answered(importer, answers, *now),
            C::ReleaseImporter { name, audit, now } => self.release_importer(name, audit, *now),
            C::Recover { now } => self.recover(false, *now),
            C::TakeOver { now } => self.recover(true, *now),
        }
    }

    /// Applies a change that only writes rows of the store.
    fn write(&self, write: impl FnOnce(&S) -> Result<(), S::Error>) -> Changing<S, Applied> {
        write(self.store())?;
        Ok(Applied::Done)
    }
}
