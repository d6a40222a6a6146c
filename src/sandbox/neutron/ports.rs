//! Ports: how they are created, changed and shown, and what blocks their deletion.
use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{fixed_ips, free_addresses, requested_addresses};
use super::devices::{FLOATING_IP, ROUTER_OWNERS, disassociate};
use super::{groups, refused};
use crate::sandbox::core::{Body, Hooks, Result, Row, Session, id_in};

/// Prefixes of the owners whose ports only an admin deletes.
const SERVERS: [&str; 3] = ["compute:", "baremetal:", "manila:"];

pub(super) const PORT: Hooks = Hooks {
    create: create_port,
    update: update_port,
    deletable: check_port_unused,
    removed: port_removed,
    show: show_port,
    visible: owns_port_or_network,
    writable: owns_port_or_network,
    ..Hooks::NONE
};

/// Whether the caller owns the port or its network: the owner of a network can see, change and delete all ports on it.
fn owns_port_or_network(session: &Session<'_>, port: &Row) -> bool {
    let owns_network = || {
        let network = session.store.referred(port, "network_id", "network");
        network.is_some_and(|network| session.caller.owns(&network.project))
    };
    session.caller.owns(&port.project) || owns_network()
}

fn show_port(session: &Session<'_>, port: &Row, name: &str) -> Option<Value> {
    Some(match name {
        // The sandbox has no agent that binds ports, so none is ever ACTIVE.
        "status" if port.text("device_owner") == FLOATING_IP && port.project.is_empty() => {
            "N/A".into()
        }
        "status" => "DOWN".into(),
        "port_security_enabled" if port.get(name).is_none() => (!is_trusted(port)).into(),
        "qos_network_policy_id" => {
            let network = session.store.referred(port, "network_id", "network");
            network?.value("qos_policy_id")
        }
        "trunk_details" => trunk_details(session, port)?,
        _ => return None,
    })
}

/// Returns what a parent port shows of its trunk. A subport shows nothing of its trunk.
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
    port.clear("tags");
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

/// Disassociates the floating IPs of a removed port. The floating IPs stay.
fn port_removed(session: &mut Session<'_>, port: &Row) {
    for ip in session.store().ids("floating_ip", "port_id", port.id) {
        session.edit("floating_ip", ip, disassociate);
    }
}
