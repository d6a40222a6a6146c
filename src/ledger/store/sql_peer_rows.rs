//! Writes about other deployments (G), in the SQL of all stores: importers and their clearances, owners and their
//! notices.

use chrono::{DateTime, Utc};

use super::Stored;
use super::peers::{PeerRows, StoredNotice};
use super::sql::{ReadColumns as _, Writes, json, key_values, takes_away};
use crate::domain::model::{KindName, Phase, ResourceKey};
use crate::domain::peers::{ClearanceAnswer, DeletionNotice, Deployment};
use crate::ledger::WatchCursor;

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
            notice.phase.as_str().into(),
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
        let keys = keys.iter();
        let keys: Vec<_> = keys.map(|key| (&key.id, &key.kind, &key.site)).collect();
        let sql = format!(
            "UPDATE foreign_going SET handled_by = $2 WHERE (id, kind, site) IN {}",
            Self::DIALECT.keys_of_1
        );
        let values = [json(&keys)?.into(), by.unwrap_or(0).into()];
        self.write(&sql, &values).map(drop)
    }
}
