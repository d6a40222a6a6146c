//! Reads about other deployments (G), in the SQL of all stores: the clearances that steps wait for, the notices to
//! importers, and those from owners.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::Stored;
use super::decode::{self, TOMBSTONE};
use super::peers::PeerReads;
use super::reads::TombstoneRow;
use super::sql::{ReadColumns as _, Statements, json, key_values};
use crate::domain::model::{KindName, ResourceKey};
use crate::domain::peers::{Deployment, PendingClearance};
use crate::ledger::{UnhandledDeletion, WatchCursor};

impl<S: Statements> PeerReads for S {
    fn load_importers(&self) -> Stored<Self, Vec<(Deployment, DateTime<Utc>)>> {
        let sql = "SELECT name, service, region, since FROM importers ORDER BY name";
        self.read_all(sql, &[], |row| Ok((decode::deployment(row)?, row.read(3)?)))
    }

    fn load_importer_kinds(&self) -> Stored<Self, Vec<(KindName, String)>> {
        let sql = "SELECT kind, importer FROM importer_kinds ORDER BY kind, importer";
        self.read_all(sql, &[], |row| Ok((row.read(0)?, row.read(1)?)))
    }

    fn count_pending_clearances(&self, importer: &str) -> Stored<Self, u64> {
        let sql = "SELECT count(*) FROM awaited a JOIN steps s ON s.id = a.step
             WHERE a.importer = $1 AND s.ended_at IS NULL";
        self.read_one(sql, &[importer.into()], |row| row.read(0))
    }

    fn find_pending_clearances(
        &self,
        importer: &str,
        after: i64,
        limit: usize,
    ) -> Stored<Self, Vec<(i64, i64)>> {
        let sql = "SELECT s.id, coalesce(c.seq, 0) FROM awaited a JOIN steps s ON s.id = a.step
             LEFT JOIN peer_changes c ON c.record = s.record
             WHERE a.importer = $1 AND a.step > $2 AND s.ended_at IS NULL
             ORDER BY a.step LIMIT $3";
        let values = [importer.into(), after.into(), limit.into()];
        self.read_all(sql, &values, |row| Ok((row.read(0)?, row.read(1)?)))
    }

    fn load_pending(&self, step: i64) -> Stored<Self, Vec<PendingClearance>> {
        let sql = "SELECT importer, said FROM awaited WHERE step = $1 ORDER BY importer";
        self.read_all(sql, &[step.into()], decode::pending_clearance)
    }

    fn load_watches(&self) -> Stored<Self, Vec<WatchCursor>> {
        let sql = "SELECT name, service, region, ledger, seq FROM watches ORDER BY service, region";
        self.read_all(sql, &[], decode::watch)
    }

    fn newest_notice(&self) -> Stored<Self, i64> {
        let sql = format!("SELECT {}", Self::DIALECT.last_notice);
        self.read_one(&sql, &[], |row| row.read(0))
    }

    fn load_notices(
        &self,
        after: i64,
        kinds: &BTreeSet<KindName>,
        limit: usize,
    ) -> Stored<Self, Vec<(i64, TombstoneRow)>> {
        let sql = format!(
            "SELECT {TOMBSTONE}, c.seq
             FROM peer_changes c JOIN tombstones t ON t.record_id = c.record
             WHERE c.seq > $1 AND t.kind IN {} ORDER BY c.seq LIMIT $3",
            Self::DIALECT.texts_of_2
        );
        let values = [after.into(), json(kinds)?.into(), limit.into()];
        self.read_all(&sql, &values, |row| {
            Ok((row.read(10)?, decode::tombstone(row)?))
        })
    }

    fn find_unhandled(&self, limit: usize) -> Stored<Self, Option<UnhandledDeletion>> {
        let sql = "SELECT root, owner FROM foreign_going
             WHERE phase = 'deleting' AND handled_by IS NULL ORDER BY root, num LIMIT 1";
        let first = self.read_first(sql, &[], |row| {
            Ok((row.read::<String>(0)?, row.read::<String>(1)?))
        })?;
        let Some((root, owner)) = first else {
            return Ok(None);
        };
        let sql = "SELECT site, kind, id FROM foreign_going
             WHERE phase = 'deleting' AND handled_by IS NULL AND root = $1 AND owner = $2
             ORDER BY root, num LIMIT $3";
        let values = [(&root).into(), (&owner).into(), limit.into()];
        let keys = self.read_all(sql, &values, |row| row.key(0))?;
        Ok(Some(UnhandledDeletion { owner, root, keys }))
    }

    fn find_handler(&self, key: &ResourceKey) -> Stored<Self, Option<i64>> {
        let sql = "SELECT handled_by FROM foreign_going
             WHERE id = $1 AND kind = $2 AND site = $3 AND handled_by > 0";
        self.read_first(sql, &key_values(key), |row| row.read(0))
    }

    fn load_deleting_owners(&self) -> Stored<Self, BTreeSet<String>> {
        let sql =
            "SELECT DISTINCT owner FROM foreign_going WHERE phase IN ('checking', 'deleting')";
        let owners = self.read_all(sql, &[], |row| row.read(0))?;
        Ok(owners.into_iter().collect())
    }
}
