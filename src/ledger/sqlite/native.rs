//! The registry: resources of our own kinds, and their references (`assets/contract.md`, "Kinds").

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row, params};
use serde_json::{Map, Value};

use super::batch::Batch;
use super::peers::pointed_at;
use super::rows;
use super::sql::{Apply, Run, Sql, refuse};
use crate::domain::kinds::IN_USE;
use crate::domain::model::{KindName, Paged, ResourceKey, short_id};
use crate::domain::native::{Native, NativeReference, without};
use crate::ledger::events;
use crate::ledger::{Applied, AuditEntry, NativeBy, NativeFilter, NewNative};

/// The columns of a registry row; the last one says whether the resource is being deleted.
const COLUMNS: &str = "h.num, h.site, h.kind, h.id, h.incarnation, h.fields, h.created_at, \
     h.updated_at, t.phase IS 'deleting'";
const WITH_TOMBSTONE: &str = "native h LEFT JOIN tombstones t
     ON t.id = h.id AND t.kind = h.kind AND t.site = h.site AND t.phase = 'deleting'";

impl Batch<'_> {
    /// One row for each identity (M1): a resource that is created again under the same id is another
    /// incarnation.
    pub(super) fn add_native(&mut self, new: &NewNative) -> Apply {
        let key = &new.key;
        if let Some(why) = self.in_hand(key)? {
            return refuse(why);
        }
        if native(self.db, key)?.is_some() {
            return refuse(format!("{key} is there already"));
        }
        if let Some(why) = self.not_to_be_referred_to(&new.references)? {
            return refuse(why);
        }
        self.set.revive(key, &new.audit, new.now)?;
        self.set.save()?;
        let now = rows::micros(new.now);
        let num: i64 = self.one(
            "INSERT INTO native(site, kind, id, incarnation, name, fields, created_at, updated_at)
                 VALUES(?1, ?2, ?3, coalesce((SELECT incarnation FROM tombstones
                     WHERE id = ?3 AND kind = ?2 AND site = ?1), 1), ?4, ?5, ?6, ?6)
                 RETURNING num",
            params![
                key.site.to_string(),
                key.kind.as_str(),
                key.id,
                name_in(&new.fields),
                rows::json(&new.fields)?,
                now
            ],
            |row| row.get(0),
        )?;
        self.point(num, &new.references)?;
        self.native_event(key, "created", &new.audit, new.now)
    }

    /// Stale if the resource does not exist, or was written since it was read.
    pub(super) fn amend_native(&mut self, new: &NewNative, read_at: DateTime<Utc>) -> Apply {
        if let Some(why) = self.in_hand(&new.key)? {
            return refuse(why);
        }
        let Some((num, before)) = native(self.db, &new.key)? else {
            return Ok(Applied::Stale);
        };
        if before.updated_at != read_at {
            return Ok(Applied::Stale);
        }
        let added: Vec<NativeReference> = {
            let pointed = references_of(self.db, num)?;
            let is_new = |it: &&NativeReference| {
                !pointed
                    .iter()
                    .any(|(field, to)| *field == it.field && *to == it.to)
            };
            new.references.iter().filter(is_new).cloned().collect()
        };
        if let Some(why) = self.not_to_be_referred_to(&added)? {
            return refuse(why);
        }
        self.write_fields(num, &new.fields, new.now)?;
        self.run("DELETE FROM native_references WHERE num = ?1", params![num])?;
        self.point(num, &new.references)?;
        self.native_event(&new.key, "updated", &new.audit, new.now)
    }

    /// Stale if this incarnation does not exist (any more).
    pub(super) fn delete_native(
        &mut self,
        key: &ResourceKey,
        incarnation: u32,
        unless: &[(KindName, String)],
        now: DateTime<Utc>,
    ) -> Apply {
        let pointed = pointed_at(self.db, std::slice::from_ref(key), unless, 1)?;
        if let Some(first) = pointed.iter().flat_map(|it| &it.named).next() {
            let others = pointed.iter().map(|it| it.count).sum::<u64>() - 1;
            let more = match others {
                0 => String::new(),
                n => format!(", and {n} more"),
            };
            return refuse(format!("{key} is in use: {} refers to it{more}", first.key));
        }
        let num: Option<i64> = self.first(
            "DELETE FROM native WHERE id = ?1 AND kind = ?2 AND site = ?3 AND incarnation = ?4
                 RETURNING num",
            params![key.id, key.kind.as_str(), key.site.to_string(), incarnation],
            |row| row.get(0),
        )?;
        let Some(num) = num else {
            return Ok(Applied::Stale);
        };
        let pointed = references_of(self.db, num)?;
        self.run("DELETE FROM native_references WHERE num = ?1", params![num])?;
        self.let_go_of(pointed.iter().map(|(_, to)| to), now)?;
        Ok(Applied::Done)
    }

    /// Retries the steps that were refused because these resources were referred to.
    fn let_go_of<'k>(
        &mut self,
        pointed: impl Iterator<Item = &'k ResourceKey>,
        now: DateTime<Utc>,
    ) -> Sql<()> {
        for to in pointed {
            let steps: Vec<i64> = self.all(
                "SELECT id FROM steps WHERE resource = ?1 AND kind = ?2 AND site = ?3
                     AND ended_at IS NULL AND state IN ('blocked', 'stuck')",
                params![to.id, to.kind.as_str(), to.site.to_string()],
                |row| row.get(0),
            )?;
            for step in steps {
                self.try_what_met(step, IN_USE, now)?;
            }
        }
        Ok(())
    }

    /// Removes references; one that is missing already counts as removed. Stale if the resource does not
    /// exist.
    pub(super) fn unset_native(
        &mut self,
        key: &ResourceKey,
        references: &[(String, ResourceKey)],
        now: DateTime<Utc>,
    ) -> Apply {
        let Some((num, before)) = native(self.db, key)? else {
            return Ok(Applied::Stale);
        };
        let mut fields = before.fields.clone();
        for (field, to) in references {
            fields = without(fields, field, to, &key.site);
            self.run(
                "DELETE FROM native_references
                 WHERE num = ?1 AND field = ?2 AND id = ?3 AND kind = ?4 AND site = ?5",
                params![num, *field, to.id, to.kind.as_str(), to.site.to_string()],
            )?;
        }
        if fields != before.fields {
            self.write_fields(num, &fields, now)?;
        }
        self.let_go_of(references.iter().map(|(_, to)| to), now)?;
        Ok(Applied::Done)
    }

    fn write_fields(&self, num: i64, fields: &Map<String, Value>, now: DateTime<Utc>) -> Sql<()> {
        self.run(
            "UPDATE native SET name = ?2, fields = ?3, updated_at = max(?4, updated_at + 1)
             WHERE num = ?1",
            params![num, name_in(fields), rows::json(fields)?, rows::micros(now)],
        )
        .map(drop)
    }

    fn point(&self, num: i64, references: &[NativeReference]) -> Sql<()> {
        let mut point = self.db.prepare_cached(
            "INSERT OR IGNORE INTO native_references(num, field, id, kind, site)
             VALUES(?1, ?2, ?3, ?4, ?5)",
        )?;
        for NativeReference { field, to, .. } in references {
            point.execute(params![
                num,
                field,
                to.id,
                to.kind.as_str(),
                to.site.to_string()
            ])?;
        }
        Ok(())
    }

    /// Why a resource that is being deleted can be neither created nor changed (T17, M2).
    fn in_hand(&self, key: &ResourceKey) -> Sql<Option<String>> {
        if let Some(id) = self.in_the_hands_of(key)? {
            let short = short_id(&id);
            return Ok(Some(format!("{key} is being deleted by deletion {short}")));
        }
        // A resource that is gone may be created again (M1).
        let going = self.foreign_deletion(key)?.filter(|it| !it.is_gone);
        Ok(going.map(|it| {
            let short = short_id(&it.deletion);
            format!(
                "{key} is being deleted by deletion {short} of deployment {}",
                it.owner
            )
        }))
    }

    /// Why nothing may newly refer to a resource that another deployment has deleted (T20).
    fn gone_elsewhere(&self, key: &ResourceKey) -> Sql<Option<String>> {
        let gone = self.foreign_deletion(key)?.filter(|it| it.is_gone);
        Ok(gone.map(|it| {
            let short = short_id(&it.deletion);
            format!(
                "there is no {key}: it was deleted by deletion {short} of deployment {}",
                it.owner
            )
        }))
    }

    /// Why these references cannot be added: a resource is being deleted (G10), or does not exist.
    fn not_to_be_referred_to(&self, references: &[NativeReference]) -> Sql<Option<String>> {
        for NativeReference { field, to, here } in references {
            if let Some(why) = self.in_hand(to)? {
                return Ok(Some(format!("{field}: {why}")));
            }
            let missing = match *here {
                true => native(self.db, to)?
                    .is_none()
                    .then(|| format!("there is no {to}")),
                false => self.gone_elsewhere(to)?,
            };
            if let Some(why) = missing {
                return Ok(Some(format!("{field}: {why}")));
            }
        }
        Ok(None)
    }

    fn native_event(
        &mut self,
        key: &ResourceKey,
        what: &str,
        audit: &AuditEntry,
        now: DateTime<Utc>,
    ) -> Apply {
        self.audit(audit, now);
        self.event(
            None,
            None,
            events::registry_written(key, what, &audit.actor.name),
            now,
        );
        Ok(Applied::Done)
    }
}

fn name_in(fields: &Map<String, Value>) -> &str {
    fields
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn native(db: &Connection, key: &ResourceKey) -> Sql<Option<(i64, Native)>> {
    db.first(
        &format!(
            "SELECT {COLUMNS} FROM {WITH_TOMBSTONE} WHERE h.id = ?1 AND h.kind = ?2 AND h.site = ?3"
        ),
        params![key.id, key.kind.as_str(), key.site.to_string()],
        read,
    )
}

fn read(row: &Row) -> Sql<(i64, Native)> {
    let native = Native {
        key: ResourceKey {
            site: rows::site(row, 1)?,
            kind: KindName::new(row.get_ref(2)?.as_str()?),
            id: row.get(3)?,
        },
        incarnation: rows::number(row, 4)?,
        fields: rows::from_json(row, 5)?,
        created_at: rows::time(row, 6)?,
        updated_at: rows::time(row, 7)?,
        deleting: row.get(8)?,
    };
    Ok((row.get(0)?, native))
}

fn references_of(db: &Connection, num: i64) -> Sql<Vec<(String, ResourceKey)>> {
    db.all(
        "SELECT field, site, kind, id FROM native_references WHERE num = ?1",
        [num],
        |row| Ok((row.get(0)?, rows::key(row, 1)?)),
    )
}

/// In the order of their numbers; the cursor is the last number.
pub(super) fn list(
    db: &Connection,
    filter: &NativeFilter,
    after: Option<[i64; 1]>,
    limit: usize,
) -> Sql<Paged<Native>> {
    let NativeFilter { site, kind, by } = filter;
    let (condition, field, values) = match by {
        NativeBy::All => ("?5 = ?6", "", String::new()),
        NativeBy::Ids(ids) => (
            "h.id IN (SELECT value FROM json_each(?5)) AND ?6 = ''",
            "",
            rows::json(ids)?,
        ),
        NativeBy::Field { field, values } => (
            match field.as_str() {
                "name" => "h.name IN (SELECT value FROM json_each(?5)) AND ?6 <> ''",
                _ => "h.fields ->> ('$.' || ?6) IN (SELECT value FROM json_each(?5))",
            },
            field.as_str(),
            rows::json(values)?,
        ),
        NativeBy::PointsAt { field, to } => (
            "h.num IN (SELECT r.num FROM json_each(?5) j CROSS JOIN native_references r
                 ON r.id = j.value ->> 'id' AND r.kind = j.value ->> 'kind'
                     AND r.site = j.value ->> 'site' AND r.field = ?6)",
            field.as_str(),
            rows::json(to)?,
        ),
    };
    let found = db.all(
        &format!(
            "SELECT {COLUMNS} FROM {WITH_TOMBSTONE}
             WHERE h.site = ?1 AND h.kind = ?2 AND h.num > ?3 AND {condition}
             ORDER BY h.num LIMIT ?4"
        ),
        params![
            site.to_string(),
            kind.as_str(),
            after.map_or(0, |[num]| num),
            limit as i64 + 1,
            values,
            field
        ],
        read,
    )?;
    Ok(rows::page(found, limit))
}
