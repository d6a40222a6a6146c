//! The state of a server, its task, and the checks before a change.
use uuid::Uuid;

use super::{devices, refused};
use crate::sandbox::core::{Result, Row, Session, refuse_if};

pub(super) const SERVER_KIND: &str = "server";
pub(super) const STATUS: &str = "status";
pub(super) const TASK: &str = "OS-EXT-STS:task_state";
pub(super) const VM_STATE: &str = "OS-EXT-STS:vm_state";
pub(super) const DELETING: &str = "deleting";

/// Whether a server is only in lists of deleted servers.
pub(super) fn is_deleted(server: &Row) -> bool {
    server.is_deleted || matches!(server.text(STATUS), "DELETED" | "SOFT_DELETED")
}

/// Refuses a change of a locked server, unless the caller is an admin.
pub(super) fn check_unlocked(session: &Session<'_>, server: &Row) -> Result<()> {
    let is_locked = server.flag("locked") && !session.caller.is_admin;
    refuse_if(is_locked, || refused("Locked", &[&server.id]))
}

/// Refuses a change of a server that is locked, has a task, or is in none of these states, separated by spaces.
pub(super) fn check_free(
    session: &Session<'_>,
    server: &Row,
    word: &str,
    states: &str,
) -> Result<()> {
    check_unlocked(session, server)?;
    let (task, state) = (server.text(TASK), server.text(VM_STATE));
    if !task.is_empty() {
        return Err(refused("WrongTask", &[&word, &server.id, &task]));
    }
    let is_one = states.split(' ').any(|known| known == state);
    refuse_if(!is_one, || {
        refused("WrongState", &[&word, &server.id, &state])
    })
}

/// Gives a server a task, which ends after a while.
pub(super) fn begin(session: &mut Session<'_>, server: &Row, task: &str) {
    session.edit(SERVER_KIND, server.id, |row| {
        row.set(TASK, task);
        row.is_deleting = task == DELETING;
    });
    session.begin(SERVER_KIND, server.id);
}

/// Begins to delete a server. A repeated call changes nothing, even if the hypervisor hangs. With a course of 0
/// seconds, as on a host that is down, the server is gone at once.
pub(super) fn begin_deletion(session: &mut Session<'_>, server: &Row) {
    if server.text(TASK) == DELETING {
        return;
    }
    devices::touch_all(session, server.id);
    begin(session, server, DELETING);
    if session.course.and_then(|course| course.seconds) == Some(0) {
        devices::release_all(session, server);
        set_state(session, server.id, "deleted");
        session.remove(SERVER_KIND, server.id);
    }
}

/// Sets the state of a server, and ends its task.
pub(super) fn set_state(session: &mut Session<'_>, id: Uuid, vm_state: &str) {
    let now = session.now;
    let status = match vm_state {
        "building" => "BUILD".to_owned(),
        "stopped" => "SHUTOFF".to_owned(),
        "soft-delete" => "SOFT_DELETED".to_owned(),
        state => state.to_uppercase(),
    };
    session.edit(SERVER_KIND, id, |row| {
        row.set(STATUS, status);
        row.set(VM_STATE, vm_state);
        row.clear(TASK);
        row.is_deleting = false;
        row.due = None;
        row.updated = Some(now);
    });
}
