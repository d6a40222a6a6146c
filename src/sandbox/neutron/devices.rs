//! Ports that belong to a device of the network service (a router, a floating IP, a local IP), and the subnets and
//! routers that they connect.
use std::net::IpAddr;

use uuid::Uuid;

use super::addresses::{Address, addresses_of, fixed_ips, free_addresses};
use super::refused;
use crate::sandbox::core::{Result, Row, Session, Store, refuse_if};

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

/// Creates a port that belongs to a device, with the given address, which must be free; without one, with free
/// addresses that this function chooses. Returns the port's id and first address.
pub(super) fn create_port_of(
    session: &mut Session<'_>,
    (device, owner): (Uuid, &str),
    project: &str,
    network: Uuid,
    address: Option<Address>,
) -> Result<(Uuid, IpAddr)> {
    let addresses = match address {
        Some(address) => vec![address],
        None => free_addresses(session.store(), network)?,
    };
    let first = addresses.first().map(|(_, address)| *address);
    let first = first.ok_or_else(|| refused("IpAddressGenerationFailure", &[&network]))?;
    let mac = session.store.ids.mac();
    let mut port = session.new_row("port", project);
    port.set("network_id", network.to_string());
    port.set("mac_address", mac);
    port.set("device_id", device.to_string());
    port.set("device_owner", owner);
    port.set("fixed_ips", fixed_ips(addresses));
    Ok((session.put(port), first))
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

fn forwardings(store: &Store, ip: Uuid) -> impl Iterator<Item = &Row> {
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

pub(super) fn disassociate(ip: &mut Row) {
    for name in ["port_id", "fixed_ip_address", "router_id"] {
        ip.clear(name);
    }
}

/// Refuses to use a port that has a device.
pub(super) fn check_without_device(port: &Row) -> Result<()> {
    let (network, device) = (port.text("network_id"), port.text("device_id"));
    let refusal = || refused("PortInUse", &[&port.id, &network, &device]);
    refuse_if(!device.is_empty(), refusal)
}
