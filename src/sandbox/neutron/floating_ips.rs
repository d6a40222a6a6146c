//! Floating IPs, and the port forwardings that live below them.
use serde_json::Value;
use uuid::Uuid;

use super::addresses::{Address, addresses_of, fixed_ips, free_addresses, no_more_addresses};
use super::bad_request;
use super::networks::EXTERNAL;
use super::ports::{FLOATING_IP as OWNER, create_own};
use super::routers::{self, ports_of};
use crate::sandbox::kind::{Body, Hooks};
use crate::sandbox::row::Row;
use crate::sandbox::session::{Session, View};
use crate::sandbox::store::Store;
use crate::sandbox::wire::{Refusal, Result};

pub(super) const FLOATING_IP: Hooks = Hooks {
    create: create_floating_ip,
    update: |session, mut ip, body| {
        let id = ip.id;
        let before = session.get("floating_ip", id).cloned();
        disassociate(&mut ip);
        for name in ["port_id", "fixed_ip_address", "router_id"] {
            if let Some(value) = before.as_ref().and_then(|before| before.get(name)) {
                ip.set(name, value.clone());
            }
        }
        session.put(ip);
        match body.get("port_id") {
            None => {}
            Some(Value::Null) => session.edit("floating_ip", id, disassociate),
            Some(_) => associate(session, id, body)?,
        }
        Ok(())
    },
    removed: |session, ip| {
        for port in ports_of(session.store(), ip.id, OWNER) {
            session.remove("port", port);
        }
    },
    show: show_floating_ip,
    ..Hooks::NONE
};

/// What a floating IP shows of its port, and of its forwardings.
const PORT_DETAILS: &str =
    "name network_id mac_address admin_state_up status device_id device_owner";
const FORWARDING: &str =
    "id protocol internal_ip_address internal_port_id internal_port external_port";

fn show_floating_ip(view: &View<'_>, ip: &Row, name: &str) -> Option<Value> {
    Some(match name {
        "router_id" => router_of(view.store, ip).map(|id| id.to_string()).into(),
        "port_details" => {
            let port = ip
                .id_of("port_id")
                .and_then(|id| view.store.get("port", id));
            port.map(|port| view.part(port, PORT_DETAILS)).into()
        }
        "port_forwardings" => {
            let forwardings = forwardings(view.store, ip.id);
            forwardings.map(|row| view.part(row, FORWARDING)).collect()
        }
        _ => return None,
    })
}

fn forwardings(store: &Store, ip: Uuid) -> impl Iterator<Item = &Row> {
    store.of("port_forwarding", "floatingip_id", ip)
}

/// Returns the router of the association, or of the forwardings.
pub(super) fn router_of(store: &Store, ip: &Row) -> Option<Uuid> {
    let of_forwarding = || forwardings(store, ip.id).next()?.id_of("router_id");
    ip.id_of("router_id").or_else(of_forwarding)
}

/// Returns the internal addresses that it leads to.
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

fn bad_floating_ip(message: impl std::fmt::Display) -> Refusal {
    bad_request("floatingip", message)
}

fn create_floating_ip(session: &mut Session<'_>, mut ip: Row, body: &Body) -> Result<Uuid> {
    let network = session.target("network", body, "floating_network_id")?;
    if !network.flag(EXTERNAL) {
        let id = network.id;
        let message = format!("Network {id} is not a valid external network.");
        return Err(bad_floating_ip(message));
    }
    disassociate(&mut ip);
    let id = ip.id;
    let addresses = free_addresses(session.store(), network.id)?;
    let Some((_, address)) = addresses.first() else {
        return Err(no_more_addresses(network.id));
    };
    ip.set("floating_ip_address", address.to_string());
    create_own(session, "", network.id, id, OWNER, fixed_ips(addresses));
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
    let port = session.target("port", body, "port_id")?;
    let ip = session.row("floating_ip", id)?;
    let Some((subnet, fixed)) = wanted_address(&port, body, "fixed_ip_address") else {
        return Err(bad_floating_ip(format!(
            "Cannot add floating IP to port {} that has no fixed IPv4 addresses.",
            port.id
        )));
    };
    session.not_held(&ip)?;
    let fixed = fixed.to_string();
    let network = ip.text("floating_network_id");
    let is_taken = |other: &Row| {
        other.id != id
            && other.text("fixed_ip_address") == fixed
            && other.text("floating_network_id") == network
    };
    let store = session.store();
    if store.of("floating_ip", "port_id", port.id).any(is_taken) {
        return Err(Refusal::conflict(
            "FloatingIPPortAlreadyAssociated",
            format!(
                "Cannot associate floating IP {} ({id}) with port {} using fixed IP {fixed}, as that \
                 fixed IP already has a floating IP on external network {network}.",
                ip.text("floating_ip_address"),
                port.id
            ),
        ));
    }
    let router = reach(session.store(), &port, subnet, network)?;
    session.edit("floating_ip", id, |ip| {
        ip.set("port_id", port.id.to_string());
        ip.set("fixed_ip_address", fixed);
        ip.set("router_id", router.to_string());
    });
    Ok(())
}

/// Returns the router that leads from a port's subnet to an external network.
fn reach(store: &Store, port: &Row, subnet: Uuid, external: &str) -> Result<Uuid> {
    let network = external.parse().unwrap_or_default();
    routers::leading_to(store, subnet, network).ok_or_else(|| {
        Refusal::not_found(
            "ExternalGatewayForFloatingIPNotFound",
            format!(
                "External network {external} is not reachable from subnet {subnet}.  Therefore, \
                 cannot associate Port {} with a Floating IP.",
                port.id
            ),
        )
    })
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
    let port = session.target("port", body, "internal_port_id")?;
    let floating = session.target("floating_ip", body, "floatingip_id")?;
    let Some((subnet, address)) = wanted_address(&port, body, "internal_ip_address") else {
        return Err(bad_request(
            "port_forwarding",
            "Requested internal IP address is not a fixed IP of the internal port.",
        ));
    };
    let network = floating.text("floating_network_id");
    let router = reach(session.store(), &port, subnet, network)?;
    forwarding.set("router_id", router.to_string());
    forwarding.set("internal_ip_address", address.to_string());
    let made = session.put(forwarding);
    session.bump("floating_ip", floating.id);
    Ok(made)
}
