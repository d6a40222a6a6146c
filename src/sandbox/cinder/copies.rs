//! Snapshots of volumes, and backups, which outlive their volumes.
use serde_json::Value;
use uuid::Uuid;

use super::attachments::check_available;
use super::refused;
use super::states::{STATUS, act, begin_deletion, make, set_status, settle, show};
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
    delete: |session, snapshot, _| {
        refuse_if(!is_free(snapshot), || refused("SnapshotRefused", &[]))?;
        begin_deletion(session, snapshot);
        Ok(())
    },
    settle,
    show,
    act: |session, call, row, path| act(session, call, row, path, delete_by_force),
    ..Hooks::NONE
};

/// Whether a snapshot may be deleted without force.
pub(super) fn is_free(snapshot: &Row) -> bool {
    matches!(snapshot.text(STATUS), "available" | "error")
        && snapshot.id_of("group_snapshot_id").is_none()
}

fn delete_by_force(session: &mut Session<'_>, row: &Row) -> Result<()> {
    begin_deletion(session, row);
    Ok(())
}

pub(super) const BACKUP: Hooks = Hooks {
    create: create_backup,
    delete: |session, backup, _| {
        if !matches!(backup.text(STATUS), "available" | "error") {
            return Err(refused("BackupRefused", &[]));
        }
        if has_dependents(session, backup) {
            return Err(refused("BackupInUse", &[]));
        }
        begin_deletion(session, backup);
        Ok(())
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
            let mut others = session.store.of("backup", "parent_id", backup.id);
            Some(others.next().is_some().into())
        }
        _ => show(session, backup, name),
    },
    act: |session, call, row, path| act(session, call, row, path, delete_by_force),
    ..Hooks::NONE
};

/// Whether other backups, which are incremental, are based on this one.
fn has_dependents(session: &Session<'_>, backup: &Row) -> bool {
    let mut others = session.store().of("backup", "parent_id", backup.id);
    others.next().is_some()
}

/// Creates a backup. An incremental backup is based on the newest available backup of its volume.
fn create_backup(session: &mut Session<'_>, mut backup: Row, body: &Body) -> Result<Uuid> {
    let volume = session.required_row("volume", body, "volume_id")?;
    match volume.text(STATUS) {
        "in-use" if backup.flag("force") => {}
        "in-use" => return Err(refused("BackupNeedsForce", &[])),
        _ => check_available(&volume)?,
    }
    if body.get("incremental") == Some(&Value::Bool(true)) {
        let others = session.store().all("backup");
        let others = others.filter(|it| it.id_of("volume_id") == Some(volume.id));
        let parent = others
            .filter(|it| it.text(STATUS) == "available")
            .max_by_key(|it| it.number);
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
