//! Volumes, their transfers to other projects, and groups of volumes with their snapshots.
use serde_json::{Value, json};
use uuid::Uuid;

use super::attachments::{check_available, check_free, of_volume, release};
use super::copies::is_free;
use super::refused;
use super::states::{STATUS, act, action, begin_deletion, end_of, make, set_status, settle, show};
use crate::sandbox::core::{Answer, Body, Call, End, Handled, Hooks, Result, Row, Session, is_set};

pub(super) const VOLUME: Hooks = Hooks {
    create,
    delete: |session, volume, call| {
        let forced = is_set(call, "force");
        if forced && !session.caller.is_admin {
            return Err(refused("ForceDelete", &[]));
        }
        delete(session, volume, forced, is_set(call, "cascade"))
    },
    settle: end_change,
    show: show_volume,
    act: act_on_volume,
    ..Hooks::NONE
};

pub(super) const TRANSFER: Hooks = Hooks {
    create: |session, transfer, body| {
        let volume = session.required_row("volume", body, "volume_id")?;
        check_available(&volume)?;
        set_status(session, "volume", volume.id, "awaiting-transfer");
        Ok(session.put(transfer))
    },
    removed: |session, transfer| {
        let volume = transfer.id_of("volume_id").unwrap_or_default();
        set_status(session, "volume", volume, "available");
    },
    ..Hooks::NONE
};

fn create(session: &mut Session<'_>, mut volume: Row, body: &Body) -> Result<Uuid> {
    session.optional_row("volume_group", body, "group_id")?;
    if let Some(name) = body.get("volume_type").and_then(Value::as_str) {
        let is_it = |row: &&Row| row.text("name") == name || row.id.to_string() == name;
        let known = session.store().all("volume_type").find(is_it);
        let known = known.map(|row| (row.id.to_string(), row.value("name")));
        if let Some((id, name)) = known {
            volume.set("volume_type_id", id);
            volume.set("volume_type", name);
        } else if name != "__DEFAULT__" {
            return Err(session.missing("volume_type", name));
        }
    }
    for (kind, source) in [
        ("volume_snapshot", "snapshot_id"),
        ("volume", "source_volid"),
    ] {
        if let Some(source) = session.optional_row(kind, body, source)? {
            volume.set("size", source.value("size"));
        }
    }
    if volume.get("imageRef").is_some() {
        volume.set("bootable", "true");
    }
    Ok(make(session, volume))
}

/// The statuses of volumes that may be deleted.
const DELETABLE: [&str; 5] = [
    "available",
    "error",
    "error_restoring",
    "error_extending",
    "error_managing",
];

/// Begins to delete a volume; with its snapshots if `cascades`, whatever its status is if `forced`.
fn delete(session: &mut Session<'_>, volume: &Row, forced: bool, cascades: bool) -> Result<()> {
    let store = session.store();
    let snapshots = store.of("volume_snapshot", "volume_id", volume.id);
    let snapshots: Vec<Row> = snapshots.cloned().collect();
    let is_blocked = of_volume(store, volume.id).next().is_some()
        || volume.id_of("group_id").is_some()
        || (!cascades && !snapshots.is_empty())
        || (!forced && !snapshots.iter().all(is_free));
    if is_blocked || !(forced || DELETABLE.contains(&volume.text(STATUS))) {
        let statuses = format!("status must be {} and", DELETABLE.join(" or "));
        let statuses = if forced { "" } else { &statuses };
        return Err(refused("VolumeRefused", &[&statuses]));
    }
    for snapshot in snapshots {
        set_status(session, "volume_snapshot", snapshot.id, "deleting");
    }
    begin_deletion(session, volume);
    Ok(())
}

/// Ends the pending change of a volume. If it stays, the snapshots that were to be deleted with it get its status.
fn end_change(session: &mut Session<'_>, volume: &Row) {
    if volume.text(STATUS) == "detaching" {
        return match volume.end {
            End::Done => detach(session, volume),
            _ => set_status(session, "volume", volume.id, "in-use"),
        };
    }
    if let Some(status) = end_of(volume) {
        let snapshots = session
            .store()
            .of("volume_snapshot", "volume_id", volume.id);
        let snapshots = snapshots.filter(|row| row.is_deleting && row.due.is_none());
        let snapshots: Vec<Uuid> = snapshots.map(|row| row.id).collect();
        for snapshot in snapshots {
            set_status(session, "volume_snapshot", snapshot, status);
        }
    }
    settle(session, volume);
}

fn detach(session: &mut Session<'_>, volume: &Row) {
    let attachments: Vec<Row> = of_volume(session.store(), volume.id).cloned().collect();
    for attachment in attachments {
        release(session, &attachment, false);
    }
}

fn show_volume(session: &Session<'_>, volume: &Row, name: &str) -> Option<Value> {
    if name != "attachments" {
        return show(session, volume, name);
    }
    let shown = |attachment: &Row| {
        json!({
            "id": volume.id,
            "attachment_id": attachment.id,
            "volume_id": volume.id,
            "server_id": attachment.value("instance"),
            "host_name": "compute1",
            "device": attachment.value("device"),
            "attached_at": volume.time(attachment.created),
        })
    };
    // A reserved volume is not attached yet.
    let attachments = of_volume(session.store(), volume.id);
    let attachments = attachments.filter(|row| row.text(STATUS) == "attached");
    Some(attachments.map(shown).collect())
}

fn act_on_volume(
    session: &mut Session<'_>,
    call: &Call<'_>,
    volume: &Row,
    path: &[&str],
) -> Handled {
    let (name, _) = action(call, path).unwrap_or_default();
    if !matches!(name.as_str(), "os-detach" | "os-force_detach") {
        let delete = |session: &mut Session<'_>, row: &Row| delete(session, row, true, false);
        return act(session, call, volume, path, delete);
    }
    of_volume(session.store(), volume.id).try_for_each(|row| check_free(session, row))?;
    detach(session, volume);
    Ok(Some(Answer::empty(202)))
}

pub(super) const GROUP: Hooks = Hooks {
    create: |session, group, _| Ok(make(session, group)),
    settle,
    act: |session, call, group, path| match action(call, path) {
        Some((name, arguments)) if name == "delete" => {
            let with_volumes = arguments["delete-volumes"] == Value::Bool(true);
            delete_group(session, group, with_volumes).map(Some)
        }
        _ => Ok(None),
    },
    ..Hooks::NONE
};

/// Begins to delete a group, and its volumes if the call says so. Cinder deletes groups by an action and not by DELETE.
fn delete_group(session: &mut Session<'_>, group: &Row, with_volumes: bool) -> Result<Answer> {
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
