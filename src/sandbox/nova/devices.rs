//! The ports and the volumes of a server, which are rows of Neutron and of Cinder.
use serde_json::{Value, json};
use uuid::Uuid;

use super::refused;
use crate::sandbox::cinder;
use crate::sandbox::core::{Result, Row, Session, refuse_if};

/// The kinds of a server's rows in other services, and the attribute of each that names the server.
pub(super) const PORT: (&str, &str) = ("port", "device_id");
pub(super) const DISK: (&str, &str) = ("attachment", "instance");

/// Lists the ports or the disks of a server, in the order of their creation.
pub(super) fn rows_of(session: &Session<'_>, kind: (&str, &str), server: Uuid) -> Vec<Row> {
    let rows = session.store().of(kind.0, kind.1, server);
    let mut rows: Vec<Row> = rows.cloned().collect();
    rows.sort_by_key(|row| row.number);
    rows
}

/// Gives a server an interface: a port that the user created, which the server's `kept_ports` list, or a new port in
/// a network.
pub(super) fn plug(
    session: &mut Session<'_>,
    server: &mut Row,
    port: &Value,
    network: &Value,
) -> Result<Uuid> {
    if let Some(text) = port.as_str() {
        let port = session.named("port", text);
        let port = port.map_err(|_| refused("UnknownPort", &[&text]))?;
        let is_free = port.text("device_id").is_empty();
        refuse_if(!is_free, || refused("PortInUse", &[&text]))?;
        let mut kept = server.items("kept_ports").to_vec();
        kept.push(text.into());
        server.set("kept_ports", kept);
        bind(session, port.id, server.id);
        return Ok(port.id);
    }
    let text = network.as_str().unwrap_or_default();
    let network = session.named("network", text);
    let network = network.map_err(|_| refused("UnknownNetwork", &[&text]))?;
    let mut body = json!({"network_id": network.id, "project_id": &*server.project});
    let groups = server.items("security_groups").iter();
    let groups = groups.filter_map(|group| group_id(session, server, group));
    let groups: Vec<Value> = groups.collect();
    if !groups.is_empty() {
        body["security_groups"] = groups.into();
    }
    let port = session.as_service(&server.project, |session| session.create("port", &body))?;
    bind(session, port, server.id);
    Ok(port)
}

/// Returns the id of a security group that a body names by its name or id.
fn group_id(session: &Session<'_>, server: &Row, wanted: &Value) -> Option<Value> {
    let wanted = wanted["name"].as_str()?;
    let mut groups = session.store().all("security_group");
    let group = groups.find(|group| {
        *group.project == *server.project
            && (group.text("name") == wanted || group.id.to_string() == wanted)
    })?;
    Some(group.id.to_string().into())
}

fn bind(session: &mut Session<'_>, port: Uuid, server: Uuid) {
    session.edit("port", port, |port| {
        port.set("device_id", server.to_string());
        port.set("device_owner", "compute:nova");
        port.set("binding:host_id", "compute1");
        port.set("binding:vif_type", "ovs");
    });
}

/// Removes a port from a server. A port that Nova created is deleted, unless it is blocked; another port is free
/// again.
pub(super) fn unplug(session: &mut Session<'_>, server: &Row, port: &Row) {
    let id = port.id.to_string();
    let is_kept = server.items("kept_ports").iter().any(|kept| *kept == id);
    if !is_kept && session.check_unblocked(port).is_ok() {
        session.remove("port", port.id);
        return;
    }
    session.edit("port", port.id, |port| {
        port.clear("device_id");
        port.clear("device_owner");
        port.clear("binding:host_id");
        port.clear("binding:vif_type");
    });
}

/// Attaches the disks that a new server wants: volumes that exist, or new ones.
pub(super) fn attach_disks(session: &mut Session<'_>, server: &Row) -> Result<()> {
    for disk in server.items("block_device_mapping_v2") {
        let volume = if disk["source_type"] == "volume" {
            let text = disk["uuid"].as_str().unwrap_or_default();
            let volume = session.named("volume", text);
            volume.map_err(|_| refused("UnknownDisk", &[&text]))?
        } else if disk["destination_type"] == "volume" {
            new_volume(session, server, &disk["volume_size"])?
        } else {
            // A disk of the host, which is no volume.
            continue;
        };
        attach(session, server, &volume, disk)?;
    }
    Ok(())
}

/// Creates a volume that is available at once.
fn new_volume(session: &mut Session<'_>, server: &Row, size: &Value) -> Result<Row> {
    let body = json!({"size": size, "name": "", "project_id": &*server.project});
    let volume = session.create("volume", &body)?;
    session.settle("volume", volume);
    session.row("volume", volume)
}

/// Attaches a volume to a server. `wanted` may have the boot index, and whether the volume is deleted with the
/// server.
pub(super) fn attach(
    session: &mut Session<'_>,
    server: &Row,
    volume: &Row,
    wanted: &Value,
) -> Result<Row> {
    let disks = rows_of(session, DISK, server.id);
    let others = disks.iter().filter(|disk| !is_root(disk)).count();
    let letter = match wanted["boot_index"].as_i64() {
        Some(0) => 'a',
        _ => ('b'..='z').nth(others).unwrap_or('z'),
    };
    let body = json!({
        "project_id": &*volume.project,
        "volume_uuid": volume.id,
        "instance_uuid": server.id,
        "status": "attached",
        "device": format!("/dev/sd{letter}"),
        "boot_index": wanted["boot_index"],
        "delete_on_termination": wanted["delete_on_termination"] == true,
    });
    let disk = session.create("attachment", &body)?;
    session.row("attachment", disk)
}

/// Whether the server boots from a disk.
pub(super) fn is_root(disk: &Row) -> bool {
    disk.value("boot_index") == 0
}

/// Records the ports and volumes of a server, so that a revival finds them.
pub(super) fn touch_all(session: &mut Session<'_>, server: Uuid) {
    for port in rows_of(session, PORT, server) {
        session.record_unchanged("port", port.id);
    }
    for disk in rows_of(session, DISK, server) {
        session.record_unchanged("attachment", disk.id);
        session.record_unchanged("volume", disk.id_of("volume_id").unwrap_or_default());
    }
}

/// Removes the ports and volumes of a server from it.
pub(super) fn release_all(session: &mut Session<'_>, server: &Row) {
    for port in rows_of(session, PORT, server.id) {
        unplug(session, server, &port);
    }
    for disk in rows_of(session, DISK, server.id) {
        cinder::release(session, &disk, disk.flag("delete_on_termination"));
    }
}
