//! The removal of old rows. Steps and events are removed a limited number at a time, so that no other request
//! waits long for it.

use chrono::{DateTime, Utc};
use rusqlite::params;

use super::rows;
use super::sql::{Run, Sql};
use super::transaction::SqliteRows;
use crate::domain::model::{KindName, ResourceKey, StepState};
use crate::ledger::store::PruneRows;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::tombstones::Changed;

impl PruneRows for SqliteRows<'_> {
    fn prune_leftovers(&self, before: DateTime<Utc>) -> Sql<()> {
        // This also removes the snapshots of refused and cancelled deletions, which are few.
        self.run(
            "DELETE FROM snapshots WHERE NOT EXISTS (SELECT 1 FROM tombstones
                 WHERE record_id = record AND phase IN ('checking', 'deleting'))",
            (),
        )?;
        self.run(
            "DELETE FROM namesakes WHERE NOT EXISTS (SELECT 1 FROM tombstones
                 WHERE record_id = record AND phase <> 'released')",
            (),
        )?;
        self.run(
            "DELETE FROM parts WHERE NOT EXISTS (SELECT 1 FROM tombstones
                 WHERE record_id = record AND phase <> 'released')",
            (),
        )?;
        let sql = "DELETE FROM foreign_going WHERE phase = 'gone' AND gone_at < ?1";
        self.run(sql, [rows::micros(before)]).map(drop)
    }

    fn prune_events(&self, before: DateTime<Utc>, limit: usize) -> Sql<u64> {
        let oldest = "SELECT seq, at FROM events ORDER BY seq LIMIT ?2";
        let gone = self.run(
            &format!(
                "DELETE FROM events WHERE seq IN (SELECT seq FROM ({oldest})) AND seq < coalesce(
                     (SELECT min(seq) FROM ({oldest}) WHERE at >= ?1), {})",
                i64::MAX
            ),
            params![rows::micros(before), limit as i64],
        )?;
        Ok(gone as u64)
    }

    fn find_prunable(&self, before: DateTime<Utc>) -> Sql<Option<i64>> {
        self.first(
            "SELECT num FROM deletions
                 WHERE state IN ('refused', 'gone', 'cancelled') AND finished_at < ?1
                     AND stuck = 0 AND purged = 0
                     AND num < (SELECT max(num) FROM deletions)
                     AND num <> coalesce(
                         (SELECT deletion FROM steps ORDER BY id DESC LIMIT 1), 0)
                 LIMIT 1",
            [rows::micros(before)],
            |row| row.get(0),
        )
    }

    fn prune_steps(
        &self,
        deletion: i64,
        state: StepState,
        before: DateTime<Utc>,
        unique_id_kinds: &[KindName],
        limit: usize,
    ) -> Sql<u64> {
        let steps: Vec<(i64, Option<i64>)> = self.all(
            "SELECT id, record FROM steps INDEXED BY steps_by_state
             WHERE state = ?1 AND deletion = ?2 LIMIT ?3",
            params![state.as_str(), deletion, limit as i64],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let kinds = rows::json(unique_id_kinds)?;
        for (id, record) in &steps {
            // Both ends of an edge are in the same deletion.
            self.run("DELETE FROM edges WHERE dependent = ?1", [*id])?;
            self.run("DELETE FROM steps WHERE id = ?1", [*id])?;
            let sql = "DELETE FROM branches WHERE deletion = ?1 AND below = ?2";
            self.run(sql, [deletion, *id])?;
            self.prune_tombstone(*record, deletion, before, &kinds)?;
        }
        Ok(steps.len() as u64)
    }

    fn prune_deletion(&self, deletion: i64, unique_id_kinds: &[KindName]) -> Sql<()> {
        self.run(
            "DELETE FROM tombstones WHERE deletion = ?1 AND phase = 'released'
                 AND kind IN (SELECT value FROM json_each(?2))
                 AND record_id IN (SELECT t.record_id FROM requests r,
                         json_each(json_array(json(r.targets), json(r.copies))) AS list,
                         json_each(list.value) AS key
                         JOIN tombstones t ON t.id = key.value ->> 'id'
                     WHERE r.num = ?1)",
            params![deletion, rows::json(unique_id_kinds)?],
        )?;
        self.run(
            "UPDATE counters SET n = n - 1
             WHERE name = (SELECT 'deletion_' || state FROM deletions WHERE num = ?1)",
            [deletion],
        )?;
        self.run("DELETE FROM branches WHERE deletion = ?1", [deletion])?;
        self.run("DELETE FROM requests WHERE num = ?1", [deletion])?;
        self.run("DELETE FROM deletions WHERE num = ?1", [deletion])
            .map(drop)
    }
}

impl SqliteRows<'_> {
    fn prune_tombstone(
        &self,
        record: Option<i64>,
        num: i64,
        before: DateTime<Utc>,
        kinds: &str,
    ) -> Sql<()> {
        let found = self.first(
            "SELECT site, kind, id FROM tombstones WHERE record_id = ?1 AND deletion = ?2
                 AND phase IN ('gone', 'released') AND coalesce(gone_at, 0) < ?3
                 AND kind IN (SELECT value FROM json_each(?4))",
            params![record, num, rows::micros(before), kinds],
            |row| Ok(row.key(0)?),
        )?;
        let Some(ResourceKey { site, kind, id }) = found else {
            return Ok(());
        };
        self.run("DELETE FROM tombstones WHERE record_id = ?1", [record])?;
        self.run("DELETE FROM peer_changes WHERE record = ?1", [record])?;
        self.removed.borrow_mut().push(Changed {
            site,
            kind,
            id,
            phase: None,
        });
        Ok(())
    }
}
