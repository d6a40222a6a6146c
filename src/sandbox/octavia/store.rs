//! One region's load balancers and their contents, with a journal to roll changes back.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::kind::Kind;

/// Octavia's `provisioning_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Status {
    Active,
    Error,
    PendingCreate,
    PendingUpdate,
    PendingDelete,
    /// A balancer's row outlives it: creating something in it is refused as immutable, not as missing, and a
    /// list may still begin after it.
    #[serde(skip_deserializing)]
    Deleted,
}

impl Status {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Error => "ERROR",
            Self::PendingCreate => "PENDING_CREATE",
            Self::PendingUpdate => "PENDING_UPDATE",
            Self::PendingDelete => "PENDING_DELETE",
            Self::Deleted => "DELETED",
        }
    }

    pub(super) fn is_pending(self) -> bool {
        matches!(
            self,
            Self::PendingCreate | Self::PendingUpdate | Self::PendingDelete
        )
    }
}

/// The course of a balancer's change, where a scenario wants an unusual one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Seconds that it stays pending; `None`: until the next control call.
    pub(super) seconds: Option<u32>,
    /// Whether it ends in ERROR.
    pub(super) fails: bool,
}

/// The address at which a balancer is reached.
#[derive(Clone, Debug)]
pub(super) struct Vip {
    pub(super) address: String,
    pub(super) port: Uuid,
    pub(super) subnet: Uuid,
    pub(super) network: Uuid,
    /// Subnet and address of the additional VIPs, on the same port.
    pub(super) more: Vec<(Uuid, String)>,
    /// Whether the port is deleted with the balancer, because it was not the user's.
    pub(super) owned: bool,
}

/// The properties that only a balancer has.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) vip: Vip,
    /// The time at which it stops being pending; `None` for never, or not pending.
    pub(super) due: Option<DateTime<Utc>>,
    /// The course of its next change.
    pub(super) next: Option<Course>,
    /// Whether the pending change ends in ERROR.
    pub(super) fails: bool,
}

/// One resource of any kind.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) id: Uuid,
    pub(super) project: Arc<str>,
    /// The balancer that contains it; its own id for a balancer.
    pub(super) balancer: Uuid,
    /// The parent, with which it is deleted; its own id for a balancer.
    pub(super) parent: Uuid,
    pub(super) status: Status,
    pub(super) operating: &'static str,
    pub(super) created: DateTime<Utc>,
    pub(super) updated: Option<DateTime<Utc>>,
    /// Attributes as they are shown.
    pub(super) values: Map<String, Value>,
    pub(super) root: Option<Box<Root>>,
}

impl Item {
    pub(super) fn value(&self, name: &str) -> &Value {
        self.values.get(name).unwrap_or(&Value::Null)
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.value(name).as_str().unwrap_or_default()
    }

    /// Returns the id that an attribute refers to.
    pub(super) fn refers_to(&self, name: &str) -> Option<Uuid> {
        self.text(name).parse().ok()
    }

    fn due(&self) -> Option<DateTime<Utc>> {
        self.root.as_ref().and_then(|root| root.due)
    }
}

/// An item before a change; `None`: it did not exist.
#[derive(Clone, Debug)]
pub(super) struct Undo(pub(super) Uuid, pub(super) Option<Item>);

#[derive(Default)]
pub(super) struct Store {
    items: BTreeMap<Uuid, Item>,
    kinds: BTreeMap<Kind, BTreeSet<Uuid>>,
    children: BTreeMap<Uuid, BTreeSet<Uuid>>,
    /// Balancers by the time at which they stop being pending.
    due: BTreeSet<(DateTime<Utc>, Uuid)>,
    /// Set while changes may have to be rolled back.
    journal: Option<Vec<Undo>>,
}

impl Store {
    /// Returns an item that exists: a deleted balancer does not.
    pub(super) fn get(&self, id: Uuid) -> Option<&Item> {
        self.find(id).filter(|item| item.status != Status::Deleted)
    }

    /// Returns an item that exists, or a deleted balancer.
    pub(super) fn find(&self, id: Uuid) -> Option<&Item> {
        self.items.get(&id)
    }

    /// Lists the items of a kind.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = &Item> {
        self.kinds
            .get(&kind)
            .into_iter()
            .flatten()
            .filter_map(|id| self.get(*id))
    }

    /// Lists the children of an item, of one kind, oldest first.
    pub(super) fn children(&self, parent: Uuid, kind: Kind) -> Vec<&Item> {
        let ids = self.children.get(&parent).into_iter().flatten();
        let mut found: Vec<&Item> = ids
            .filter_map(|id| self.get(*id))
            .filter(|item| item.kind == kind)
            .collect();
        found.sort_by_key(|item| (item.created, item.id));
        found
    }

    /// Lists an item and its contents, parents before children.
    pub(super) fn tree(&self, id: Uuid) -> Vec<Uuid> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(self.children.get(&parent).into_iter().flatten());
            next += 1;
        }
        found
    }

    /// Returns the balancer whose change ends first, if that time has come.
    pub(super) fn first_due(&self, now: DateTime<Utc>) -> Option<(DateTime<Utc>, Uuid)> {
        self.due.first().copied().filter(|(at, _)| *at <= now)
    }

    /// Inserts or replaces.
    pub(super) fn put(&mut self, item: Item) {
        let id = item.id;
        self.forget(id);
        if let Some(at) = item.due() {
            self.due.insert((at, id));
        }
        self.kinds.entry(item.kind).or_default().insert(id);
        if item.parent != id {
            self.children.entry(item.parent).or_default().insert(id);
        }
        self.items.insert(id, item);
    }

    pub(super) fn take(&mut self, id: Uuid) -> Option<Item> {
        if !self.items.contains_key(&id) {
            return None;
        }
        self.forget(id)
    }

    /// Changes an item in place, if it exists.
    pub(super) fn edit(&mut self, id: Uuid, change: impl FnOnce(&mut Item)) {
        if let Some(mut item) = self.find(id).cloned() {
            change(&mut item);
            self.put(item);
        }
    }

    /// Removes an item from the table and its indexes, and journals its previous state.
    fn forget(&mut self, id: Uuid) -> Option<Item> {
        let before = self.items.remove(&id);
        if let Some(item) = &before {
            if let Some(at) = item.due() {
                self.due.remove(&(at, id));
            }
            if let Some(ids) = self.kinds.get_mut(&item.kind) {
                ids.remove(&id);
            }
            if let Some(ids) = self.children.get_mut(&item.parent) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.children.remove(&item.parent);
                }
            }
        }
        if let Some(journal) = &mut self.journal {
            journal.push(Undo(id, before.clone()));
        }
        before
    }

    /// Starts a new journal of changes.
    pub(super) fn record(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// Ends the journal and returns its changes, oldest first.
    pub(super) fn recorded(&mut self) -> Vec<Undo> {
        self.journal.take().unwrap_or_default()
    }

    /// Rolls changes back, newest first.
    pub(super) fn roll_back(&mut self, changes: Vec<Undo>) {
        for Undo(id, before) in changes.into_iter().rev() {
            match before {
                Some(item) => self.put(item),
                None => {
                    self.forget(id);
                }
            }
        }
    }
}
