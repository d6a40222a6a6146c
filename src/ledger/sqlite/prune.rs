//! Removes old events, and deletions that ended long ago, in pieces that hold up nobody.
//!
//! Between two pieces every rule of the ledger holds: a deletion's counts shrink with its steps. The audit is
//! kept for ever, and so are the records of natural keys, which come again (M1).

use chrono::{DateTime, Utc};

use super::batch::Batch;
use super::rows;
use super::sql::{Apply, Run, Sql};
use crate::domain::model::{KindName, ResourceKey, StepState};
use crate::ledger::tombstones::Changed;
use crate::ledger::{Applied, AuditEntry};
use rusqlite::params;

/// Rows that one piece removes: some 50 ms.
const PIECE: i64 = 2_000;

impl Batch<'_> {
    pub(super) fn prune(
        &mut self,
        before: DateTime<Utc>,
        never_again: &[KindName],
        audit: Option<&AuditEntry>,
        now: DateTime<Utc>,
    ) -> Apply {
        if let Some(audit) = audit {
            self.audit(audit, now);
        }
        // Also snapshots of refused and cancelled deletions: a few rows.
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
        let before = rows::micros(before);
        self.run(
            "DELETE FROM parts WHERE NOT EXISTS (SELECT 1 FROM tombstones
                 WHERE record_id = record AND phase <> 'released')",
            (),
        )?;
        self.prune_gone_elsewhere(before)?;
        let events = self.prune_events(before)?;
        if events > 0 {
            return Ok(Applied::Moved(events));
        }
        let Some(num) = self.prunable(before)? else {
            return Ok(Applied::Moved(0));
        };
        if self.set.touched(num) {
            // The tables do not have this transaction's changes yet: the next piece decides.
            return Ok(Applied::Moved(1));
        }
        let kinds = serde_json::json!(never_again).to_string();
        let steps = self.prune_steps(num, before, &kinds)?;
        if steps > 0 {
            return Ok(Applied::Moved(steps));
        }
        Ok(Applied::Moved(self.prune_deletion(num, &kinds)?))
    }

    /// Removes from the oldest event on. Readers of events are told which is the oldest one kept.
    fn prune_events(&self, before: i64) -> Sql<u64> {
        let oldest = "SELECT seq, at FROM events ORDER BY seq LIMIT ?2";
        let gone = self.run(
            &format!(
                "DELETE FROM events WHERE seq IN (SELECT seq FROM ({oldest})) AND seq < coalesce(
                     (SELECT min(seq) FROM ({oldest}) WHERE at >= ?1), {})",
                i64::MAX
            ),
            params![before, PIECE],
        )?;
        Ok(gone as u64)
    }

    /// Finds a deletion that ended before then and needs no more action: it has no stuck or abandoned step.
    /// The newest deletion stays, and so does the one with the newest step, so that numbers are never reused.
    fn prunable(&self, before: i64) -> Sql<Option<i64>> {
        self.first(
            "SELECT num FROM deletions
                 WHERE state IN ('refused', 'gone', 'cancelled') AND finished_at < ?1
                     AND stuck = 0 AND purged = 0
                     AND num < (SELECT max(num) FROM deletions)
                     AND num <> coalesce(
                         (SELECT deletion FROM steps ORDER BY id DESC LIMIT 1), 0)
                 LIMIT 1",
            [before],
            |row| row.get(0),
        )
    }

    fn prune_steps(&mut self, num: i64, before: i64, kinds: &str) -> Sql<u64> {
        for state in [StepState::Gone, StepState::Skipped] {
            let steps: Vec<(i64, Option<i64>)> = self.all(
                "SELECT id, record FROM steps INDEXED BY steps_by_state
                     WHERE state = ?1 AND deletion = ?2 LIMIT ?3",
                params![state.as_str(), num, PIECE],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            if steps.is_empty() {
                continue;
            }
            for (id, record) in &steps {
                // Both ends of an edge are in the same deletion.
                self.run("DELETE FROM edges WHERE dependent = ?1", params![*id])?;
                self.run("DELETE FROM steps WHERE id = ?1", params![*id])?;
                self.run(
                    "DELETE FROM branches WHERE deletion = ?1 AND below = ?2",
                    params![num, *id],
                )?;
                self.purge_tombstone(*record, num, before, kinds)?;
            }
            let gone = steps.len() as u64;
            let counts = &mut self.deletion(num)?.counts;
            let slot = counts.of_mut(state);
            *slot = slot.saturating_sub(gone);
            counts.total = counts.total.saturating_sub(gone);
            return Ok(gone);
        }
        Ok(0)
    }

    fn purge_tombstone(
        &mut self,
        record: Option<i64>,
        num: i64,
        before: i64,
        kinds: &str,
    ) -> Sql<()> {
        let found = self.first(
            "SELECT site, kind, id FROM tombstones WHERE record_id = ?1 AND deletion = ?2
                 AND phase IN ('gone', 'released') AND coalesce(gone_at, 0) < ?3
                 AND kind IN (SELECT value FROM json_each(?4))",
            params![record, num, before, kinds],
            |row| rows::key(row, 0),
        )?;
        let Some(ResourceKey { site, kind, id }) = found else {
            return Ok(());
        };
        self.run(
            "DELETE FROM tombstones WHERE record_id = ?1",
            params![record],
        )?;
        self.run(
            "DELETE FROM peer_changes WHERE record = ?1",
            params![record],
        )?;
        self.let_go.push(Changed {
            site,
            kind,
            id,
            phase: None,
        });
        Ok(())
    }

    /// Removes a deletion that has no steps (any more), with the released tombstones of its targets.
    fn prune_deletion(&self, num: i64, kinds: &str) -> Sql<u64> {
        self.run(
            "DELETE FROM tombstones WHERE deletion = ?1 AND phase = 'released'
                 AND kind IN (SELECT value FROM json_each(?2))
                 AND record_id IN (SELECT t.record_id FROM requests r,
                         json_each(json_array(json(r.targets), json(r.copies))) AS list,
                         json_each(list.value) AS key
                         JOIN tombstones t ON t.id = key.value ->> 'id'
                     WHERE r.num = ?1)",
            params![num, kinds],
        )?;
        self.run(
            "UPDATE counters SET n = n - 1
             WHERE name = (SELECT 'deletion_' || state FROM deletions WHERE num = ?1)",
            params![num],
        )?;
        self.run("DELETE FROM branches WHERE deletion = ?1", params![num])?;
        self.run("DELETE FROM requests WHERE num = ?1", params![num])?;
        self.run("DELETE FROM deletions WHERE num = ?1", params![num])?;
        Ok(1)
    }
}
