//! Other deployments (G): the clearances that steps wait for, the notices to importers, and those from
//! owners.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params};

use super::sql::{Run, Sql};
use super::transaction::SqliteRows;
use super::{reads, rows};
use crate::domain::model::{Deletion, KindName, Phase, ResourceKey, Site, Target};
use crate::domain::peers::{
    Answered, ClearanceRequest, DeletionNotice, Deployment, News, PendingClearance, root_of,
};
use crate::ledger::store::{PeerRows, StoredNotice};
use crate::ledger::{Importer, LiveStep, PointedAt, Referrer, UnhandledDeletion, WatchCursor};

impl PeerRows for SqliteRows<'_> {
    fn load_importers(&self) -> Sql<Vec<Deployment>> {
        let sql = "SELECT name, service, region FROM importers ORDER BY name";
        self.all(sql, (), |row| deployment(row, 0))
    }

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

    fn load_pending(&self, step: i64) -> Sql<Vec<PendingClearance>> {
        pending_clearances(self.db, step)
    }

    fn load_watches(&self) -> Sql<Vec<WatchCursor>> {
        watches(self.db)
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
                    is_gone: rows::word::<Phase>(row, 2)? == Phase::Gone,
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

/// The kinds to which each importer refers.
pub(super) fn importer_kinds(db: &Connection) -> Sql<Vec<(KindName, String)>> {
    db.all("SELECT kind, importer FROM importer_kinds", (), |row| {
        Ok((KindName::new(row.get_ref(0)?.as_str()?), row.get(1)?))
    })
}

/// The importers on record, with the number of steps that wait for the clearance of each.
pub(super) fn importers(db: &Connection) -> Sql<Vec<Importer>> {
    let mut kinds: BTreeMap<String, BTreeSet<KindName>> = BTreeMap::new();
    for (kind, importer) in importer_kinds(db)? {
        kinds.entry(importer).or_default().insert(kind);
    }
    db.all(
        "SELECT name, service, region, since,
             (SELECT count(*) FROM awaited a JOIN steps s ON s.id = a.step
              WHERE a.importer = importers.name AND s.ended_at IS NULL)
         FROM importers ORDER BY name",
        (),
        |row| {
            let deployment = deployment(row, 0)?;
            Ok(Importer {
                kinds: kinds.remove(&deployment.name).unwrap_or_default(),
                deployment,
                since: rows::time(row, 3)?,
                awaited: rows::number(row, 4)?,
            })
        },
    )
}

fn deployment(row: &Row, first: usize) -> Sql<Deployment> {
    Ok(Deployment {
        name: row.get(first)?,
        service: row.get(first + 1)?,
        region: row.get(first + 2)?,
    })
}

/// How far each watch has read its owner's notices.
pub(super) fn watches(db: &Connection) -> Sql<Vec<WatchCursor>> {
    db.all(
        "SELECT name, service, region, ledger, seq FROM watches",
        (),
        |row| {
            Ok(WatchCursor {
                owner: deployment(row, 0)?,
                ledger: row.get(3)?,
                seq: row.get(4)?,
            })
        },
    )
}

/// The ledger's id, and the newest sequence of its notices.
pub(super) fn position(db: &Connection) -> Sql<(String, i64)> {
    db.one(
        "SELECT id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'peer_changes'), 0)
         FROM identity",
        (),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// The notices about these kinds after a sequence, at most `limit`.
pub(super) fn news(
    db: &Connection,
    from: &Deployment,
    (ledger, after): (&str, i64),
    kinds: &BTreeSet<KindName>,
    limit: usize,
) -> Sql<News> {
    let (own, newest) = position(db)?;
    // For another ledger, or a sequence that this one has not reached, start from the beginning.
    let after = match own == ledger && after <= newest {
        true => after,
        false => 0,
    };
    let mut changes: Vec<(i64, DeletionNotice)> = db.all(
        "SELECT c.seq, t.site, t.kind, t.id, t.phase, t.incarnation, coalesce(d.id, ''), r.root
             FROM peer_changes c JOIN tombstones t ON t.record_id = c.record
             LEFT JOIN deletions d ON d.num = t.deletion LEFT JOIN requests r ON r.num = d.num
             WHERE c.seq > ?1 AND t.kind IN (SELECT value FROM json_each(?2))
             ORDER BY c.seq LIMIT ?3",
        params![after, rows::json(kinds)?, limit as i64 + 1],
        |row| {
            let deletion: String = row.get(6)?;
            let root: Option<String> = row.get(7)?;
            let going = DeletionNotice {
                key: rows::key(row, 1)?,
                phase: rows::word(row, 4)?,
                incarnation: rows::number(row, 5)?,
                root: root_of(&from.site(), root.as_deref(), &deletion),
                deletion,
            };
            Ok((row.get(0)?, going))
        },
    )?;
    let more = changes.len() > limit;
    changes.truncate(limit);
    Ok(News {
        from: from.clone(),
        ledger: own,
        seq: match (more, changes.last()) {
            (true, Some((seq, _))) => *seq,
            _ => newest,
        },
        changes: changes.into_iter().map(|(_, going)| going).collect(),
        more,
    })
}

/// The steps after `after` that wait for an importer's clearance, and the newest sequence under which
/// importers were notified of them.
pub(super) fn awaited(
    db: &Connection,
    home: &Site,
    importer: &str,
    after: i64,
    limit: usize,
) -> Sql<(Vec<(i64, ClearanceRequest)>, i64)> {
    let found: Vec<(i64, ClearanceRequest, i64)> = db.all(
        "SELECT s.id, s.site, s.kind, s.resource, d.id, coalesce(t.incarnation, 1), r.root,
                 coalesce(c.seq, 0)
             FROM awaited a JOIN steps s ON s.id = a.step
             JOIN deletions d ON d.num = s.deletion JOIN requests r ON r.num = d.num
             LEFT JOIN tombstones t ON t.record_id = s.record
             LEFT JOIN peer_changes c ON c.record = s.record
             WHERE a.importer = ?1 AND a.step > ?2 AND s.ended_at IS NULL
             ORDER BY a.step LIMIT ?3",
        params![importer, after, limit as i64],
        |row| {
            let deletion: String = row.get(4)?;
            let root: Option<String> = row.get(6)?;
            let asked = ClearanceRequest {
                key: rows::key(row, 1)?,
                incarnation: rows::number(row, 5)?,
                root: root_of(home, root.as_deref(), &deletion),
                deletion: Some(deletion),
            };
            Ok((row.get(0)?, asked, row.get(7)?))
        },
    )?;
    let seq = found.iter().map(|(_, _, seq)| *seq).max().unwrap_or(0);
    let steps = found.into_iter().map(|(step, asked, _)| (step, asked));
    Ok((steps.collect(), seq))
}

/// The importers whose clearance a step waits for, and what each said last.
pub(super) fn pending_clearances(db: &Connection, step: i64) -> Sql<Vec<PendingClearance>> {
    db.all(
        "SELECT importer, said FROM awaited WHERE step = ?1 ORDER BY importer",
        [step],
        |row| {
            Ok(PendingClearance {
                importer: row.get(0)?,
                said: rows::from_json_opt(row, 1)?,
            })
        },
    )
}

/// The registry resources that refer to each of these from one of these fields: the first few, and their
/// number.
pub(super) fn pointed_at(
    db: &Connection,
    to: &[ResourceKey],
    fields: &[(KindName, String)],
    named_max: usize,
) -> Sql<Vec<PointedAt>> {
    let fields = rows::json(fields)?;
    let mut named = db.prepare_cached(
        "SELECT h.site, h.kind, h.id, h.name, r.field FROM native_references r
         JOIN native h ON h.num = r.num
         WHERE r.id = ?1 AND r.kind = ?2 AND r.site = ?3
             AND EXISTS (SELECT 1 FROM json_each(?4) j
                 WHERE j.value ->> 0 = h.kind AND j.value ->> 1 = r.field)
         ORDER BY h.num LIMIT ?5",
    )?;
    let mut count = db.prepare_cached(
        "SELECT count(DISTINCT h.num) FROM native_references r JOIN native h ON h.num = r.num
         WHERE r.id = ?1 AND r.kind = ?2 AND r.site = ?3
             AND EXISTS (SELECT 1 FROM json_each(?4) j
                 WHERE j.value ->> 0 = h.kind AND j.value ->> 1 = r.field)",
    )?;
    to.iter()
        .map(|to| {
            let (kind, site) = (to.kind.as_str(), to.site.to_string());
            let limit = named_max as i64;
            let named: Vec<Referrer> = named
                .query_map(params![to.id, kind, site, fields, limit], |row| {
                    Ok(Referrer {
                        key: rows::key(row, 0)?,
                        name: row.get(3)?,
                        field: row.get(4)?,
                        to: to.clone(),
                    })
                })?
                .collect::<Sql<_>>()?;
            let mut distinct: Vec<&ResourceKey> = named.iter().map(|it| &it.key).collect();
            distinct.dedup();
            let count = match named.len() < named_max {
                true => distinct.len() as u64,
                false => count.query_row(params![to.id, kind, site, fields], |row| {
                    rows::number(row, 0)
                })?,
            };
            Ok(PointedAt { named, count })
        })
        .collect()
}

/// Resources that are being deleted elsewhere under one root and are not handled here yet, the oldest first.
pub(super) fn unhandled_deletions(db: &Connection, limit: usize) -> Sql<Option<UnhandledDeletion>> {
    let root: Option<(String, String)> = db.first(
        "SELECT root, owner FROM foreign_going
             WHERE phase = 'deleting' AND handled_by IS NULL ORDER BY root, num LIMIT 1",
        (),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let Some((root, owner)) = root else {
        return Ok(None);
    };
    let keys = db.all(
        "SELECT site, kind, id FROM foreign_going
             WHERE phase = 'deleting' AND handled_by IS NULL AND root = ?1 AND owner = ?2
             ORDER BY root, num LIMIT ?3",
        params![root, owner, limit as i64],
        |row| rows::key(row, 0),
    )?;
    Ok(Some(UnhandledDeletion { owner, root, keys }))
}

/// The deletion that handles the resources that refer to this one.
pub(super) fn handled_by_deletion(db: &Connection, key: &ResourceKey) -> Sql<Option<Deletion>> {
    let handled_by = db.first(
        "SELECT d.num FROM foreign_going f JOIN deletions d ON d.num = f.handled_by
         WHERE f.id = ?1 AND f.kind = ?2 AND f.site = ?3",
        params![key.id, key.kind.as_str(), key.site.to_string()],
        |row| row.get(0),
    )?;
    let found = handled_by.map(|num| reads::deletion_by_num(db, num));
    found.transpose()
}

/// The deployments that are deleting a resource.
pub(super) fn owners_going(db: &Connection) -> Sql<BTreeSet<String>> {
    let owners = "SELECT DISTINCT owner FROM foreign_going WHERE phase IN ('checking', 'deleting')";
    let owners = db.all(owners, (), |row| row.get(0))?;
    Ok(owners.into_iter().collect())
}

/// The live step of a resource that is being deleted, or loses a reference.
pub(super) fn live_step(db: &Connection, home: &Site, key: &ResourceKey) -> Sql<Option<LiveStep>> {
    db.first(
        "SELECT s.id, s.state, s.action, s.blockers, s.last_error, d.id, r.root, d.state
         FROM steps s JOIN deletions d ON d.num = s.deletion JOIN requests r ON r.num = d.num
         WHERE s.resource = ?1 AND s.kind = ?2 AND s.site = ?3 AND s.ended_at IS NULL
         ORDER BY s.action = 'unset', s.id LIMIT 1",
        params![key.id, key.kind.as_str(), key.site.to_string()],
        |row| {
            let deletion: String = row.get(5)?;
            let root: Option<String> = row.get(6)?;
            Ok(LiveStep {
                step: row.get(0)?,
                state: rows::word(row, 1)?,
                action: rows::word(row, 2)?,
                blockers: rows::from_json_opt(row, 3)?,
                error: rows::from_json_opt(row, 4)?,
                root: root_of(home, root.as_deref(), &deletion),
            })
        },
    )
}

/// The resources of the live steps, in the same deletion, that a step waits for.
pub(super) fn waited_for(db: &Connection, step: i64) -> Sql<Vec<Target>> {
    db.all(
        "SELECT s.site, s.kind, s.resource, s.name FROM edges e JOIN steps s ON s.id = e.dependency
         WHERE e.dependent = ?1 AND s.ended_at IS NULL",
        [step],
        |row| {
            Ok(Target {
                key: rows::key(row, 0)?,
                name: row.get(3)?,
            })
        },
    )
}
