//! The rows of all kinds, with their indexes, a journal to roll changes back, and the ids of new rows.
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::kind::Kind;
use super::row::Row;

/// Position among the indexed attributes, the key, its rank among equal keys, and the row's id.
///
/// A UUID is its own key; another text has a hash, so rows that are found by it must be compared again.
type Entry = (usize, u128, u128, Uuid);

struct Table {
    kind: &'static Kind,
    /// Position of the kind among those of the region: parents come before their children.
    rank: usize,
    rows: BTreeMap<Uuid, Row>,
    index: BTreeSet<Entry>,
}

/// A changed row, as it was before the change; without `before`, the row did not exist.
#[derive(Clone)]
pub(crate) struct Undo {
    pub(crate) kind: &'static str,
    pub(crate) id: Uuid,
    pub(crate) before: Option<Row>,
}

pub(crate) struct Store {
    tables: BTreeMap<&'static str, Table>,
    /// Rows by the time at which their pending change ends.
    due: BTreeSet<(DateTime<Utc>, &'static str, Uuid)>,
    /// Set while changes may have to be rolled back.
    journal: Option<Vec<Undo>>,
    pub(crate) ids: Ids,
    /// The last number that was given to a row.
    numbers: u64,
}

impl Store {
    pub(crate) fn new(kinds: impl Iterator<Item = &'static Kind>, seed: u64) -> Self {
        let table = |(rank, kind): (usize, &'static Kind)| {
            let table = Table {
                kind,
                rank,
                rows: BTreeMap::new(),
                index: BTreeSet::new(),
            };
            (kind.name, table)
        };
        Self {
            tables: kinds.enumerate().map(table).collect(),
            due: BTreeSet::new(),
            journal: None,
            ids: Ids::new(seed),
            numbers: 0,
        }
    }

    /// Returns a number that no row has.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns the kind with a name, which must be in one of the tables.
    pub(crate) fn kind(&self, kind: &str) -> &'static Kind {
        match self.tables.get(kind) {
            Some(table) => table.kind,
            None => unreachable!("no table has the kind {kind}"),
        }
    }

    pub(crate) fn rank(&self, kind: &str) -> usize {
        self.tables.get(kind).map_or(usize::MAX, |table| table.rank)
    }

    /// Returns a row that exists: a deleted one does not.
    pub(crate) fn get(&self, kind: &str, id: Uuid) -> Option<&Row> {
        self.find(kind, id).filter(|row| !row.is_deleted)
    }

    /// Returns a row that exists, or a deleted one that the kind keeps.
    pub(crate) fn find(&self, kind: &str, id: Uuid) -> Option<&Row> {
        self.tables.get(kind)?.rows.get(&id)
    }

    /// Lists the rows of a kind with the deleted rows that it keeps, by ascending id, after an id.
    pub(crate) fn list_with_deleted(
        &self,
        kind: &str,
        after: Option<Uuid>,
    ) -> impl Iterator<Item = &Row> + use<'_> {
        let start = after.map_or(Unbounded, Excluded);
        let table = self.tables.get(kind).into_iter();
        let rows = table.flat_map(move |table| table.rows.range((start, Unbounded)));
        rows.map(|(_, row)| row)
    }

    pub(crate) fn all(&self, kind: &str) -> impl Iterator<Item = &Row> + use<'_> {
        let rows = self.list_with_deleted(kind, None);
        rows.filter(|row| !row.is_deleted)
    }

    /// Lists the rows of a kind whose indexed attribute has, or contains, an id; by rank and id.
    pub(crate) fn of(
        &self,
        kind: &str,
        attribute: &str,
        id: Uuid,
    ) -> impl Iterator<Item = &Row> + use<'_> {
        let rows = self.ranked(kind, attribute, id.as_u128());
        rows.map(|(row, _)| row)
    }

    /// Returns the ids of the rows that `of` lists.
    pub(crate) fn ids(&self, kind: &str, attribute: &str, id: Uuid) -> Vec<Uuid> {
        self.of(kind, attribute, id).map(|row| row.id).collect()
    }

    /// Returns the row of `kind` that an attribute of another row names by its id.
    pub(crate) fn referred(&self, row: &Row, attribute: &str, kind: &str) -> Option<&Row> {
        self.get(kind, row.id_of(attribute)?)
    }

    /// Lists the rows whose indexed attribute has this text, and those with the same hash; compare them again.
    pub(crate) fn list_by_text(
        &self,
        kind: &str,
        attribute: &str,
        text: &str,
    ) -> impl Iterator<Item = &Row> + use<'_> {
        self.ranked(kind, attribute, key(text)).map(|(row, _)| row)
    }

    /// Lists the rows of a key, such as an id, with their ranks: for the ports of a subnet, their addresses as numbers.
    pub(crate) fn ranked(
        &self,
        kind: &str,
        attribute: &str,
        key: u128,
    ) -> impl DoubleEndedIterator<Item = (&Row, u128)> + use<'_> {
        let table = self.tables.get(kind).and_then(|table| {
            let mut indexed = table.kind.indexed.iter();
            Some((table, indexed.position(|known| *known == attribute)?))
        });
        table.into_iter().flat_map(move |(table, position)| {
            let first = (position, key, 0, Uuid::nil());
            let last = (position, key, u128::MAX, Uuid::max());
            let range = table.index.range(first..=last);
            range.filter_map(|(_, _, rank, id)| Some((table.rows.get(id)?, *rank)))
        })
    }

    /// Lists a row and all rows that are deleted with it, parents before children.
    pub(crate) fn tree(&self, row: &Row) -> Vec<(&'static str, Uuid)> {
        let mut found = vec![(row.kind.name, row.id)];
        let mut next = 0;
        while let Some((kind, id)) = found.get(next).copied() {
            for taken in &self.kind(kind).takes {
                let children = self.of(taken.kind, taken.attribute, id);
                found.extend(children.map(|row| (row.kind.name, row.id)));
            }
            next += 1;
        }
        found
    }

    /// Returns the row whose pending change ends first, if that time has come.
    pub(crate) fn first_due(
        &self,
        now: DateTime<Utc>,
    ) -> Option<(DateTime<Utc>, &'static str, Uuid)> {
        self.due.first().copied().filter(|(at, _, _)| *at <= now)
    }

    /// Inserts or replaces a row.
    pub(crate) fn put(&mut self, row: Row) {
        self.forget(row.kind.name, row.id);
        if let Some(at) = row.due {
            self.due.insert((at, row.kind.name, row.id));
        }
        if let Some(table) = self.tables.get_mut(row.kind.name) {
            if !row.is_deleted {
                table.index.extend(entries_of(&row));
            }
            table.rows.insert(row.id, row);
        }
    }

    /// Removes a row. Kinds that keep deleted rows mark it as deleted.
    pub(crate) fn take(&mut self, kind: &str, id: Uuid) -> Option<Row> {
        let row = self.get(kind, id)?.clone();
        if row.kind.keeps_deleted {
            let mut kept = row.clone();
            kept.is_deleted = true;
            kept.due = None;
            self.put(kept);
        } else {
            self.forget(kind, id);
        }
        Some(row)
    }

    /// Removes a row from its table and the indexes, and journals its previous state.
    fn forget(&mut self, kind: &str, id: Uuid) {
        let Some(table) = self.tables.get_mut(kind) else {
            return;
        };
        let before = table.rows.remove(&id);
        if let Some(row) = &before {
            for entry in entries_of(row) {
                table.index.remove(&entry);
            }
            if let Some(at) = row.due {
                self.due.remove(&(at, table.kind.name, id));
            }
        }
        if let Some(journal) = &mut self.journal {
            let kind = table.kind.name;
            journal.push(Undo { kind, id, before });
        }
    }

    /// Starts a new journal of changes.
    pub(crate) fn record(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// Ends the journal and returns its changes, oldest first.
    pub(crate) fn recorded(&mut self) -> Vec<Undo> {
        self.journal.take().unwrap_or_default()
    }

    /// Rolls changes back, newest first.
    pub(crate) fn roll_back(&mut self, changes: Vec<Undo>) {
        for Undo { kind, id, before } in changes.into_iter().rev() {
            match before {
                Some(row) => self.put(row),
                None => self.forget(kind, id),
            }
        }
    }
}

/// Returns the key of a text.
fn key(text: &str) -> u128 {
    let hash = || {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish().into()
    };
    text.parse()
        .map_or_else(|_| hash(), |id: Uuid| id.as_u128())
}

/// Returns an address as a number.
pub(crate) fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn entries_of(row: &Row) -> impl Iterator<Item = Entry> + use<'_> {
    let attributes = row.kind.indexed.iter().enumerate();
    let values = attributes.filter_map(|(position, name)| Some((position, row.get(name)?)));
    values.flat_map(move |(position, value)| {
        let items = match value {
            Value::Array(items) => items.as_slice(),
            single => std::slice::from_ref(single),
        };
        items.iter().filter_map(move |item| {
            let (text, rank) = key_in(item)?;
            (!text.is_empty()).then(|| (position, key(text), rank, row.id))
        })
    })
}

/// Returns the text by which an item is indexed, and its rank: an object of a list is indexed by its first id, and
/// ranked by its address.
fn key_in(item: &Value) -> Option<(&str, u128)> {
    let Value::Object(part) = item else {
        return Some((item.as_str()?, 0));
    };
    let mut ids = part.iter().filter(|(name, _)| name.ends_with("_id"));
    let text = ids.find_map(|(_, value)| value.as_str())?;
    let address = part.get("ip_address").and_then(Value::as_str);
    let address = address.and_then(|address| address.parse().ok());
    Some((text, address.map_or(0, number_of)))
}

pub(crate) struct Ids {
    random: fastrand::Rng,
}

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns a version 4 UUID, as Neutron makes them.
    pub(crate) fn uuid(&mut self) -> Uuid {
        let bytes = self.random.u128(..).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Returns 32 hexadecimal digits, as Keystone makes them.
    pub(crate) fn hex(&mut self) -> String {
        self.uuid().simple().to_string()
    }

    /// Returns a MAC address under Neutron's default prefix. Its 24 random bits may repeat on different
    /// networks of a large cloud, as they may in a real one.
    pub(crate) fn mac(&mut self) -> String {
        let [a, b, c, _] = self.random.u32(..).to_be_bytes();
        format!("fa:16:3e:{a:02x}:{b:02x}:{c:02x}")
    }
}
