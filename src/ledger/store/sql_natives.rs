//! The registry, in the SQL of all stores: resources of our own kinds, and their references (`assets/contract.md`,
//! "Kinds").

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::natives::{NativeReads, NativeRows};
use super::sql::{Dialect, Each, ReadColumns as _, SqlValue, Statements, Writes, json, key_values};
use super::{Stored, decode};
use crate::domain::model::{KindName, ResourceKey};
use crate::domain::native::{Native, NativeReference};
use crate::ledger::{NativeBy, NativeFilter, NewNative, Referrer, Referrers};

/// Reads the columns of a resource; the last one says whether it is being deleted.
const SELECT: &str = "SELECT h.num, h.site, h.kind, h.id, h.incarnation, h.fields, h.created_at,
         h.updated_at, t.phase IS NOT NULL
     FROM native h LEFT JOIN tombstones t
         ON t.id = h.id AND t.kind = h.kind AND t.site = h.site AND t.phase = 'deleting'";

/// A condition: the row of this table has the key `$1`, `$2`, `$3`.
fn has_key(dialect: &Dialect, table: &str) -> String {
    let same = |id: &str| (dialect.native_id)(id);
    let (id, wanted) = (same(&format!("{table}.id")), same("$1"));
    format!("{id} = {wanted} AND {table}.kind = $2 AND {table}.site = $3")
}

fn name_in(fields: &Map<String, Value>) -> &str {
    fields
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl<S: Writes> NativeRows for S {
    fn load_native(&self, key: &ResourceKey) -> Stored<Self, Option<(i64, Native)>> {
        let sql = format!("{SELECT} WHERE {}", has_key(&Self::DIALECT, "h"));
        self.read_first(&sql, &key_values(key), decode::native)
    }

    fn insert_native(&self, new: &NewNative, incarnation: u32) -> Stored<Self, i64> {
        let NewNative { key, fields, .. } = new;
        let values = [
            (&key.site).into(),
            (&key.kind).into(),
            (&key.id).into(),
            incarnation.into(),
            name_in(fields).into(),
            json(fields)?.into(),
            new.now.into(),
        ];
        self.read_one(Self::DIALECT.insert_native, &values, |row| row.read(0))
    }

    fn save_fields(
        &self,
        num: i64,
        fields: &Map<String, Value>,
        now: DateTime<Utc>,
    ) -> Stored<Self> {
        let sql = "UPDATE native SET name = $2, fields = $3,
                 updated_at = CASE WHEN $4 > updated_at THEN $4 ELSE updated_at + 1 END
             WHERE num = $1";
        let (name, fields) = (name_in(fields).into(), json(fields)?.into());
        self.write(sql, &[num.into(), name, fields, now.into()])
            .map(drop)
    }

    fn remove_native(&self, key: &ResourceKey, incarnation: u32) -> Stored<Self, Option<i64>> {
        let sql = format!(
            "DELETE FROM native WHERE {} AND incarnation = $4 RETURNING num",
            has_key(&Self::DIALECT, "native")
        );
        let [id, kind, site] = key_values(key);
        self.read_first(&sql, &[id, kind, site, incarnation.into()], |row| {
            row.read(0)
        })
    }

    fn load_references(&self, num: i64) -> Stored<Self, Vec<(String, ResourceKey)>> {
        let sql = "SELECT field, site, kind, id FROM native_references WHERE num = $1
             ORDER BY field, id, kind, site";
        self.read_all(sql, &[num.into()], |row| Ok((row.read(0)?, row.key(1)?)))
    }

    fn insert_references(&self, num: i64, references: &[NativeReference]) -> Stored<Self> {
        let rows = references.iter().map(|NativeReference { field, to, .. }| {
            let [id, kind, site] = key_values(to);
            [num.into(), field.into(), id, kind, site]
        });
        let into = "native_references(num, field, id, kind, site)";
        self.insert_rows(into, rows.collect(), "ON CONFLICT DO NOTHING")
    }

    fn remove_reference(&self, num: i64, field: &str, to: &ResourceKey) -> Stored<Self> {
        let sql = format!(
            "DELETE FROM native_references WHERE {} AND num = $4 AND field = $5",
            has_key(&Self::DIALECT, "native_references")
        );
        let [id, kind, site] = key_values(to);
        self.write(&sql, &[id, kind, site, num.into(), field.into()])
            .map(drop)
    }

    fn remove_references(&self, num: i64) -> Stored<Self> {
        let sql = "DELETE FROM native_references WHERE num = $1";
        self.write(sql, &[num.into()]).map(drop)
    }
}

impl<S: Statements> NativeReads for S {
    fn find_natives(
        &self,
        filter: &NativeFilter,
        after: i64,
        limit: usize,
    ) -> Stored<Self, Vec<(i64, Native)>> {
        let Dialect {
            texts,
            elements,
            native_id,
            as_json,
            ..
        } = Self::DIALECT;
        let NativeFilter { site, kind, by } = filter;
        let mut values: Vec<SqlValue<'_>> =
            vec![site.into(), kind.into(), after.into(), limit.into()];
        let condition = match by {
            NativeBy::All => String::new(),
            NativeBy::Ids(ids) => {
                values.push(json(ids)?.into());
                let (id, wanted, ids) = (native_id("h.id"), native_id("value"), texts("$5"));
                format!("AND {id} IN (SELECT {wanted} FROM {ids})")
            }
            NativeBy::Field { field, values: of } => {
                values.push(json(of)?.into());
                match field.as_str() {
                    "name" => format!(
                        "AND h.name <> '' AND h.name IN (SELECT value FROM {})",
                        texts("$5")
                    ),
                    _ => {
                        values.push(field.into());
                        format!(
                            "AND h.fields{as_json} ->> $6 IN (SELECT value FROM {})",
                            texts("$5")
                        )
                    }
                }
            }
            NativeBy::RefersTo { field, to } => {
                values.extend([json(to)?.into(), field.into()]);
                format!(
                    "AND h.num IN (SELECT r.num FROM {} k CROSS JOIN native_references r
                         WHERE {} = {} AND r.kind = k.value ->> 'kind'
                             AND r.site = k.value ->> 'site' AND r.field = $6)",
                    elements("$5"),
                    native_id("r.id"),
                    native_id("k.value ->> 'id'")
                )
            }
        };
        let sql = format!(
            "{SELECT} WHERE h.site = $1 AND h.kind = $2 AND h.num > $3 {condition}
             ORDER BY h.num LIMIT $4"
        );
        self.read_all(&sql, &values, decode::native)
    }

    fn find_referrers(
        &self,
        to: &[ResourceKey],
        fields: &[(KindName, String)],
        named_max: usize,
    ) -> Stored<Self, Vec<Referrers>> {
        let from = format!(
            "native_references r JOIN native h ON h.num = r.num WHERE {} AND EXISTS (SELECT 1
                 FROM {} f WHERE f.value ->> 0 = h.kind AND f.value ->> 1 = r.field)",
            has_key(&Self::DIALECT, "r"),
            (Self::DIALECT.elements)("$4")
        );
        let fields = json(fields)?;
        let values = |to| {
            let [id, kind, site] = key_values(to);
            [id, kind, site, fields.as_str().into()]
        };
        let named = Each {
            columns: "h.site, h.kind, h.id, h.name, r.field",
            from: &from,
            order: "h.num, r.field",
            limit: Some(named_max),
        };
        let mut all = vec![Referrers::default(); to.len()];
        let keys = to.iter().map(values).collect();
        self.visit_each(&named, keys, &mut |place, row| {
            let (of, key) = (&mut all[place], row.key(0)?);
            // The referrers are in the order of their numbers.
            let is_new = of.named.last().is_none_or(|last| last.key != key);
            of.count += u64::from(is_new);
            of.named.push(Referrer {
                key,
                name: row.read(3)?,
                field: row.read(4)?,
                to: to[place].clone(),
            });
            Ok(())
        })?;
        // A resource with `named_max` named references may have more referrers, so all its referrers are counted.
        let mut full: Vec<(&mut Referrers, &ResourceKey)> = all.iter_mut().zip(to).collect();
        full.retain(|(of, _)| of.named.len() >= named_max);
        let count = Each {
            columns: "count(DISTINCT h.num)",
            from: &from,
            ..Each::default()
        };
        let keys = full.iter().map(|(_, to)| values(*to)).collect();
        self.visit_each(&count, keys, &mut |place, row| {
            full[place].0.count = row.read(0)?;
            Ok(())
        })?;
        Ok(all)
    }
}
