//! The common form of Neutron's kinds: their names, their attributes and their storage.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::revival::Renamed;
use super::store::{Indexes, Tables, Undo};
use super::{Scope, Session};
pub(super) use crate::sandbox::unset::Unset;
use crate::sandbox::wire::{Refusal, Result};

/// Attribute may be used to filter a list.
pub(super) const F: u8 = 1;
/// Attribute may be used to sort a list.
pub(super) const S: u8 = 2;
/// Attribute may be given at creation.
pub(super) const P: u8 = 4;
/// Attribute may be updated.
pub(super) const U: u8 = 8;
/// Attribute is shown to admins only.
pub(super) const A: u8 = 16;
/// Attribute is set by admins only.
pub(super) const W: u8 = 32;

pub(super) struct Attribute {
    pub(super) name: &'static str,
    flags: u8,
    unset: Unset,
}

impl Attribute {
    pub(super) const fn new(name: &'static str, flags: u8, unset: Unset) -> Self {
        Self { name, flags, unset }
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether a given value is only stored and shown. Other values are read by a rule, or computed.
    pub(super) fn is_kept(&self) -> bool {
        !matches!(self.unset, Unset::Absent)
            || matches!(self.name, "allocation_pools" | "port_security_enabled")
    }
}

/// The names and rules of one collection.
pub(super) struct Kind {
    /// The key around one resource in a body, and the name in policy rules.
    pub(super) singular: &'static str,
    /// The key around a list in a body.
    pub(super) plural: &'static str,
    pub(super) not_found: &'static str,
    /// The message of a 404 is `before`, the id, `after`.
    pub(super) before: &'static str,
    pub(super) after: &'static str,
    /// Whether POST takes a list.
    pub(super) bulk: bool,
    /// The revision number of a new resource; `None` where the kind has none.
    pub(super) first_revision: Option<u64>,
    /// Whether a list whose marker is gone starts from the beginning instead of answering 404.
    pub(super) forgets_marker: bool,
    pub(super) attributes: &'static [Attribute],
}

impl Kind {
    pub(super) fn attribute(&self, name: &str) -> Option<&'static Attribute> {
        self.attributes.iter().find(|known| known.name == name)
    }

    pub(super) fn missing(&self, id: impl std::fmt::Display) -> Refusal {
        Refusal::not_found(self.not_found, format!("{}{id}{}", self.before, self.after))
    }
}

/// The properties that every resource has.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub(super) id: Uuid,
    /// Empty for the ports of gateways and floating IPs.
    pub(super) project: Arc<str>,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) tags: BTreeSet<String>,
    pub(super) created: DateTime<Utc>,
    pub(super) updated: DateTime<Utc>,
    pub(super) revision: u64,
    /// Attributes that are stored and shown as they were given; a rule reads only one of them (`qos`).
    pub(super) more: Map<String, Value>,
}

/// The part of [`Row`] that is the same for all kinds: access to a row's metadata, table and undo entry.
macro_rules! stored {
    ($table:ident, $undo:ident) => {
        fn meta(&self) -> &crate::sandbox::neutron::kind::Meta {
            &self.meta
        }

        fn meta_mut(&mut self) -> &mut crate::sandbox::neutron::kind::Meta {
            &mut self.meta
        }

        fn table(
            tables: &crate::sandbox::neutron::store::Tables,
        ) -> &std::collections::BTreeMap<uuid::Uuid, Self> {
            &tables.$table
        }

        fn table_mut(
            tables: &mut crate::sandbox::neutron::store::Tables,
        ) -> &mut std::collections::BTreeMap<uuid::Uuid, Self> {
            &mut tables.$table
        }

        fn undo(id: uuid::Uuid, before: Option<Self>) -> crate::sandbox::neutron::store::Undo {
            crate::sandbox::neutron::store::Undo::$undo(id, before)
        }
    };
}
pub(super) use stored;

/// A kind of resource as it is stored.
pub(super) trait Row: Clone {
    const KIND: &'static Kind;

    fn meta(&self) -> &Meta;
    fn meta_mut(&mut self) -> &mut Meta;
    fn table(tables: &Tables) -> &BTreeMap<Uuid, Self>;
    fn table_mut(tables: &mut Tables) -> &mut BTreeMap<Uuid, Self>;
    /// Returns the journal entry that restores the row.
    fn undo(id: Uuid, before: Option<Self>) -> Undo;

    /// Adds the row to the indexes, or removes it.
    fn index(&self, _indexes: &mut Indexes, _present: bool) {}

    /// Creates a resource from attributes that were checked against `KIND`.
    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid>;

    /// Updates a resource that the caller may change. The name, the description and the attributes that are
    /// only stored are already updated.
    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()>;

    /// Checks that the resource can be deleted; otherwise returns the refusal ("in use").
    fn deletable(&self, session: &mut Session<'_>) -> Result<()>;

    /// Deletes the resource and everything that goes with it.
    fn delete(session: &mut Session<'_>, id: Uuid);

    /// Returns an attribute that is more than a stored value. `None`: it is in `meta`, or unset.
    fn attribute(&self, name: &str, scope: &Scope<'_>) -> Option<Value>;

    /// Whether the caller may see it.
    fn visible(&self, scope: &Scope<'_>) -> bool {
        scope.caller.owns(&self.meta().project)
    }

    /// Whether a caller that sees it may change it.
    fn writable(&self, scope: &Scope<'_>) -> bool {
        scope.caller.owns(&self.meta().project)
    }

    /// Replaces the ids that it refers to when it is revived under a new id.
    fn rename(&mut self, _names: &Renamed) {}

    /// Returns a superset of the rows that the filters select, from an index; `None` to scan the table.
    fn candidates(
        _filters: &[(String, Vec<String>)],
        _indexes: &Indexes,
    ) -> Option<BTreeSet<Uuid>> {
        None
    }
}

/// Returns the value of one attribute, as the caller sees it.
pub(super) fn value_of<R: Row>(row: &R, attribute: &Attribute, scope: &Scope<'_>) -> Option<Value> {
    if attribute.is(A) && !scope.caller.admin {
        return None;
    }
    let meta = row.meta();
    if let Some(value) = row.attribute(attribute.name, scope) {
        return Some(value);
    }
    Some(match attribute.name {
        "id" => meta.id.to_string().into(),
        "project_id" | "tenant_id" => meta.project.to_string().into(),
        "name" => meta.name.as_str().into(),
        "description" => meta.description.as_str().into(),
        "tags" => meta.tags.iter().map(String::as_str).collect(),
        "created_at" => timestamp(meta.created),
        "updated_at" => timestamp(meta.updated),
        "revision_number" => meta.revision.into(),
        name => match meta.more.get(name) {
            Some(value) => value.clone(),
            None => return attribute.unset.value(),
        },
    })
}

/// Returns the JSON view of a resource, or only the wanted attributes (unknown ones are skipped).
pub(super) fn view<R: Row>(row: &R, wanted: &[&str], scope: &Scope<'_>) -> Value {
    let mut shown = Map::new();
    for attribute in R::KIND.attributes {
        if !wanted.is_empty() && !wanted.contains(&attribute.name) {
            continue;
        }
        if let Some(value) = value_of(row, attribute, scope) {
            shown.insert(attribute.name.to_owned(), value);
        }
    }
    Value::Object(shown)
}

fn timestamp(at: DateTime<Utc>) -> Value {
    at.format("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}
