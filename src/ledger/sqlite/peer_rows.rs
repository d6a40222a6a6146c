//! Rows about other deployments (G): the clearances that steps wait for, the notices to importers, and those from
//! owners.

use chrono::{DateTime, Utc};
use rusqlite::params;

use super::rows;
use super::sql::{Run, Sql};
use super::transaction::SqliteRows;
use crate::domain::model::{KindName, Phase, ResourceKey};
use crate::domain::peers::{Answered, DeletionNotice, Deployment};
use crate::ledger::WatchCursor;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{PeerRows, StoredNotice};

impl PeerRows for SqliteRows<'_> {
    fn insert_importer(&self, importer: &Deployment, now: DateTime<Utc>) -> Sql<()> {
        let Deployment {
            name,
            service,
            region,
        } = importer;
        let sql = "INSERT INTO importers(name, service, region, since) VALUES(?1, ?2, ?3, ?4)";
        self.run(sql, params![name, service, region, rows::micros(now)])
            .map(drop)
    }

    fn remove_importer(&self, name: &str) -> Sql<Option<Vec<i64>>> {
        if self.run("DELETE FROM importers WHERE name = ?1", [name])? == 0 {
            return Ok(None);
        }
        self.run("DELETE FROM importer_kinds WHERE importer = ?1", [name])?;
        let sql = "DELETE FROM awaited WHERE importer = ?1 RETURNING step";
        self.all(sql, [name], |row| row.get(0)).map(Some)
    }

    fn add_importer_kind(&self, kind: &KindName, importer: &str) -> Sql<()> {
        let row = [kind.as_str(), importer];
        let sql = "INSERT INTO importer_kinds(kind, importer) VALUES(?1, ?2)";
        self.run(sql, row)?;
        self.run(
            "INSERT OR IGNORE INTO peer_changes(record) SELECT record_id FROM tombstones
             WHERE kind = ?1 AND phase IN ('checking', 'deleting', 'gone') ORDER BY record_id",
            [kind.as_str()],
        )?;
        self.run(
            "INSERT OR IGNORE INTO awaited(importer, step) SELECT ?2, id FROM steps
             WHERE kind = ?1 AND ended_at IS NULL AND action IN ('delete', 'detach')",
            row,
        )
        .map(drop)
    }

    fn remove_importer_kind(&self, kind: &KindName, importer: &str) -> Sql<()> {
        let sql = "DELETE FROM importer_kinds WHERE kind = ?1 AND importer = ?2";
        self.run(sql, [kind.as_str(), importer]).map(drop)
    }

    fn save_answer(&self, importer: &str, step: i64, answer: &Answered) -> Sql<bool> {
        let changed = match answer.clear {
            true => {
                let sql = "DELETE FROM awaited WHERE importer = ?1 AND step = ?2";
                self.run(sql, params![importer, step])?
            }
            false => self.run(
                "UPDATE awaited SET said = ?3
                 WHERE importer = ?1 AND step = ?2 AND said IS NOT ?3",
                params![importer, step, rows::json(answer)?],
            )?,
        };
        Ok(changed > 0)
    }

    fn save_watch(&self, watch: &WatchCursor) -> Sql<()> {
        let WatchCursor { owner, ledger, seq } = watch;
        self.run(
            "INSERT INTO watches(service, region, name, ledger, seq) VALUES(?1, ?2, ?3, ?4, ?5)
             ON CONFLICT(service, region) DO UPDATE
             SET name = excluded.name, ledger = excluded.ledger, seq = excluded.seq",
            params![owner.service, owner.region, owner.name, ledger, seq],
        )
        .map(drop)
    }

    fn load_notice(&self, key: &ResourceKey) -> Sql<Option<StoredNotice>> {
        self.first(
            "SELECT deletion, owner, phase FROM foreign_going
             WHERE id = ?1 AND kind = ?2 AND site = ?3",
            params![key.id, key.kind.as_str(), key.site.to_string()],
            |row| {
                Ok(StoredNotice {
                    deletion: row.get(0)?,
                    owner: row.get(1)?,
                    is_gone: row.word::<Phase>(2)? == Phase::Gone,
                })
            },
        )
    }

    fn save_notice(
        &self,
        owner: &str,
        notice: &DeletionNotice,
        gone_at: Option<DateTime<Utc>>,
    ) -> Sql<()> {
        let key = &notice.key;
        self.run(
            "INSERT INTO foreign_going(owner, site, kind, id, phase, incarnation, deletion, root,
                 gone_at)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT(id, kind, site) DO UPDATE SET
                 phase = excluded.phase, incarnation = excluded.incarnation,
                 root = excluded.root, gone_at = excluded.gone_at, deletion = excluded.deletion,
                 handled_by = iif(deletion = excluded.deletion, handled_by, NULL)
             WHERE owner = excluded.owner",
            params![
                owner,
                key.site.to_string(),
                key.kind.as_str(),
                key.id,
                notice.phase.as_str(),
                notice.incarnation,
                notice.deletion,
                notice.root,
                gone_at.map(rows::micros)
            ],
        )
        .map(drop)
    }

    fn remove_notice(&self, owner: &str, key: &ResourceKey) -> Sql<()> {
        self.run(
            "DELETE FROM foreign_going WHERE id = ?1 AND kind = ?2 AND site = ?3 AND owner = ?4",
            params![key.id, key.kind.as_str(), key.site.to_string(), owner],
        )
        .map(drop)
    }

    fn remove_notices_of(&self, owner: &str) -> Sql<()> {
        let sql = "DELETE FROM foreign_going WHERE owner = ?1";
        self.run(sql, [owner]).map(drop)
    }

    fn save_handled(&self, keys: &[ResourceKey], by: Option<i64>) -> Sql<()> {
        for key in keys {
            self.run(
                "UPDATE foreign_going SET handled_by = ?4
                 WHERE id = ?1 AND kind = ?2 AND site = ?3",
                params![
                    key.id,
                    key.kind.as_str(),
                    key.site.to_string(),
                    by.unwrap_or(0)
                ],
            )?;
        }
        Ok(())
    }
}
