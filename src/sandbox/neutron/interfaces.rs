//! Router interfaces: `add_router_interface`, `remove_router_interface`.
use std::net::IpAddr;

use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{addresses_of, already_allocated, cidr_of, fixed_ips, is_inside, overlap};
use super::floating_ips;
use super::ports::{self, ROUTER_INTERFACE, create_own};
use super::routers::{bad_router, connected, ports_of};
use super::subnets::lose_addresses;
use crate::sandbox::row::Row;
use crate::sandbox::session::Session;
use crate::sandbox::store::Store;
use crate::sandbox::wire::{Refusal, Result};

pub(super) fn add(session: &mut Session<'_>, router: &Row, body: &Value) -> Result<Value> {
    let (port, subnet) = if let Some(text) = body["port_id"].as_str() {
        adopt_port(session, router, text)?
    } else if let Some(text) = body["subnet_id"].as_str() {
        let subnet = session.named("subnet", text)?;
        (add_subnet(session, router, &subnet)?, subnet)
    } else {
        return Err(bad_router("Either subnet_id or port_id must be specified."));
    };
    session.bump("router", router.id);
    Ok(shown(router, port, &[&subnet]))
}

/// Gives a router an address in a subnet, and returns the port that has it.
fn add_subnet(session: &mut Session<'_>, router: &Row, subnet: &Row) -> Result<Uuid> {
    free_of_router(session.store(), router, subnet)?;
    let gateway: Option<IpAddr> = subnet.text("gateway_ip").parse().ok();
    let gateway =
        gateway.ok_or_else(|| bad_router("Subnet for router interface must have a gateway IP"))?;
    if session.store().holder_of(subnet.id, gateway).is_some() {
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
    let addresses = fixed_ips([address]);
    let project = &router.project;
    Ok(create_own(
        session,
        project,
        network,
        router.id,
        ROUTER_INTERFACE,
        addresses,
    ))
}

/// Returns the port that all IPv6 subnets of a network share on a router.
fn shared_port(store: &Store, router: &Row, network: Uuid, gateway: IpAddr) -> Option<Uuid> {
    let is_shared = |port: &Uuid| {
        let port = store.get("port", *port);
        port.is_some_and(|port| {
            port.id_of("network_id") == Some(network)
                && addresses_of(port).any(|(_, address)| address.is_ipv6())
        })
    };
    let ports = ports_of(store, router.id, ROUTER_INTERFACE);
    ports
        .into_iter()
        .find(|port| gateway.is_ipv6() && is_shared(port))
}

/// Turns a port that the user created into an interface.
fn adopt_port(session: &mut Session<'_>, router: &Row, text: &str) -> Result<(Uuid, Row)> {
    let port = session.named("port", text)?;
    if !port.text("device_id").is_empty() {
        return Err(ports::in_use(&port));
    }
    let subnet = addresses_of(&port).next();
    let subnet = subnet.and_then(|(subnet, _)| session.get("subnet", subnet).cloned());
    let subnet = subnet.ok_or_else(|| bad_router("Router port must have at least one fixed IP"))?;
    free_of_router(session.store(), router, &subnet)?;
    session.edit("port", port.id, |port| {
        port.set("device_id", router.id.to_string());
        port.set("device_owner", ROUTER_INTERFACE);
    });
    Ok((port.id, subnet))
}

fn free_of_router(store: &Store, router: &Row, subnet: &Row) -> Result<()> {
    for other in connected(store, router.id) {
        if other.id == subnet.id {
            return Err(bad_router(format!(
                "Router already has a port on subnet {}.",
                subnet.id
            )));
        }
        if cidr_of(other)
            .zip(cidr_of(subnet))
            .is_some_and(|(one, two)| overlap(one, two))
        {
            return Err(bad_router(format!(
                "Cidr {} of subnet {} overlaps with cidr {} of subnet {}.",
                subnet.text("cidr"),
                subnet.id,
                other.text("cidr"),
                other.id
            )));
        }
    }
    Ok(())
}

/// A call that names the port removes the whole interface, even if it names a subnet too.
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
        unused_interface(store, router, subnet)?;
    }
    session.constrain(router)?;
    if gone.len() < subnets.len() {
        for subnet in &gone {
            session.edit("port", port.id, |port| lose_addresses(port, subnet.id));
        }
    } else {
        session.remove("port", port.id);
    }
    session.bump("router", router.id);
    Ok(shown(router, port.id, &gone))
}

/// Returns the port that a call removes.
fn interface(store: &Store, router: &Row, body: &Value) -> Result<Row> {
    let ports = ports_of(store, router.id, ROUTER_INTERFACE);
    let mut ports = ports.iter().filter_map(|port| store.get("port", *port));
    let id = router.id;
    let (found, error, message) = if let Some(text) = body["port_id"].as_str() {
        (
            ports.find(|port| port.id.to_string() == text),
            "RouterInterfaceNotFound",
            format!("Router {id} does not have an interface with id {text}"),
        )
    } else if let Some(text) = body["subnet_id"].as_str() {
        (
            ports.find(|port| addresses_of(port).any(|(on, _)| on.to_string() == text)),
            "RouterInterfaceNotFoundForSubnet",
            format!("Router {id} has no interface on subnet {text}"),
        )
    } else {
        return Err(bad_router("Either subnet_id or port_id must be specified."));
    };
    let port = found.cloned();
    port.ok_or_else(|| Refusal::not_found(error, message))
}

/// Checks that nothing needs the interface: floating IPs and forwardings first, then routes, as Neutron does.
fn unused_interface(store: &Store, router: &Row, subnet: &Row) -> Result<()> {
    let refused = |error: &str, by: &str| {
        Err(Refusal::conflict(
            error,
            format!(
                "Router interface for subnet {} on router {} cannot be deleted, as it is required \
                 by one or more {by}.",
                subnet.id, router.id
            ),
        ))
    };
    let is_inside_text = |text: &str| text.parse().is_ok_and(|ip| is_inside(subnet, ip));
    let mut ips = store
        .all("floating_ip")
        .filter(|ip| floating_ips::router_of(store, ip) == Some(router.id));
    if ips.any(|ip| {
        let mut inside = floating_ips::inside_addresses(store, ip);
        inside.any(&is_inside_text)
    }) {
        return refused("RouterInterfaceInUseByFloatingIP", "floating IPs");
    }
    let mut hops = router.items("routes").iter();
    if hops.any(|route| is_inside_text(route["nexthop"].as_str().unwrap_or_default())) {
        return refused("RouterInterfaceInUseByRoute", "routes");
    }
    let mut proxies = store.of("ndp_proxy", "router_id", router.id);
    if proxies.any(|proxy| is_inside_text(proxy.text("ip_address"))) {
        return Err(Refusal::conflict(
            "RouterInterfaceInUseByNDPProxy",
            format!(
                "Unable to remove subnet {} from router {}, There are one or more ndp proxies still \
                 in use on the subnet.",
                subnet.id, router.id
            ),
        ));
    }
    Ok(())
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
