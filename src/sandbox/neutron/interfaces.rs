//! Router interfaces: `add_router_interface`, `remove_router_interface`.
use std::net::IpAddr;

use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{
    addresses_of, already_allocated, cidr_of, fixed_ips, is_inside, overlap, port_with,
};
use super::devices::{
    ROUTER_INTERFACE, connected, create_port_of, in_use, inside_addresses, ports_of,
    remove_addresses, router_of,
};
use super::refused;
use crate::sandbox::core::{Refusal, Result, Row, Session, Store, refuse_if};

pub(super) fn add(session: &mut Session<'_>, router: &Row, body: &Value) -> Result<Value> {
    let (port, subnet) = if let Some(text) = body["port_id"].as_str() {
        adopt_port(session, router, text)?
    } else if let Some(text) = body["subnet_id"].as_str() {
        let subnet = session.named("subnet", text)?;
        (add_subnet(session, router, &subnet)?, subnet)
    } else {
        return Err(refused("InterfaceOfNothing", &[]));
    };
    session.raise_revision("router", router.id);
    Ok(shown(router, port, &[&subnet]))
}

/// Gives a router an address in a subnet, and returns the port that has it.
fn add_subnet(session: &mut Session<'_>, router: &Row, subnet: &Row) -> Result<Uuid> {
    check_free(session.store(), router, subnet)?;
    let gateway: Option<IpAddr> = subnet.text("gateway_ip").parse().ok();
    let gateway = gateway.ok_or_else(|| refused("InterfaceWithoutGatewayIp", &[]))?;
    if port_with(session.store(), subnet.id, gateway).is_some() {
        return Err(already_allocated(subnet.id, gateway));
    }
    let address = (subnet.id, gateway);
    let network = subnet.id_of("network_id").unwrap_or_default();
    if let Some(port) = shared_port(session.store(), router, network, gateway) {
        session.edit("port", port, |port| {
            let addresses: Vec<_> = addresses_of(port).chain([address]).collect();
            port.set("fixed_ips", fixed_ips(addresses));
        });
        return Ok(port);
    }
    let device = (router.id, ROUTER_INTERFACE);
    let addresses = fixed_ips([address]);
    Ok(create_port_of(
        session,
        device,
        &router.project,
        network,
        addresses,
    ))
}

/// Returns the port that all IPv6 subnets of a network share on a router.
fn shared_port(store: &Store, router: &Row, network: Uuid, gateway: IpAddr) -> Option<Uuid> {
    let is_shared = |port: &&Row| {
        gateway.is_ipv6()
            && port.id_of("network_id") == Some(network)
            && addresses_of(port).any(|(_, address)| address.is_ipv6())
    };
    let mut ports = ports_of(store, router.id, ROUTER_INTERFACE);
    ports.find(is_shared).map(|port| port.id)
}

/// Turns a port that the user created into an interface.
fn adopt_port(session: &mut Session<'_>, router: &Row, text: &str) -> Result<(Uuid, Row)> {
    let port = session.named("port", text)?;
    refuse_if(!port.text("device_id").is_empty(), || in_use(&port))?;
    let subnet = addresses_of(&port).next();
    let subnet = subnet.and_then(|(subnet, _)| session.get("subnet", subnet).cloned());
    let subnet = subnet.ok_or_else(|| refused("InterfaceWithoutAddress", &[]))?;
    check_free(session.store(), router, &subnet)?;
    session.edit("port", port.id, |port| {
        port.set("device_id", router.id.to_string());
        port.set("device_owner", ROUTER_INTERFACE);
    });
    Ok((port.id, subnet))
}

/// Refuses a subnet that overlaps with one that the router is connected to.
fn check_free(store: &Store, router: &Row, subnet: &Row) -> Result<()> {
    for other in connected(store, router.id) {
        if other.id == subnet.id {
            return Err(refused("InterfaceExists", &[&subnet.id]));
        }
        let cidrs = cidr_of(other).zip(cidr_of(subnet));
        if let Some((taken, cidr)) = cidrs.filter(|(one, two)| overlap(*one, *two)) {
            let parts: &[&dyn std::fmt::Display] = &[&cidr, &subnet.id, &taken, &other.id];
            return Err(refused("InterfaceOverlaps", parts));
        }
    }
    Ok(())
}

/// Removes an interface from a router. A call that names the port removes the whole interface, even if it names a
/// subnet too.
pub(super) fn remove(session: &mut Session<'_>, router: &Row, body: &Value) -> Result<Value> {
    let port = interface(session.store(), router, body)?;
    let store = session.store();
    let subnets: Vec<Row> = addresses_of(&port)
        .filter_map(|(subnet, _)| store.get("subnet", subnet).cloned())
        .collect();
    let is_by_port = body["port_id"].is_string();
    let wanted: Option<Uuid> = body["subnet_id"].as_str().and_then(|id| id.parse().ok());
    let goes = |subnet: &&Row| is_by_port || wanted == Some(subnet.id);
    let gone: Vec<&Row> = subnets.iter().filter(goes).collect();
    for subnet in &gone {
        check_unused(store, router, subnet)?;
    }
    session.check_revision(router)?;
    if gone.len() < subnets.len() {
        for subnet in &gone {
            session.edit("port", port.id, |port| remove_addresses(port, subnet.id));
        }
    } else {
        session.remove("port", port.id);
    }
    session.raise_revision("router", router.id);
    Ok(shown(router, port.id, &gone))
}

/// Returns the port of the interface that a call names.
fn interface(store: &Store, router: &Row, body: &Value) -> Result<Row> {
    let mut ports = ports_of(store, router.id, ROUTER_INTERFACE);
    let missing = |name: &str, id: &str| -> Refusal { refused(name, &[&router.id, &id]) };
    if let Some(id) = body["port_id"].as_str() {
        let port = ports.find(|port| port.id.to_string() == id).cloned();
        port.ok_or_else(|| missing("RouterInterfaceNotFound", id))
    } else if let Some(id) = body["subnet_id"].as_str() {
        let is_on = |port: &&Row| addresses_of(port).any(|(on, _)| on.to_string() == id);
        let port = ports.find(is_on).cloned();
        port.ok_or_else(|| missing("RouterInterfaceNotFoundForSubnet", id))
    } else {
        Err(refused("InterfaceOfNothing", &[]))
    }
}

/// Checks that nothing needs the interface: first floating IPs and forwardings, then routes, then NDP proxies, as
/// Neutron does.
fn check_unused(store: &Store, router: &Row, subnet: &Row) -> Result<()> {
    let is_on = |text: &str| text.parse().is_ok_and(|address| is_inside(subnet, address));
    let ips = store.all("floating_ip");
    let mut ips = ips.filter(|ip| router_of(store, ip) == Some(router.id));
    let mut hops = router.items("routes").iter();
    let mut proxies = store.of("ndp_proxy", "router_id", router.id);
    let refusal = if ips.any(|ip| inside_addresses(store, ip).any(is_on)) {
        "RouterInterfaceInUseByFloatingIP"
    } else if hops.any(|route| route["nexthop"].as_str().is_some_and(is_on)) {
        "RouterInterfaceInUseByRoute"
    } else if proxies.any(|proxy| is_on(proxy.text("ip_address"))) {
        "RouterInterfaceInUseByNDPProxy"
    } else {
        return Ok(());
    };
    Err(refused(refusal, &[&subnet.id, &router.id]))
}

fn shown(router: &Row, port: Uuid, subnets: &[&Row]) -> Value {
    let first = subnets.first();
    let ids: Vec<Uuid> = subnets.iter().map(|subnet| subnet.id).collect();
    json!({
        "id": router.id,
        "project_id": *router.project,
        "port_id": port,
        "network_id": first.map(|subnet| subnet.value("network_id")),
        "subnet_id": first.map(|subnet| subnet.id),
        "subnet_ids": ids,
    })
}
