//! The calls below a server: its actions, its interfaces, its volumes.
use serde_json::{Value, json};

use super::devices::{DISK, PORT, attach, is_root, plug, rows_of, unplug};
use super::refused;
use super::states::{begin, begin_deletion, check_free, check_unlocked, set_state};
use crate::sandbox::cinder;
use crate::sandbox::core::{Answer, Call, Handled, Result, Row, Session, refuse_if};

/// The states of a server whose interfaces and volumes can be changed.
const USABLE: &str = "active stopped paused suspended shelved_offloaded";

pub(super) fn act(
    session: &mut Session<'_>,
    call: &Call<'_>,
    server: &Row,
    path: &[&str],
) -> Handled {
    let method = call.method.as_str();
    if method != "GET" {
        session.may_change(server, "action")?;
    }
    let body = call.json();
    let answer = match (method, path) {
        ("POST", ["action"]) => change(session, server, &body)?,
        ("GET", ["os-interface"]) => {
            let ports = rows_of(session, PORT, server.id);
            let shown: Value = ports.iter().map(interface).collect();
            Answer::ok(json!({"interfaceAttachments": shown}))
        }
        ("POST", ["os-interface"]) => add_interface(session, server, &body["interfaceAttachment"])?,
        ("DELETE", ["os-interface", port]) => remove_interface(session, server, port)?,
        ("GET", ["os-volume_attachments"]) => {
            let disks = rows_of(session, DISK, server.id);
            let shown: Value = disks.iter().map(disk).collect();
            Answer::ok(json!({"volumeAttachments": shown}))
        }
        ("POST", ["os-volume_attachments"]) => {
            add_disk(session, server, &body["volumeAttachment"])?
        }
        ("DELETE", ["os-volume_attachments", volume]) => remove_disk(session, server, volume)?,
        _ => return Ok(None),
    };
    Ok(Some(answer))
}

/// The actions that change the state at once, the states that allow each, and the state after it.
const CHANGES: [(&str, &str, &str); 8] = [
    ("os-stop", "active error", "stopped"),
    ("os-start", "stopped", "active"),
    ("pause", "active", "paused"),
    ("unpause", "paused", "active"),
    ("suspend", "active", "suspended"),
    ("resume", "suspended", "active"),
    ("shelve", "active stopped", "shelved_offloaded"),
    ("unshelve", "shelved_offloaded", "active"),
];

fn change(session: &mut Session<'_>, server: &Row, body: &Value) -> Result<Answer> {
    let action = body.as_object().and_then(|body| body.iter().next());
    let (name, arguments) = action.ok_or_else(|| refused("UnknownAction", &[&""]))?;
    let is_admin = session.caller.is_admin;
    match name.as_str() {
        "lock" => session.edit("server", server.id, |row| {
            row.set("locked", true);
            row.set("locked_reason", arguments["locked_reason"].clone());
            row.set("is_locked_by_admin", is_admin);
        }),
        "unlock" if server.flag("is_locked_by_admin") && !is_admin => {
            return Err(refused("Unlock", &[]));
        }
        "unlock" => session.edit("server", server.id, |row| {
            row.clear("locked");
            row.clear("locked_reason");
            row.clear("is_locked_by_admin");
        }),
        "os-resetState" if !is_admin => return Err(refused("ResetState", &[])),
        "os-resetState" => match arguments["state"].as_str() {
            Some("active") => set_state(session, server.id, "active"),
            _ => set_state(session, server.id, "error"),
        },
        "forceDelete" => {
            check_unlocked(session, server)?;
            begin_deletion(session, server);
        }
        "restore" => {
            check_free(session, server, "restore", "soft-delete")?;
            begin(session, server, "restoring");
        }
        name => {
            let known = CHANGES.iter().find(|(known, ..)| *known == name);
            let known = known.ok_or_else(|| refused("UnknownAction", &[&name]))?;
            let (_, states, state) = known;
            check_free(session, server, name.trim_start_matches("os-"), states)?;
            set_state(session, server.id, state);
        }
    }
    Ok(Answer::empty(202))
}

/// Shows a port as an interface of its server.
fn interface(port: &Row) -> Value {
    json!({
        "port_id": port.id,
        "net_id": port.value("network_id"),
        "mac_addr": port.value("mac_address"),
        "port_state": "DOWN",
        "fixed_ips": port.value("fixed_ips"),
        "tag": null,
    })
}

fn add_interface(session: &mut Session<'_>, server: &Row, wanted: &Value) -> Result<Answer> {
    check_free(session, server, "attach_interface", USABLE)?;
    let mut server = server.clone();
    let port = plug(session, &mut server, &wanted["port_id"], &wanted["net_id"])?;
    session.put(server);
    let shown = interface(&session.row("port", port)?);
    Ok(Answer::ok(json!({"interfaceAttachment": shown})))
}

/// Removes a port from a server. A port that the server does not have is accepted, too.
fn remove_interface(session: &mut Session<'_>, server: &Row, port: &str) -> Result<Answer> {
    check_free(session, server, "detach_interface", USABLE)?;
    let ports = rows_of(session, PORT, server.id).into_iter();
    for port in ports.filter(|known| known.id.to_string() == port) {
        unplug(session, server, &port);
    }
    Ok(Answer::empty(202))
}

/// Shows an attachment as a volume of its server.
fn disk(disk: &Row) -> Value {
    json!({
        "volumeId": disk.value("volume_id"),
        "serverId": disk.value("instance"),
        "device": disk.value("device"),
        "tag": null,
        "delete_on_termination": disk.flag("delete_on_termination"),
        "attachment_id": disk.id,
        "bdm_uuid": disk.id,
    })
}

fn add_disk(session: &mut Session<'_>, server: &Row, wanted: &Value) -> Result<Answer> {
    check_free(session, server, "attach_volume", USABLE)?;
    let volume = session.named("volume", wanted["volumeId"].as_str().unwrap_or_default())?;
    let shown = disk(&attach(session, server, &volume, wanted)?);
    Ok(Answer::ok(json!({"volumeAttachment": shown})))
}

/// Begins to detach a volume. Refuses the volume that the server boots from, which stays until the server is deleted.
fn remove_disk(session: &mut Session<'_>, server: &Row, text: &str) -> Result<Answer> {
    let volume = session.named("volume", text)?;
    let disks = rows_of(session, DISK, server.id);
    let mut disks = disks.iter();
    let disk = disks.find(|disk| disk.id_of("volume_id") == Some(volume.id));
    let disk = disk.ok_or_else(|| refused("NotAttached", &[&server.id, &text]))?;
    refuse_if(is_root(disk), || refused("RootDisk", &[]))?;
    check_free(session, server, "detach_volume", USABLE)?;
    if volume.text("status") != "in-use" {
        let request = format!("req-{}", session.store.ids.uuid());
        return Err(refused("NotInUse", &[&request]));
    }
    cinder::begin_status(session, &volume, "detaching");
    Ok(Answer::empty(202))
}
