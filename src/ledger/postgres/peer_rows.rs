//! Rows about other deployments (G): the clearances that steps wait for, the notices to importers, and those from
//! owners.

use chrono::{DateTime, Utc};

use super::failed::Sql;
use super::rows::{self, micros, micros_opt};
use super::transaction::PostgresRows;
use crate::domain::model::{KindName, Phase, ResourceKey};
use crate::domain::peers::{Answered, DeletionNotice, Deployment};
use crate::ledger::WatchCursor;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{PeerRows, StoredNotice};

impl PeerRows for PostgresRows {
    fn insert_importer(&self, importer: &Deployment, now: DateTime<Utc>) -> Sql<()> {
        let Deployment {
            name,
            service,
            region,
        } = importer;
        let sql = "INSERT INTO importers(name, service, region, since) VALUES($1, $2, $3, $4)";
        self.db
            .run(sql, &[name, service, region, &micros(now)])
            .map(drop)
    }

    fn remove_importer(&self, name: &str) -> Sql<Option<Vec<i64>>> {
        if self
            .db
            .run("DELETE FROM importers WHERE name = $1", &[&name])?
            == 0
        {
            return Ok(None);
        }
        let sql = "DELETE FROM importer_kinds WHERE importer = $1";
        self.db.run(sql, &[&name])?;
        let sql = "WITH dropped AS (DELETE FROM awaited WHERE importer = $1 RETURNING step)
             SELECT step FROM dropped ORDER BY step";
        self.db.all(sql, &[&name], |row| Ok(row.read(0)?)).map(Some)
    }

    fn add_importer_kind(&self, kind: &KindName, importer: &str) -> Sql<()> {
        let kind = kind.as_str();
        self.db
            .together(&[
                (
                    "INSERT INTO importer_kinds(kind, importer) VALUES($1, $2)",
                    &[&kind, &importer],
                ),
                (
                    "SELECT notify_importers(array_agg(record_id)) FROM tombstones t
                     WHERE kind = $1 AND phase IN ('checking', 'deleting', 'gone')
                         AND NOT EXISTS (SELECT FROM peer_changes WHERE record = t.record_id)
                     HAVING count(*) > 0",
                    &[&kind],
                ),
                (
                    "INSERT INTO awaited(importer, step) SELECT $2::text, id FROM steps
                     WHERE kind = $1 AND ended_at IS NULL AND action IN ('delete', 'detach')
                     ON CONFLICT DO NOTHING",
                    &[&kind, &importer],
                ),
            ])
            .map(drop)
    }

    fn remove_importer_kind(&self, kind: &KindName, importer: &str) -> Sql<()> {
        let sql = "DELETE FROM importer_kinds WHERE kind = $1 AND importer = $2";
        self.db.run(sql, &[&kind.as_str(), &importer]).map(drop)
    }

    fn save_answer(&self, importer: &str, step: i64, answer: &Answered) -> Sql<bool> {
        let changed = match answer.clear {
            true => {
                let sql = "DELETE FROM awaited WHERE importer = $1 AND step = $2";
                self.db.run(sql, &[&importer, &step])?
            }
            false => self.db.run(
                "UPDATE awaited SET said = $3
                 WHERE importer = $1 AND step = $2 AND said IS DISTINCT FROM $3",
                &[&importer, &step, &rows::json(answer)?],
            )?,
        };
        Ok(changed > 0)
    }

    fn save_watch(&self, watch: &WatchCursor) -> Sql<()> {
        let WatchCursor { owner, ledger, seq } = watch;
        self.db
            .run(
                "INSERT INTO watches(service, region, name, ledger, seq) VALUES($1, $2, $3, $4, $5)
                 ON CONFLICT(service, region) DO UPDATE
                 SET name = excluded.name, ledger = excluded.ledger, seq = excluded.seq",
                &[&owner.service, &owner.region, &owner.name, ledger, seq],
            )
            .map(drop)
    }

    fn load_notice(&self, key: &ResourceKey) -> Sql<Option<StoredNotice>> {
        self.db.first(
            "SELECT deletion, owner, phase FROM foreign_going
             WHERE id = $1 AND kind = $2 AND site = $3",
            &[&key.id, &key.kind.as_str(), &key.site.to_string()],
            |row| {
                Ok(StoredNotice {
                    deletion: row.read(0)?,
                    owner: row.read(1)?,
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
        self.db
            .run(
                "WITH given AS (UPDATE numbers SET last = last + 1 WHERE name = 'foreign'
                     RETURNING last)
                 INSERT INTO foreign_going AS f(num, owner, site, kind, id, phase, incarnation,
                     deletion, root, gone_at)
                 SELECT last, $1::text, $2::text, $3::text, $4::text, $5::text, $6::bigint,
                     $7::text, $8::text, $9::bigint FROM given
                 ON CONFLICT(id, kind, site) DO UPDATE SET
                     phase = excluded.phase, incarnation = excluded.incarnation,
                     root = excluded.root, gone_at = excluded.gone_at,
                     deletion = excluded.deletion,
                     handled_by = CASE WHEN f.deletion = excluded.deletion THEN f.handled_by END
                 WHERE f.owner = excluded.owner",
                &[
                    &owner,
                    &key.site.to_string(),
                    &key.kind.as_str(),
                    &key.id,
                    &notice.phase.as_str(),
                    &i64::from(notice.incarnation),
                    &notice.deletion,
                    &notice.root,
                    &micros_opt(gone_at),
                ],
            )
            .map(drop)
    }

    fn remove_notice(&self, owner: &str, key: &ResourceKey) -> Sql<()> {
        self.db
            .run(
                "DELETE FROM foreign_going
                 WHERE id = $1 AND kind = $2 AND site = $3 AND owner = $4",
                &[&key.id, &key.kind.as_str(), &key.site.to_string(), &owner],
            )
            .map(drop)
    }

    fn remove_notices_of(&self, owner: &str) -> Sql<()> {
        let sql = "DELETE FROM foreign_going WHERE owner = $1";
        self.db.run(sql, &[&owner]).map(drop)
    }

    fn save_handled(&self, keys: &[ResourceKey], by: Option<i64>) -> Sql<()> {
        let keys = rows::Keys::of(keys);
        self.db
            .run(
                "UPDATE foreign_going f SET handled_by = $4
                 FROM unnest($1::text[], $2::text[], $3::text[]) AS n(id, kind, site)
                 WHERE f.id = n.id AND f.kind = n.kind AND f.site = n.site",
                &[&keys.ids, &keys.kinds, &keys.sites, &by.unwrap_or(0)],
            )
            .map(drop)
    }
}
