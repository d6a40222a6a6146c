//! The context of one call: its rights, the rows that it sees, and its changes; and the rules of kinds that no table
//! can express (hooks).
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::attribute::{ADMIN_SEES, Attribute, HIDDEN, Reference, Shape};
use super::kind::{Body, Kind};
use super::options::WorldOptions;
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
        visible: |session, row| {
            let parent = || row.parent().and_then(|(kind, id)| session.get(kind, id));
            session.caller.owns(&row.project)
                || row.flag("shared")
                || (row.kind.seen_with_parent && parent().is_some_and(|it| session.sees(it)))
        },
        writable: |session, row| session.caller.owns(&row.project),
        act: |_, _, _, _| Ok(None),
    };
}

/// The hooks of all kinds that have some, by kind.
pub(crate) type Rules = BTreeMap<&'static str, &'static Hooks>;

/// How many seconds a row stays pending by default.
const SETTLES_AFTER_S: u32 = 1;

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

    /// Whether only admins may make this call for rows of a kind, and the caller is no admin.
    fn is_kept_from(&self, kind: &Kind, verb: &str) -> bool {
        kind.admin_only.contains(&verb) && !self.caller.is_admin
    }

    pub(crate) fn sees(&self, row: &Row) -> bool {
        !self.is_kept_from(row.kind, "get") && (self.hooks(row.kind).visible)(self, row)
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
        Some(match (name, &attribute.shape) {
            ("id", _) => row.id.to_string().into(),
            ("project_id" | "tenant_id", _) => row.project.to_string().into(),
            ("created_at", _) => row.time(row.created).into(),
            ("updated_at", _) => row.updated.map(|at| row.time(at)).into(),
            ("revision_number", _) => row.revision.into(),
            ("number", _) => row.number.into(),
            (_, Shape::Row(to, names)) => {
                let other = self.store.referred(row, to.attribute, to.kind);
                other.map(|other| self.part_or_value(other, names)).into()
            }
            (_, Shape::Rows(by, names)) => {
                let others = self.store.of(by.kind, by.attribute, row.id);
                let shown = others.map(|other| self.part_or_value(other, names));
                shown.collect()
            }
            _ => return attribute.unset.clone(),
        })
    }

    /// Returns the attributes of a row that are in `names`, or the bare value if `names` has only one.
    fn part_or_value(&self, row: &Row, names: &str) -> Value {
        match row.kind.attribute(names) {
            Some(only) => self.value(row, only).unwrap_or_default(),
            None => self.part(row, names),
        }
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

    /// Returns the attributes of a row that are in `names`, which spaces or commas separate; all if `names` is empty.
    pub(crate) fn part(&self, row: &Row, names: &str) -> Value {
        let names = names.split([' ', ',']).filter(|name| !name.is_empty());
        self.shown(row, &names.collect::<Vec<_>>())
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
        // A path names a row by its id, or by an indexed text, such as its name.
        let found = if kind.indexed.contains(&kind.key) {
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
        text.map(|text| self.named(kind, text)).transpose()
    }

    /// Returns the row that an attribute of a body names. A missing attribute is refused.
    pub(crate) fn required_row(&self, kind: &str, body: &Body, name: &str) -> Result<Row> {
        let id = body.get(name).and_then(Value::as_str);
        self.named(kind, id.unwrap_or("None"))
    }

    /// Refuses a change of a row that the caller sees but may not change.
    pub(crate) fn may_change(&self, row: &Row, verb: &str) -> Result<()> {
        let may_change = self.caller.writes()
            && !self.is_kept_from(row.kind, verb)
            && (self.hooks(row.kind).writable)(self, row);
        refuse_if(!may_change, || row.kind.forbidden(verb))
    }

    /// Refuses a change if `If-Match` names another revision.
    pub(crate) fn check_revision(&self, row: &Row) -> Result<()> {
        match self.if_match.filter(|_| row.kind.first_revision.is_some()) {
            Some(wanted) if wanted != row.revision => {
                let parts: &[&dyn Display] = &[&wanted, &row.revision];
                Err(row.kind.refusal("other_revision", parts))
            }
            _ => Ok(()),
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
            let is_taken = self.store.find(kind.name, id).is_some();
            refuse_if(is_taken, || kind.refusal("taken", &[&id]))?;
            row.id = id;
        }
        row.apply(body);
        let is_kept = self.is_kept_from(kind, "create");
        refuse_if(is_kept, || kind.forbidden("create"))?;
        self.revise_parent(&row, "create");
        (self.hooks(kind).create)(self, row, body)
    }

    /// Raises the revision number of a row's parent if a call with this verb does so.
    pub(crate) fn revise_parent(&mut self, row: &Row, verb: &str) {
        let parent = row.parent();
        if let Some((kind, id)) = parent.filter(|_| row.kind.revises_parent.contains(&verb)) {
            self.raise_revision(kind, id);
        }
    }

    /// Makes a row pending, and sets the time at which its change ends.
    pub(crate) fn begin(&mut self, kind: &str, id: Uuid) {
        let (now, usual) = (self.now, self.course);
        self.edit(kind, id, |row| {
            let course = row.next.take().or(usual);
            row.end = course.map_or(End::Done, |course| course.end);
            let seconds = course.map_or(Some(SETTLES_AFTER_S), |course| course.seconds);
            row.due = seconds.map(|seconds| now + TimeDelta::seconds(seconds.into()));
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
    let id = Some(text).filter(|text| text.len() == 36);
    id?.parse().ok()
}
