//! Router interfaces: `add_router_interface`, `remove_router_interface`.
use std::net::IpAddr;

use serde_json::{Value, json};
use uuid::Uuid;

use super::floating_ips::FloatingIp;
use super::kind::Row;
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
    Ok(interface(&router, port, &subnet))
}

/// Makes a port that the user made into an interface.
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
    let Some(subnet) = session
        .store()
        .get::<Port>(port)
        .and_then(|port| port.fixed_ips.first())
        .and_then(|(subnet, _)| session.store().get::<Subnet>(*subnet))
        .cloned()
    else {
        return Err(bad_router("Router interface has no subnet."));
    };
    unused_interface(session.store(), &router, &subnet)?;
    session.constrain::<Router>(id)?;
    Port::delete(session, port);
    session.edit(id, |router: &mut Router| {
        router.interfaces.retain(|other| *other != port);
    });
    session.bump::<Router>(id);
    Ok(interface(&router, port, &subnet))
}

fn interface_on(store: &Store, router: &Router, subnet: &str) -> Option<Uuid> {
    let subnet: Uuid = subnet.parse().ok()?;
    router.interfaces.iter().copied().find(|port| {
        store
            .get::<Port>(*port)
            .is_some_and(|port| port.fixed_ips.iter().any(|(on, _)| *on == subnet))
    })
}

/// Floating IPs and forwardings first, then routes, as Neutron does.
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
    Ok(())
}

fn interface(router: &Router, port: Uuid, subnet: &Subnet) -> Value {
    json!({
        "id": router.meta.id,
        "project_id": *router.meta.project,
        "port_id": port,
        "network_id": subnet.network,
        "subnet_id": subnet.meta.id,
        "subnet_ids": [subnet.meta.id],
    })
}
