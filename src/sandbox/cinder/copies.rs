//! Snapshots of volumes, and backups, which outlive their volumes.
use serde_json::Value;
use uuid::Uuid;

use super::attachments::check_available;
use super::refused;
use super::states::{SLOW, STATUS, is_settled, make, set_status, settle, show};
use crate::sandbox::core::{Body, Hooks, Result, Row, Session, refuse_if};

pub(super) const SNAPSHOT: Hooks = Hooks {
    create: |session, mut snapshot, body| {
        let volume = session.required_row("volume", body, "volume_id")?;
        if volume.text(STATUS) != "in-use" {
            check_available(&volume)?;
        }
        snapshot.set("size", volume.value("size"));
        Ok(make(session, snapshot))
    },
    deletable: |_, snapshot| refuse_if(!is_free(snapshot), || refused("SnapshotRefused", &[])),
    ..SLOW
};

/// Whether a snapshot may be deleted without force.
pub(super) fn is_free(snapshot: &Row) -> bool {
    is_settled(snapshot) && snapshot.id_of("group_snapshot_id").is_none()
}

pub(super) const BACKUP: Hooks = Hooks {
    create: create_backup,
    deletable: |session, backup| {
        refuse_if(!is_settled(backup), || refused("BackupRefused", &[]))?;
        session.check_unblocked(backup)
    },
    settle: |session, backup| {
        // The volume gets back the status that it had before the backup.
        let volume = session.store().referred(backup, "volume_id", "volume");
        let volume = volume.filter(|volume| volume.text(STATUS) == "backing-up");
        if let Some(volume) = volume.map(|volume| volume.id) {
            set_status(session, "volume", volume, backup.text("volume_was"));
        }
        settle(session, backup);
    },
    show: |session, backup, name| match name {
        "has_dependent_backups" => {
            let others = session.store.ids("backup", "parent_id", backup.id);
            Some((!others.is_empty()).into())
        }
        _ => show(session, backup, name),
    },
    ..SLOW
};

/// Creates a backup. An incremental backup is based on the newest available backup of its volume.
fn create_backup(session: &mut Session<'_>, mut backup: Row, body: &Body) -> Result<Uuid> {
    let volume = session.required_row("volume", body, "volume_id")?;
    match volume.text(STATUS) {
        "in-use" if backup.flag("force") => {}
        "in-use" => return Err(refused("BackupNeedsForce", &[])),
        _ => check_available(&volume)?,
    }
    if body.get("incremental") == Some(&Value::Bool(true)) {
        let others = session.store().of("backup", "volume_id", volume.id);
        let others = others.filter(|it| it.text(STATUS) == "available");
        let parent = others.max_by_key(|it| it.number);
        let parent = parent.ok_or_else(|| refused("BackupWithoutFull", &[]))?;
        backup.set("parent_id", parent.id.to_string());
        backup.set("is_incremental", true);
    }
    backup.set("data_timestamp", backup.time(backup.created));
    backup.set("size", volume.value("size"));
    backup.set("volume_was", volume.text(STATUS));
    set_status(session, "volume", volume.id, "backing-up");
    Ok(make(session, backup))
}
