//! Volumes, their transfers to other projects, and groups of volumes with their snapshots.
use serde_json::{Value, json};
use uuid::Uuid;

use super::attachments::{check_available, check_free, of_volume, release};
use super::copies::is_free;
use super::refused;
use super::states::{
    SLOW, STATUS, act, action, begin_deletion, end_of, make, set_status, settle, show,
};
use crate::sandbox::core::{
    Answer, Body, Call, End, Hooks, Result, Row, Session, is_set, refuse_if,
};

pub(super) const VOLUME: Hooks = Hooks {
    create,
    delete,
    settle: end_change,
    show: show_volume,
    act: |session, call, volume, path| {
        let (name, _) = action(call, path).unwrap_or_default();
        if !matches!(name.as_str(), "os-detach" | "os-force_detach") {
            return act(session, call, volume, path);
        }
        of_volume(session.store(), volume.id).try_for_each(|row| check_free(session, row))?;
        detach(session, volume);
        Ok(Some(Answer::empty(202)))
    },
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
    let snapshot = session.optional_row("volume_snapshot", body, "snapshot_id")?;
    let other = session.optional_row("volume", body, "source_volid")?;
    if let Some(source) = other.or(snapshot) {
        volume.set("size", source.value("size"));
    }
    if volume.get("imageRef").is_some() {
        volume.set("bootable", "true");
    }
    Ok(make(session, volume))
}

/// The statuses of volumes that may be deleted, as the refusal lists them.
const DELETABLE: &str =
    "available or error or error_restoring or error_extending or error_managing";

/// Begins to delete a volume; with its snapshots if the call says `cascade`, whatever its status is if the call says
/// `force` or is the action `os-force_delete`.
fn delete(session: &mut Session<'_>, volume: &Row, call: &Call<'_>) -> Result<()> {
    let (cascades, forced) = (is_set(call, "cascade"), is_set(call, "force"));
    let forced = forced || call.method == http::Method::POST;
    let is_allowed = !forced || session.caller.is_admin;
    refuse_if(!is_allowed, || refused("ForceDelete", &[]))?;
    let store = session.store();
    let snapshots = store.of("volume_snapshot", "volume_id", volume.id);
    let snapshots: Vec<&Row> = snapshots.collect();
    let is_blocked = of_volume(store, volume.id).next().is_some()
        || volume.id_of("group_id").is_some()
        || (!cascades && !snapshots.is_empty())
        || (!forced && !snapshots.into_iter().all(is_free));
    let mut statuses = DELETABLE.split(" or ");
    let is_deletable = forced || statuses.any(|status| status == volume.text(STATUS));
    if is_blocked || !is_deletable {
        let statuses = format!("status must be {DELETABLE} and");
        let statuses = if forced { "" } else { &statuses };
        return Err(refused("VolumeRefused", &[&statuses]));
    }
    begin_deletion(session, volume);
    Ok(())
}

/// Ends the pending change of a volume. If the volume stays, the snapshots that were being deleted with it get its
/// status.
fn end_change(session: &mut Session<'_>, volume: &Row) {
    if volume.text(STATUS) == "detaching" {
        return match volume.end {
            End::Done => detach(session, volume),
            _ => set_status(session, "volume", volume.id, "in-use"),
        };
    }
    if let Some(status) = end_of(volume) {
        let store = session.store();
        let snapshots = store.of("volume_snapshot", "volume_id", volume.id);
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

pub(super) const GROUP: Hooks = Hooks {
    act: |session, call, group, path| match action(call, path) {
        Some((name, arguments)) if name == "delete" => {
            let with_volumes = arguments["delete-volumes"] == Value::Bool(true);
            delete_group(session, group, with_volumes).map(Some)
        }
        _ => Ok(None),
    },
    ..SLOW
};

/// Begins to delete a group, and its volumes if the call says so. Cinder deletes groups by an action and not by DELETE.
fn delete_group(session: &mut Session<'_>, group: &Row, with_volumes: bool) -> Result<Answer> {
    session.may_change(group, "delete")?;
    let volumes = session.store().ids("volume", "group_id", group.id);
    if !volumes.is_empty() && !with_volumes {
        return Err(refused("GroupHasVolumes", &[&group.id]));
    }
    session.check_unblocked(group)?;
    begin_deletion(session, group);
    Ok(Answer::empty(202))
}

pub(super) const GROUP_SNAPSHOT: Hooks = Hooks {
    create: create_snapshot,
    act: Hooks::NONE.act,
    ..SLOW
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
