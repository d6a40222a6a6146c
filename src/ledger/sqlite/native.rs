//! The registry: resources of our own kinds, and their references (`assets/contract.md`, "Kinds").

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::rows;
use super::sql::{Run, Sql};
use super::transaction::SqliteRows;
use crate::domain::model::{KindName, ResourceKey};
use crate::domain::native::{Native, NativeReference};
use crate::ledger::store::decode;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{NativeReads, NativeRows};
use crate::ledger::{NativeBy, NativeFilter, NewNative, Referrer, Referrers};

/// The columns of a registry row; the last one says whether the resource is being deleted.
const COLUMNS: &str = "h.num, h.site, h.kind, h.id, h.incarnation, h.fields, h.created_at, \
     h.updated_at, t.phase IS 'deleting'";
const WITH_TOMBSTONE: &str = "native h LEFT JOIN tombstones t
     ON t.id = h.id AND t.kind = h.kind AND t.site = h.site AND t.phase = 'deleting'";

impl NativeRows for SqliteRows<'_> {
    fn load_native(&self, key: &ResourceKey) -> Sql<Option<(i64, Native)>> {
        self.first(
            &format!(
                "SELECT {COLUMNS} FROM {WITH_TOMBSTONE}
                 WHERE h.id = ?1 AND h.kind = ?2 AND h.site = ?3"
            ),
            params![key.id, key.kind.as_str(), key.site.to_string()],
            |row| Ok(decode::native(row)?),
        )
    }

    fn insert_native(&self, new: &NewNative, incarnation: u32) -> Sql<i64> {
        let NewNative { key, fields, .. } = new;
        self.run(
            "INSERT INTO native(site, kind, id, incarnation, name, fields, created_at, updated_at)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
            params![
                key.site.to_string(),
                key.kind.as_str(),
                key.id,
                incarnation,
                name_in(fields),
                rows::json(fields)?,
                rows::micros(new.now)
            ],
        )?;
        Ok(self.db.last_insert_rowid())
    }

    fn save_fields(&self, num: i64, fields: &Map<String, Value>, now: DateTime<Utc>) -> Sql<()> {
        self.run(
            "UPDATE native SET name = ?2, fields = ?3, updated_at = max(?4, updated_at + 1)
             WHERE num = ?1",
            params![num, name_in(fields), rows::json(fields)?, rows::micros(now)],
        )
        .map(drop)
    }

    fn remove_native(&self, key: &ResourceKey, incarnation: u32) -> Sql<Option<i64>> {
        self.first(
            "DELETE FROM native WHERE id = ?1 AND kind = ?2 AND site = ?3 AND incarnation = ?4
             RETURNING num",
            params![key.id, key.kind.as_str(), key.site.to_string(), incarnation],
            |row| row.get(0),
        )
    }

    fn load_references(&self, num: i64) -> Sql<Vec<(String, ResourceKey)>> {
        let sql = "SELECT field, site, kind, id FROM native_references WHERE num = ?1";
        self.all(sql, [num], |row| Ok((row.get(0)?, row.key(1)?)))
    }

    fn insert_references(&self, num: i64, references: &[NativeReference]) -> Sql<()> {
        for NativeReference { field, to, .. } in references {
            self.run(
                "INSERT OR IGNORE INTO native_references(num, field, id, kind, site)
                 VALUES(?1, ?2, ?3, ?4, ?5)",
                params![num, field, to.id, to.kind.as_str(), to.site.to_string()],
            )?;
        }
        Ok(())
    }

    fn remove_reference(&self, num: i64, field: &str, to: &ResourceKey) -> Sql<()> {
        self.run(
            "DELETE FROM native_references
             WHERE num = ?1 AND field = ?2 AND id = ?3 AND kind = ?4 AND site = ?5",
            params![num, field, to.id, to.kind.as_str(), to.site.to_string()],
        )
        .map(drop)
    }

    fn remove_references(&self, num: i64) -> Sql<()> {
        let sql = "DELETE FROM native_references WHERE num = ?1";
        self.run(sql, [num]).map(drop)
    }
}

fn name_in(fields: &Map<String, Value>) -> &str {
    fields
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl<R: Run> NativeReads for R {
    fn find_natives(
        &self,
        filter: &NativeFilter,
        after: i64,
        limit: usize,
    ) -> Sql<Vec<(i64, Native)>> {
        find(self.db(), filter, after, limit)
    }

    fn find_referrers(
        &self,
        to: &[ResourceKey],
        fields: &[(KindName, String)],
        named_max: usize,
    ) -> Sql<Vec<Referrers>> {
        referrers(self.db(), to, fields, named_max)
    }
}

fn find(
    db: &Connection,
    filter: &NativeFilter,
    after: i64,
    limit: usize,
) -> Sql<Vec<(i64, Native)>> {
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
        NativeBy::RefersTo { field, to } => (
            "h.num IN (SELECT r.num FROM json_each(?5) j CROSS JOIN native_references r
                 ON r.id = j.value ->> 'id' AND r.kind = j.value ->> 'kind'
                     AND r.site = j.value ->> 'site' AND r.field = ?6)",
            field.as_str(),
            rows::json(to)?,
        ),
    };
    db.all(
        &format!(
            "SELECT {COLUMNS} FROM {WITH_TOMBSTONE}
             WHERE h.site = ?1 AND h.kind = ?2 AND h.num > ?3 AND {condition}
             ORDER BY h.num LIMIT ?4"
        ),
        params![
            site.to_string(),
            kind.as_str(),
            after,
            limit as i64,
            values,
            field
        ],
        |row| Ok(decode::native(row)?),
    )
}

fn referrers(
    db: &Connection,
    to: &[ResourceKey],
    fields: &[(KindName, String)],
    named_max: usize,
) -> Sql<Vec<Referrers>> {
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
                        key: row.key(0)?,
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
                false => {
                    count.query_row(params![to.id, kind, site, fields], |row| Ok(row.read(0)?))?
                }
            };
            Ok(Referrers { named, count })
        })
        .collect()
}
