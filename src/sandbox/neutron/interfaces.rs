//! Router interfaces: `add_router_interface`, `remove_router_interface`.
use std::net::IpAddr;

use serde_json::{Value, json};
use uuid::Uuid;

use super::floating_ips::FloatingIp;
use super::kind::Row;
use super::ndp_proxies::NdpProxy;
use super::ports::{Port, ROUTER_INTERFACE};
use super::routers::{Router, bad_router, connected};
use super::session::Session;
use super::store::Store;
use super::subnets::{Subnet, overlap};
use crate::sandbox::wire::{Refusal, Result};

pub(super) fn add(session: &mut Session<'_>, id: Uuid, body: &Value) -> Result<Value> {
    let router = session.row::<Router>(id)?.clone();
    let (port, subnet) = if let Some(text) = body.get("port_id").and_then(Value::as_str) {
        adopt_port(session, &router, text)?
    } else if let Some(text) = body.get("subnet_id").and_then(Value::as_str) {
        let subnet = session.named::<Subnet>(text)?.clone();
        free_of_router(session.store(), &router, &subnet)?;
        let Some(gateway) = subnet.gateway else {
            return Err(bad_router(
                "Subnet for router interface must have a gateway IP",
            ));
        };
        let used = session.store().indexes().addresses.get(&subnet.meta.id);
        if used.is_some_and(|used| used.contains_key(&gateway)) {
            return Err(Refusal::conflict(
                "IpAddressAlreadyAllocated",
                format!(
                    "IP address {gateway} already allocated in subnet {}",
                    subnet.meta.id
                ),
            ));
        }
        if let Some(port) = shared_port(session.store(), &router, &subnet) {
            session.edit(port, |port: &mut Port| {
                port.fixed_ips.push((subnet.meta.id, gateway));
            });
            session.bump::<Router>(id);
            return Ok(interface(&router, port, &[&subnet]));
        }
        let port = Port {
            network: subnet.network,
            mac: session.random_mac(),
            admin_state_up: true,
            device_id: id.to_string(),
            device_owner: ROUTER_INTERFACE.to_owned(),
            fixed_ips: vec![(subnet.meta.id, gateway)],
            groups: Vec::new(),
            meta: session.new_meta::<Port>(router.meta.project.clone()),
        };
        (session.insert(port), subnet)
    } else {
        return Err(bad_router("Either subnet_id or port_id must be specified."));
    };
    session.edit(id, |router: &mut Router| router.interfaces.push(port));
    session.bump::<Router>(id);
    Ok(interface(&router, port, &[&subnet]))
}

/// Returns the port that all IPv6 subnets of a network share on a router.
fn shared_port(store: &Store, router: &Router, subnet: &Subnet) -> Option<Uuid> {
    if subnet.version() == 4 {
        return None;
    }
    let is_shared = |port: &&Port| {
        port.network == subnet.network && port.fixed_ips.iter().any(|(_, ip)| ip.is_ipv6())
    };
    let ports = router.interfaces.iter();
    let mut ports = ports.filter_map(|port| store.get::<Port>(*port));
    ports.find(is_shared).map(|port| port.meta.id)
}

/// Turns a port that the user created into an interface.
fn adopt_port(session: &mut Session<'_>, router: &Router, text: &str) -> Result<(Uuid, Subnet)> {
    let port = session.named::<Port>(text)?.clone();
    let id = port.meta.id;
    if !port.device_id.is_empty() {
        return Err(port_in_use(&port));
    }
    let Some(subnet) = port
        .fixed_ips
        .first()
        .and_then(|(subnet, _)| session.store().get::<Subnet>(*subnet))
        .cloned()
    else {
        return Err(bad_router("Router port must have at least one fixed IP"));
    };
    free_of_router(session.store(), router, &subnet)?;
    session.edit(id, |port: &mut Port| {
        port.device_id = router.meta.id.to_string();
        ROUTER_INTERFACE.clone_into(&mut port.device_owner);
    });
    Ok((id, subnet))
}

pub(super) fn port_in_use(port: &Port) -> Refusal {
    Refusal::conflict(
        "PortInUse",
        format!(
            "Unable to complete operation on port {} for network {}. Port already has an attached \
             device {}.",
            port.meta.id, port.network, port.device_id
        ),
    )
}

fn free_of_router(store: &Store, router: &Router, subnet: &Subnet) -> Result<()> {
    for other in connected(store, router) {
        if other.meta.id == subnet.meta.id {
            return Err(bad_router(&format!(
                "Router already has a port on subnet {}.",
                subnet.meta.id
            )));
        }
        if overlap(other.cidr, subnet.cidr) {
            return Err(bad_router(&format!(
                "Cidr {} of subnet {} overlaps with cidr {} of subnet {}.",
                subnet.cidr, subnet.meta.id, other.cidr, other.meta.id
            )));
        }
    }
    Ok(())
}

pub(super) fn remove(session: &mut Session<'_>, id: Uuid, body: &Value) -> Result<Value> {
    let router = session.row::<Router>(id)?.clone();
    let port = if let Some(text) = body.get("port_id").and_then(Value::as_str) {
        text.parse()
            .ok()
            .filter(|port| router.interfaces.contains(port))
            .ok_or_else(|| {
                Refusal::not_found(
                    "RouterInterfaceNotFound",
                    format!("Router {id} does not have an interface with id {text}"),
                )
            })?
    } else if let Some(text) = body.get("subnet_id").and_then(Value::as_str) {
        interface_on(session.store(), &router, text).ok_or_else(|| {
            Refusal::not_found(
                "RouterInterfaceNotFoundForSubnet",
                format!("Router {id} has no interface on subnet {text}"),
            )
        })?
    } else {
        return Err(bad_router("Either subnet_id or port_id must be specified."));
    };
    let store = session.store();
    let on: Vec<Subnet> = store
        .get::<Port>(port)
        .into_iter()
        .flat_map(|port| &port.fixed_ips)
        .filter_map(|(subnet, _)| store.get::<Subnet>(*subnet).cloned())
        .collect();
    // A call that names the port removes the whole interface, even if it names a subnet too.
    let wanted = body.get("subnet_id").and_then(Value::as_str);
    let wanted: Option<Uuid> = wanted.and_then(|text| text.parse().ok());
    let by_port = body.get("port_id").is_some_and(Value::is_string);
    if by_port && wanted.is_some_and(|wanted| on.iter().all(|it| it.meta.id != wanted)) {
        return Err(Refusal::bad_request(
            "SubnetMismatchForPort",
            format!(
                "Subnet on port {port} does not match the requested subnet {}.",
                wanted.unwrap_or_default()
            ),
        ));
    }
    let goes = |subnet: &&Subnet| by_port || wanted == Some(subnet.meta.id);
    let gone: Vec<&Subnet> = on.iter().filter(goes).collect();
    if gone.is_empty() {
        return Err(bad_router("Router interface has no subnet."));
    }
    for subnet in &gone {
        unused_interface(session.store(), &router, subnet)?;
    }
    session.constrain::<Router>(id)?;
    if gone.len() < on.len() {
        session.edit(port, |port: &mut Port| {
            port.fixed_ips
                .retain(|(subnet, _)| gone.iter().all(|it| it.meta.id != *subnet));
        });
        session.bump::<Router>(id);
        return Ok(interface(&router, port, &gone));
    }
    Port::delete(session, port);
    session.edit(id, |router: &mut Router| {
        router.interfaces.retain(|other| *other != port);
    });
    session.bump::<Router>(id);
    Ok(interface(&router, port, &gone))
}

fn interface_on(store: &Store, router: &Router, subnet: &str) -> Option<Uuid> {
    let subnet: Uuid = subnet.parse().ok()?;
    router.interfaces.iter().copied().find(|port| {
        store
            .get::<Port>(*port)
            .is_some_and(|port| port.fixed_ips.iter().any(|(on, _)| *on == subnet))
    })
}

/// Checks that nothing needs the interface: floating IPs and forwardings first, then routes, as Neutron does.
fn unused_interface(store: &Store, router: &Router, subnet: &Subnet) -> Result<()> {
    let refused = |kind: &str, by: &str| {
        Err(Refusal::conflict(
            kind,
            format!(
                "Router interface for subnet {} on router {} cannot be deleted, as it is required \
                 by one or more {by}.",
                subnet.meta.id, router.meta.id
            ),
        ))
    };
    let reached = store
        .all::<FloatingIp>()
        .values()
        .filter(|ip| ip.router(store) == Some(router.meta.id))
        .any(|ip| {
            ip.inside_addresses(store)
                .iter()
                .any(|ip| subnet.cidr.contains(ip))
        });
    if reached {
        return refused("RouterInterfaceInUseByFloatingIP", "floating IPs");
    }
    let routed = router
        .routes
        .iter()
        .filter_map(|route| route.nexthop.parse::<IpAddr>().ok())
        .any(|hop| subnet.cidr.contains(&hop));
    if routed {
        return refused("RouterInterfaceInUseByRoute", "routes");
    }
    let mut proxies = store.all::<NdpProxy>().values();
    if proxies.any(|it| it.router == router.meta.id && subnet.cidr.contains(&it.address)) {
        return Err(Refusal::conflict(
            "RouterInterfaceInUseByNDPProxy",
            format!(
                "Unable to remove subnet {} from router {}, There are one or more ndp proxies still \
                 in use on the subnet.",
                subnet.meta.id, router.meta.id
            ),
        ));
    }
    Ok(())
}

fn interface(router: &Router, port: Uuid, subnets: &[&Subnet]) -> Value {
    let first = subnets.first();
    let ids: Vec<Uuid> = subnets.iter().map(|subnet| subnet.meta.id).collect();
    json!({
        "id": router.meta.id,
        "project_id": *router.meta.project,
        "port_id": port,
        "network_id": first.map(|subnet| subnet.network),
        "subnet_id": first.map(|subnet| subnet.meta.id),
        "subnet_ids": ids,
    })
}
