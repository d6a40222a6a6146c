//! The removal of old rows. Steps and events are removed a limited number at a time, so that no other request
//! waits long for it.

use chrono::{DateTime, Utc};

use super::failed::Sql;
use super::rows::{limit, micros};
use super::transaction::PostgresRows;
use crate::domain::model::{KindName, StepState};
use crate::ledger::store::PruneRows;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::tombstones::Changed;

impl PruneRows for PostgresRows {
    fn prune_leftovers(&self, before: DateTime<Utc>) -> Sql<()> {
        self.db
            .together(&[
                // This also removes the snapshots of refused and cancelled deletions, which are few.
                (
                    "DELETE FROM snapshots s WHERE NOT EXISTS (SELECT FROM tombstones t
                         WHERE t.record_id = s.record AND t.phase IN ('checking', 'deleting'))",
                    &[],
                ),
                (
                    "DELETE FROM namesakes n WHERE NOT EXISTS (SELECT FROM tombstones t
                         WHERE t.record_id = n.record AND t.phase <> 'released')",
                    &[],
                ),
                (
                    "DELETE FROM parts p WHERE NOT EXISTS (SELECT FROM tombstones t
                         WHERE t.record_id = p.record AND t.phase <> 'released')",
                    &[],
                ),
                (
                    "DELETE FROM foreign_going WHERE phase = 'gone' AND gone_at < $1",
                    &[&micros(before)],
                ),
                // The changes that each engine with gates has applied.
                (
                    "DELETE FROM tombstone_changes WHERE seq <= coalesce(
                         (SELECT min(applied) FROM engines WHERE NOT ended AND has_gates),
                         9223372036854775807)",
                    &[],
                ),
            ])
            .map(drop)
    }

    fn prune_events(&self, before: DateTime<Utc>, most: usize) -> Sql<u64> {
        self.db.run(
            "WITH oldest AS (SELECT seq, at FROM events ORDER BY seq LIMIT $2)
             DELETE FROM events WHERE seq IN (SELECT seq FROM oldest) AND seq < coalesce(
                 (SELECT min(seq) FROM oldest WHERE at >= $1), 9223372036854775807)",
            &[&micros(before), &limit(most)],
        )
    }

    fn find_prunable(&self, before: DateTime<Utc>) -> Sql<Option<i64>> {
        self.db.first(
            "SELECT num FROM deletions
                 WHERE state IN ('refused', 'gone', 'cancelled') AND finished_at < $1
                     AND stuck = 0 AND purged = 0
                     AND num < (SELECT max(num) FROM deletions)
                     AND num <> coalesce(
                         (SELECT deletion FROM steps ORDER BY id DESC LIMIT 1), 0)
                 ORDER BY num LIMIT 1",
            &[&micros(before)],
            |row| Ok(row.read(0)?),
        )
    }

    fn prune_steps(
        &self,
        deletion: i64,
        state: StepState,
        before: DateTime<Utc>,
        unique_id_kinds: &[KindName],
        most: usize,
    ) -> Sql<u64> {
        let removed = self.db.all(
            "DELETE FROM steps WHERE id IN (SELECT id FROM steps
                 WHERE state = $1 AND deletion = $2 ORDER BY id LIMIT $3) RETURNING id, record",
            &[&state.as_str(), &deletion, &limit(most)],
            |row| Ok((row.read::<i64>(0)?, row.read::<Option<i64>>(1)?)),
        )?;
        let (steps, records): (Vec<i64>, Vec<Option<i64>>) = removed.into_iter().unzip();
        // Both ends of an edge are in the same deletion.
        self.db.together(&[
            ("DELETE FROM edges WHERE dependent = ANY($1)", &[&steps]),
            (
                "DELETE FROM branches WHERE deletion = $1 AND below = ANY($2)",
                &[&deletion, &steps],
            ),
        ])?;
        self.remove_tombstones(
            "DELETE FROM tombstones WHERE record_id = ANY($1) AND deletion = $2
                 AND phase IN ('gone', 'released') AND coalesce(gone_at, 0) < $3 AND kind = ANY($4)
             RETURNING record_id, site, kind, id",
            &[
                &records,
                &deletion,
                &micros(before),
                &names(unique_id_kinds),
            ],
        )?;
        Ok(steps.len() as u64)
    }

    fn prune_deletion(&self, deletion: i64, unique_id_kinds: &[KindName]) -> Sql<()> {
        self.remove_tombstones(
            "DELETE FROM tombstones WHERE deletion = $1 AND phase = 'released' AND kind = ANY($2)
                 AND record_id IN (SELECT t.record_id FROM requests r,
                         LATERAL (SELECT * FROM json_array_elements(r.targets::json)
                             UNION ALL SELECT * FROM json_array_elements(r.copies::json)) AS k(key)
                         JOIN tombstones t ON t.id = k.key ->> 'id'
                     WHERE r.num = $1)
             RETURNING record_id, site, kind, id",
            &[&deletion, &names(unique_id_kinds)],
        )?;
        self.db
            .together(&[
                (
                    "UPDATE counters SET n = n - 1 WHERE name =
                         (SELECT 'deletion_' || state FROM deletions WHERE num = $1)",
                    &[&deletion],
                ),
                ("DELETE FROM branches WHERE deletion = $1", &[&deletion]),
                ("DELETE FROM requests WHERE num = $1", &[&deletion]),
                ("DELETE FROM deletions WHERE num = $1", &[&deletion]),
            ])
            .map(drop)
    }
}

fn names(kinds: &[KindName]) -> Vec<&str> {
    kinds.iter().map(KindName::as_str).collect()
}

impl PostgresRows {
    /// Removes tombstones by a statement that returns their records and keys, and the notices about them.
    fn remove_tombstones(&self, sql: &str, values: super::client::Values<'_>) -> Sql<()> {
        let removed = self
            .db
            .all(sql, values, |row| Ok((row.read::<i64>(0)?, row.key(1)?)))?;
        let records: Vec<i64> = removed.iter().map(|(record, _)| *record).collect();
        self.note(removed.into_iter().map(|(_, key)| Changed {
            site: key.site,
            kind: key.kind,
            id: key.id,
            phase: None,
        }));
        let sql = "DELETE FROM peer_changes WHERE record = ANY($1)";
        self.db.run(sql, &[&records]).map(drop)
    }
}
