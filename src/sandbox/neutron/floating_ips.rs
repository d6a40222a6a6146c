//! Floating IPs, and the port forwardings that live below them.
use serde_json::Value;
use uuid::Uuid;

use super::addresses::{Address, addresses_of, fixed_ips, free_addresses, no_more_addresses};
use super::devices::{
    ASSOCIATION, EXTERNAL, FLOATING_IP as OWNER, create_port_of, disassociate, forwardings,
    remove_ports_of, router_between, router_of,
};
use super::refused;
use crate::sandbox::core::{Body, Hooks, Result, Row, Session, Store};

pub(super) const FLOATING_IP: Hooks = Hooks {
    create: create_floating_ip,
    update: |session, mut ip, body| {
        let id = ip.id;
        disassociate(&mut ip);
        if let Some(before) = session.get("floating_ip", id) {
            for name in ASSOCIATION {
                if let Some(value) = before.get(name) {
                    ip.set(name, value.clone());
                }
            }
        }
        session.put(ip);
        match body.get("port_id") {
            None => Ok(()),
            Some(Value::Null) => {
                session.edit("floating_ip", id, disassociate);
                Ok(())
            }
            Some(_) => associate(session, id, body),
        }
    },
    removed: |session, ip| remove_ports_of(session, ip.id, OWNER),
    show: show_floating_ip,
    ..Hooks::NONE
};

/// The attributes of its port that a floating IP shows.
const PORT_DETAILS: &str =
    "name network_id mac_address admin_state_up status device_id device_owner";
/// The attributes of its forwardings that a floating IP shows.
const FORWARDING: &str =
    "id protocol internal_ip_address internal_port_id internal_port external_port";

fn show_floating_ip(session: &Session<'_>, ip: &Row, name: &str) -> Option<Value> {
    Some(match name {
        "router_id" => router_of(session.store(), ip)
            .map(|id| id.to_string())
            .into(),
        "port_details" => {
            let port = session.store.referred(ip, "port_id", "port");
            port.map(|port| session.part(port, PORT_DETAILS)).into()
        }
        "port_forwardings" => {
            let forwardings = forwardings(session.store(), ip.id);
            forwardings
                .map(|row| session.part(row, FORWARDING))
                .collect()
        }
        _ => return None,
    })
}

fn create_floating_ip(session: &mut Session<'_>, mut ip: Row, body: &Body) -> Result<Uuid> {
    let network = session.required_row("network", body, "floating_network_id")?;
    if !network.flag(EXTERNAL) {
        return Err(refused("FloatingNetworkNotExternal", &[&network.id]));
    }
    disassociate(&mut ip);
    let id = ip.id;
    let addresses = free_addresses(session.store(), network.id)?;
    let Some((_, address)) = addresses.first() else {
        return Err(no_more_addresses(network.id));
    };
    ip.set("floating_ip_address", address.to_string());
    create_port_of(session, (id, OWNER), "", network.id, fixed_ips(addresses));
    session.put(ip);
    if body.get("port_id").is_some_and(|port| !port.is_null()) {
        associate(session, id, body)?;
    }
    Ok(id)
}

/// Returns the address of a port that a body wants, or its first one.
fn wanted_address(port: &Row, body: &Body, name: &str) -> Option<Address> {
    let wanted = body.get(name).and_then(Value::as_str);
    let mut addresses = addresses_of(port);
    addresses.find(|(_, address)| wanted.is_none_or(|wanted| address.to_string() == wanted))
}

fn associate(session: &mut Session<'_>, id: Uuid, body: &Body) -> Result<()> {
    let port = session.required_row("port", body, "port_id")?;
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
    let parts: [&dyn std::fmt::Display; 3] = [&external, &subnet, &port.id];
    router_between(store, subnet, external)
        .ok_or_else(|| refused("ExternalGatewayForFloatingIPNotFound", &parts))
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
    let made = session.put(forwarding);
    session.raise_revision("floating_ip", floating.id);
    Ok(made)
}
