//! The rows of one transaction, for the changes that are decided in memory.

use chrono::{DateTime, Utc};
use rusqlite::{ErrorCode, OptionalExtension, params};

use super::deletion_rows;
use super::rows;
use super::seal;
use super::sql::{Run, Sql};
use super::step_rows::{self, save_step};
use super::transaction::SqliteRows;
use crate::domain::model::{Phase, Site};
use crate::ledger::audit::{self, Head};
use crate::ledger::store::{
    EndedTombstone, NewTombstone, RowStore, StoredDeletion, StoredStep, StoredTombstone, Unsaved,
    UnsavedEvent,
};
use crate::ledger::{AuditEntry, AuditRow};

impl SqliteRows<'_> {
    fn save_tombstone(&self, now: &StoredTombstone) -> Sql<()> {
        let at = |time: Option<DateTime<Utc>>| time.map(rows::micros);
        self.run(
            "UPDATE tombstones SET deletion = ?2, phase = ?3, deleted_at = ?4, gone_at = ?5,
                     incarnation = ?6, recreated = ?7
                 WHERE record_id = ?1",
            params![
                now.record,
                now.deletion,
                now.phase.as_str(),
                at(now.deleted_at),
                at(now.gone_at),
                now.incarnation,
                now.recreated
            ],
        )
        .map(drop)
    }

    /// Appends to the audit chain (P6).
    pub(super) fn save_audit(&self, entry: &AuditEntry, now: DateTime<Utc>) -> Sql<()> {
        let before = self
            .db
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
        tracing::info!(audit = %Head::of(&row), action = row.action, "recorded an action in the audit");
        Ok(())
    }

    fn end_tombstone(&self, ended: &EndedTombstone) -> Sql<()> {
        let gone_at = (ended.phase == Phase::Gone).then(|| rows::micros(ended.at));
        let changed = self.run(
            "UPDATE tombstones SET phase = ?3, gone_at = ?4
             WHERE record_id = ?1 AND deletion = ?2",
            params![ended.record, ended.deletion, ended.phase.as_str(), gone_at],
        )?;
        if changed > 0 {
            let sql = "DELETE FROM snapshots WHERE record = ?1";
            self.run(sql, params![ended.record])?;
        }
        Ok(())
    }

    fn save_event(&self, event: &UnsavedEvent) -> Sql<()> {
        self.run(
            "INSERT INTO events(at, deletion, step, kind, message, data)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                rows::micros(event.at),
                event.deletion,
                event.step,
                event.draft.kind.as_str(),
                event.draft.words,
                event.draft.fields.to_string()
            ],
        )
        .map(drop)
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

    fn load_steps(&self, ids: &[i64]) -> Sql<Vec<StoredStep>> {
        step_rows::load(self.db, ids)
    }

    fn load_dependents(&self, ids: &[i64]) -> Sql<Vec<(i64, i64)>> {
        let mut edges = Vec::new();
        let sql = "SELECT dependent FROM edges WHERE dependency = ?1 ORDER BY dependent";
        for id in ids {
            edges.extend(self.all(sql, [id], |row| Ok((*id, row.get(0)?)))?);
        }
        Ok(edges)
    }

    /// Jumps from one deletion to the next: the cost does not grow with their steps. The query names its index,
    /// because without statistics SQLite takes another one, which begins with the state, and sorts all ready steps
    /// at each claim.
    fn find_ready_deletions(
        &self,
        site: &Site,
        (after, until): (i64, i64),
        limit: usize,
    ) -> Sql<Vec<i64>> {
        let site = site.to_string();
        let mut next = self.db.prepare_cached(
            "SELECT deletion FROM steps INDEXED BY steps_ready WHERE state = 'ready' AND site = ?1
                 AND deletion > ?2 AND deletion <= ?3 ORDER BY deletion LIMIT 1",
        )?;
        let (mut found, mut after) = (Vec::new(), after);
        while found.len() < limit {
            let next = next.query_row(params![site, after, until], |row| row.get(0));
            let Some(num) = next.optional()? else {
                break;
            };
            found.push(num);
            after = num;
        }
        Ok(found)
    }

    fn take_over_observations(&self) -> Sql<()> {
        let sql = "UPDATE steps SET epoch = ?1 WHERE state = 'verifying'";
        self.run(sql, [self.epoch]).map(drop)
    }

    fn find_left_to(&self, owners: &[i64]) -> Sql<Vec<i64>> {
        self.all(
            "SELECT s.id FROM json_each(?1) owner CROSS JOIN steps s INDEXED BY steps_left
                 ON s.left_to = owner.value
             WHERE s.left_to IS NOT NULL AND s.ended_at IS NULL ORDER BY s.id",
            [rows::json(owners)?],
            |row| row.get(0),
        )
    }

    fn await_clearances(&self, awaited: &[(String, i64)]) -> Sql<()> {
        let sql = "INSERT OR IGNORE INTO awaited(importer, step) VALUES(?1, ?2)";
        let mut insert = self.db.prepare_cached(sql)?;
        for (importer, step) in awaited {
            insert.execute(params![importer, step])?;
        }
        Ok(())
    }

    /// Inserts row by row, without `RETURNING`: a statement that returns rows, or may do several writes, keeps
    /// the pages that it touches in a journal of its own. Inside a savepoint that journal only grows, here to
    /// 1.3 GB of temporary file for 100,000 identities.
    fn insert_tombstones(&self, new: &[NewTombstone<'_>]) -> Sql<Vec<i64>> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO tombstones(id, kind, site, phase, deleted_at, deletion)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let inserted = new.iter().map(|new| {
            insert.insert(params![
                new.key.id,
                new.key.kind.as_str(),
                new.key.site.to_string(),
                new.phase.as_str(),
                rows::micros(new.deleted_at),
                new.deletion
            ])
        });
        inserted.collect()
    }

    fn save(&self, unsaved: &Unsaved<'_>) -> Sql<()> {
        for (saved, now) in &unsaved.steps {
            save_step(self.db, saved, now)?;
        }
        for tombstone in &unsaved.tombstones {
            self.save_tombstone(tombstone)?;
        }
        for ended in &unsaved.ended {
            self.end_tombstone(ended)?;
        }
        for step in &unsaved.cleared {
            let sql = "DELETE FROM awaited WHERE step = ?1";
            self.run(sql, [step])?;
        }
        for (entry, at) in &unsaved.audit {
            self.save_audit(entry, *at)?;
        }
        for event in &unsaved.events {
            self.save_event(event)?;
        }
        Ok(())
    }

    fn save_deletions(&self, changed: &[(Option<StoredDeletion>, StoredDeletion)]) -> Sql<()> {
        deletion_rows::save(self.db, changed)
    }
}
