//! One transaction. The deletions that it touches are read once, counted in memory, and written at its end.
//! So 1,024 outcomes of one deletion cost one write of its counts.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::deletion_row::DeletionRow;
use super::seal::{self, Head, Key};
use super::sql::{Apply, Run, Sql, refuse};
use super::{reads, rows};
use crate::domain::model::{DeletionState, StepState};
use crate::ledger::events::{self, Happened};
use crate::ledger::tombstones::Changed;
use crate::ledger::transitions::{Impossible, deletion, step};
use crate::ledger::{AuditEntry, AuditRow, audit};

#[derive(Clone)]
struct Entry {
    row: DeletionRow,
    /// The row in the table; none if this transaction inserted it.
    stored: Option<DeletionRow>,
}

pub(super) struct Batch<'c> {
    pub(super) db: &'c Connection,
    /// Epoch of the engine that owns this ledger.
    pub(super) epoch: i64,
    /// Tombstones whose rows were removed, for the tombstones in memory.
    pub(super) let_go: Vec<Changed>,
    deletions: BTreeMap<i64, Entry>,
    /// The key that seals the end of the audit; none if it is not here.
    seal: Option<&'c Key>,
    /// When a step last moved.
    pub(super) moved_at: Option<DateTime<Utc>>,
}

impl Run for Batch<'_> {
    fn db(&self) -> &Connection {
        self.db
    }
}

/// The deletions as they were counted at a savepoint.
pub(super) struct Savepoint(BTreeMap<i64, Entry>);

impl<'c> Batch<'c> {
    pub(super) fn new(db: &'c Connection, epoch: i64, seal: Option<&'c Key>) -> Self {
        Self {
            db,
            epoch,
            let_go: Vec::new(),
            deletions: BTreeMap::new(),
            seal,
            moved_at: None,
        }
    }

    /// Opens a savepoint, to be kept or undone. Not for frequent use: while one is open, SQLite copies each
    /// page that is written, again for each statement.
    pub(super) fn savepoint(&self) -> Sql<Savepoint> {
        self.run("SAVEPOINT change", ())?;
        Ok(Savepoint(self.deletions.clone()))
    }

    pub(super) fn keep(&self, _: Savepoint) -> Sql<()> {
        self.run("RELEASE change", ()).map(drop)
    }

    pub(super) fn undo(&mut self, to: Savepoint) -> Sql<()> {
        self.run("ROLLBACK TO change", ())?;
        self.run("RELEASE change", ())?;
        self.deletions = to.0;
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

    /// Adds a deletion that this change just inserted to those that are counted.
    pub(super) fn adopt(&mut self, num: i64) -> Sql<()> {
        self.deletion(num)?;
        if let Some(entry) = self.deletions.get_mut(&num) {
            entry.stored = None;
        }
        Ok(())
    }

    /// Whether this transaction may have changed the deletion.
    pub(super) fn touched(&self, num: i64) -> bool {
        self.deletions.contains_key(&num)
    }

    pub(super) fn deletion(&mut self, num: i64) -> Sql<&mut DeletionRow> {
        use std::collections::btree_map::Entry as Slot;
        let entry = match self.deletions.entry(num) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let sql = format!(
                    "SELECT {} FROM deletions WHERE num = ?1",
                    DeletionRow::COLUMNS
                );
                let row = self.db.one(&sql, [num], DeletionRow::read)?;
                slot.insert(Entry {
                    stored: Some(row.clone()),
                    row,
                })
            }
        };
        Ok(&mut entry.row)
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
        self.moved_at = Some(now);
        let row = self.deletion(num)?;
        let before = row.counts.accepted();
        let left = row.counts.of_mut(from);
        debug_assert!(*left >= n, "more steps left {from:?} than there were");
        *left = left.saturating_sub(n);
        *row.counts.of_mut(to) += n;
        if row.counts.accepted() > before {
            row.pace.moved(before, now);
        }
        Ok(())
    }

    /// Derives the deletion's state from its counts, and writes an event if it changed.
    pub(super) fn derive_state(&mut self, num: i64, now: DateTime<Utc>) -> Sql<()> {
        self.move_deletion(num, deletion::Trigger::StepsMoved, now)
    }

    /// Refuses what must not happen to the deletion now.
    pub(super) fn check(&mut self, num: i64, trigger: deletion::Trigger) -> Apply<()> {
        match self.deletion(num)?.after(trigger) {
            Ok(_) => Ok(()),
            Err(why) => refuse(why.0),
        }
    }

    /// Moves the deletion to its next state, and writes an event if that is another one. People were notified
    /// of each stuck step when it became stuck.
    pub(super) fn move_deletion(
        &mut self,
        num: i64,
        trigger: deletion::Trigger,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        let row = self.deletion(num)?;
        let next = row.after(trigger).map_err(impossible)?;
        (row.cancelled, row.paused) = (next.cancelled, next.paused);
        let state = next.state;
        let finished = deletion::has_finished(state, row.counts.live());
        row.finished_at = finished.then(|| row.finished_at.unwrap_or(now));
        if row.state == state {
            return Ok(());
        }
        row.state = state;
        if state != DeletionState::Refused {
            row.note.clear();
        }
        let (id, stuck) = (row.id.clone(), row.counts.stuck);
        self.event(Some(num), None, &events::deletion_moved(&id, state), now)?;
        if state == DeletionState::Stuck {
            self.deletion(num)?.note = self.why_stuck(num, stuck)?;
        }
        Ok(())
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

    pub(super) fn state_after(
        &self,
        state: StepState,
        trigger: step::Trigger,
        facts: step::Facts,
    ) -> Sql<StepState> {
        self.next(state, trigger, facts).map(|next| next.state)
    }

    /// Says in one line how many steps are stuck, and what the first one met.
    fn why_stuck(&self, num: i64, stuck: u64) -> Sql<String> {
        let first = self
            .first(
                "SELECT kind, name, resource, coalesce(last_error ->> 'message', '') FROM steps
                 WHERE deletion = ?1 AND state = 'stuck' AND held_by IS NULL ORDER BY id LIMIT 1",
                [num],
                |row| {
                    let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
                    let (resource, message): (String, String) = (row.get(2)?, row.get(3)?);
                    let called = if name.is_empty() { resource } else { name };
                    Ok(format!("{kind} {called}: {message}"))
                },
            )?
            .unwrap_or_default();
        Ok(match stuck {
            1 => first,
            n => format!("{n} steps; {first}"),
        })
    }

    pub(super) fn event(
        &self,
        num: Option<i64>,
        step: Option<i64>,
        happened: &Happened,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        self.run(
            "INSERT INTO events(at, deletion, step, kind, message, data)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                rows::micros(now),
                num,
                step,
                happened.kind.as_str(),
                happened.words,
                happened.fields.to_string()
            ],
        )
        .map(drop)
    }

    /// Appends to the audit chain (P6), in the transaction of the recorded change.
    pub(super) fn audit(&self, entry: &AuditEntry, now: DateTime<Utc>) -> Sql<()> {
        let before = self
            .first(
                "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1",
                (),
                |row| {
                    Ok(Head {
                        length: row.get(0)?,
                        hash: row.get(1)?,
                    })
                },
            )?
            .unwrap_or_else(Head::none);
        let mut row = AuditRow {
            seq: before.length + 1,
            // In the precision of the table; otherwise the hash would not match the row that is read back.
            at: DateTime::from_timestamp_micros(rows::micros(now)).unwrap_or(now),
            actor: entry.actor.clone(),
            action: entry.action.clone(),
            target: entry.target.clone(),
            reason: entry.reason.clone(),
            detail: entry.detail.clone(),
            hash: String::new(),
        };
        row.hash = audit::link(&before.hash, &row);
        self.run(
            "INSERT INTO audit(seq, at, actor, action, target, reason, detail, hash)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                row.seq,
                rows::micros(row.at),
                rows::json(&row.actor)?,
                row.action,
                row.target,
                row.reason,
                row.detail.to_string(),
                row.hash
            ],
        )?;
        if let Some(key) = self.seal {
            seal::advance(self.db, key, &before, &row)?;
        }
        // A log that is kept elsewhere shows whether the audit still has this row.
        tracing::info!(audit = %Head::of(&row), action = row.action, "recorded");
        Ok(())
    }

    /// Writes the deletions that changed, and the sums over all of them.
    pub(super) fn flush(&mut self) -> Sql<()> {
        if let Some(now) = self.moved_at {
            self.settle_left_steps(now)?;
        }
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        for entry in self.deletions.values_mut() {
            if entry.stored.as_ref() == Some(&entry.row) {
                continue;
            }
            entry.row.write(self.db)?;
            let before = entry.stored.as_ref();
            for state in StepState::ALL {
                let had = before.map_or(0, |row| row.counts.of(state));
                add(
                    &mut sums,
                    "step",
                    state.as_str(),
                    entry.row.counts.of(state),
                    had,
                );
            }
            if before.map(|row| row.state) != Some(entry.row.state) {
                add(&mut sums, "deletion", entry.row.state.as_str(), 1, 0);
                if let Some(row) = before {
                    add(&mut sums, "deletion", row.state.as_str(), 0, 1);
                }
            }
            entry.stored = Some(entry.row.clone());
        }
        for (name, n) in sums.into_iter().filter(|(_, n)| *n != 0) {
            self.run(
                "INSERT INTO counters(name, n) VALUES(?1, ?2)
                     ON CONFLICT(name) DO UPDATE SET n = n + excluded.n",
                params![name, n],
            )?;
        }
        Ok(())
    }
}

/// Refuses the change that asked for the impossible; see `fails_alone` of the store.
fn impossible(why: Impossible) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(why))
}

fn add(sums: &mut BTreeMap<String, i64>, of: &str, state: &str, now: u64, before: u64) {
    let difference = now.cast_signed() - before.cast_signed();
    if difference != 0 {
        *sums.entry(format!("{of}_{state}")).or_default() += difference;
    }
}
