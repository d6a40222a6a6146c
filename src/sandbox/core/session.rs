//! The context of one call: its rights, the rows that it sees, and its changes; and the rules of kinds that no table
//! can express (hooks).
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::attribute::{ADMIN_SEES, Attribute, HIDDEN};
use super::kind::{Body, Kind, Reference};
use super::row::{Course, End, Row};
use super::store::{Store, Undo};
use super::wire::{Call, Caller, Handled, Refusal, Result, refuse_if};

/// The rules of a kind that differ from the common ones.
pub(crate) struct Hooks {
    /// Completes and stores a new row, whose attributes are set from a checked body.
    pub(crate) create: fn(&mut Session<'_>, Row, &Body) -> Result<Uuid>,
    /// Stores a changed row, whose attributes are set from a checked body.
    pub(crate) update: fn(&mut Session<'_>, Row, &Body) -> Result<()>,
    /// Checks that a row can be deleted.
    pub(crate) deletable: fn(&mut Session<'_>, &Row) -> Result<()>,
    /// Deletes a row. The common way is [`Session::remove`], at once.
    pub(crate) delete: fn(&mut Session<'_>, &Row, &Call<'_>) -> Result<()>,
    /// Makes further changes after a row, and the rows that are deleted with it, were removed.
    pub(crate) removed: fn(&mut Session<'_>, &Row),
    /// Ends the pending change of a row whose due time was cleared.
    pub(crate) settle: fn(&mut Session<'_>, &Row),
    /// Computes an attribute of a row, by its name; `None` if the stored value counts.
    pub(crate) show: fn(&Session<'_>, &Row, &str) -> Option<Value>,
    /// Whether the caller sees a row.
    pub(crate) visible: fn(&Session<'_>, &Row) -> bool,
    /// Whether a caller that sees a row, and is more than a reader, may change it.
    pub(crate) writable: fn(&Session<'_>, &Row) -> bool,
    /// Handles a call below a row: `path` is the part of the path after the row. `None` if there is no such path.
    pub(crate) act: fn(&mut Session<'_>, &Call<'_>, &Row, path: &[&str]) -> Handled,
}

impl Hooks {
    pub(crate) const NONE: Self = Self {
        create: |session, row, _| Ok(session.put(row)),
        update: |session, row, _| {
            session.put(row);
            Ok(())
        },
        deletable: |session, row| session.check_unblocked(row),
        delete: |session, row, _| {
            session.remove(row.kind.name, row.id);
            Ok(())
        },
        removed: |_, _| (),
        settle: |_, _| (),
        show: |_, _, _| None,
        visible: |session, row| session.caller.owns(&row.project) || row.flag("shared"),
        writable: |session, row| session.caller.owns(&row.project),
        act: |_, _, _, _| Ok(None),
    };
}

/// The hooks of all kinds that have some, by kind.
pub(crate) type Rules = BTreeMap<&'static str, &'static Hooks>;

/// Options of a world.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The names of the regions, at least one. Each has its own services, below `/{region}/network` and so on.
    pub regions: Vec<String>,
    /// Seed of all ids: the same calls create the same ids.
    pub seed: u64,
    /// Whether a POST may name the id of the new resource.
    pub keep_ids: bool,
    /// Scheme and host of the catalog's URLs, e.g. `http://127.0.0.1:9000`.
    pub base_url: String,
    /// Lifetime of a token.
    pub token_lifetime: Duration,
    /// Neutron's `pagination_max_limit`: the most rows on a page, also if the call has no `limit`.
    pub page_max: Option<usize>,
    /// Whether an image's deleted member can be added again; otherwise Glance reports a duplicate, as on
    /// databases whose unique key is image and member alone.
    pub member_reuse: bool,
    /// Whether Nova keeps a deleted server, so that it can be restored (`reclaim_instance_interval`).
    pub soft_delete: bool,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            regions: vec!["RegionOne".to_owned()],
            seed: 1,
            keep_ids: false,
            base_url: "http://sandbox.invalid".to_owned(),
            token_lifetime: Duration::from_secs(4 * 60 * 60),
            page_max: None,
            member_reuse: true,
            soft_delete: false,
        }
    }
}

/// How long a row stays pending by default.
const SETTLES_AFTER: TimeDelta = TimeDelta::seconds(1);

pub(crate) struct Session<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) rules: &'a Rules,
    pub(crate) options: &'a WorldOptions,
    pub(crate) caller: Caller,
    pub(crate) now: DateTime<Utc>,
    /// The revision number that a row must have to be changed.
    pub(crate) if_match: Option<u64>,
    /// The course of the changes that the call begins, where a fault wants an unusual one.
    pub(crate) course: Option<Course>,
    /// Changes that are kept even when the call is refused.
    pub(crate) committed: Vec<Undo>,
    /// Whether rows are shown with their contents instead of the ids of their contents.
    pub(crate) with_contents: bool,
}

impl Session<'_> {
    pub(crate) fn hooks(&self, kind: &Kind) -> &'static Hooks {
        const NONE: &Hooks = &Hooks::NONE;
        self.rules.get(kind.name).copied().unwrap_or(NONE)
    }

    pub(crate) fn store(&self) -> &Store {
        self.store
    }

    pub(crate) fn sees(&self, row: &Row) -> bool {
        (self.hooks(row.kind).visible)(self, row)
    }

    /// Returns the value of an attribute; `None` if it is not shown.
    pub(crate) fn value(&self, row: &Row, attribute: &Attribute) -> Option<Value> {
        if attribute.is(ADMIN_SEES) && !self.caller.is_admin {
            return None;
        }
        let name = attribute.name;
        if let Some(value) = (self.hooks(row.kind).show)(self, row, name) {
            return Some(value);
        }
        if let Some(value) = row.get(name) {
            return Some(value.clone());
        }
        Some(match name {
            "id" => row.id.to_string().into(),
            "project_id" | "tenant_id" => row.project.to_string().into(),
            "created_at" => row.time(row.created).into(),
            "updated_at" => row.updated.map(|at| row.time(at)).into(),
            "revision_number" => row.revision.into(),
            "number" => row.number.into(),
            _ => return attribute.unset.clone(),
        })
    }

    /// Returns the JSON view of a row, or only the wanted attributes; unknown ones are skipped. The additional
    /// attributes of an open kind are always included.
    pub(crate) fn shown(&self, row: &Row, fields: &[&str]) -> Value {
        let wants = |name: &str| fields.is_empty() || fields.contains(&name);
        let mut shown = Map::new();
        for (name, value) in row.others().into_iter().flatten() {
            shown.insert(name.clone(), value.clone());
        }
        for attribute in &row.kind.attributes {
            if !attribute.is(HIDDEN)
                && wants(attribute.name)
                && let Some(value) = self.value(row, attribute)
            {
                shown.insert(attribute.name.to_owned(), value);
            }
        }
        Value::Object(shown)
    }

    /// Returns the attributes of a row that a text names, separated by spaces; all if it names none.
    pub(crate) fn part(&self, row: &Row, names: &str) -> Value {
        self.shown(row, &names.split_whitespace().collect::<Vec<_>>())
    }

    /// Returns the JSON view of a row after a call has changed it.
    pub(crate) fn shown_now(&self, kind: &str, id: Uuid) -> Value {
        let row = self.get(kind, id);
        row.map_or(Value::Null, |row| self.shown(row, &[]))
    }

    /// Runs `work` with the rights of a service in a project.
    pub(crate) fn as_service<T>(&mut self, project: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let caller = std::mem::replace(&mut self.caller, Caller::admin_of(project));
        let result = work(self);
        self.caller = caller;
        result
    }

    /// Keeps the changes so far even if the call is refused.
    pub(crate) fn commit(&mut self) {
        self.committed.extend(self.store.recorded());
        self.store.record();
    }

    pub(crate) fn get(&self, kind: &str, id: Uuid) -> Option<&Row> {
        self.store.get(kind, id)
    }

    /// Returns the refusal of an id that no row of a kind has.
    pub(crate) fn missing(&self, kind: &str, id: impl Display) -> Refusal {
        self.store.kind(kind).missing(id)
    }

    /// Returns a copy of a row that exists.
    pub(crate) fn row(&self, kind: &str, id: Uuid) -> Result<Row> {
        let row = self.get(kind, id).cloned();
        row.ok_or_else(|| self.missing(kind, id))
    }

    /// Returns a copy of the row that an id in a path or a body names, if the caller may see it.
    pub(crate) fn named(&self, kind: &str, text: &str) -> Result<Row> {
        let kind = self.store.kind(kind);
        let found = if kind.has_text_key() {
            let rows = self.store.list_by_text(kind.name, kind.key, text);
            let rows = rows.filter(|row| row.text(kind.key).eq_ignore_ascii_case(text));
            // Two users may use one name.
            rows.max_by_key(|row| self.sees(row))
        } else {
            id_in(text).and_then(|id| self.get(kind.name, id))
        };
        let row = found.ok_or_else(|| kind.missing(text))?;
        if self.sees(row) {
            Ok(row.clone())
        } else if kind.service.hides {
            Err(kind.missing(text))
        } else {
            Err(kind.forbidden("get"))
        }
    }

    /// Returns the row that an attribute of a body names; `None` if the attribute is missing or null.
    pub(crate) fn optional_row(&self, kind: &str, body: &Body, name: &str) -> Result<Option<Row>> {
        let text = body.get(name).and_then(Value::as_str);
        let row = text.map(|text| self.named(kind, text));
        row.transpose()
    }

    /// Returns the row that an attribute of a body names. A missing attribute is refused.
    pub(crate) fn required_row(&self, kind: &str, body: &Body, name: &str) -> Result<Row> {
        let id = body.get(name).and_then(Value::as_str);
        self.named(kind, id.unwrap_or("None"))
    }

    /// Refuses a change of a row that the caller sees but may not change.
    pub(crate) fn may_change(&self, row: &Row, verb: &str) -> Result<()> {
        if self.caller.writes() && (self.hooks(row.kind).writable)(self, row) {
            return Ok(());
        }
        Err(row.kind.forbidden(verb))
    }

    /// Refuses a change if `If-Match` names another revision.
    pub(crate) fn check_revision(&self, row: &Row) -> Result<()> {
        let is_other = |revision: &u64| *revision != row.revision;
        let other = self.if_match.filter(is_other);
        match other.filter(|_| row.kind.first_revision.is_some()) {
            Some(other) => Err(row.kind.refusal("other_revision", &[&other, &row.revision])),
            None => Ok(()),
        }
    }

    /// Refuses to delete a row while another row names it.
    pub(crate) fn check_unblocked(&self, row: &Row) -> Result<()> {
        for blocker in &row.kind.blocked_by {
            let Reference { kind, attribute } = blocker.reference;
            let by = self.store.ids(kind, attribute, row.id);
            refuse_if(!by.is_empty(), || blocker.refusal(row.id, &by))?;
        }
        Ok(())
    }

    /// Inserts or replaces a row.
    pub(crate) fn put(&mut self, row: Row) -> Uuid {
        let id = row.id;
        self.store.put(row);
        id
    }

    /// Changes a row, if it exists.
    pub(crate) fn edit(&mut self, kind: &str, id: Uuid, change: impl FnOnce(&mut Row)) {
        if let Some(mut row) = self.store.find(kind, id).cloned() {
            change(&mut row);
            self.put(row);
        }
    }

    /// Raises the revision number and sets the time of the last update.
    pub(crate) fn raise_revision(&mut self, kind: &str, id: Uuid) {
        let now = self.now;
        self.edit(kind, id, |row| {
            row.revision += 1;
            row.updated = Some(now);
        });
    }

    /// Records a row as it is, so that a revival finds it although the call does not change it.
    pub(crate) fn record_unchanged(&mut self, kind: &str, id: Uuid) {
        self.edit(kind, id, |_| ());
    }

    /// Removes a row, the rows that are deleted with it, and those that their hooks remove.
    pub(crate) fn remove(&mut self, kind: &str, id: Uuid) {
        let Some(row) = self.get(kind, id).cloned() else {
            return;
        };
        for taken in &row.kind.takes {
            for id in self.store.ids(taken.kind, taken.attribute, id) {
                self.remove(taken.kind, id);
            }
        }
        if let Some(row) = self.store.take(kind, id) {
            (self.hooks(row.kind).removed)(self, &row);
        }
    }

    /// Returns a new row, which is not stored yet.
    pub(crate) fn new_row(&mut self, kind: &str, project: &str) -> Row {
        let kind = self.store.kind(kind);
        let project: Arc<str> = if *self.caller.project == *project {
            self.caller.project.clone()
        } else {
            project.into()
        };
        let (id, number) = (self.store.ids.uuid(), self.store.next_number());
        let mut row = Row::new(kind, id, number, project, self.now);
        row.updated = kind.service.hides.then_some(self.now);
        row
    }

    /// Creates a row by its kind's rules from a body that needs no check.
    pub(crate) fn create(&mut self, kind: &str, body: &Value) -> Result<Uuid> {
        let empty = Body::new();
        let body = body.as_object().unwrap_or(&empty);
        self.create_in(self.store.kind(kind), body)
    }

    /// Creates a row from a checked body.
    pub(crate) fn create_in(&mut self, kind: &'static Kind, body: &Body) -> Result<Uuid> {
        let given = ["project_id", "tenant_id", "owner"]
            .iter()
            .find_map(|name| body.get(*name)?.as_str());
        let own = self.caller.project.clone();
        let mut row = self.new_row(kind.name, given.unwrap_or(&own));
        if let Some(id) = body.get("id").and_then(Value::as_str).and_then(id_in) {
            if self.store.find(kind.name, id).is_some() {
                return Err(kind.refusal("taken", &[&id]));
            }
            row.id = id;
        }
        row.apply(body);
        (self.hooks(kind).create)(self, row, body)
    }

    /// Makes a row pending, and sets the time at which its change ends.
    pub(crate) fn begin(&mut self, kind: &str, id: Uuid) {
        let (now, usual) = (self.now, self.course);
        self.edit(kind, id, |row| {
            let course = row.next.take().or(usual);
            row.end = course.map_or(End::Done, |course| course.end);
            row.due = match course {
                None => Some(now + SETTLES_AFTER),
                Some(course) => course
                    .seconds
                    .map(|seconds| now + TimeDelta::seconds(seconds.into())),
            };
        });
    }

    /// Ends the pending change of a row.
    pub(crate) fn settle(&mut self, kind: &str, id: Uuid) {
        let row = self.get(kind, id).cloned();
        self.edit(kind, id, |row| row.due = None);
        if let Some(row) = row {
            (self.hooks(row.kind).settle)(self, &row);
        }
    }
}

/// Parses an id. Only the form with dashes is an id, although `Uuid` reads other forms.
pub(crate) fn id_in(text: &str) -> Option<Uuid> {
    Some(text)
        .filter(|text| text.len() == 36)
        .and_then(|text| text.parse().ok())
}
