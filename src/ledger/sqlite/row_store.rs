//! The rows of one transaction, for the changes that are decided in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::seal::{self, Head, Key};
use super::sql::{Run, Sql};
use super::{peers, reads, rows};
use crate::domain::model::{KindName, Phase, ResourceKey, Site, SitePause, StepState};
use crate::domain::news::Mark;
use crate::ledger::store::{
    EndedTombstone, Fallible, NewTombstone, Pace, RowStore, StoredDeletion, StoredStep,
    StoredTombstone, Unsaved, UnsavedEvent,
};
use crate::ledger::tombstones::Changed;
use crate::ledger::working_set::WorkingSet;
use crate::ledger::{AuditEntry, AuditRow, audit};

/// Rows are read and written one by one, with statements that are compiled once: SQLite is a library, so a
/// statement costs no more than a row of a set.
pub(super) struct SqliteRows<'c> {
    pub(super) db: &'c Connection,
    /// Epoch of the engine that owns this ledger.
    pub(super) epoch: i64,
    /// The key that seals the end of the audit; none if it is not here.
    seal: Option<&'c Key>,
    /// Tombstones whose rows were removed, for the tombstones in memory.
    pub(super) let_go: RefCell<Vec<Changed>>,
}

/// The rows of one transaction, in memory.
pub(super) type Rows<'c> = WorkingSet<SqliteRows<'c>>;

impl Run for SqliteRows<'_> {
    fn db(&self) -> &Connection {
        self.db
    }
}

impl Run for Rows<'_> {
    fn db(&self) -> &Connection {
        self.store().db
    }
}

impl<'c> SqliteRows<'c> {
    pub(super) fn new(db: &'c Connection, epoch: i64, seal: Option<&'c Key>) -> Self {
        Self {
            db,
            epoch,
            seal,
            let_go: RefCell::default(),
        }
    }

    /// Writes what changed of a step. Columns over which an index decides are written only if they changed.
    fn save_step(&self, saved: &StoredStep, now: &StoredStep) -> Sql<()> {
        let at = |time: Option<DateTime<Utc>>| time.map(rows::micros);
        if has_moved(saved, now) {
            let blockers = (!now.blockers.is_empty())
                .then(|| rows::json(&now.blockers))
                .transpose()?;
            self.run(
                "UPDATE steps SET state = ?2, since = ?3, waits = ?4, attempts = ?5, looks = ?6,
                     next_attempt_at = ?7, own_attempt_at = ?8, blocked_since = ?9, blockers = ?10,
                     last_error = ?11, held_by = ?12
                 WHERE id = ?1",
                params![
                    now.id,
                    now.state.as_str(),
                    rows::micros(now.since),
                    now.waits,
                    now.attempts,
                    now.looks,
                    at(now.next_attempt_at),
                    at(now.own_attempt_at),
                    at(now.blocked_since),
                    blockers,
                    now.error.as_ref().map(rows::json).transpose()?,
                    now.held_by
                ],
            )?;
        } else if saved.waits != now.waits {
            let sql = "UPDATE steps SET waits = ?2 WHERE id = ?1";
            self.run(sql, params![now.id, now.waits])?;
        }
        if saved.ended_at != now.ended_at {
            let sql = "UPDATE steps SET ended_at = ?2 WHERE id = ?1";
            self.run(sql, params![now.id, at(now.ended_at)])?;
        }
        if (saved.left_to, saved.record) != (now.left_to, now.record) {
            let sql = "UPDATE steps SET left_to = ?2, record = ?3 WHERE id = ?1";
            self.run(sql, params![now.id, now.left_to, now.record])?;
        }
        if saved.action != now.action {
            let sql = "UPDATE steps SET action = ?2 WHERE id = ?1";
            self.db.run(sql, params![now.id, now.action.as_str()])?;
        }
        if saved.notified != now.notified {
            let sql = "UPDATE steps SET told = ?2 WHERE id = ?1";
            self.run(sql, params![now.id, now.notified])?;
        }
        if (saved.claim, saved.epoch, saved.sent) != (now.claim, now.epoch, now.sent) {
            let sql = "UPDATE steps SET claim = ?2, epoch = ?3, sent = ?4 WHERE id = ?1";
            self.db
                .run(sql, params![now.id, now.claim, now.epoch, now.sent])?;
        }
        Ok(())
    }

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
        tracing::info!(audit = %Head::of(&row), action = row.action, "recorded");
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
                event.happened.kind.as_str(),
                event.happened.words,
                event.happened.fields.to_string()
            ],
        )
        .map(drop)
    }

    /// Writes the hot columns.
    fn save_deletion(&self, deletion: &StoredDeletion) -> Sql<()> {
        let at = |time: Option<DateTime<Utc>>| time.map(rows::micros);
        let count = |state| deletion.counts.of(state).cast_signed();
        let pace = &deletion.pace;
        self.run(
            "UPDATE deletions SET stops = ?22, cancelled = ?2, paused = ?3, waiting = ?4, ready = ?5, running = ?6,
                 verifying = ?7, blocked = ?8, stuck = ?9, gone = ?10, skipped = ?11, purged = ?12,
                 total = ?13, finished_at = ?14, woken_at = ?15, note = ?16, moved_at = ?17,
                 pace_at = ?18, pace_done = ?19, pace_mid_at = ?20, pace_mid_done = ?21
             WHERE num = ?1",
            params![
                deletion.num,
                deletion.cancelled,
                deletion.paused,
                count(StepState::Waiting),
                count(StepState::Ready),
                count(StepState::Running),
                count(StepState::Verifying),
                count(StepState::Blocked),
                count(StepState::Stuck),
                count(StepState::Gone),
                count(StepState::Skipped),
                count(StepState::Purged),
                deletion.counts.total.cast_signed(),
                at(deletion.finished_at),
                at(deletion.woken_at),
                deletion.note,
                at(pace.moved_at),
                at(pace.from.0),
                pace.from.1.cast_signed(),
                at(pace.middle.0),
                pace.middle.1.cast_signed(),
                deletion.stops,
            ],
        )?;
        // Written separately, and only if it changed, because the column is indexed.
        self.run(
            "UPDATE deletions SET state = ?2 WHERE num = ?1 AND state <> ?2",
            params![deletion.num, deletion.state.as_str()],
        )
        .map(drop)
    }
}

impl Fallible for SqliteRows<'_> {
    type Error = rusqlite::Error;
}

impl RowStore for SqliteRows<'_> {
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

    fn find_deletion(&self, id: &str) -> Sql<Option<i64>> {
        reads::find(self.db, id)
    }

    fn load_deletion(&self, num: i64) -> Sql<StoredDeletion> {
        let sql = format!("SELECT {DELETION} FROM deletions WHERE num = ?1");
        self.one(&sql, [num], deletion)
    }

    fn load_steps(&self, ids: &[i64]) -> Sql<Vec<StoredStep>> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.extend(self.first(LOAD_STEP, [id], step)?);
        }
        Ok(found)
    }

    fn load_dependents(&self, ids: &[i64]) -> Sql<Vec<(i64, i64)>> {
        let mut edges = Vec::new();
        let sql = "SELECT dependent FROM edges WHERE dependency = ?1 ORDER BY dependent";
        for id in ids {
            edges.extend(self.all(sql, [id], |row| Ok((*id, row.get(0)?)))?);
        }
        Ok(edges)
    }

    fn find_stuck_dependency(&self, step: i64) -> Sql<Option<(i64, i64)>> {
        self.first(
            "SELECT s.id, coalesce(s.held_by, s.id) FROM edges e JOIN steps s ON s.id = e.dependency
             WHERE e.dependent = ?1 AND s.state = 'stuck' AND s.held_by IS NOT ?1 LIMIT 1",
            [step],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    fn find_abandoned_dependency(&self, step: i64) -> Sql<Option<i64>> {
        self.first(
            "SELECT d.id FROM edges e JOIN steps d ON d.id = e.dependency
             WHERE e.dependent = ?1 AND d.state = 'purged' LIMIT 1",
            [step],
            |row| row.get(0),
        )
    }

    fn find_failed(&self, deletion: i64, other_than: i64) -> Sql<Option<i64>> {
        self.first(
            "SELECT id FROM steps WHERE state = 'stuck' AND deletion = ?1 AND held_by IS NULL
                 AND id <> ?2 ORDER BY id LIMIT 1",
            [deletion, other_than],
            |row| row.get(0),
        )
    }

    fn find_in_state(&self, deletion: i64, state: StepState) -> Sql<Vec<i64>> {
        self.all(
            "SELECT id FROM steps INDEXED BY steps_by_state WHERE state = ?1 AND deletion = ?2
             ORDER BY id",
            params![state.as_str(), deletion],
            |row| row.get(0),
        )
    }

    fn find_due(&self, now: DateTime<Utc>, limit: usize) -> Sql<Vec<i64>> {
        self.all(
            "SELECT id FROM steps INDEXED BY steps_due WHERE state = 'blocked'
                 AND next_attempt_at <= ?1 ORDER BY next_attempt_at LIMIT ?2",
            params![rows::micros(now), limit as i64],
            |row| row.get(0),
        )
    }

    fn find_running(&self) -> Sql<Vec<i64>> {
        let sql = "SELECT id FROM steps WHERE state = 'running' ORDER BY id";
        self.all(sql, (), |row| row.get(0))
    }

    fn find_ahead(&self, now: DateTime<Utc>, observed_by: DateTime<Utc>) -> Sql<Vec<i64>> {
        self.all(
            "SELECT id FROM steps WHERE state IN ('blocked', 'verifying') AND since > ?1
                 OR state = 'verifying' AND next_attempt_at > ?2
             ORDER BY id",
            params![rows::micros(now), rows::micros(observed_by)],
            |row| row.get(0),
        )
    }

    fn take_over_observations(&self) -> Sql<()> {
        let sql = "UPDATE steps SET epoch = ?1 WHERE state = 'verifying'";
        self.run(sql, [self.epoch]).map(drop)
    }

    fn find_gone_step(&self, deletion: i64, record: i64) -> Sql<Option<i64>> {
        self.first(
            "SELECT id FROM steps WHERE deletion = ?1 AND record = ?2 AND state = 'gone'",
            [deletion, record],
            |row| row.get(0),
        )
    }

    fn find_own_enables(&self, step: i64) -> Sql<Vec<i64>> {
        // Through its few dependencies: otherwise SQLite would read all steps that are gone, for each retry.
        self.all(
            "SELECT s.id FROM edges e JOIN steps s ON s.id = e.dependency
             WHERE e.dependent = ?1 AND s.action = 'enable' AND s.state = 'gone'
                 AND NOT EXISTS (SELECT 1 FROM edges
                     WHERE dependency = s.id AND dependent <> ?1)
                 AND NOT EXISTS (SELECT 1 FROM steps live WHERE live.resource = s.resource
                     AND live.kind = s.kind AND live.site = s.site
                     AND live.action = 'enable' AND live.ended_at IS NULL)",
            [step],
            |row| row.get(0),
        )
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

    fn awaits_clearance(&self, step: i64) -> Sql<bool> {
        self.db
            .prepare_cached("SELECT 1 FROM awaited WHERE step = ?1")?
            .exists([step])
    }

    fn load_importer_kinds(&self) -> Sql<Vec<(KindName, String)>> {
        peers::importer_kinds(self.db)
    }

    fn await_clearances(&self, awaited: &[(String, i64)]) -> Sql<()> {
        let sql = "INSERT OR IGNORE INTO awaited(importer, step) VALUES(?1, ?2)";
        let mut insert = self.db.prepare_cached(sql)?;
        for (importer, step) in awaited {
            insert.execute(params![importer, step])?;
        }
        Ok(())
    }

    fn load_tombstones(&self, keys: &[ResourceKey]) -> Sql<Vec<Option<StoredTombstone>>> {
        let mut find = self.db.prepare_cached(
            "SELECT record_id, deletion, phase, deleted_at, gone_at, incarnation, recreated
             FROM tombstones WHERE id = ?1 AND kind = ?2 AND site = ?3",
        )?;
        let found = keys.iter().map(|key| {
            let identity = params![key.id, key.kind.as_str(), key.site.to_string()];
            find.query_row(identity, tombstone).optional()
        });
        found.collect()
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

    fn find_checking(&self, deletion: i64) -> Sql<Vec<i64>> {
        self.all(
            "SELECT record_id FROM tombstones WHERE deletion = ?1 AND phase = 'checking'",
            [deletion],
            |row| row.get(0),
        )
    }

    fn pause_site(&self, site: &Site, pause: Option<&SitePause>) -> Sql<bool> {
        let site = site.to_string();
        let changed = match pause {
            Some(pause) => self.run(
                "INSERT INTO site_pauses(site, actor, reason, at) VALUES(?1, ?2, ?3, ?4)
                 ON CONFLICT(site) DO NOTHING",
                params![
                    site,
                    rows::json(&pause.by)?,
                    pause.reason,
                    rows::micros(pause.at)
                ],
            )?,
            None => {
                let sql = "DELETE FROM site_pauses WHERE site = ?1";
                self.run(sql, [site])?
            }
        };
        Ok(changed > 0)
    }

    fn save_notification_cursor(&self, channel: &str, mark: Option<&Mark>) -> Sql<()> {
        let done = match mark {
            Some(mark) => self.run(
                "INSERT OR REPLACE INTO told(channel, mark) VALUES(?1, ?2)",
                params![channel, rows::json(mark)?],
            ),
            None => self.run("DELETE FROM told WHERE channel = ?1", [channel]),
        };
        done.map(drop)
    }

    fn load_site_state(&self, site: &str) -> Sql<Option<String>> {
        let sql = "SELECT state FROM sites WHERE site = ?1";
        self.first(sql, [site], |row| row.get(0))
    }

    fn save_site_state(&self, site: &str, state: &str) -> Sql<()> {
        let sql = "INSERT OR REPLACE INTO sites(site, state) VALUES(?1, ?2)";
        self.run(sql, [site, state]).map(drop)
    }

    fn save(&self, unsaved: &Unsaved<'_>) -> Sql<()> {
        for (saved, now) in &unsaved.steps {
            self.save_step(saved, now)?;
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

    /// Also keeps the sums over all deletions.
    fn save_deletions(&self, changed: &[(Option<StoredDeletion>, StoredDeletion)]) -> Sql<()> {
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        for (saved, now) in changed {
            self.save_deletion(now)?;
            let saved = saved.as_ref();
            for state in StepState::ALL {
                let had = saved.map_or(0, |row| row.counts.of(state));
                add(&mut sums, "step", state.as_str(), now.counts.of(state), had);
            }
            if saved.map(|row| row.state) != Some(now.state) {
                add(&mut sums, "deletion", now.state.as_str(), 1, 0);
                if let Some(row) = saved {
                    add(&mut sums, "deletion", row.state.as_str(), 0, 1);
                }
            }
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

/// Whether anything changed that is written with the state.
fn has_moved(saved: &StoredStep, now: &StoredStep) -> bool {
    let of = |step: &StoredStep| {
        (
            (step.state, step.since, step.attempts, step.looks),
            (step.next_attempt_at, step.own_attempt_at),
            (step.blocked_since, step.held_by),
        )
    };
    of(saved) != of(now) || saved.blockers != now.blockers || saved.error != now.error
}

fn add(sums: &mut BTreeMap<String, i64>, of: &str, state: &str, now: u64, before: u64) {
    let difference = now.cast_signed() - before.cast_signed();
    if difference != 0 {
        *sums.entry(format!("{of}_{state}")).or_default() += difference;
    }
}

const LOAD_STEP: &str = "SELECT id, deletion, site, kind, resource, name, action, record, state, \
     since, ended_at, claim, epoch, sent, waits, attempts, looks, next_attempt_at, \
     own_attempt_at, blocked_since, blockers, last_error, held_by, left_to, told \
     FROM steps WHERE id = ?1";

/// A step, from [`LOAD_STEP`].
fn step(row: &Row) -> Sql<StoredStep> {
    Ok(StoredStep {
        id: row.get(0)?,
        deletion: row.get(1)?,
        key: rows::key(row, 2)?,
        name: row.get(5)?,
        action: rows::word(row, 6)?,
        record: row.get(7)?,
        state: rows::word(row, 8)?,
        since: rows::time(row, 9)?,
        ended_at: rows::time_opt(row, 10)?,
        claim: row.get(11)?,
        epoch: row.get(12)?,
        sent: row.get(13)?,
        waits: rows::number(row, 14)?,
        attempts: rows::number(row, 15)?,
        looks: rows::number(row, 16)?,
        next_attempt_at: rows::time_opt(row, 17)?,
        own_attempt_at: rows::time_opt(row, 18)?,
        blocked_since: rows::time_opt(row, 19)?,
        blockers: rows::from_json_opt(row, 20)?,
        error: rows::from_json_opt(row, 21)?,
        held_by: row.get(22)?,
        left_to: row.get(23)?,
        notified: row.get(24)?,
    })
}

/// A tombstone, from the columns that [`RowStore::load_tombstones`] names.
fn tombstone(row: &Row) -> Sql<StoredTombstone> {
    Ok(StoredTombstone {
        record: row.get(0)?,
        deletion: row.get(1)?,
        phase: rows::word(row, 2)?,
        deleted_at: rows::time_opt(row, 3)?,
        gone_at: rows::time_opt(row, 4)?,
        incarnation: rows::number(row, 5)?,
        recreated: rows::number(row, 6)?,
    })
}

/// The hot columns of a deletion.
pub(super) const DELETION: &str = "num, id, state, cancelled, paused, stops, waiting, ready, \
     running, verifying, blocked, stuck, gone, skipped, purged, total, finished_at, woken_at, \
     note, moved_at, pace_at, pace_done, pace_mid_at, pace_mid_done";

/// A deletion, from [`DELETION`].
pub(super) fn deletion(row: &Row) -> Sql<StoredDeletion> {
    Ok(StoredDeletion {
        num: row.get(0)?,
        id: row.get(1)?,
        state: rows::word(row, 2)?,
        cancelled: row.get(3)?,
        paused: row.get(4)?,
        stops: row.get(5)?,
        counts: rows::counts(row, 6)?,
        finished_at: rows::time_opt(row, 16)?,
        woken_at: rows::time_opt(row, 17)?,
        note: row.get(18)?,
        pace: Pace {
            moved_at: rows::time_opt(row, 19)?,
            from: (rows::time_opt(row, 20)?, rows::number(row, 21)?),
            middle: (rows::time_opt(row, 22)?, rows::number(row, 23)?),
        },
    })
}
