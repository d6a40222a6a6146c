//! Ports that belong to a device of the network service (a router, a floating IP, a local IP), and the subnets and
//! routers that they connect.
use serde_json::Value;
use uuid::Uuid;

use super::addresses::{addresses_of, fixed_ips};
use crate::sandbox::core::{Refusal, Row, Session, Store};

pub(super) const ROUTER_INTERFACE: &str = "network:router_interface";
pub(super) const ROUTER_GATEWAY: &str = "network:router_gateway";
pub(super) const FLOATING_IP: &str = "network:floatingip";
pub(super) const LOCAL_IP: &str = "network:local_ip";

/// The attribute that makes a network external.
pub(super) const EXTERNAL: &str = "router:external";
/// The attribute of a router's gateway.
pub(super) const GATEWAY: &str = "external_gateway_info";

/// Owners whose ports can be deleted only by the calls of their router or floating IP.
pub(super) const ROUTER_OWNERS: [&str; 7] = [
    ROUTER_INTERFACE,
    "network:router_ha_interface",
    "network:ha_router_replicated_interface",
    "network:router_interface_distributed",
    ROUTER_GATEWAY,
    FLOATING_IP,
    "network:router_centralized_snat",
];

/// Owners of the ports that Neutron deletes with their network.
const AUTO_DELETE_OWNERS: [&str; 3] = [
    "network:dhcp",
    "network:distributed",
    "network:floatingip_agent_gateway",
];

/// Whether a port is deleted with its network, and does not block the deletion of its subnet.
pub(super) fn is_automatic(port: &Row) -> bool {
    AUTO_DELETE_OWNERS.contains(&port.text("device_owner"))
}

pub(super) fn is_router_interface(port: &Row) -> bool {
    let owner = port.text("device_owner");
    let is_inside = owner.contains("interface") || owner.ends_with("centralized_snat");
    ROUTER_OWNERS.contains(&owner) && is_inside
}

/// Creates a port that belongs to a device. The caller passes addresses that are free.
pub(super) fn create_port_of(
    session: &mut Session<'_>,
    (device, owner): (Uuid, &str),
    project: &str,
    network: Uuid,
    addresses: Value,
) -> Uuid {
    let mac = session.store.ids.mac();
    let mut port = session.new_row("port", project);
    port.set("network_id", network.to_string());
    port.set("mac_address", mac);
    port.set("device_id", device.to_string());
    port.set("device_owner", owner);
    port.set("fixed_ips", addresses);
    session.put(port)
}

/// Lists the ports of a device that have a certain owner.
pub(super) fn ports_of<'s>(
    store: &'s Store,
    device: Uuid,
    owner: &str,
) -> impl Iterator<Item = &'s Row> {
    let ports = store.of("port", "device_id", device);
    ports.filter(move |port| port.text("device_owner") == owner)
}

/// Removes the ports of a device that have a certain owner.
pub(super) fn remove_ports_of(session: &mut Session<'_>, device: Uuid, owner: &str) {
    let ports = ports_of(session.store(), device, owner);
    let ports: Vec<Uuid> = ports.map(|port| port.id).collect();
    for port in ports {
        session.remove("port", port);
    }
}

/// Takes a subnet's addresses from a port.
pub(super) fn remove_addresses(port: &mut Row, subnet: Uuid) {
    let left: Vec<_> = addresses_of(port).filter(|(on, _)| *on != subnet).collect();
    port.set("fixed_ips", fixed_ips(left));
}

/// Lists the subnets of a router's interfaces.
pub(super) fn connected(store: &Store, router: Uuid) -> impl Iterator<Item = &Row> {
    ports_of(store, router, ROUTER_INTERFACE)
        .flat_map(addresses_of)
        .filter_map(|(subnet, _)| store.get("subnet", subnet))
}

/// Returns the network of a router's gateway.
pub(super) fn gateway_network(router: &Row) -> Option<&str> {
    router.get(GATEWAY)?["network_id"].as_str()
}

/// Returns the router that leads from a subnet to an external network.
pub(super) fn router_between(store: &Store, subnet: Uuid, external: &str) -> Option<Uuid> {
    store
        .of("port", "fixed_ips", subnet)
        .filter(|port| port.text("device_owner") == ROUTER_INTERFACE)
        .filter_map(|port| store.referred(port, "device_id", "router"))
        .find(|router| gateway_network(router) == Some(external))
        .map(|router| router.id)
}

pub(super) fn forwardings(store: &Store, ip: Uuid) -> impl Iterator<Item = &Row> {
    store.of("port_forwarding", "floatingip_id", ip)
}

/// Returns the router of a floating IP's association, or of its forwardings.
pub(super) fn router_of(store: &Store, ip: &Row) -> Option<Uuid> {
    let of_forwarding = || forwardings(store, ip.id).next()?.id_of("router_id");
    ip.id_of("router_id").or_else(of_forwarding)
}

/// Lists the internal addresses that a floating IP leads to.
pub(super) fn inside_addresses<'s>(store: &'s Store, ip: &'s Row) -> impl Iterator<Item = &'s str> {
    forwardings(store, ip.id)
        .map(|forwarding| forwarding.text("internal_ip_address"))
        .chain([ip.text("fixed_ip_address")])
}

/// The attributes of a floating IP's association.
pub(super) const ASSOCIATION: [&str; 3] = ["port_id", "fixed_ip_address", "router_id"];

pub(super) fn disassociate(ip: &mut Row) {
    for name in ASSOCIATION {
        ip.clear(name);
    }
}

/// Returns the refusal to use a port that has a device.
pub(super) fn in_use(port: &Row) -> Refusal {
    let (network, device) = (port.text("network_id"), port.text("device_id"));
    super::refused("PortInUse", &[&port.id, &network, &device])
}
