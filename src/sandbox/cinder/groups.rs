//! Groups of volumes, and their snapshots.
use serde_json::{Value, json};
use uuid::Uuid;

use super::refused;
use super::states::{action, begin_deletion, make, set_status, settle};
use crate::sandbox::core::{Answer, Body, Call, Handled, Hooks, Result, Row, Session};

pub(super) const GROUP: Hooks = Hooks {
    create: |session, group, _| Ok(make(session, group)),
    settle,
    act: |session, call, group, path| match action(call, path) {
        Some((name, arguments)) if name == "delete" => {
            let with_volumes = arguments["delete-volumes"] == Value::Bool(true);
            delete(session, group, with_volumes).map(Some)
        }
        _ => Ok(None),
    },
    ..Hooks::NONE
};

/// Begins to delete a group with its volumes. Cinder deletes groups by an action and not by DELETE.
fn delete(session: &mut Session<'_>, group: &Row, with_volumes: bool) -> Result<Answer> {
    session.may_change(group, "delete")?;
    let volumes = session.store().ids("volume", "group_id", group.id);
    if !volumes.is_empty() && !with_volumes {
        return Err(refused("GroupHasVolumes", &[&group.id]));
    }
    if !session
        .store()
        .ids("group_snapshot", "group_id", group.id)
        .is_empty()
    {
        return Err(refused("GroupHasSnapshots", &[]));
    }
    for volume in volumes {
        set_status(session, "volume", volume, "deleting");
    }
    begin_deletion(session, group);
    Ok(Answer::empty(202))
}

pub(super) const GROUP_SNAPSHOT: Hooks = Hooks {
    create: create_snapshot,
    delete: |session, snapshot, _| {
        for part in session
            .store()
            .ids("volume_snapshot", "group_snapshot_id", snapshot.id)
        {
            set_status(session, "volume_snapshot", part, "deleting");
        }
        begin_deletion(session, snapshot);
        Ok(())
    },
    settle,
    ..Hooks::NONE
};

/// Creates a snapshot of each volume of a group.
fn create_snapshot(session: &mut Session<'_>, mut row: Row, body: &Body) -> Result<Uuid> {
    let group = session.required_row("volume_group", body, "group_id")?;
    row.set("group_type_id", group.value("group_type"));
    for volume in session.store().ids("volume", "group_id", group.id) {
        let body = json!({"volume_id": volume, "name": row.value("name")});
        let part = session.create("volume_snapshot", &body)?;
        session.edit("volume_snapshot", part, |part| {
            part.set("group_snapshot_id", row.id.to_string());
        });
    }
    Ok(make(session, row))
}
