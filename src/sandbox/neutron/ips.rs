//! Addresses that lead to ports: floating IPs with their port forwardings, local IPs with their associations, NDP
//! proxies.
use serde_json::Value;
use uuid::Uuid;

use super::addresses::{Address, addresses_of, is_inside};
use super::devices::{
    self, EXTERNAL, ROUTER_INTERFACE, connected, create_port_of, disassociate, gateway_network,
    remove_ports_of, router_of,
};
use super::refused;
use crate::sandbox::core::{Body, Hooks, Result, Row, Session, Store, refuse_if};

pub(super) const FLOATING_IP: Hooks = Hooks {
    create: |session, mut ip, body| {
        let network = session.required_row("network", body, "floating_network_id")?;
        let refusal = || refused("FloatingNetworkNotExternal", &[&network.id]);
        refuse_if(!network.flag(EXTERNAL), refusal)?;
        let device = (ip.id, devices::FLOATING_IP);
        let (_, address) = create_port_of(session, device, "", network.id, None)?;
        ip.set("floating_ip_address", address.to_string());
        let id = session.put(ip);
        associate(session, id, body)?;
        Ok(id)
    },
    update: |session, ip, body| {
        let id = session.put(ip);
        associate(session, id, body)
    },
    removed: |session, ip| remove_ports_of(session, ip.id, devices::FLOATING_IP),
    show: |session, ip, name| {
        let router = || router_of(session.store(), ip).map(|id| id.to_string());
        (name == "router_id").then(|| router().into())
    },
    ..Hooks::NONE
};

/// Returns the address of a port that a body asks for; if it asks for none, the port's first address.
fn wanted_address(port: &Row, body: &Body, name: &str) -> Option<Address> {
    let wanted = body.get(name).and_then(Value::as_str);
    let mut addresses = addresses_of(port);
    addresses.find(|(_, address)| wanted.is_none_or(|wanted| address.to_string() == wanted))
}

/// Associates a floating IP with the port that a body names; a null disassociates it.
fn associate(session: &mut Session<'_>, id: Uuid, body: &Body) -> Result<()> {
    let Some(port) = session.optional_row("port", body, "port_id")? else {
        if body.contains_key("port_id") {
            session.edit("floating_ip", id, disassociate);
        }
        return Ok(());
    };
    let ip = session.row("floating_ip", id)?;
    let Some((subnet, fixed)) = wanted_address(&port, body, "fixed_ip_address") else {
        return Err(refused("FloatingIPWithoutAddress", &[&port.id]));
    };
    session.check_unblocked(&ip)?;
    let fixed = fixed.to_string();
    let network = ip.text("floating_network_id");
    let is_taken = |other: &Row| {
        other.id != id
            && other.text("fixed_ip_address") == fixed
            && other.text("floating_network_id") == network
    };
    let store = session.store();
    if store.of("floating_ip", "port_id", port.id).any(is_taken) {
        let address = ip.text("floating_ip_address");
        let parts: &[&dyn std::fmt::Display] = &[&address, &id, &port.id, &fixed, &network];
        return Err(refused("FloatingIPPortAlreadyAssociated", parts));
    }
    let router = router_to(store, &port, subnet, network)?;
    session.edit("floating_ip", id, |ip| {
        ip.set("port_id", port.id.to_string());
        ip.set("fixed_ip_address", fixed);
        ip.set("router_id", router.to_string());
    });
    Ok(())
}

/// Returns the router that leads from a port's subnet to an external network.
fn router_to(store: &Store, port: &Row, subnet: Uuid, external: &str) -> Result<Uuid> {
    let ports = store.of("port", "fixed_ips", subnet);
    let interfaces = ports.filter(|port| port.text("device_owner") == ROUTER_INTERFACE);
    let mut routers = interfaces.filter_map(|port| store.referred(port, "device_id", "router"));
    let router = routers.find(|router| gateway_network(router) == Some(external));
    let parts: [&dyn std::fmt::Display; 3] = [&external, &subnet, &port.id];
    let missing = || refused("ExternalGatewayForFloatingIPNotFound", &parts);
    router.map(|router| router.id).ok_or_else(missing)
}

pub(super) const PORT_FORWARDING: Hooks = Hooks {
    create: create_forwarding,
    show: |_, forwarding, name| {
        let port = name.strip_suffix("_range")?;
        let port = forwarding.value(port);
        Some(format!("{port}:{port}").into())
    },
    ..Hooks::NONE
};

fn create_forwarding(session: &mut Session<'_>, mut forwarding: Row, body: &Body) -> Result<Uuid> {
    let port = session.required_row("port", body, "internal_port_id")?;
    let floating = session.required_row("floating_ip", body, "floatingip_id")?;
    let address = wanted_address(&port, body, "internal_ip_address");
    let (subnet, address) = address.ok_or_else(|| refused("ForwardingWithoutAddress", &[]))?;
    let network = floating.text("floating_network_id");
    let router = router_to(session.store(), &port, subnet, network)?;
    forwarding.set("router_id", router.to_string());
    forwarding.set("internal_ip_address", address.to_string());
    Ok(session.put(forwarding))
}

pub(super) const LOCAL_IP: Hooks = Hooks {
    create: create_local_ip,
    // The port that was created for a local IP is removed with it.
    removed: |session, ip| remove_ports_of(session, ip.id, devices::LOCAL_IP),
    ..Hooks::NONE
};

fn create_local_ip(session: &mut Session<'_>, mut ip: Row, body: &Body) -> Result<Uuid> {
    let address = if let Some(text) = body.get("local_port_id").and_then(Value::as_str) {
        let port = session.named("port", text);
        let port = port.map_err(|_| refused("LocalIPWithUnknownPort", &[&text]))?;
        let network = port.value("network_id");
        let address = addresses_of(&port).next();
        let none = || refused("IpAddressGenerationFailure", &[&port.text("network_id")]);
        ip.set("network_id", network);
        address.ok_or_else(none)?.1
    } else {
        let network = ip.id_of("network_id");
        let network = network.ok_or_else(|| refused("LocalIPPortOrNetworkRequired", &[]))?;
        let device = (ip.id, devices::LOCAL_IP);
        let (port, address) = create_port_of(session, device, &ip.project, network, None)?;
        ip.set("local_port_id", port.to_string());
        address
    };
    ip.set("local_ip_address", address.to_string());
    Ok(session.put(ip))
}

/// Associations of a local IP with ports. The port identifies an association, whose own id is never shown.
pub(super) const ASSOCIATION: Hooks = Hooks {
    create: create_association,
    ..Hooks::NONE
};

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
