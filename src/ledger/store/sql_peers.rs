//! The rows about other deployments (G), in the SQL of all stores: importers and the clearances that steps wait for,
//! the notices to importers, owners and their notices.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::Stored;
use super::decode::{self, TOMBSTONE};
use super::peers::{PeerReads, PeerRows, StoredNotice};
use super::reads::TombstoneRow;
use super::sql::{ReadColumns as _, Statements, Writes, json, key_values, takes_away};
use crate::domain::model::{KindName, Phase, ResourceKey};
use crate::domain::peers::{ClearanceAnswer, DeletionNotice, Deployment, PendingClearance};
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
             WHERE c.seq > $1 AND t.kind IN (SELECT value FROM {})
             ORDER BY c.seq LIMIT $3",
            (Self::DIALECT.texts)("$2")
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

impl<S: Writes> PeerRows for S {
    fn insert_importer(&self, importer: &Deployment, now: DateTime<Utc>) -> Stored<Self> {
        let Deployment {
            name,
            service,
            region,
        } = importer;
        let sql = "INSERT INTO importers(name, service, region, since) VALUES($1, $2, $3, $4)";
        let values = [name.into(), service.into(), region.into(), now.into()];
        self.write(sql, &values).map(drop)
    }

    fn remove_importer(&self, name: &str) -> Stored<Self, Option<Vec<i64>>> {
        let name = [name.into()];
        if self.write("DELETE FROM importers WHERE name = $1", &name)? == 0 {
            return Ok(None);
        }
        self.write("DELETE FROM importer_kinds WHERE importer = $1", &name)?;
        let sql = "DELETE FROM awaited WHERE importer = $1 RETURNING step";
        let mut steps = self.read_all(sql, &name, |row| row.read(0))?;
        steps.sort_unstable();
        Ok(Some(steps))
    }

    fn add_importer_kind(&self, kind: &KindName, importer: &str) -> Stored<Self> {
        let row = [kind.into(), importer.into()];
        let wait_for_clearance = format!(
            "INSERT INTO awaited(importer, step) SELECT CAST($2 AS text), id FROM steps
             WHERE kind = $1 AND ended_at IS NULL AND {}
             ON CONFLICT DO NOTHING",
            takes_away()
        );
        self.write_all(&[
            (
                "INSERT INTO importer_kinds(kind, importer) VALUES($1, $2)",
                &row,
            ),
            (Self::DIALECT.notify_of_kind, &row[..1]),
            (&wait_for_clearance, &row),
        ])
    }

    fn remove_importer_kind(&self, kind: &KindName, importer: &str) -> Stored<Self> {
        let sql = "DELETE FROM importer_kinds WHERE kind = $1 AND importer = $2";
        self.write(sql, &[kind.into(), importer.into()]).map(drop)
    }

    fn save_answer(
        &self,
        importer: &str,
        step: i64,
        answer: &ClearanceAnswer,
    ) -> Stored<Self, bool> {
        let changed = match answer.clear {
            true => {
                let sql = "DELETE FROM awaited WHERE importer = $1 AND step = $2";
                self.write(sql, &[importer.into(), step.into()])?
            }
            false => {
                let sql = "UPDATE awaited SET said = $3
                     WHERE importer = $1 AND step = $2 AND said IS DISTINCT FROM $3";
                self.write(sql, &[importer.into(), step.into(), json(answer)?.into()])?
            }
        };
        Ok(changed > 0)
    }

    fn save_watch(&self, watch: &WatchCursor) -> Stored<Self> {
        let WatchCursor { owner, ledger, seq } = watch;
        let sql =
            "INSERT INTO watches(service, region, name, ledger, seq) VALUES($1, $2, $3, $4, $5)
             ON CONFLICT(service, region) DO UPDATE
             SET name = excluded.name, ledger = excluded.ledger, seq = excluded.seq";
        let values = [
            (&owner.service).into(),
            (&owner.region).into(),
            (&owner.name).into(),
            ledger.into(),
            (*seq).into(),
        ];
        self.write(sql, &values).map(drop)
    }

    fn load_notice(&self, key: &ResourceKey) -> Stored<Self, Option<StoredNotice>> {
        let sql = "SELECT deletion, owner, phase FROM foreign_going
             WHERE id = $1 AND kind = $2 AND site = $3";
        self.read_first(sql, &key_values(key), |row| {
            Ok(StoredNotice {
                deletion: row.read(0)?,
                owner: row.read(1)?,
                is_gone: row.word::<Phase>(2)? == Phase::Gone,
            })
        })
    }

    fn save_notice(
        &self,
        owner: &str,
        notice: &DeletionNotice,
        gone_at: Option<DateTime<Utc>>,
    ) -> Stored<Self> {
        let values = [
            owner.into(),
            (&notice.key.site).into(),
            (&notice.key.kind).into(),
            (&notice.key.id).into(),
            notice.phase.into(),
            notice.incarnation.into(),
            (&notice.deletion).into(),
            (&notice.root).into(),
            gone_at.into(),
        ];
        self.write(Self::DIALECT.save_notice, &values).map(drop)
    }

    fn remove_notice(&self, owner: &str, key: &ResourceKey) -> Stored<Self> {
        let sql =
            "DELETE FROM foreign_going WHERE id = $1 AND kind = $2 AND site = $3 AND owner = $4";
        let [id, kind, site] = key_values(key);
        self.write(sql, &[id, kind, site, owner.into()]).map(drop)
    }

    fn remove_notices_of(&self, owner: &str) -> Stored<Self> {
        let sql = "DELETE FROM foreign_going WHERE owner = $1";
        self.write(sql, &[owner.into()]).map(drop)
    }

    fn save_handled(&self, keys: &[ResourceKey], by: Option<i64>) -> Stored<Self> {
        let rows = keys.iter().map(|key| {
            let [id, kind, site] = key_values(key);
            [id, kind, site, by.unwrap_or(0).into()]
        });
        let change = "UPDATE foreign_going SET handled_by = $4";
        self.write_each(
            change,
            "id = $1 AND kind = $2 AND site = $3",
            rows.collect(),
        )
    }
}
