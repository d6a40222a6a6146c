//! Trunks and their subports.
use serde_json::{Value, json};
use uuid::Uuid;

use super::{devices, refused};
use crate::sandbox::core::{
    Answer, Body, Call, Handled, Hooks, Result, Row, Session, Store, refuse_if,
};

pub(super) const TRUNK: Hooks = Hooks {
    create: create_trunk,
    // A trunk cannot be deleted while it is disabled, or a server has its parent port. Subports do not block it.
    deletable: |session, trunk| {
        check_enabled(trunk)?;
        let parent = session.store().referred(trunk, "port_id", "port");
        let is_used = parent.is_some_and(|port| port.text("binding:vif_type") == "ovs");
        refuse_if(is_used, || refused("TrunkInUse", &[&trunk.id]))
    },
    act,
    ..Hooks::NONE
};

/// Whether a port is the parent or a subport of a trunk.
fn is_in_trunk(store: &Store, port: Uuid) -> bool {
    let mut attributes = ["port_id", "sub_ports"].iter();
    attributes.any(|name| store.of("trunk", name, port).next().is_some())
}

fn create_trunk(session: &mut Session<'_>, mut trunk: Row, body: &Body) -> Result<Uuid> {
    let port = trunk.id_of("port_id").unwrap_or_default();
    if is_in_trunk(session.store(), port) {
        return Err(refused("ParentPortInUse", &[&port]));
    }
    trunk.clear("sub_ports");
    let id = session.put(trunk);
    if let Some(Value::Array(wanted)) = body.get("sub_ports") {
        add(session, id, wanted)?;
    }
    Ok(id)
}

fn check_enabled(trunk: &Row) -> Result<()> {
    let is_disabled = !trunk.flag("admin_state_up");
    refuse_if(is_disabled, || refused("TrunkDisabled", &[&trunk.id]))
}

/// Handles `GET /trunks/{id}/get_subports`, and `PUT …/add_subports` and `…/remove_subports`, which answer with the
/// bare trunk and do not raise its revision number.
fn act(session: &mut Session<'_>, call: &Call<'_>, trunk: &Row, path: &[&str]) -> Handled {
    let body = call.json();
    let wanted = body["sub_ports"].as_array().cloned().unwrap_or_default();
    let shown = match (call.method.as_str(), path) {
        ("GET", ["get_subports"]) => json!({"sub_ports": trunk.value("sub_ports")}),
        ("PUT", [action @ ("add_subports" | "remove_subports")]) => {
            session.may_change(trunk, "update")?;
            // Subports to add are checked before the trunk's state, subports to remove after it.
            match *action {
                "add_subports" => add(session, trunk.id, &wanted)?,
                _ => remove(session, trunk, &wanted)?,
            }
            session.shown_now("trunk", trunk.id)
        }
        _ => return Ok(None),
    };
    Ok(Some(Answer::ok(shown)))
}

fn add(session: &mut Session<'_>, id: Uuid, wanted: &[Value]) -> Result<()> {
    for one in wanted {
        let port = one["port_id"].as_str().unwrap_or_default();
        if !one["segmentation_type"].is_string() || !one["segmentation_id"].is_u64() {
            return Err(refused("InvalidSubport", &[&port]));
        }
        let port = session.named("port", port)?;
        if is_in_trunk(session.store(), port.id) {
            return Err(refused("TrunkPortInUse", &[&port.id]));
        }
        if !port.text("device_id").is_empty() {
            return Err(devices::in_use(&port));
        }
    }
    let trunk = session.row("trunk", id)?;
    check_enabled(&trunk)?;
    let mut subports = trunk.items("sub_ports").to_vec();
    for one in wanted {
        subports.push(json!({
            "port_id": one["port_id"],
            "segmentation_type": one["segmentation_type"],
            "segmentation_id": one["segmentation_id"],
        }));
    }
    session.edit("trunk", id, |trunk| trunk.set("sub_ports", subports));
    Ok(())
}

fn remove(session: &mut Session<'_>, trunk: &Row, wanted: &[Value]) -> Result<()> {
    check_enabled(trunk)?;
    let mut subports = trunk.items("sub_ports").to_vec();
    for one in wanted {
        let before = subports.len();
        subports.retain(|sub| sub["port_id"] != one["port_id"]);
        if subports.len() == before {
            let port = one["port_id"].as_str().unwrap_or_default();
            return Err(refused("SubPortNotFound", &[&port, &trunk.id]));
        }
    }
    session.edit("trunk", trunk.id, |trunk| trunk.set("sub_ports", subports));
    Ok(())
}
