//! Revival of deleted rows, as if another system, a resync or an import had re-created them.
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use uuid::Uuid;

use super::attribute::REVIVED;
use super::row::Row;
use super::store::{Store, Undo};

/// Old ids and their replacements.
type Names = BTreeMap<Uuid, Uuid>;

/// Length of a UUID's text.
const ID: usize = 36;

/// Whether a call only began to delete a row, so that there is nothing to revive yet.
pub(crate) fn must_wait(store: &Store, changes: &[Undo]) -> bool {
    changes.iter().any(|undo| {
        let row = store.get(undo.kind, undo.id);
        undo.before.is_some() && row.is_some_and(|row| row.is_deleting)
    })
}

/// Revives the rows that a call deleted and whose parents exist, with all attributes, under new ids if `as_new`. Rows
/// that exist stay, but get back the values that the call removed from them.
pub(crate) fn revive(store: &mut Store, mut changes: Vec<Undo>, as_new: bool) {
    changes.sort_by_key(|undo| store.rank(undo.kind));
    let gone: BTreeSet<Uuid> = changes
        .iter()
        .filter(|undo| store.get(undo.kind, undo.id).is_none())
        .map(|undo| undo.id)
        .collect();
    let mut names = Names::new();
    if as_new {
        names.extend(gone.iter().map(|id| (*id, store.ids.uuid())));
    }
    let revived: BTreeSet<Uuid> = gone.iter().chain(names.values()).copied().collect();
    for Undo { kind, id, before } in changes {
        // If the row did not exist before the call, the call created it, so there is nothing to revive.
        let Some(before) = before.filter(|row| !row.is_deleted) else {
            continue;
        };
        let before = renamed(before, &names);
        let parent = before.parent();
        let has_parent = parent.is_none_or(|(kind, id)| store.get(kind, id).is_some());
        let row = match store.get(kind, before.id) {
            Some(row) if row.id == id => merged(row, &before, &revived),
            None if has_parent => before,
            _ => continue,
        };
        store.put(row);
    }
}

fn renamed(mut row: Row, names: &Names) -> Row {
    if names.is_empty() {
        return row;
    }
    if let Some(id) = names.get(&row.id) {
        row.id = *id;
    }
    row.values_mut().for_each(|value| rename(value, names));
    row
}

/// Replaces ids, also at the end of a text: `lb-{id}`.
fn rename(value: &mut Value, names: &Names) {
    match value {
        Value::String(text) => {
            let Some(start) = text.len().checked_sub(ID) else {
                return;
            };
            let id = text.get(start..).and_then(|id| id.parse().ok());
            if let Some(new) = id.and_then(|id: Uuid| names.get(&id)) {
                text.replace_range(start.., &new.to_string());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Value::Object(map) => map.values_mut().for_each(|value| rename(value, names)),
        _ => {}
    }
}

/// Returns an existing row with the values that the call removed from it: items of lists, and references to
/// revived rows.
fn merged(row: &Row, before: &Row, revived: &BTreeSet<Uuid>) -> Row {
    let mut merged = row.clone();
    let kept = row.kind.attributes.iter().filter(|it| it.is(REVIVED));
    for name in kept.map(|attribute| attribute.name) {
        match (before.get(name), merged.value(name)) {
            (Some(Value::Array(were)), Value::Array(mut are)) => {
                let lost = were.iter().filter(|item| !row.items(name).contains(item));
                are.extend(lost.cloned());
                merged.set(name, are);
            }
            (Some(Value::String(was)), Value::Null)
                if was.parse().is_ok_and(|id| revived.contains(&id)) =>
            {
                merged.set(name, was.as_str());
            }
            _ => {}
        }
    }
    merged
}
