//! The context of one call: its rights, the balancer that it makes pending, and its changes.
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Octavia;
use super::body::conflict;
use super::kind::Kind;
use super::revival::Tree;
use super::store::{Item, Status, Store};
use super::view::listeners_of;
use crate::sandbox::Caller;
use crate::sandbox::neutron::{self, Neutron};
use crate::sandbox::wire::{Refusal, Result};

/// How long a balancer stays pending by default.
const SETTLES_AFTER: TimeDelta = TimeDelta::seconds(1);

/// The context of one call.
pub(super) struct Session<'a> {
    pub(super) octavia: &'a mut Octavia,
    pub(super) neutron: &'a mut Neutron,
    pub(super) caller: &'a Caller,
    pub(super) now: DateTime<Utc>,
    /// The changes in the network service.
    pub(super) network: neutron::Changes,
    /// The resources that the call deletes, as they were.
    pub(super) deleted: Vec<Tree>,
}

pub(super) fn forbidden() -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "",
        "Policy does not allow this request to be performed.",
    )
}

pub(super) fn missing(kind: Kind, text: &str) -> Refusal {
    let title = kind.form().title;
    Refusal::not_found("", format!("{title} {text} not found."))
}

fn immutable(what: &str, id: Uuid) -> Refusal {
    conflict(format!("{what} {id} is immutable and cannot be updated."))
}

impl Session<'_> {
    pub(super) fn store(&self) -> &Store {
        &self.octavia.store
    }

    pub(super) fn edit(&mut self, id: Uuid, change: impl FnOnce(&mut Item)) {
        let now = self.now;
        self.octavia.store.edit(id, |item| {
            item.updated = Some(now);
            change(item);
        });
    }

    /// Returns the resource that an id in a path or a body names.
    pub(super) fn find(&self, kind: Kind, text: &str) -> Result<Item> {
        let found = id_of(text).and_then(|id| self.store().get(id));
        found
            .filter(|item| item.kind == kind)
            .cloned()
            .ok_or_else(|| missing(kind, text))
    }

    /// Returns the parent that a body names. A deleted balancer is still found, and refused later.
    pub(super) fn holder(&self, kind: Kind, text: &str) -> Result<Item> {
        let found = id_of(text).and_then(|id| self.store().find(id));
        found
            .filter(|item| item.kind == kind)
            .cloned()
            .ok_or_else(|| missing(kind, text))
    }

    pub(super) fn may_see(&self, project: &str) -> Result<()> {
        if self.caller.owns(project) {
            Ok(())
        } else {
            Err(forbidden())
        }
    }

    pub(super) fn may_change(&self, project: &str) -> Result<()> {
        if self.caller.owns(project) && self.caller.writes() {
            Ok(())
        } else {
            Err(forbidden())
        }
    }

    /// Returns what else becomes pending while a child of `parent` changes: the listeners that use it, and a
    /// member's or a monitor's pool, or a rule's policy, which must itself be ACTIVE.
    fn touched(&self, kind: Kind, parent: &Item) -> Result<Vec<Uuid>> {
        let settled = |what: &str| match parent.status {
            Status::Active => Ok(()),
            _ => Err(immutable(what, parent.id)),
        };
        Ok(match kind {
            Kind::LoadBalancer | Kind::Listener | Kind::Pool => Vec::new(),
            Kind::Policy => vec![parent.id],
            Kind::Member | Kind::HealthMonitor => {
                settled("Pool")?;
                let mut touched = listeners_of(self.store(), parent.id);
                touched.push(parent.id);
                touched
            }
            Kind::Rule => {
                settled("L7Policy")?;
                vec![parent.id, parent.parent]
            }
        })
    }

    /// Makes the balancer pending, with everything else that the creation of a child of `parent` involves.
    pub(super) fn hold_for(&mut self, kind: Kind, parent: &Item) -> Result<()> {
        let touched = self.touched(kind, parent)?;
        self.hold(parent.balancer, &touched)
    }

    /// Makes the balancer pending, with everything else that changing or deleting `item` involves.
    pub(super) fn hold_with(&mut self, item: &Item) -> Result<()> {
        let parent = self.store().find(item.parent).cloned();
        let parent = parent.ok_or_else(|| missing(item.kind, &item.id.to_string()))?;
        let touched = match item.kind {
            Kind::Listener => vec![item.id],
            Kind::Pool => listeners_of(self.store(), item.id),
            kind => self.touched(kind, &parent)?,
        };
        self.hold(item.balancer, &touched)
    }

    /// Makes a balancer and `touched` PENDING_UPDATE until the change is done. Refused unless the balancer is
    /// ACTIVE: it takes one change at a time.
    pub(super) fn hold(&mut self, balancer: Uuid, touched: &[Uuid]) -> Result<()> {
        let status = self.store().find(balancer).map(|item| item.status);
        if status != Some(Status::Active) {
            return Err(immutable(Kind::LoadBalancer.form().title, balancer));
        }
        self.begin(balancer, Status::PendingUpdate);
        for id in touched {
            self.edit(*id, |item| item.status = Status::PendingUpdate);
        }
        Ok(())
    }

    /// Makes a balancer pending, and sets the time at which that ends.
    pub(super) fn begin(&mut self, balancer: Uuid, status: Status) {
        let now = self.now;
        self.edit(balancer, |item| {
            item.status = status;
            if let Some(root) = &mut item.root {
                let course = root.next.take();
                root.fails = course.is_some_and(|course| course.fails);
                root.due = match course {
                    None => Some(now + SETTLES_AFTER),
                    Some(course) => course
                        .seconds
                        .map(|seconds| now + TimeDelta::seconds(seconds.into())),
                };
            }
        });
    }

    /// Returns a new item in `parent`, from a checked body.
    pub(super) fn make(&mut self, kind: Kind, parent: &Item, body: &Map<String, Value>) -> Item {
        let mut item = self.new_item(kind, parent.project.clone(), body);
        item.balancer = parent.balancer;
        item.parent = parent.id;
        item
    }

    pub(super) fn new_item(
        &mut self,
        kind: Kind,
        project: Arc<str>,
        body: &Map<String, Value>,
    ) -> Item {
        let id = self.octavia.ids.uuid();
        Item {
            kind,
            id,
            project,
            balancer: id,
            parent: id,
            status: Status::PendingCreate,
            operating: "OFFLINE",
            created: self.now,
            updated: None,
            values: values(kind, body),
            root: None,
        }
    }
}

/// Returns the attributes to store; one that is missing or null in the body gets its unset value.
fn values(kind: Kind, body: &Map<String, Value>) -> Map<String, Value> {
    let mut values = Map::new();
    for attribute in kind.form().attributes {
        let Some(unset) = attribute.unset.value() else {
            continue;
        };
        let given = body.get(attribute.name);
        let value = match given {
            Some(value) => given_or(value, attribute.name, unset),
            None => unset,
        };
        values.insert(attribute.name.to_owned(), value);
    }
    values
}

/// Returns the value to store. A null resets the attribute; `admin_state_up` becomes false.
pub(super) fn given_or(value: &Value, name: &str, unset: Value) -> Value {
    match value {
        Value::Null if name == "admin_state_up" => false.into(),
        Value::Null => unset,
        value => value.clone(),
    }
}

/// Parses an id. Only the form with dashes is valid, although `Uuid` reads others.
fn id_of(text: &str) -> Option<Uuid> {
    Some(text)
        .filter(|text| text.len() == 36)
        .and_then(|text| text.parse().ok())
}
