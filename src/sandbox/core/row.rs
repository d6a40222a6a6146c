//! One resource of any kind.
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::attribute::{OWN_RULES, PROJECT, Shape, WITHIN};
use super::kind::{Body, Kind};

/// The course of a change that takes time, where a scenario or a fault wants an unusual one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// Seconds that the row stays pending; `None`: until another call ends the change.
    pub(crate) seconds: Option<u32>,
    pub(crate) end: End,
}

/// How a change ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// The change has the effect that the call requested.
    #[default]
    Done,
    /// The change fails, and the row is in an error status.
    Error,
    /// The row is as it was before the change.
    PutBack,
}

#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) kind: &'static Kind,
    pub(crate) id: Uuid,
    /// Rows are numbered in the order of their creation.
    pub(crate) number: u64,
    /// The id of the project that owns the row; empty for the ports of gateways and floating IPs.
    pub(crate) project: Arc<str>,
    pub(crate) created: DateTime<Utc>,
    pub(crate) updated: Option<DateTime<Utc>>,
    pub(crate) revision: u64,
    /// Whether the row is deleted; only for kinds that keep deleted rows.
    pub(crate) is_deleted: bool,
    /// The time at which the row's pending change ends; `None` for never, or if no change is pending.
    pub(crate) due: Option<DateTime<Utc>>,
    /// Whether the row is being deleted: it is removed when the pending change ends, unless that change fails.
    pub(crate) is_deleting: bool,
    /// How the pending change ends.
    pub(crate) end: End,
    /// The course of the row's next change, if it is an unusual one.
    pub(crate) next: Option<Course>,
    /// The file that was uploaded to an image.
    pub(crate) file: Option<Bytes>,
    /// The attributes that were set.
    values: Vec<(&'static str, Value)>,
}

impl Row {
    pub(crate) fn new(
        kind: &'static Kind,
        id: Uuid,
        number: u64,
        project: Arc<str>,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            kind,
            id,
            number,
            project,
            created: now,
            updated: None,
            revision: kind.first_revision.unwrap_or(0),
            is_deleted: false,
            due: None,
            is_deleting: false,
            end: End::Done,
            next: None,
            file: None,
            values: Vec::new(),
        }
    }

    /// Returns a time as the row's service writes it.
    pub(crate) fn time(&self, at: DateTime<Utc>) -> String {
        at.format(self.kind.service.times).to_string()
    }

    /// Returns the value of an attribute that was set.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        let set = self.values.iter().find(|(known, _)| *known == name);
        set.map(|(_, value)| value)
    }

    /// Returns the value of an attribute, or the one that it has while nobody has set it.
    fn known(&self, name: &str) -> Option<&Value> {
        let unset = || self.kind.attribute(name)?.unset.as_ref();
        self.get(name).or_else(unset)
    }

    pub(crate) fn value(&self, name: &str) -> Value {
        self.known(name).cloned().unwrap_or_default()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        let text = self.known(name).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.known(name) == Some(&Value::Bool(true))
    }

    /// Returns the id that an attribute has.
    pub(crate) fn id_of(&self, name: &str) -> Option<Uuid> {
        self.get(name)?.as_str()?.parse().ok()
    }

    /// Returns the kind and the id of the row's parent.
    pub(crate) fn parent(&self) -> Option<(&'static str, Uuid)> {
        let parent = self.kind.parent?;
        Some((parent.kind, self.id_of(parent.attribute)?))
    }

    /// Returns the items of a list.
    pub(crate) fn items(&self, name: &str) -> &[Value] {
        let items = self.get(name).and_then(Value::as_array);
        items.map_or(&[], Vec::as_slice)
    }

    /// Returns the attributes that are in no table, of a kind that may have any.
    pub(crate) fn others(&self) -> Option<&Map<String, Value>> {
        self.get("").and_then(Value::as_object)
    }

    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.values.push((name, value)),
        }
    }

    pub(crate) fn clear(&mut self, name: &str) {
        self.values.retain(|(known, _)| *known != name);
    }

    /// Sets the attributes of a checked body, but not its id, its project, its contents, or the attributes that only
    /// hooks store. A null clears an attribute that has a value while nobody has set it; otherwise the null is stored.
    pub(crate) fn apply(&mut self, body: &Body) {
        for (name, value) in body {
            let Some(attribute) = self.kind.attribute(name) else {
                self.apply_other(name, value);
                continue;
            };
            let mut elsewhere = [WITHIN, PROJECT, OWN_RULES].into_iter();
            if name == "id" || elsewhere.any(|letter| attribute.is(letter)) {
                continue;
            }
            if value.is_null() && attribute.unset.is_some() {
                self.clear(name);
            } else if !matches!(attribute.shape, Shape::Children(_)) {
                self.set(attribute.name, value.clone());
            }
        }
    }

    fn apply_other(&mut self, name: &str, value: &Value) {
        if self.kind.is_open {
            let mut others = self.others().cloned().unwrap_or_default();
            others.insert(name.to_owned(), value.clone());
            self.set("", others);
        }
    }

    /// Returns the values of the attributes that were set, to be changed in place.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.values.iter_mut().map(|(_, value)| value)
    }
}
