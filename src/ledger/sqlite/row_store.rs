//! The rows of one transaction, for the changes that are decided in memory.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use rusqlite::{ErrorCode, params_from_iter};

use super::seal;
use super::sql::{Run as _, Sql, numbered};
use super::transaction::SqliteRows;
use crate::ledger::AuditEntry;
use crate::ledger::audit::{self, Head};
use crate::ledger::store::sql::{SqlValue, Writes as _, key_values};
use crate::ledger::store::sql_saved::{self, MOVED, SET_DELETION, SET_MOVED, SET_TOMBSTONE};
use crate::ledger::store::{
    EndedTombstone, NewTombstone, RowStore, StoredDeletion, StoredStep, Unsaved, counter_changes,
};

static SAVE_MOVED: LazyLock<String> =
    LazyLock::new(|| numbered(&format!("UPDATE steps SET {SET_MOVED} WHERE id = $1")));
static SAVE_DELETION: LazyLock<String> = LazyLock::new(|| {
    numbered(&format!(
        "UPDATE deletions SET {SET_DELETION} WHERE num = $1"
    ))
});
static SAVE_TOMBSTONE: LazyLock<String> = LazyLock::new(|| {
    numbered(&format!(
        "UPDATE tombstones SET {SET_TOMBSTONE} WHERE record_id = $1"
    ))
});
const SAVE_EVENT: &str = "INSERT INTO events(at, deletion, step, kind, message, data)
     VALUES(?1, ?2, ?3, ?4, ?5, ?6)";

impl SqliteRows<'_> {
    /// Writes the changed columns of a step. Columns that seldom change have statements of their own, because SQLite
    /// rewrites each index over a column that a statement sets.
    fn save_step(&self, saved: &StoredStep, now: &StoredStep) -> Sql<()> {
        let set = |columns: &str, values: &[SqlValue<'_>]| {
            let sql = format!("UPDATE steps SET {columns} WHERE id = $1");
            self.write(&sql, values).map(drop)
        };
        let id = SqlValue::from(now.id);
        if has_moved(saved, now) {
            let values = sql_saved::step(now)?;
            self.run(&SAVE_MOVED, params_from_iter(&values[..MOVED]))?;
        } else if saved.waits != now.waits {
            set("waits = $2", &[id.clone(), now.waits.into()])?;
        }
        if saved.ended_at != now.ended_at {
            set("ended_at = $2", &[id.clone(), now.ended_at.into()])?;
        }
        if (saved.left_to, saved.record) != (now.left_to, now.record) {
            let values = [id.clone(), now.left_to.into(), now.record.into()];
            set("left_to = $2, record = $3", &values)?;
        }
        if saved.action != now.action {
            set("action = $2", &[id.clone(), now.action.into()])?;
        }
        if saved.notified != now.notified {
            set("told = $2", &[id, now.notified.into()])?;
        }
        Ok(())
    }

    /// Appends an entry to the audit's chain (P6), and advances the seal if there is a key.
    pub(super) fn save_audit(&self, entry: &AuditEntry, now: DateTime<Utc>) -> Sql<()> {
        let last = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1";
        let before = self.first(last, (), |row| {
            Ok(Head {
                length: row.get(0)?,
                hash: row.get(1)?,
            })
        })?;
        let before = before.unwrap_or_else(Head::none);
        let row = audit::next_row(&before, entry, now);
        self.insert_rows(sql_saved::AUDIT, vec![sql_saved::audit(&row)?], "")?;
        match self.seal {
            Some(key) => seal::advance(self.db, key, &before, &row),
            None => Ok(()),
        }
    }

    fn end_tombstone(&self, ended: &EndedTombstone) -> Sql<()> {
        let sql = "UPDATE tombstones SET phase = ?3, gone_at = ?4
             WHERE record_id = ?1 AND deletion = ?2";
        if self.run(sql, params_from_iter(sql_saved::ended(ended)))? > 0 {
            let sql = "DELETE FROM snapshots WHERE record = ?1";
            self.run(sql, [ended.record])?;
        }
        Ok(())
    }
}

impl RowStore for SqliteRows<'_> {
    fn epoch(&self) -> i64 {
        self.epoch
    }

    fn is_caused_by_change(error: &rusqlite::Error) -> bool {
        match error.sqlite_error_code() {
            // A column holds a malformed value.
            None => true,
            // SQLite says `Unknown` for errors of a statement itself, such as a column that is not JSON.
            Some(code) => matches!(
                code,
                ErrorCode::ConstraintViolation
                    | ErrorCode::TypeMismatch
                    | ErrorCode::TooBig
                    | ErrorCode::Unknown
            ),
        }
    }

    fn begin_savepoint(&self) -> Sql<()> {
        self.run("SAVEPOINT change", ()).map(drop)
    }

    fn keep_savepoint(&self) -> Sql<()> {
        self.run("RELEASE change", ()).map(drop)
    }

    fn undo_savepoint(&self) -> Sql<()> {
        self.run("ROLLBACK TO change", ())?;
        self.keep_savepoint()
    }

    fn take_over_observations(&self) -> Sql<()> {
        let sql = "UPDATE steps SET epoch = ?1 WHERE state = 'verifying'";
        self.run(sql, [self.epoch]).map(drop)
    }

    /// Inserts the tombstones row by row, without `RETURNING`: a statement that returns rows, or may do several writes,
    /// keeps the pages that it touches in a journal of its own. Inside a savepoint that journal only grows, here to 1.3
    /// GB of temporary file for 100,000 identities.
    fn insert_tombstones(&self, new: &[NewTombstone<'_>]) -> Sql<Vec<i64>> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO tombstones(id, kind, site, phase, deleted_at, deletion)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let inserted = new.iter().map(|new| {
            let [id, kind, site] = key_values(new.key);
            let (phase, deleted_at) = (new.phase.into(), new.deleted_at.into());
            insert.insert(params_from_iter([
                id,
                kind,
                site,
                phase,
                deleted_at,
                new.deletion.into(),
            ]))
        });
        inserted.collect()
    }

    fn save(&self, unsaved: &Unsaved<'_>) -> Sql<()> {
        for (saved, now) in &unsaved.steps {
            self.save_step(saved, now)?;
        }
        for tombstone in &unsaved.others.tombstones {
            self.run(
                &SAVE_TOMBSTONE,
                params_from_iter(sql_saved::tombstone(tombstone)),
            )?;
        }
        for ended in &unsaved.others.ended {
            self.end_tombstone(ended)?;
        }
        for step in &unsaved.others.cleared {
            let sql = "DELETE FROM awaited WHERE step = ?1";
            self.run(sql, [step])?;
        }
        for (entry, at) in &unsaved.others.audit {
            self.save_audit(entry, *at)?;
        }
        for event in &unsaved.others.events {
            self.run(SAVE_EVENT, params_from_iter(sql_saved::event(event)))?;
        }
        Ok(())
    }

    fn save_deletions(&self, changed: &[(Option<StoredDeletion>, StoredDeletion)]) -> Sql<()> {
        for (_, now) in changed {
            let [values @ .., state] = sql_saved::deletion(now);
            self.run(&SAVE_DELETION, params_from_iter(values))?;
            // The state is written separately, and only if it changed, because it is indexed.
            let sql = "UPDATE deletions SET state = ?2 WHERE num = ?1 AND state <> ?2";
            self.run(sql, params_from_iter([now.num.into(), state]))?;
        }
        let counters = counter_changes(changed).into_iter();
        let counters = counters.map(|(name, by)| [name.into(), by.into()]);
        let (into, on_conflict) = sql_saved::COUNT;
        self.insert_rows(into, counters.collect(), on_conflict)
    }
}

/// Whether any of the columns of [`SET_MOVED`] changed, other than `waits`.
fn has_moved(saved: &StoredStep, now: &StoredStep) -> bool {
    let of = |step: &StoredStep| {
        (
            (step.state, step.since, step.attempts, step.observations),
            (step.next_attempt_at, step.own_attempt_at),
            (step.blocked_since, step.held_by),
            (step.claim, step.epoch, step.sent),
        )
    };
    of(saved) != of(now) || saved.blockers != now.blockers || saved.error != now.error
}
