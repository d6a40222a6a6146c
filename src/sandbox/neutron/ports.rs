//! Ports.
use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{addresses_of, fixed_ips, free_addresses, requested_addresses};
use super::{forbidden, groups, trunks};
use crate::sandbox::kind::{Body, Hooks};
use crate::sandbox::row::Row;
use crate::sandbox::session::{Session, View, id_in};
use crate::sandbox::wire::{Refusal, Result};

pub(super) const ROUTER_INTERFACE: &str = "network:router_interface";
pub(super) const ROUTER_GATEWAY: &str = "network:router_gateway";
pub(super) const FLOATING_IP: &str = "network:floatingip";
pub(super) const LOCAL_IP: &str = "network:local_ip";

/// Owners whose ports can be deleted only by the calls of their router or floating IP.
const ROUTER_OWNERS: [&str; 7] = [
    ROUTER_INTERFACE,
    "network:router_ha_interface",
    "network:ha_router_replicated_interface",
    "network:router_interface_distributed",
    ROUTER_GATEWAY,
    FLOATING_IP,
    "network:router_centralized_snat",
];

/// Prefixes of the owners whose ports only an admin deletes.
const SERVERS: [&str; 3] = ["compute:", "baremetal:", "manila:"];

pub(super) const PORT: Hooks = Hooks {
    create: create_port,
    update: update_port,
    deletable: port_deletable,
    removed: port_removed,
    show: show_port,
    visible: owns_port_or_network,
    writable: owns_port_or_network,
    ..Hooks::NONE
};

/// The owner of the network can see, change and delete all ports on it.
fn owns_port_or_network(view: &View<'_>, port: &Row) -> bool {
    let owns_network = || {
        let network = view.store.get("network", port.id_of("network_id")?)?;
        Some(view.caller.owns(&network.project))
    };
    view.caller.owns(&port.project) || owns_network().unwrap_or(false)
}

fn show_port(view: &View<'_>, port: &Row, name: &str) -> Option<Value> {
    Some(match name {
        // The sandbox has no agent that binds ports, so none is ever ACTIVE.
        "status" if port.text("device_owner") == FLOATING_IP && port.project.is_empty() => {
            "N/A".into()
        }
        "status" => "DOWN".into(),
        "port_security_enabled" if port.get(name).is_none() => (!is_trusted(port)).into(),
        "qos_network_policy_id" => {
            let network = port.id_of("network_id")?;
            view.lookup("network", network, "qos_policy_id")?
        }
        "dns_assignment" => addresses_of(port)
            .map(|(_, address)| {
                let address = address.to_string();
                let host = format!("host-{}", address.replace(['.', ':'], "-"));
                let name = format!("{host}.openstacklocal.");
                json!({"ip_address": address, "hostname": host, "fqdn": name})
            })
            .collect(),
        "trunk_details" => trunks::details(view, port)?,
        _ => return None,
    })
}

/// Whether it is one of the network's own ports, which get no security group.
fn is_trusted(port: &Row) -> bool {
    port.text("device_owner").starts_with("network:")
}

pub(super) fn is_router_interface(port: &Row) -> bool {
    let owner = port.text("device_owner");
    let is_inside = owner.contains("interface") || owner.ends_with("centralized_snat");
    ROUTER_OWNERS.contains(&owner) && is_inside
}

/// Creates a port that belongs to a device of the network service; its addresses are free.
pub(super) fn create_own(
    session: &mut Session<'_>,
    project: &str,
    network: Uuid,
    device: Uuid,
    owner: &str,
    addresses: Value,
) -> Uuid {
    let mac = session.region.ids.mac();
    let mut port = session.new_row("port", project);
    port.set("network_id", network.to_string());
    port.set("mac_address", mac);
    port.set("device_id", device.to_string());
    port.set("device_owner", owner);
    port.set("fixed_ips", addresses);
    session.put(port)
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
        port.set("mac_address", session.region.ids.mac());
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

/// Refuses in Neutron's order: ports of servers, of routers and floating IPs, of local IPs, of trunks.
fn port_deletable(session: &mut Session<'_>, port: &Row) -> Result<()> {
    let owner = port.text("device_owner");
    if !session.caller.admin && SERVERS.iter().any(|server| owner.starts_with(server)) {
        return Err(forbidden("delete_port"));
    }
    let device = match owner {
        FLOATING_IP => "floating_ip",
        _ => "router",
    };
    let device = port
        .id_of("device_id")
        .and_then(|id| session.get(device, id));
    let has_address = !port.items("fixed_ips").is_empty();
    if ROUTER_OWNERS.contains(&owner) && has_address && device.is_some() {
        return Err(Refusal::conflict(
            "ServicePortInUse",
            format!(
                "Port {} cannot be deleted directly via the port API: has device owner {owner}.",
                port.id
            ),
        ));
    }
    session.not_held(port)
}

/// Floating IPs stay, without a port.
fn port_removed(session: &mut Session<'_>, port: &Row) {
    let ips = session.store().of("floating_ip", "port_id", port.id);
    let ips: Vec<Uuid> = ips.map(|ip| ip.id).collect();
    for ip in ips {
        session.edit("floating_ip", ip, super::floating_ips::disassociate);
    }
}

/// Returns the refusal to use a port that has a device.
pub(super) fn in_use(port: &Row) -> Refusal {
    Refusal::conflict(
        "PortInUse",
        format!(
            "Unable to complete operation on port {} for network {}. Port already has an attached \
             device {}.",
            port.id,
            port.text("network_id"),
            port.text("device_id")
        ),
    )
}
