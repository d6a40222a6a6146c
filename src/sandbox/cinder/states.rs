//! The status of a row while it is created, changed and deleted.
use serde_json::Value;
use uuid::Uuid;

use super::refused;
use crate::sandbox::core::{Answer, Call, End, Handled, Hooks, Row, Session, refuse_if};

pub(super) const STATUS: &str = "status";
const DELETING: &str = "deleting";

/// The hooks of rows whose creation and deletion take a while.
pub(super) const SLOW: Hooks = Hooks {
    create: |session, row, _| Ok(make(session, row)),
    delete: |session, row, _| {
        begin_deletion(session, row);
        Ok(())
    },
    settle,
    show,
    act,
    ..Hooks::NONE
};

/// Stores a new row, whose creation takes a while.
pub(super) fn make(session: &mut Session<'_>, mut row: Row) -> Uuid {
    let kind = row.kind.name;
    row.set("user_id", &*session.caller.user);
    let id = session.put(row);
    session.begin(kind, id);
    id
}

pub(super) fn set_status(session: &mut Session<'_>, kind: &str, id: Uuid, status: &str) {
    let now = session.now;
    session.edit(kind, id, |row| {
        row.set(STATUS, status);
        row.is_deleting = status == DELETING;
        row.updated = Some(now);
    });
}

/// Gives a row a status that ends after a while.
pub(in crate::sandbox) fn begin_status(session: &mut Session<'_>, row: &Row, status: &str) {
    set_status(session, row.kind.name, row.id, status);
    session.begin(row.kind.name, row.id);
}

/// Begins to delete a row, and the rows that are deleted with it.
pub(super) fn begin_deletion(session: &mut Session<'_>, row: &Row) {
    for taken in &row.kind.takes {
        for part in session.store().ids(taken.kind, taken.attribute, row.id) {
            set_status(session, taken.kind, part, DELETING);
        }
    }
    begin_status(session, row, DELETING);
}

/// Whether a row is neither changing nor stuck, so that it may be deleted without force.
pub(super) fn is_settled(row: &Row) -> bool {
    matches!(row.text(STATUS), "available" | "error")
}

/// Returns the status of a row after its pending change; `None` if the row is then gone.
pub(super) fn end_of(row: &Row) -> Option<&'static str> {
    match (row.is_deleting, row.end) {
        (true, End::Done) => None,
        (true, End::Error) => Some("error_deleting"),
        (false, End::Error) => Some("error"),
        _ => Some("available"),
    }
}

/// Ends the pending change of a row.
pub(super) fn settle(session: &mut Session<'_>, row: &Row) {
    match end_of(row) {
        Some(status) => set_status(session, row.kind.name, row.id, status),
        None => session.remove(row.kind.name, row.id),
    }
}

/// Computes the attributes that have the project's id under another name.
pub(super) fn show(_: &Session<'_>, row: &Row, name: &str) -> Option<Value> {
    let is_project = name.ends_with(":tenant_id") || name.ends_with(":project_id");
    is_project.then(|| row.project.to_string().into())
}

/// Returns the name of the action that a call requests, and its arguments.
pub(super) fn action(call: &Call<'_>, path: &[&str]) -> Option<(String, Value)> {
    let is_action = path == ["action"] && call.method == http::Method::POST;
    let body = call.json();
    let actions = body.as_object().filter(|_| is_action)?;
    let (name, arguments) = actions.iter().next()?;
    Some((name.clone(), arguments.clone()))
}

/// Handles the actions for a row that is stuck: an admin sets the row's status, or deletes the row whatever its status
/// is.
pub(super) fn act(session: &mut Session<'_>, call: &Call<'_>, row: &Row, path: &[&str]) -> Handled {
    let (name, arguments) = action(call, path).unwrap_or_default();
    let verb = match name.strip_prefix("os-") {
        Some(verb @ ("reset_status" | "force_delete")) => verb,
        _ => return Ok(None),
    };
    let forbidden = || refused("AdminAction", &[&row.kind.singular, &verb]);
    refuse_if(!session.caller.is_admin, forbidden)?;
    if verb == "force_delete" {
        (session.hooks(row.kind).delete)(session, row, call)?;
    } else {
        let status = arguments[STATUS].as_str().unwrap_or_default();
        session.edit(row.kind.name, row.id, |row| row.due = None);
        set_status(session, row.kind.name, row.id, status);
    }
    Ok(Some(Answer::empty(202)))
}
