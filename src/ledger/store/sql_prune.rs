//! The removal of old rows, in the SQL of all stores. Steps and events are removed a limited number at a time, so that
//! no other request waits long for the removal.

use chrono::{DateTime, Utc};

use super::Stored;
use super::prune::PruneRows;
use super::sql::{Each, ReadColumns as _, SqlValue, Writes, json, numbers};
use crate::domain::model::{KindName, ResourceKey, StepState};

impl<S: Writes> PruneRows for S {
    fn prune_leftovers(&self, before: DateTime<Utc>) -> Stored<Self> {
        let without_tombstone = |table: &str, condition: &str| {
            format!(
                "DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM tombstones t
                     WHERE t.record_id = {table}.record AND t.phase {condition})"
            )
        };
        // This also removes the snapshots of refused and cancelled deletions, which are few.
        let snapshots = without_tombstone("snapshots", "IN ('checking', 'deleting')");
        let namesakes = without_tombstone("namesakes", "<> 'released'");
        let parts = without_tombstone("parts", "<> 'released'");
        let notices = "DELETE FROM foreign_going WHERE phase = 'gone' AND gone_at < $1";
        let (before, nothing): (_, &[SqlValue<'_>]) = ([before.into()], &[]);
        let common: [(&str, &[SqlValue<'_>]); 4] = [
            (&snapshots, nothing),
            (&namesakes, nothing),
            (&parts, nothing),
            (notices, &before),
        ];
        let own = Self::DIALECT.prune_own.map(|own| (own, nothing));
        let statements: Vec<_> = common.into_iter().chain(own).collect();
        self.write_all(&statements)
    }

    fn prune_events(&self, before: DateTime<Utc>, limit: usize) -> Stored<Self, u64> {
        let sql = format!(
            "WITH oldest AS (SELECT seq, at FROM events ORDER BY seq LIMIT $2)
             DELETE FROM events WHERE seq IN (SELECT seq FROM oldest) AND seq < coalesce(
                 (SELECT min(seq) FROM oldest WHERE at >= $1), {})",
            i64::MAX
        );
        self.write(&sql, &[before.into(), limit.into()])
    }

    fn find_prunable(&self, before: DateTime<Utc>) -> Stored<Self, Option<i64>> {
        let sql = "SELECT num FROM deletions
             WHERE state IN ('refused', 'gone', 'cancelled') AND finished_at < $1
                 AND stuck = 0 AND purged = 0 AND num < (SELECT max(num) FROM deletions)
                 AND num <> coalesce((SELECT deletion FROM steps ORDER BY id DESC LIMIT 1), 0)
             LIMIT 1";
        self.read_first(sql, &[before.into()], |row| row.read(0))
    }

    fn prune_steps(
        &self,
        deletion: i64,
        state: StepState,
        before: DateTime<Utc>,
        unique_id_kinds: &[KindName],
        limit: usize,
    ) -> Stored<Self, u64> {
        let by_state = Self::DIALECT.by_index("steps_by_state");
        let sql = format!(
            "SELECT id, record FROM steps {by_state} WHERE state = $1 AND deletion = $2 LIMIT $3"
        );
        let values = [state.into(), deletion.into(), limit.into()];
        let steps = self.read_all(&sql, &values, |row| {
            Ok((row.read::<i64>(0)?, row.read::<Option<i64>>(1)?))
        })?;
        let ids = || numbers(steps.iter().map(|(id, _)| *id));
        // Both ends of an edge are in the same deletion.
        self.write_each("DELETE FROM edges", "dependent = $1", ids())?;
        self.write_each("DELETE FROM steps", "id = $1", ids())?;
        let below = steps.iter().map(|(id, _)| [deletion.into(), (*id).into()]);
        let condition = "deletion = $1 AND below = $2";
        self.write_each("DELETE FROM branches", condition, below.collect())?;
        let old = Each {
            columns: "record_id, site, kind, id",
            from: &format!(
                "tombstones WHERE record_id = $1 AND deletion = $2
                     AND phase IN ('gone', 'released') AND coalesce(gone_at, 0) < $3
                     AND kind IN (SELECT value FROM {})",
                (Self::DIALECT.texts)("$4")
            ),
            ..Each::default()
        };
        let kinds = json(unique_id_kinds)?;
        let records = steps.iter().filter_map(|(_, record)| *record);
        let values = records.map(|record| {
            let kinds = kinds.as_str().into();
            [record.into(), deletion.into(), before.into(), kinds]
        });
        let old = self.read_each(&old, values.collect(), |row| {
            Ok((row.read(0)?, row.key(1)?))
        })?;
        remove_tombstones(self, old)?;
        Ok(steps.len() as u64)
    }

    fn prune_deletion(&self, deletion: i64, unique_id_kinds: &[KindName]) -> Stored<Self> {
        let keys = |list: &str| {
            let keys = (Self::DIALECT.elements)(list);
            format!("SELECT k.value ->> 'id' FROM requests r, {keys} k WHERE r.num = $1")
        };
        let sql = format!(
            "SELECT record_id, site, kind, id FROM tombstones
             WHERE deletion = $1 AND phase = 'released' AND kind IN (SELECT value FROM {})
                 AND id IN ({} UNION ALL {})",
            (Self::DIALECT.texts)("$2"),
            keys("r.targets"),
            keys("r.copies")
        );
        let values = [deletion.into(), json(unique_id_kinds)?.into()];
        let released = self.read_all(&sql, &values, |row| Ok((row.read(0)?, row.key(1)?)))?;
        remove_tombstones(self, released)?;
        let num = [deletion.into()];
        self.write_all(&[
            (
                "UPDATE counters SET n = n - 1
                 WHERE name = (SELECT 'deletion_' || state FROM deletions WHERE num = $1)",
                &num,
            ),
            ("DELETE FROM branches WHERE deletion = $1", &num),
            ("DELETE FROM requests WHERE num = $1", &num),
            ("DELETE FROM deletions WHERE num = $1", &num),
        ])
    }
}

/// Removes tombstones by their records and keys, and the notices about them.
fn remove_tombstones<S: Writes>(rows: &S, removed: Vec<(i64, ResourceKey)>) -> Stored<S> {
    let (records, keys): (Vec<i64>, Vec<ResourceKey>) = removed.into_iter().unzip();
    let values = || numbers(records.iter().copied());
    rows.write_each("DELETE FROM tombstones", "record_id = $1", values())?;
    rows.write_each("DELETE FROM peer_changes", "record = $1", values())?;
    rows.note_removed(keys);
    Ok(())
}
