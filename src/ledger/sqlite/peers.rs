//! Other deployments (G): the clearances that steps wait for, the notices to importers, and those from
//! owners.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params};

use super::batch::{Batch, unrefused};
use super::sql::{Apply, Run, Sql, Stop, refuse};
use super::{reads, rows};
use crate::domain::model::{
    Deletion, ErrorClass, KindName, Phase, ResourceKey, Site, StepState, Target,
};
use crate::domain::peers::{
    AWAITED, Answered, ClearanceRequest, DeletionNotice, Deployment, News, PendingClearance,
    awaiting, is_foreign_root, root_of,
};
use crate::ledger::events;
use crate::ledger::transitions::own_error;
use crate::ledger::{
    Applied, AuditEntry, Importer, LiveStep, NewDeletion, PointedAt, Referrer, UnhandledDeletion,
    WatchCursor,
};

/// The deletion of another deployment that takes a resource away, or took it.
pub(super) struct ForeignDeletion {
    pub(super) deletion: String,
    pub(super) owner: String,
    pub(super) is_gone: bool,
}

impl Batch<'_> {
    /// Puts an importer on record from its first watch on (G12). For a kind to which it did not refer before,
    /// it is notified of everything that is being deleted or gone, and steps wait for its clearance.
    pub(super) fn watched(
        &mut self,
        importer: &Deployment,
        kinds: &BTreeSet<KindName>,
        now: DateTime<Utc>,
    ) -> Apply {
        let Deployment {
            name,
            service,
            region,
        } = importer;
        let is_known: bool = self.one(
            "SELECT EXISTS (SELECT 1 FROM importers WHERE (name, service, region) = (?1, ?2, ?3))",
            [name, service, region],
            |row| row.get(0),
        )?;
        if !is_known {
            if let Some(why) = self.name_or_place_taken(importer)? {
                return refuse(why);
            }
            self.run(
                "INSERT INTO importers(name, service, region, since) VALUES(?1, ?2, ?3, ?4)",
                params![name, service, region, rows::micros(now)],
            )?;
            self.event(None, None, events::importer_recorded(importer), now);
        }
        let all = importer_kinds(self.db)?.into_iter();
        let recorded: BTreeSet<KindName> = all.filter(|it| it.1 == *name).map(|it| it.0).collect();
        for kind in recorded.difference(kinds) {
            self.run(
                "DELETE FROM importer_kinds WHERE kind = ?1 AND importer = ?2",
                params![kind.as_str(), *name],
            )?;
        }
        for kind in kinds.difference(&recorded) {
            self.run(
                "INSERT INTO importer_kinds(kind, importer) VALUES(?1, ?2)",
                params![kind.as_str(), *name],
            )?;
            self.run(
                "INSERT OR IGNORE INTO peer_changes(record) SELECT record_id FROM tombstones
                 WHERE kind = ?1 AND phase IN ('checking', 'deleting', 'gone') ORDER BY record_id",
                params![kind.as_str()],
            )?;
            self.run(
                "INSERT OR IGNORE INTO awaited(importer, step) SELECT ?2, id FROM steps
                 WHERE kind = ?1 AND ended_at IS NULL AND action IN ('delete', 'detach')",
                params![kind.as_str(), *name],
            )?;
        }
        Ok(Applied::Done)
    }

    /// Why a deployment that is not on record under this name cannot have it. A service and region has one
    /// name, so that no peer registers more than once; a name has one service and region, so that no peer
    /// takes the name of another (P13).
    fn name_or_place_taken(&self, wanted: &Deployment) -> Sql<Option<String>> {
        let Deployment {
            name,
            service,
            region,
        } = wanted;
        let other: Option<String> = self.first(
            "SELECT name FROM importers WHERE service = ?1 AND region = ?2",
            [service, region],
            |row| row.get(0),
        )?;
        if let Some(other) = other.filter(|other| other != name) {
            return Ok(Some(format!(
                "{service}/{region} is on record as deployment {other}, not {name}; release {other} \
                 first"
            )));
        }
        self.name_of_another(wanted)
    }

    /// Why this name belongs to a deployment of another service or region.
    fn name_of_another(&self, wanted: &Deployment) -> Sql<Option<String>> {
        let Deployment {
            name,
            service,
            region,
        } = wanted;
        let place: Option<(String, String)> = self.first(
            "SELECT service, region FROM (
                     SELECT name, service, region FROM importers
                     UNION ALL SELECT name, service, region FROM watches)
                 WHERE name = ?1 AND (service, region) <> (?2, ?3)",
            [name, service, region],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        Ok(place.map(|(its_service, its_region)| {
            format!(
                "deployment {name} is on record as {its_service}/{its_region}, not as \
                 {service}/{region}; release that one first"
            )
        }))
    }

    /// The importers of each kind, whose clearance a deletion of that kind waits for.
    pub(super) fn importers_by_kind(&self) -> Sql<BTreeMap<KindName, Vec<String>>> {
        let mut by_kind: BTreeMap<KindName, Vec<String>> = BTreeMap::new();
        for (kind, importer) in importer_kinds(self.db)? {
            by_kind.entry(kind).or_default().push(importer);
        }
        Ok(by_kind)
    }

    pub(super) fn await_clearance(&self, step: i64, importers: &[String]) -> Sql<()> {
        let mut insert = self
            .db
            .prepare_cached("INSERT OR IGNORE INTO awaited(importer, step) VALUES(?1, ?2)")?;
        for importer in importers {
            insert.execute(params![importer, step])?;
        }
        Ok(())
    }

    /// Whether any importer's clearance is missing.
    pub(super) fn awaits_clearance(&self, step: i64) -> Sql<bool> {
        self.db
            .prepare_cached("SELECT 1 FROM awaited WHERE step = ?1")?
            .exists([step])
    }

    /// Records an importer's answers about the resources that steps delete. A clearance is final: late or
    /// repeated answers do not change it.
    pub(super) fn answered(
        &mut self,
        importer: &str,
        answers: &[(i64, Answered)],
        now: DateTime<Utc>,
    ) -> Apply {
        let mut news = 0;
        let mut free = Vec::new();
        let mut held = Vec::new();
        for (step, answer) in answers {
            let changed = match answer.clear {
                true => self.run(
                    "DELETE FROM awaited WHERE importer = ?1 AND step = ?2",
                    params![importer, *step],
                )?,
                false => {
                    let said = rows::json(answer)?;
                    self.run(
                        "UPDATE awaited SET said = ?3
                         WHERE importer = ?1 AND step = ?2 AND said IS NOT ?3",
                        params![importer, *step, said],
                    )?
                }
            };
            news += changed as u64;
            match changed > 0 {
                true if self.awaits_clearance(*step)? => held.push(*step),
                true => free.push(*step),
                false => {}
            }
        }
        self.tell_awaiting(&held, now)?;
        self.release_cleared(&free, now)?;
        Ok(Applied::Moved(news))
    }

    fn release_cleared(&mut self, steps: &[i64], now: DateTime<Utc>) -> Sql<()> {
        for step in steps {
            self.try_what_met(*step, AWAITED, now)?;
        }
        Ok(())
    }

    /// Retries a step that only this error holds, also if it was held so long that it is stuck.
    pub(super) fn try_what_met(&mut self, step: i64, error: &str, now: DateTime<Utc>) -> Sql<()> {
        match self.held_by_error(step, error)? {
            Some((_, StepState::Blocked)) => self
                .run(
                    "UPDATE steps SET next_attempt_at = ?2 WHERE id = ?1",
                    params![step, rows::micros(now)],
                )
                .map(drop),
            // In a cancelled deletion it stays as it is.
            Some((num, _)) => match self.retry_steps(num, &[step], now) {
                Err(Stop::Refused(_)) => Ok(()),
                retried => unrefused(retried).map(drop),
            },
            None => Ok(()),
        }
    }

    /// The deletion and state of a step that only this error holds.
    fn held_by_error(&self, step: i64, error: &str) -> Sql<Option<(i64, StepState)>> {
        self.first(
            "SELECT deletion, state FROM steps WHERE id = ?1 AND state IN ('blocked', 'stuck')
                 AND last_error ->> 'type' = ?2",
            params![step, error],
            |row| Ok((row.get(0)?, rows::word(row, 1)?)),
        )
    }

    /// Updates what stuck steps say about the clearances that they wait for. A blocked step finds that out at
    /// its next attempt, which is now.
    fn tell_awaiting(&mut self, steps: &[i64], now: DateTime<Utc>) -> Sql<()> {
        for step in steps {
            match self.held_by_error(*step, AWAITED)? {
                Some((_, StepState::Stuck)) => {}
                _ => {
                    self.try_what_met(*step, AWAITED, now)?;
                    continue;
                }
            }
            let (message, blockers) = awaiting(&pending_clearances(self.db, *step)?);
            let error = own_error(ErrorClass::Blocked, AWAITED, message, now);
            self.run(
                "UPDATE steps SET blockers = ?2, last_error = ?3 WHERE id = ?1",
                params![*step, rows::json(&blockers)?, rows::json(&error)?],
            )?;
        }
        Ok(())
    }

    /// Releases an importer that is gone for good, as an admin says (G12): no step waits for its clearance
    /// any more.
    pub(super) fn release_importer(
        &mut self,
        name: &str,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Apply {
        if self.run("DELETE FROM importers WHERE name = ?1", params![name])? == 0 {
            return refuse(format!("no importer {name} is on record"));
        }
        self.run(
            "DELETE FROM importer_kinds WHERE importer = ?1",
            params![name],
        )?;
        let waited: Vec<i64> = self.all(
            "DELETE FROM awaited WHERE importer = ?1 RETURNING step",
            [name],
            |row| row.get(0),
        )?;
        self.audit(audit, now);
        self.event(
            None,
            None,
            events::importer_released(name, &audit.actor.name, waited.len()),
            now,
        );
        let mut free = Vec::new();
        let mut held = Vec::new();
        for step in waited {
            match self.awaits_clearance(step)? {
                true => held.push(step),
                false => free.push(step),
            }
        }
        self.tell_awaiting(&held, now)?;
        self.release_cleared(&free, now)?;
        Ok(Applied::Done)
    }

    /// Records the notices of a watch. Resources that their owner released or abandoned are dropped here.
    pub(super) fn heard(
        &mut self,
        (service, region): (&str, &str),
        news: &News,
        now: DateTime<Utc>,
    ) -> Apply {
        let owner = news.from.name.as_str();
        if let Some(why) = self.name_of_another(&news.from)? {
            return refuse(why);
        }
        let before: Option<(String, String, i64)> = self.first(
            "SELECT name, ledger, seq FROM watches WHERE service = ?1 AND region = ?2",
            [service, region],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        // Another name or ledger, or one that was set back: earlier notices no longer count.
        let anew = before.filter(|(name, ledger, seq)| {
            name != owner || *ledger != news.ledger || *seq > news.seq
        });
        if let Some((name, ..)) = anew {
            self.run("DELETE FROM foreign_going WHERE owner = ?1", params![name])?;
            self.event(None, None, events::owner_replaced(owner), now);
        }
        self.run(
            "INSERT INTO watches(service, region, name, ledger, seq) VALUES(?1, ?2, ?3, ?4, ?5)
             ON CONFLICT(service, region) DO UPDATE
             SET name = excluded.name, ledger = excluded.ledger, seq = excluded.seq",
            params![service, region, owner, news.ledger, news.seq],
        )?;
        for going in &news.changes {
            self.record_notice(owner, going, now)?;
        }
        Ok(Applied::Done)
    }

    fn record_notice(&self, owner: &str, going: &DeletionNotice, now: DateTime<Utc>) -> Sql<()> {
        let DeletionNotice {
            key,
            phase,
            incarnation,
            deletion,
            root,
        } = going;
        let site = key.site.to_string();
        if matches!(phase, Phase::Released | Phase::Purged) {
            return self
                .run(
                    "DELETE FROM foreign_going
                     WHERE id = ?1 AND kind = ?2 AND site = ?3 AND owner = ?4",
                    params![key.id, key.kind.as_str(), site, owner],
                )
                .map(drop);
        }
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
                site,
                key.kind.as_str(),
                key.id,
                phase.as_str(),
                incarnation,
                deletion,
                root,
                (!going.is_going()).then(|| rows::micros(now))
            ],
        )
        .map(drop)
    }

    /// Marks resources that are deleted elsewhere as handled by this deletion; none: nothing here refers to
    /// them.
    pub(super) fn react(&mut self, keys: &[ResourceKey], deletion: Option<&NewDeletion>) -> Apply {
        let num = match deletion {
            None => 0,
            Some(wanted) => {
                if self.find(&wanted.id)?.is_some() {
                    return Ok(Applied::Stale);
                }
                let num = self.insert_deletion(wanted)?;
                self.audit(&wanted.audit, wanted.now);
                self.event(
                    Some(num),
                    None,
                    events::handles_referrers(&wanted.id, wanted.targets.len(), &wanted.actor.name),
                    wanted.now,
                );
                num
            }
        };
        for key in keys {
            self.run("UPDATE foreign_going SET handled_by = ?4 WHERE id = ?1 AND kind = ?2 AND site = ?3", params![key.id, key.kind.as_str(), key.site.to_string(), num])?;
        }
        Ok(match deletion {
            None => Applied::Done,
            Some(wanted) => Applied::Accepted {
                deletion_id: wanted.id.clone(),
                existing: false,
            },
        })
    }

    /// The deletion of another deployment that takes this resource away, or took it, if there is one (G10).
    pub(super) fn foreign_deletion(&self, key: &ResourceKey) -> Sql<Option<ForeignDeletion>> {
        self.first(
            "SELECT deletion, owner, phase FROM foreign_going
                 WHERE id = ?1 AND kind = ?2 AND site = ?3",
            params![key.id, key.kind.as_str(), key.site.to_string()],
            |row| {
                Ok(ForeignDeletion {
                    deletion: row.get(0)?,
                    owner: row.get(1)?,
                    is_gone: rows::word::<Phase>(row, 2)? == Phase::Gone,
                })
            },
        )
    }

    /// Drops resources that were gone elsewhere before this time, as their owner does.
    pub(super) fn prune_gone_elsewhere(&self, before: i64) -> Sql<()> {
        self.run(
            "DELETE FROM foreign_going WHERE phase = 'gone' AND gone_at < ?1",
            params![before],
        )
        .map(drop)
    }

    /// The root of a new deletion, from its cause; none if the deletion is a root itself.
    pub(super) fn root_by(&self, cause: Option<&str>) -> Sql<Option<String>> {
        let Some(cause) = cause else {
            return Ok(None);
        };
        if is_foreign_root(cause) {
            return Ok(Some(cause.to_owned()));
        }
        let root: Option<Option<String>> = self.first(
            "SELECT r.root FROM requests r JOIN deletions d ON d.num = r.num WHERE d.id = ?1",
            [cause],
            |row| row.get(0),
        )?;
        Ok(root.flatten())
    }
}

/// The kinds to which each importer refers.
fn importer_kinds(db: &Connection) -> Sql<Vec<(KindName, String)>> {
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
