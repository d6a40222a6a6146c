//! Kinds that few projects have: local IPs, conntrack helpers, NDP proxies, metering labels.
use serde_json::Value;
use uuid::Uuid;

use super::addresses::{addresses_of, fixed_ips, free_addresses, is_inside, no_more_addresses};
use super::devices::{LOCAL_IP as OWNER, connected, create_port_of, remove_ports_of};
use super::refused;
use crate::sandbox::core::{Body, Hooks, Result, Row, Session, refuse_if};

pub(super) const LOCAL_IP: Hooks = Hooks {
    create: create_local_ip,
    // The port that was created for a local IP is removed with it.
    removed: |session, ip| remove_ports_of(session, ip.id, OWNER),
    ..Hooks::NONE
};

fn create_local_ip(session: &mut Session<'_>, mut ip: Row, body: &Body) -> Result<Uuid> {
    if let Some(text) = body.get("local_port_id").and_then(Value::as_str) {
        let port = session.named("port", text);
        let port = port.map_err(|_| refused("LocalIPWithUnknownPort", &[&text]))?;
        let network = port.id_of("network_id").unwrap_or_default();
        let Some((_, address)) = addresses_of(&port).next() else {
            return Err(no_more_addresses(network));
        };
        ip.set("network_id", network.to_string());
        ip.set("local_ip_address", address.to_string());
        return Ok(session.put(ip));
    }
    let network = ip.id_of("network_id");
    let network = network.ok_or_else(|| refused("LocalIPPortOrNetworkRequired", &[]))?;
    let addresses = free_addresses(session.store(), network)?;
    let Some((_, address)) = addresses.first() else {
        return Err(no_more_addresses(network));
    };
    ip.set("local_ip_address", address.to_string());
    let addresses = fixed_ips(addresses);
    let port = create_port_of(session, (ip.id, OWNER), &ip.project, network, addresses);
    ip.set("local_port_id", port.to_string());
    Ok(session.put(ip))
}

/// Associations of a local IP with ports. The port identifies an association, whose own id is never shown.
pub(super) const ASSOCIATION: Hooks = Hooks {
    create: create_association,
    show: |session, row, name| {
        let ip = || session.store.referred(row, "local_ip_id", "local_ip");
        (name == "local_ip_address").then(|| Some(ip()?.value(name)))?
    },
    visible: |session, row| sees_parent(session, row, "local_ip", "local_ip_id"),
    ..Hooks::NONE
};

/// Whether the caller sees the row that an attribute names.
fn sees_parent(session: &Session<'_>, row: &Row, kind: &str, attribute: &str) -> bool {
    let parent = session.store.referred(row, attribute, kind);
    parent.is_some_and(|parent| session.sees(parent))
}

fn create_association(session: &mut Session<'_>, mut row: Row, body: &Body) -> Result<Uuid> {
    let port = session.required_row("port", body, "fixed_port_id")?;
    let ip = row.id_of("local_ip_id");
    let is_there = session
        .store()
        .of(row.kind.name, "fixed_port_id", port.id)
        .any(|other| other.id_of("local_ip_id") == ip);
    let address = addresses_of(&port).next();
    let (false, Some((_, address))) = (is_there, address) else {
        return Err(refused("LocalIPAlreadyAssociated", &[&port.id]));
    };
    row.set("fixed_ip", address.to_string());
    Ok(session.put(row))
}

pub(super) const CONNTRACK_HELPER: Hooks = Hooks {
    create: create_helper,
    visible: |session, row| sees_parent(session, row, "router", "router_id"),
    ..Hooks::NONE
};

fn create_helper(session: &mut Session<'_>, row: Row, _: &Body) -> Result<Uuid> {
    let router = row.id_of("router_id").unwrap_or_default();
    let id = session.put(row);
    session.raise_revision("router", router);
    Ok(id)
}

/// NDP proxies, which announce a port's IPv6 address on the external network of a router.
pub(super) const NDP_PROXY: Hooks = Hooks {
    create: create_proxy,
    ..Hooks::NONE
};

fn create_proxy(session: &mut Session<'_>, mut proxy: Row, body: &Body) -> Result<Uuid> {
    let port = session.required_row("port", body, "port_id")?;
    let router = session.required_row("router", body, "router_id").ok();
    let store = session.store();
    let behind = router.as_ref().and_then(|router| {
        let is_reached =
            |address| connected(store, router.id).any(|subnet| is_inside(subnet, address));
        let mut addresses = addresses_of(&port).map(|(_, address)| address);
        addresses.find(|address| address.is_ipv6() && is_reached(*address))
    });
    let wanted = proxy.text("router_id");
    let Some(address) = behind else {
        return Err(refused("PortUnreachableRouter", &[&port.id, &wanted]));
    };
    proxy.set("ip_address", address.to_string());
    Ok(session.put(proxy))
}

/// Metering labels. Only admins create and delete them and their rules.
pub(super) const METERING_LABEL: Hooks = Hooks {
    create: create_as_admin,
    writable: |session, _| session.caller.is_admin,
    ..Hooks::NONE
};

pub(super) const METERING_RULE: Hooks = Hooks {
    create: create_as_admin,
    visible: |session, _| session.caller.is_admin,
    ..Hooks::NONE
};

fn create_as_admin(session: &mut Session<'_>, row: Row, _: &Body) -> Result<Uuid> {
    refuse_if(!session.caller.is_admin, || row.kind.forbidden("create"))?;
    Ok(session.put(row))
}
