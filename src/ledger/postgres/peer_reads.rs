//! Reads about other deployments (G): the clearances that steps wait for, the notices to importers, and those from
//! owners.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use tokio_postgres::Row;

use super::failed::Sql;
use super::rows::{self, get, limit};
use super::tombstone_reads::{TOMBSTONE, tombstone};
use super::transaction::PostgresRows;
use crate::domain::model::{KindName, ResourceKey};
use crate::domain::peers::{Deployment, PendingClearance};
use crate::ledger::store::{PeerReads, TombstoneRow};
use crate::ledger::{UnhandledDeletion, WatchCursor};

impl PeerReads for PostgresRows {
    fn load_importers(&self) -> Sql<Vec<(Deployment, DateTime<Utc>)>> {
        let sql = "SELECT name, service, region, since FROM importers ORDER BY name";
        self.db
            .all(sql, &[], |row| Ok((deployment(row)?, rows::time(row, 3)?)))
    }

    fn load_importer_kinds(&self) -> Sql<Vec<(KindName, String)>> {
        let sql = "SELECT kind, importer FROM importer_kinds ORDER BY kind, importer";
        self.db
            .all(sql, &[], |row| Ok((rows::kind(row, 0)?, get(row, 1)?)))
    }

    fn count_awaited(&self, importer: &str) -> Sql<u64> {
        self.db.one(
            "SELECT count(*) FROM awaited a JOIN steps s ON s.id = a.step
             WHERE a.importer = $1 AND s.ended_at IS NULL",
            &[&importer],
            |row| rows::number(row, 0),
        )
    }

    fn find_awaited(&self, importer: &str, after: i64, most: usize) -> Sql<Vec<(i64, i64)>> {
        self.db.all(
            "SELECT s.id, coalesce(c.seq, 0) FROM awaited a JOIN steps s ON s.id = a.step
             LEFT JOIN peer_changes c ON c.record = s.record
             WHERE a.importer = $1 AND a.step > $2 AND s.ended_at IS NULL
             ORDER BY a.step LIMIT $3",
            &[&importer, &after, &limit(most)],
            |row| Ok((get(row, 0)?, get(row, 1)?)),
        )
    }

    fn load_pending(&self, step: i64) -> Sql<Vec<PendingClearance>> {
        let sql = "SELECT importer, said FROM awaited WHERE step = $1 ORDER BY importer";
        self.db.all(sql, &[&step], |row| {
            Ok(PendingClearance {
                importer: get(row, 0)?,
                said: rows::from_json_opt(row, 1)?,
            })
        })
    }

    fn load_watches(&self) -> Sql<Vec<WatchCursor>> {
        let sql = "SELECT name, service, region, ledger, seq FROM watches ORDER BY service, region";
        self.db.all(sql, &[], |row| {
            Ok(WatchCursor {
                owner: deployment(row)?,
                ledger: get(row, 3)?,
                seq: get(row, 4)?,
            })
        })
    }

    fn newest_notice(&self) -> Sql<i64> {
        let sql = "SELECT last FROM numbers WHERE name = 'notice'";
        self.db.one(sql, &[], |row| get(row, 0))
    }

    fn load_notices(
        &self,
        after: i64,
        kinds: &BTreeSet<KindName>,
        most: usize,
    ) -> Sql<Vec<(i64, TombstoneRow)>> {
        let kinds: Vec<&str> = kinds.iter().map(KindName::as_str).collect();
        self.db.all(
            &format!(
                "SELECT {TOMBSTONE}, c.seq
                 FROM peer_changes c JOIN tombstones t ON t.record_id = c.record
                 WHERE c.seq > $1 AND t.kind = ANY($2) ORDER BY c.seq LIMIT $3"
            ),
            &[&after, &kinds, &limit(most)],
            |row| Ok((get(row, 10)?, tombstone(row)?)),
        )
    }

    fn find_unhandled(&self, most: usize) -> Sql<Option<UnhandledDeletion>> {
        let root: Option<(String, String)> = self.db.first(
            "SELECT root, owner FROM foreign_going
             WHERE phase = 'deleting' AND handled_by IS NULL ORDER BY root, num LIMIT 1",
            &[],
            |row| Ok((get(row, 0)?, get(row, 1)?)),
        )?;
        let Some((root, owner)) = root else {
            return Ok(None);
        };
        let keys = self.db.all(
            "SELECT site, kind, id FROM foreign_going
             WHERE phase = 'deleting' AND handled_by IS NULL AND root = $1 AND owner = $2
             ORDER BY root, num LIMIT $3",
            &[&root, &owner, &limit(most)],
            |row| rows::key(row, 0),
        )?;
        Ok(Some(UnhandledDeletion { owner, root, keys }))
    }

    fn find_handler(&self, key: &ResourceKey) -> Sql<Option<i64>> {
        self.db.first(
            "SELECT handled_by FROM foreign_going
             WHERE id = $1 AND kind = $2 AND site = $3 AND handled_by > 0",
            &[&key.id, &key.kind.as_str(), &key.site.to_string()],
            |row| get(row, 0),
        )
    }

    fn load_owners_going(&self) -> Sql<BTreeSet<String>> {
        let sql =
            "SELECT DISTINCT owner FROM foreign_going WHERE phase IN ('checking', 'deleting')";
        let owners = self.db.all(sql, &[], |row| get(row, 0))?;
        Ok(owners.into_iter().collect())
    }
}

/// A deployment, from the first three columns.
fn deployment(row: &Row) -> Sql<Deployment> {
    Ok(Deployment {
        name: get(row, 0)?,
        service: get(row, 1)?,
        region: get(row, 2)?,
    })
}
