//! The registry: resources of our own kinds, and their references (`assets/contract.md`, "Kinds").

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::failed::Sql;
use super::rows::{self, limit, micros};
use super::transaction::PostgresRows;
use crate::domain::model::{KindName, ResourceKey};
use crate::domain::native::{Native, NativeReference};
use crate::ledger::store::decode;
use crate::ledger::store::sql::ReadColumns as _;
use crate::ledger::store::{NativeReads, NativeRows};
use crate::ledger::{NativeBy, NativeFilter, NewNative, Referrer, Referrers};

/// The columns of a registry row; the last one says whether the resource is being deleted.
const COLUMNS: &str = "h.num, h.site, h.kind, h.id, h.incarnation, h.fields, h.created_at, \
     h.updated_at, t.phase IS NOT NULL";
const WITH_TOMBSTONE: &str = "native h LEFT JOIN tombstones t
     ON t.id = h.id AND t.kind = h.kind AND t.site = h.site AND t.phase = 'deleting'";

impl NativeRows for PostgresRows {
    fn load_native(&self, key: &ResourceKey) -> Sql<Option<(i64, Native)>> {
        self.db.first(
            &format!(
                "SELECT {COLUMNS} FROM {WITH_TOMBSTONE}
                 WHERE lower(h.id) = lower($1 COLLATE \"C\") AND h.kind = $2 AND h.site = $3"
            ),
            &[&key.id, &key.kind.as_str(), &key.site.to_string()],
            |row| Ok(decode::native(row)?),
        )
    }

    fn insert_native(&self, new: &NewNative, incarnation: u32) -> Sql<i64> {
        let NewNative { key, fields, .. } = new;
        self.db.one(
            "WITH given AS (UPDATE numbers SET last = last + 1 WHERE name = 'native' RETURNING last)
             INSERT INTO native(num, site, kind, id, incarnation, name, fields, created_at,
                 updated_at)
             SELECT last, $1::text, $2::text, $3::text, $4::bigint, $5::text, $6::text, $7::bigint,
                 $7::bigint FROM given RETURNING num",
            &[
                &key.site.to_string(),
                &key.kind.as_str(),
                &key.id,
                &i64::from(incarnation),
                &name_in(fields),
                &rows::json(fields)?,
                &micros(new.now),
            ],
            |row| Ok(row.read(0)?),
        )
    }

    fn save_fields(&self, num: i64, fields: &Map<String, Value>, now: DateTime<Utc>) -> Sql<()> {
        self.db
            .run(
                "UPDATE native SET name = $2, fields = $3, updated_at = greatest($4, updated_at + 1)
                 WHERE num = $1",
                &[&num, &name_in(fields), &rows::json(fields)?, &micros(now)],
            )
            .map(drop)
    }

    fn remove_native(&self, key: &ResourceKey, incarnation: u32) -> Sql<Option<i64>> {
        self.db.first(
            "DELETE FROM native WHERE lower(id) = lower($1 COLLATE \"C\") AND kind = $2 AND site = $3
                 AND incarnation = $4 RETURNING num",
            &[
                &key.id,
                &key.kind.as_str(),
                &key.site.to_string(),
                &i64::from(incarnation),
            ],
            |row| Ok(row.read(0)?),
        )
    }

    fn load_references(&self, num: i64) -> Sql<Vec<(String, ResourceKey)>> {
        let sql = "SELECT field, site, kind, id FROM native_references WHERE num = $1
             ORDER BY field, id, kind, site";
        self.db
            .all(sql, &[&num], |row| Ok((row.read(0)?, row.key(1)?)))
    }

    fn insert_references(&self, num: i64, references: &[NativeReference]) -> Sql<()> {
        let fields: Vec<&str> = references.iter().map(|it| it.field.as_str()).collect();
        let keys = rows::Keys::of(references.iter().map(|it| &it.to));
        self.db
            .run(
                "INSERT INTO native_references(num, field, id, kind, site)
                 SELECT $1::bigint, n.* FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) n
                 ON CONFLICT DO NOTHING",
                &[&num, &fields, &keys.ids, &keys.kinds, &keys.sites],
            )
            .map(drop)
    }

    fn remove_reference(&self, num: i64, field: &str, to: &ResourceKey) -> Sql<()> {
        self.db
            .run(
                "DELETE FROM native_references WHERE num = $1 AND field = $2
                     AND lower(id) = lower($3 COLLATE \"C\") AND kind = $4 AND site = $5",
                &[
                    &num,
                    &field,
                    &to.id,
                    &to.kind.as_str(),
                    &to.site.to_string(),
                ],
            )
            .map(drop)
    }

    fn remove_references(&self, num: i64) -> Sql<()> {
        let sql = "DELETE FROM native_references WHERE num = $1";
        self.db.run(sql, &[&num]).map(drop)
    }
}

fn name_in(fields: &Map<String, Value>) -> &str {
    fields
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl NativeReads for PostgresRows {
    fn find_natives(
        &self,
        filter: &NativeFilter,
        after: i64,
        most: usize,
    ) -> Sql<Vec<(i64, Native)>> {
        let NativeFilter { site, kind, by } = filter;
        let (condition, field, ids) = match by {
            NativeBy::All => ("$5 = '' AND $6::text[] = '{}'", "", Vec::new()),
            NativeBy::Ids(ids) => (
                "$5 = '' AND lower(h.id) = ANY(SELECT lower(id COLLATE \"C\") FROM unnest($6::text[]) id)",
                "",
                ids.clone(),
            ),
            NativeBy::Field { field, values } => (
                match field.as_str() {
                    "name" => "$5 <> '' AND h.name = ANY($6::text[])",
                    _ => "h.fields::json ->> $5 = ANY($6::text[])",
                },
                field.as_str(),
                values.clone(),
            ),
            NativeBy::RefersTo { field, .. } => (
                "h.num IN (SELECT r.num FROM unnest($6::text[], $7::text[], $8::text[]) AS
                     k(id, kind, site) JOIN native_references r ON lower(r.id) =
                         lower(k.id COLLATE \"C\") AND r.kind = k.kind AND r.site = k.site
                     WHERE r.field = $5)",
                field.as_str(),
                Vec::new(),
            ),
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM {WITH_TOMBSTONE}
             WHERE h.site = $1 AND h.kind = $2 AND h.num > $3 AND {condition}
             ORDER BY h.num LIMIT $4"
        );
        let (site, kind, most) = (site.to_string(), kind.as_str(), limit(most));
        match by {
            NativeBy::RefersTo { to, .. } => {
                let to = rows::Keys::of(to);
                let values: super::client::Values<'_> = &[
                    &site, &kind, &after, &most, &field, &to.ids, &to.kinds, &to.sites,
                ];
                self.db.all(&sql, values, |row| Ok(decode::native(row)?))
            }
            _ => {
                let values: super::client::Values<'_> =
                    &[&site, &kind, &after, &most, &field, &ids];
                self.db.all(&sql, values, |row| Ok(decode::native(row)?))
            }
        }
    }

    fn find_referrers(
        &self,
        to: &[ResourceKey],
        fields: &[(KindName, String)],
        named_max: usize,
    ) -> Sql<Vec<Referrers>> {
        let keys = rows::Keys::of(to);
        let (kinds, names): (Vec<&str>, Vec<&str>) = fields
            .iter()
            .map(|(kind, field)| (kind.as_str(), field.as_str()))
            .unzip();
        // The rank of the last referrer of a resource is the number of its distinct referrers.
        let found = self.db.all(
            "SELECT * FROM (
                 SELECT n, site, kind, id, name, field, place,
                     max(distinct_rank) OVER (PARTITION BY n)
                 FROM (
                     SELECT k.n, h.site, h.kind, h.id, h.name, r.field,
                         row_number() OVER (PARTITION BY k.n ORDER BY h.num, r.field) AS place,
                         dense_rank() OVER (PARTITION BY k.n ORDER BY h.num) AS distinct_rank
                     FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY
                         AS k(id, kind, site, n)
                     JOIN native_references r ON lower(r.id) = lower(k.id COLLATE \"C\")
                         AND r.kind = k.kind AND r.site = k.site
                     JOIN native h ON h.num = r.num
                     WHERE EXISTS (SELECT FROM unnest($4::text[], $5::text[]) AS f(kind, field)
                         WHERE f.kind = h.kind AND f.field = r.field)
                 ) found
             ) counted WHERE place <= greatest($6::bigint, 1) ORDER BY n, place",
            &[
                &keys.ids,
                &keys.kinds,
                &keys.sites,
                &kinds,
                &names,
                &limit(named_max),
            ],
            |row| {
                let at = row.read::<usize>(0)? - 1;
                let referrer = (row.key(1)?, row.read::<String>(4)?, row.read(5)?);
                let (place, count) = (row.read::<usize>(6)?, row.read(7)?);
                Ok((at, referrer, place, count))
            },
        )?;
        let mut referrers = vec![Referrers::default(); to.len()];
        for (at, (key, name, field), place, count) in found {
            let (Some(of), Some(to)) = (referrers.get_mut(at), to.get(at)) else {
                continue;
            };
            of.count = count;
            if place <= named_max {
                of.named.push(Referrer {
                    key,
                    name,
                    field,
                    to: to.clone(),
                });
            }
        }
        Ok(referrers)
    }
}
