//! One transaction. The rows that most changes touch are read once, changed in memory, and written together.
//! So 1,024 outcomes of one deletion cost one write of its counts.
//!
//! Some changes are still statements here. Before such a change everything in memory is saved, and after it
//! the steps in memory are forgotten; [`Batch::in_memory`] does the same the other way round.

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use super::reads;
use super::row_store::SqliteRows;
use super::seal::Key;
use super::sql::{Apply, Run, Sql, Stop, refuse};
use crate::domain::model::StepState;
use crate::ledger::events::Happened;
use crate::ledger::store::StoredDeletion;
use crate::ledger::tombstones::Changed;
use crate::ledger::transitions::{Impossible, deletion, has_ended, step};
use crate::ledger::working_set::{Deletions, WorkingSet};
use crate::ledger::{AuditEntry, Change};

pub(super) type Rows<'c> = WorkingSet<SqliteRows<'c>>;

pub(super) struct Batch<'c> {
    pub(super) db: &'c Connection,
    /// Epoch of the engine that owns this ledger.
    pub(super) epoch: i64,
    /// Tombstones whose rows were removed, for the tombstones in memory.
    pub(super) let_go: Vec<Changed>,
    /// The rows in memory.
    pub(super) set: Rows<'c>,
}

impl Run for Batch<'_> {
    fn db(&self) -> &Connection {
        self.db
    }
}

impl<'c> Batch<'c> {
    pub(super) fn new(db: &'c Connection, epoch: i64, seal: Option<&'c Key>) -> Self {
        Self {
            db,
            epoch,
            let_go: Vec::new(),
            set: WorkingSet::new(SqliteRows { db, epoch, seal }),
        }
    }

    /// Loads together what these changes need.
    pub(super) fn prefetch(&mut self, changes: &[Change]) -> Sql<()> {
        let mut answered = Vec::new();
        let mut ending = Vec::new();
        for change in changes {
            if let Change::Step(change) = change {
                answered.push(change.step_id);
                if has_ended(change.decision.to) {
                    ending.push(change.step_id);
                }
            }
        }
        self.set.prefetch(&answered, &ending)
    }

    /// Runs a part of a change in memory, from what is saved, and saves it.
    pub(super) fn in_memory<T>(
        &mut self,
        part: impl FnOnce(&mut Rows<'c>) -> Apply<T>,
    ) -> Apply<T> {
        self.set.forget_steps();
        let done = part(&mut self.set);
        self.set.save()?;
        done
    }

    /// Opens a savepoint, to be kept or undone. Not for frequent use: while one is open, SQLite copies each
    /// page that is written, again for each statement.
    pub(super) fn savepoint(&mut self) -> Sql<Deletions> {
        self.set.save()?;
        self.run("SAVEPOINT change", ())?;
        Ok(self.set.remember())
    }

    pub(super) fn keep(&mut self, _: Deletions) -> Sql<()> {
        self.set.save()?;
        self.run("RELEASE change", ()).map(drop)
    }

    pub(super) fn undo(&mut self, to: Deletions) -> Sql<()> {
        self.run("ROLLBACK TO change", ())?;
        self.run("RELEASE change", ())?;
        self.set.go_back(to);
        Ok(())
    }

    /// Returns the number of a deletion that must exist.
    pub(super) fn found(&self, deletion_id: &str) -> Apply<i64> {
        match self.find(deletion_id)? {
            Some(num) => Ok(num),
            None => refuse(format!("no deletion {deletion_id}")),
        }
    }

    /// Returns the number under which the tables know a deletion.
    pub(super) fn find(&self, deletion_id: &str) -> Sql<Option<i64>> {
        reads::find(self.db, deletion_id)
    }

    pub(super) fn deletion(&mut self, num: i64) -> Sql<&mut StoredDeletion> {
        self.set.deletion(num)
    }

    /// Moves `n` steps from one state to another in the counts.
    pub(super) fn moved(
        &mut self,
        num: i64,
        from: StepState,
        to: StepState,
        n: u64,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        self.set.moved(num, from, to, n, now)
    }

    /// Moves the deletion to its next state, and writes an event if that is another one.
    pub(super) fn move_deletion(
        &mut self,
        num: i64,
        trigger: deletion::Trigger,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        unrefused(self.in_memory(|set| set.move_deletion(num, trigger, now)))
    }

    /// Refuses what must not happen to the deletion now.
    pub(super) fn check(&mut self, num: i64, trigger: deletion::Trigger) -> Apply<()> {
        self.set.check(num, trigger)
    }

    /// The next state of a step, with its effects.
    pub(super) fn next(
        &self,
        state: StepState,
        trigger: step::Trigger,
        facts: step::Facts,
    ) -> Sql<step::Next> {
        step::after(state, trigger, facts).map_err(impossible)
    }

    pub(super) fn event(
        &mut self,
        num: Option<i64>,
        step: Option<i64>,
        happened: Happened,
        now: DateTime<Utc>,
    ) {
        self.set.event(num, step, happened, now);
    }

    pub(super) fn audit(&mut self, entry: &AuditEntry, now: DateTime<Utc>) {
        self.set.audit(entry, now);
    }

    /// Settles the steps that are left to others, and writes what is in memory.
    pub(super) fn flush(&mut self) -> Sql<()> {
        if let Some(now) = self.set.moved_at {
            unrefused(self.set.settle_left_steps(now))?;
        }
        self.set.save()?;
        self.set.save_deletions()
    }
}

/// The result of a part of a change that refuses nothing by itself.
pub(super) fn unrefused<T>(done: Apply<T>) -> Sql<T> {
    done.map_err(|stop| match stop {
        Stop::Failed(error) => error,
        Stop::Impossible(why) | Stop::Refused(why) => impossible(Impossible(why)),
    })
}

/// Refuses the change that asked for the impossible; see `fails_alone` of the store.
fn impossible(why: Impossible) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(why))
}
