//! Reads about other deployments (G): the clearances that steps wait for, the notices to importers, and those from
//! owners.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::{Row, params};

use super::rows;
use super::sql::{Run, Sql};
use super::tombstone_rows::{TOMBSTONE, tombstone};
use crate::domain::model::{KindName, ResourceKey};
use crate::domain::peers::{Deployment, PendingClearance};
use crate::ledger::store::{PeerReads, TombstoneRow};
use crate::ledger::{UnhandledDeletion, WatchCursor};

impl<R: Run> PeerReads for R {
    fn load_importers(&self) -> Sql<Vec<(Deployment, DateTime<Utc>)>> {
        let sql = "SELECT name, service, region, since FROM importers ORDER BY name";
        self.all(sql, (), |row| Ok((deployment(row)?, rows::time(row, 3)?)))
    }

    fn load_importer_kinds(&self) -> Sql<Vec<(KindName, String)>> {
        let sql = "SELECT kind, importer FROM importer_kinds";
        self.all(sql, (), |row| {
            Ok((KindName::new(row.get_ref(0)?.as_str()?), row.get(1)?))
        })
    }

    fn count_awaited(&self, importer: &str) -> Sql<u64> {
        self.one(
            "SELECT count(*) FROM awaited a JOIN steps s ON s.id = a.step
             WHERE a.importer = ?1 AND s.ended_at IS NULL",
            [importer],
            |row| rows::number(row, 0),
        )
    }

    fn find_awaited(&self, importer: &str, after: i64, limit: usize) -> Sql<Vec<(i64, i64)>> {
        self.all(
            "SELECT s.id, coalesce(c.seq, 0) FROM awaited a JOIN steps s ON s.id = a.step
             LEFT JOIN peer_changes c ON c.record = s.record
             WHERE a.importer = ?1 AND a.step > ?2 AND s.ended_at IS NULL
             ORDER BY a.step LIMIT ?3",
            params![importer, after, limit as i64],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    fn load_pending(&self, step: i64) -> Sql<Vec<PendingClearance>> {
        let sql = "SELECT importer, said FROM awaited WHERE step = ?1 ORDER BY importer";
        self.all(sql, [step], |row| {
            Ok(PendingClearance {
                importer: row.get(0)?,
                said: rows::from_json_opt(row, 1)?,
            })
        })
    }

    fn load_watches(&self) -> Sql<Vec<WatchCursor>> {
        let sql = "SELECT name, service, region, ledger, seq FROM watches";
        self.all(sql, (), |row| {
            Ok(WatchCursor {
                owner: deployment(row)?,
                ledger: row.get(3)?,
                seq: row.get(4)?,
            })
        })
    }

    fn newest_notice(&self) -> Sql<i64> {
        self.one(
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'peer_changes'), 0)",
            (),
            |row| row.get(0),
        )
    }

    fn load_notices(
        &self,
        after: i64,
        kinds: &BTreeSet<KindName>,
        limit: usize,
    ) -> Sql<Vec<(i64, TombstoneRow)>> {
        self.all(
            &format!(
                "SELECT {TOMBSTONE}, c.seq
                 FROM peer_changes c JOIN tombstones t ON t.record_id = c.record
                 WHERE c.seq > ?1 AND t.kind IN (SELECT value FROM json_each(?2))
                 ORDER BY c.seq LIMIT ?3"
            ),
            params![after, rows::json(kinds)?, limit as i64],
            |row| Ok((row.get(10)?, tombstone(row)?)),
        )
    }

    fn find_unhandled(&self, limit: usize) -> Sql<Option<UnhandledDeletion>> {
        let root: Option<(String, String)> = self.first(
            "SELECT root, owner FROM foreign_going
             WHERE phase = 'deleting' AND handled_by IS NULL ORDER BY root, num LIMIT 1",
            (),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let Some((root, owner)) = root else {
            return Ok(None);
        };
        let keys = self.all(
            "SELECT site, kind, id FROM foreign_going
             WHERE phase = 'deleting' AND handled_by IS NULL AND root = ?1 AND owner = ?2
             ORDER BY root, num LIMIT ?3",
            params![root, owner, limit as i64],
            |row| rows::key(row, 0),
        )?;
        Ok(Some(UnhandledDeletion { owner, root, keys }))
    }

    fn find_handler(&self, key: &ResourceKey) -> Sql<Option<i64>> {
        self.first(
            "SELECT handled_by FROM foreign_going
             WHERE id = ?1 AND kind = ?2 AND site = ?3 AND handled_by > 0",
            params![key.id, key.kind.as_str(), key.site.to_string()],
            |row| row.get(0),
        )
    }

    fn load_owners_going(&self) -> Sql<BTreeSet<String>> {
        let sql =
            "SELECT DISTINCT owner FROM foreign_going WHERE phase IN ('checking', 'deleting')";
        let owners = self.all(sql, (), |row| row.get(0))?;
        Ok(owners.into_iter().collect())
    }
}

/// A deployment, from the first three columns.
fn deployment(row: &Row) -> Sql<Deployment> {
    Ok(Deployment {
        name: row.get(0)?,
        service: row.get(1)?,
        region: row.get(2)?,
    })
}
