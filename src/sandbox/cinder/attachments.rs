//! Attachments of volumes to servers. Nova makes and removes the attachments of its servers.
use serde_json::json;
use uuid::Uuid;

use super::refused;
use super::states::{STATUS, begin_deletion, set_status, show};
use crate::sandbox::core::{Answer, Hooks, Result, Row, Session, Store, refuse_if};

pub(super) const ATTACHMENT: Hooks = Hooks {
    create: |session, mut attachment, body| {
        let volume = session.required_row("volume", body, "volume_uuid")?;
        check_available(&volume)?;
        attachment.set("volume_id", volume.id.to_string());
        attachment.set("instance", attachment.value("instance_uuid"));
        // Only Nova's attachments are attached from the start: the check of a body refuses a status.
        let status = match attachment.text(STATUS) {
            "attached" => "in-use",
            _ => "reserved",
        };
        set_status(session, "volume", volume.id, status);
        Ok(session.put(attachment))
    },
    show: |session, row, name| match name {
        "instance_id" => Some(row.value("instance")),
        _ => show(session, row, name),
    },
    ..Hooks::NONE
};

/// Refuses a volume whose status is not `available`.
pub(super) fn check_available(volume: &Row) -> Result<()> {
    let status = volume.text(STATUS);
    refuse_if(status != "available", || refused("VolumeBusy", &[&status]))
}

pub(super) fn of_volume(store: &Store, volume: Uuid) -> impl Iterator<Item = &Row> {
    store.of("attachment", "volume_id", volume)
}

/// Removes an attachment. If it was the volume's last, the volume is available again; if `deletes`, and if it has no
/// snapshot, the volume is deleted.
pub(in crate::sandbox) fn release(session: &mut Session<'_>, attachment: &Row, deletes: bool) {
    session.remove("attachment", attachment.id);
    let volume = attachment.id_of("volume_id").unwrap_or_default();
    if of_volume(session.store(), volume).next().is_some() {
        return;
    }
    set_status(session, "volume", volume, "available");
    let snapshots = session.store().ids("volume_snapshot", "volume_id", volume);
    let volume = session.get("volume", volume).cloned();
    if let Some(volume) = volume.filter(|_| deletes && snapshots.is_empty()) {
        begin_deletion(session, &volume);
    }
}

/// Refuses to free a volume that Nova has attached to a living server.
pub(super) fn check_free(session: &Session<'_>, attachment: &Row) -> Result<()> {
    let server = session.store().referred(attachment, "instance", "server");
    match server.filter(|_| attachment.text(STATUS) == "attached") {
        Some(server) => Err(refused("ServerHasVolume", &[&server.id])),
        None => Ok(()),
    }
}

/// Deletes an attachment, and answers with the other attachments of its volume.
pub(super) fn delete(session: &mut Session<'_>, id: &str) -> Result<Answer> {
    let attachment = session.named("attachment", id)?;
    session.may_change(&attachment, "delete")?;
    check_free(session, &attachment)?;
    release(session, &attachment, false);
    let volume = attachment.id_of("volume_id").unwrap_or_default();
    let left = of_volume(session.store(), volume);
    let left: Vec<_> = left.map(|row| session.part(row, row.kind.brief)).collect();
    Ok(Answer::ok(json!({"attachments": left})))
}
