//! The context of one call: its rights, and its changes.
use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::kind::{self, Meta, Row};
use super::store::{Store, Undo};
use super::{Neutron, Scope, body};
use crate::sandbox::Caller;
use crate::sandbox::wire::{Refusal, Result};

/// The context of one call.
pub(super) struct Session<'a> {
    pub(super) neutron: &'a mut Neutron,
    pub(super) caller: &'a Caller,
    pub(super) now: DateTime<Utc>,
    /// The revision number of `If-Match`.
    pub(super) if_match: Option<u64>,
    /// Changes that are kept even when the call is refused.
    pub(super) committed: Vec<Undo>,
}

impl Session<'_> {
    pub(super) fn store(&self) -> &Store {
        &self.neutron.store
    }

    pub(super) fn caller(&self) -> &Caller {
        self.caller
    }

    pub(super) fn scope(&self) -> Scope<'_> {
        Scope {
            store: &self.neutron.store,
            caller: self.caller,
        }
    }

    /// Keeps the changes so far even if the call is refused.
    pub(super) fn commit(&mut self) {
        self.committed.extend(self.neutron.store.recorded());
        self.neutron.store.record();
    }

    pub(super) fn insert<R: Row>(&mut self, row: R) -> Uuid {
        let id = row.meta().id;
        self.neutron.store.put(row);
        id
    }

    pub(super) fn put<R: Row>(&mut self, row: R) {
        self.neutron.store.put(row);
    }

    pub(super) fn take<R: Row>(&mut self, id: Uuid) -> Option<R> {
        self.neutron.store.take(id)
    }

    pub(super) fn edit<R: Row>(&mut self, id: Uuid, change: impl FnOnce(&mut R)) {
        self.neutron.store.edit(id, change);
    }

    /// Raises the revision number and the time of the last update.
    pub(super) fn bump<R: Row>(&mut self, id: Uuid) {
        let now = self.now;
        self.edit(id, |row: &mut R| {
            row.meta_mut().revision += 1;
            row.meta_mut().updated = now;
        });
    }

    /// Returns a row that is known to exist.
    pub(super) fn row<R: Row>(&self, id: Uuid) -> Result<&R> {
        self.store().get(id).ok_or_else(|| R::KIND.missing(id))
    }

    /// Returns the row that an id in a path or a body names, if the caller may see it.
    pub(super) fn named<R: Row>(&self, text: &str) -> Result<&R> {
        // Only the form with dashes is a valid id, although `Uuid` reads others.
        let id = Some(text)
            .filter(|text| text.len() == 36)
            .and_then(|text| text.parse().ok());
        id.and_then(|id| self.store().get::<R>(id))
            .filter(|row| row.visible(&self.scope()))
            .ok_or_else(|| R::KIND.missing(text))
    }

    /// Returns the row that a required attribute of a body names.
    pub(super) fn referred<R: Row>(&self, body: &Map<String, Value>, name: &str) -> Result<R> {
        let text = body::required(body, name)?;
        body::id(body, name)?;
        self.named::<R>(text).cloned()
    }

    /// Returns the common properties of a new resource, from a checked body.
    pub(super) fn meta<R: Row>(&mut self, body: &Map<String, Value>) -> Result<Meta> {
        let project = match body.get("project_id").or_else(|| body.get("tenant_id")) {
            Some(Value::String(project)) => project.as_str().into(),
            _ => self.caller.project.clone(),
        };
        let mut meta = self.new_meta::<R>(project);
        if let Some(id) = body::id(body, "id")? {
            if self.store().get::<R>(id).is_some() {
                return Err(Refusal::conflict(
                    "Conflict",
                    format!("{} with id {id} already exists.", R::KIND.singular),
                ));
            }
            meta.id = id;
        }
        body::text(body, "name")?
            .unwrap_or_default()
            .clone_into(&mut meta.name);
        body::text(body, "description")?
            .unwrap_or_default()
            .clone_into(&mut meta.description);
        keep::<R>(&mut meta, body);
        Ok(meta)
    }

    pub(super) fn new_meta<R: Row>(&mut self, project: Arc<str>) -> Meta {
        Meta {
            id: self.neutron.ids.uuid(),
            project,
            name: String::new(),
            description: String::new(),
            tags: BTreeSet::new(),
            created: self.now,
            updated: self.now,
            revision: R::KIND.first_revision.unwrap_or(0),
            more: Map::new(),
        }
    }

    pub(super) fn next_segment(&mut self) -> u32 {
        self.neutron.segments += 1;
        self.neutron.segments
    }

    pub(super) fn random_mac(&mut self) -> [u8; 6] {
        self.neutron.ids.mac()
    }

    /// Refuses when `If-Match` names another revision.
    pub(super) fn constrain<R: Row>(&self, id: Uuid) -> Result<()> {
        let revision = self.row::<R>(id)?.meta().revision;
        match self.if_match {
            Some(wanted) if wanted != revision && R::KIND.first_revision.is_some() => {
                Err(Refusal::new(
                    StatusCode::PRECONDITION_FAILED,
                    "RevisionNumberConstraintFailed",
                    format!("Constrained to {wanted}, but current revision is {revision}"),
                ))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn shown<R: Row>(&self, id: Uuid) -> Value {
        self.store()
            .get::<R>(id)
            .map_or(Value::Null, |row| kind::view(row, &[], &self.scope()))
    }

    pub(super) fn no_such_path(&self) -> Refusal {
        Refusal::not_found("HTTPNotFound", "The resource could not be found.")
    }

    pub(super) fn unsupported(&self) -> Refusal {
        Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "HTTPMethodNotAllowed",
            "The server could not comply with the request since it is either malformed or otherwise incorrect.",
        )
    }

    pub(super) fn internal_error(&self) -> Refusal {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "HTTPInternalServerError",
            "Request Failed: internal server error while processing your request.",
        )
    }

    pub(super) fn forbidden(&self, rule: &str) -> Refusal {
        Refusal::new(
            StatusCode::FORBIDDEN,
            "PolicyNotAuthorized",
            format!("rule:{rule} is disallowed by policy"),
        )
    }

    /// Returns the id of a row that the caller may change. Rows of others are not found; shared rows, and
    /// changes by mere readers, are forbidden.
    pub(super) fn changeable<R: Row>(&self, text: &str, verb: &str) -> Result<Uuid> {
        let row = self.named::<R>(text)?;
        if !self.caller.writes() || !row.writable(&self.scope()) {
            return Err(self.forbidden(&format!("{verb}_{}", R::KIND.singular)));
        }
        Ok(row.meta().id)
    }
}

/// Stores the attributes that no rule reads as they were given.
pub(super) fn keep<R: Row>(meta: &mut Meta, body: &Map<String, Value>) {
    for (name, value) in body {
        if R::KIND
            .attribute(name)
            .is_some_and(kind::Attribute::is_kept)
        {
            meta.more.insert(name.clone(), value.clone());
        }
    }
}

pub(super) fn tag_set(tags: &Value) -> Result<BTreeSet<String>> {
    tags.as_array()
        .and_then(|tags| {
            tags.iter()
                .map(|tag| tag.as_str().map(str::to_owned))
                .collect()
        })
        .ok_or_else(|| body::invalid("tags", "the list of tags is not valid."))
}
