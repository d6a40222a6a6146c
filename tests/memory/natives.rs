//! Rows of native resources, and of their references.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use gone::domain::model::{KindName, Phase, ResourceKey};
use gone::domain::native::{Native, NativeReference};
use gone::ledger::store::{NativeReads, NativeRows};
use gone::ledger::{NativeBy, NativeFilter, NewNative, Referrer, Referrers};
use serde_json::{Map, Value};

use super::tables::{micros, same};
use super::{Answer, MemoryRows, Tables};

impl Tables {
    /// The resource, with `deleting` set if it is being deleted.
    fn shown_native(&self, native: &Native) -> Native {
        let record = self.record_of.get(&native.key);
        let deleting = record.is_some_and(|it| self.tombstones[it].1.phase == Phase::Deleting);
        Native {
            deleting,
            ..native.clone()
        }
    }

    fn refers(&self, num: i64, field: &str, to: &ResourceKey) -> bool {
        let mut references = self.references.iter();
        references.any(|(of, its, it)| *of == num && its == field && same(it, to))
    }
}

fn name_in(native: &Native) -> &str {
    let name = native.fields.get("name").and_then(Value::as_str);
    name.unwrap_or_default()
}

impl NativeReads for MemoryRows {
    fn find_natives(
        &self,
        filter: &NativeFilter,
        after: i64,
        limit: usize,
    ) -> Answer<Vec<(i64, Native)>> {
        let tables = self.tables();
        let is_wanted = |num: i64, native: &Native| match &filter.by {
            NativeBy::All => true,
            NativeBy::Ids(ids) => ids.iter().any(|id| id.eq_ignore_ascii_case(&native.key.id)),
            NativeBy::Field { field, values } => match native.fields.get(field) {
                Some(Value::String(it)) => values.contains(it),
                Some(it) => values.contains(&it.to_string()),
                None => false,
            },
            NativeBy::RefersTo { field, to } => to.iter().any(|to| tables.refers(num, field, to)),
        };
        let found = tables.natives.range(after + 1..).filter(|(num, native)| {
            (&native.key.site, &native.key.kind) == (&filter.site, &filter.kind)
                && is_wanted(**num, native)
        });
        let found = found.take(limit);
        Ok(found
            .map(|(num, native)| (*num, tables.shown_native(native)))
            .collect())
    }

    fn find_referrers(
        &self,
        to: &[ResourceKey],
        fields: &[(KindName, String)],
        named_max: usize,
    ) -> Answer<Vec<Referrers>> {
        let tables = self.tables();
        let of = |to: &ResourceKey| {
            let found = tables.references.iter().filter_map(|(num, field, its)| {
                let native = tables.natives.get(num)?;
                let is_wanted = fields.contains(&(native.key.kind.clone(), field.clone()));
                (same(its, to) && is_wanted).then(|| Referrer {
                    key: native.key.clone(),
                    name: name_in(native).to_owned(),
                    to: to.clone(),
                    field: field.clone(),
                })
            });
            let found: Vec<Referrer> = found.collect();
            let distinct: BTreeSet<&ResourceKey> = found.iter().map(|it| &it.key).collect();
            Referrers {
                count: distinct.len() as u64,
                named: found.iter().take(named_max).cloned().collect(),
            }
        };
        Ok(to.iter().map(of).collect())
    }
}

impl NativeRows for MemoryRows {
    fn load_native(&self, key: &ResourceKey) -> Answer<Option<(i64, Native)>> {
        let tables = self.tables();
        let mut found = tables.natives.iter();
        let found = found.find(|(_, native)| same(&native.key, key));
        Ok(found.map(|(num, native)| (*num, tables.shown_native(native))))
    }

    fn insert_native(&self, new: &NewNative, incarnation: u32) -> Answer<i64> {
        let tables = &mut *self.tables();
        tables.last_native += 1;
        let native = Native {
            key: new.key.clone(),
            incarnation,
            fields: new.fields.clone(),
            created_at: micros(new.now),
            updated_at: micros(new.now),
            deleting: false,
        };
        tables.natives.insert(tables.last_native, native);
        Ok(tables.last_native)
    }

    fn save_fields(&self, num: i64, fields: &Map<String, Value>, now: DateTime<Utc>) -> Answer {
        let natives = &mut self.tables().natives;
        let native = natives.get_mut(&num).ok_or("no resource")?;
        native.fields.clone_from(fields);
        native.updated_at = now.max(native.updated_at + TimeDelta::microseconds(1));
        Ok(())
    }

    fn remove_native(&self, key: &ResourceKey, incarnation: u32) -> Answer<Option<i64>> {
        let natives = &mut self.tables().natives;
        let is_wanted =
            |native: &Native| same(&native.key, key) && native.incarnation == incarnation;
        let mut found = natives.iter().filter(|(_, native)| is_wanted(native));
        let num = found.next().map(|(num, _)| *num);
        num.map(|num| natives.remove(&num));
        Ok(num)
    }

    fn load_references(&self, num: i64) -> Answer<Vec<(String, ResourceKey)>> {
        let tables = self.tables();
        let of = tables.references.iter().filter(|(of, ..)| *of == num);
        Ok(of
            .map(|(_, field, to)| (field.clone(), to.clone()))
            .collect())
    }

    fn insert_references(&self, num: i64, references: &[NativeReference]) -> Answer {
        let rows = references
            .iter()
            .map(|it| (num, it.field.clone(), it.to.clone()));
        self.tables().references.extend(rows);
        Ok(())
    }

    fn remove_reference(&self, num: i64, field: &str, to: &ResourceKey) -> Answer {
        let references = &mut self.tables().references;
        references.remove(&(num, field.to_owned(), to.clone()));
        Ok(())
    }

    fn remove_references(&self, num: i64) -> Answer {
        self.tables().references.retain(|(of, ..)| *of != num);
        Ok(())
    }
}
