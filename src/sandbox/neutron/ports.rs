//! Ports: how they are created, changed and shown, and what blocks their deletion; and trunks with their subports.
use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{fixed_ips, free_addresses, requested_addresses};
use super::devices::{FLOATING_IP, ROUTER_OWNERS, check_without_device, disassociate};
use super::{groups, refused};
use crate::sandbox::core::{
    Answer, Body, Call, Handled, Hooks, Result, Row, Session, Store, id_in, refuse_if,
};

/// Prefixes of the owners whose ports only an admin deletes.
const SERVERS: [&str; 3] = ["compute:", "baremetal:", "manila:"];

pub(super) const PORT: Hooks = Hooks {
    create: create_port,
    update: update_port,
    deletable: check_port_unused,
    // The floating IPs of a removed port stay, without it.
    removed: |session, port| {
        for ip in session.store().ids("floating_ip", "port_id", port.id) {
            session.edit("floating_ip", ip, disassociate);
        }
    },
    show: show_port,
    visible: owns_port_or_network,
    writable: owns_port_or_network,
    ..Hooks::NONE
};

/// Whether the caller owns the port or its network: the owner of a network can see, change and delete all ports on it.
fn owns_port_or_network(session: &Session<'_>, port: &Row) -> bool {
    let owns = |row: &Row| session.caller.owns(&row.project);
    let network = || session.store.referred(port, "network_id", "network");
    owns(port) || network().is_some_and(owns)
}

fn show_port(session: &Session<'_>, port: &Row, name: &str) -> Option<Value> {
    Some(match name {
        // The sandbox has no agent that binds ports, so none is ever ACTIVE.
        "status" if port.text("device_owner") == FLOATING_IP && port.project.is_empty() => {
            "N/A".into()
        }
        "status" => "DOWN".into(),
        "port_security_enabled" if port.get(name).is_none() => (!is_trusted(port)).into(),
        "trunk_details" => trunk_details(session, port)?,
        _ => return None,
    })
}

/// Returns the data about the trunk that its parent port shows. A subport shows nothing of its trunk.
fn trunk_details(session: &Session<'_>, parent: &Row) -> Option<Value> {
    let trunk = session.store.of("trunk", "port_id", parent.id).next()?;
    let subport = |sub: &Value| {
        let port = sub["port_id"].as_str().and_then(|id| id.parse().ok());
        let port = port.and_then(|id| session.store.get("port", id));
        json!({
            "segmentation_id": sub["segmentation_id"],
            "segmentation_type": sub["segmentation_type"],
            "port_id": sub["port_id"],
            "mac_address": port.map(|port| port.value("mac_address")),
        })
    };
    let subports: Value = trunk.items("sub_ports").iter().map(subport).collect();
    Some(json!({"trunk_id": trunk.id, "sub_ports": subports}))
}

/// Whether a port belongs to the network service itself, and so gets no security group.
fn is_trusted(port: &Row) -> bool {
    port.text("device_owner").starts_with("network:")
}

fn create_port(session: &mut Session<'_>, mut port: Row, body: &Body) -> Result<Uuid> {
    let network = port.id_of("network_id").unwrap_or_default();
    let addresses = match body.get("fixed_ips") {
        Some(Value::Array(wanted)) => requested_addresses(session, network, wanted, port.id)?,
        _ => free_addresses(session.store(), network)?,
    };
    port.set("fixed_ips", fixed_ips(addresses));
    if port.get("mac_address").is_none_or(Value::is_null) {
        port.set("mac_address", session.store.ids.mac());
    }
    let has_security = body.get("port_security_enabled") != Some(&Value::Bool(false));
    match body.get("security_groups") {
        Some(Value::Array(_)) => check_groups(session, &port)?,
        _ if is_trusted(&port) || !has_security => {}
        _ => {
            let group = groups::ensure_default(session, &port.project);
            port.set("security_groups", json!([group]));
        }
    }
    Ok(session.put(port))
}

fn update_port(session: &mut Session<'_>, mut port: Row, body: &Body) -> Result<()> {
    let network = port.id_of("network_id").unwrap_or_default();
    if let Some(Value::Array(wanted)) = body.get("fixed_ips") {
        let addresses = requested_addresses(session, network, wanted, port.id)?;
        port.set("fixed_ips", fixed_ips(addresses));
    }
    check_groups(session, &port)?;
    session.put(port);
    Ok(())
}

fn check_groups(session: &Session<'_>, port: &Row) -> Result<()> {
    for group in port.items("security_groups") {
        let text = group.as_str().unwrap_or_default();
        let known = id_in(text).and_then(|id| session.get("security_group", id));
        known.ok_or_else(|| session.missing("security_group", text))?;
    }
    Ok(())
}

/// Refuses to delete a port that is in use, in Neutron's order: ports of servers, of routers and floating IPs, of
/// local IPs, of trunks.
fn check_port_unused(session: &mut Session<'_>, port: &Row) -> Result<()> {
    let owner = port.text("device_owner");
    if !session.caller.is_admin && SERVERS.iter().any(|server| owner.starts_with(server)) {
        return Err(port.kind.forbidden("delete"));
    }
    let device = match owner {
        FLOATING_IP => "floating_ip",
        _ => "router",
    };
    let device = session.store().referred(port, "device_id", device);
    let has_address = !port.items("fixed_ips").is_empty();
    if ROUTER_OWNERS.contains(&owner) && has_address && device.is_some() {
        return Err(refused("ServicePortInUse", &[&port.id, &owner]));
    }
    session.check_unblocked(port)
}

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

fn create_trunk(session: &mut Session<'_>, trunk: Row, body: &Body) -> Result<Uuid> {
    let port = trunk.id_of("port_id").unwrap_or_default();
    let is_taken = is_in_trunk(session.store(), port);
    refuse_if(is_taken, || refused("ParentPortInUse", &[&port]))?;
    let id = session.put(trunk);
    if let Some(Value::Array(wanted)) = body.get("sub_ports") {
        add_subports(session, id, wanted)?;
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
                "add_subports" => add_subports(session, trunk.id, &wanted)?,
                _ => remove_subports(session, trunk, &wanted)?,
            }
            session.shown_now("trunk", trunk.id)
        }
        _ => return Ok(None),
    };
    Ok(Some(Answer::ok(shown)))
}

fn add_subports(session: &mut Session<'_>, id: Uuid, wanted: &[Value]) -> Result<()> {
    for one in wanted {
        let port = one["port_id"].as_str().unwrap_or_default();
        if !one["segmentation_type"].is_string() || !one["segmentation_id"].is_u64() {
            return Err(refused("InvalidSubport", &[&port]));
        }
        let port = session.named("port", port)?;
        let is_taken = is_in_trunk(session.store(), port.id);
        refuse_if(is_taken, || refused("TrunkPortInUse", &[&port.id]))?;
        check_without_device(&port)?;
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

fn remove_subports(session: &mut Session<'_>, trunk: &Row, wanted: &[Value]) -> Result<()> {
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
