//! Routers: gateway, extra routes and interfaces (`add_router_interface`, `remove_router_interface`).
use std::net::IpAddr;

use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{addresses_of, check_unallocated, cidr_of, fixed_ips, is_inside, overlap};
use super::devices::{
    EXTERNAL, GATEWAY, ROUTER_GATEWAY, ROUTER_INTERFACE, check_without_device, connected,
    create_port_of, gateway_network, inside_addresses, ports_of, remove_addresses, remove_ports_of,
    router_of,
};
use super::refused;
use crate::sandbox::core::{
    Answer, Body, Call, Handled, Hooks, Result, Row, Session, Store, refuse_if,
};

pub(super) const ROUTER: Hooks = Hooks {
    create: |session, router, body| {
        let id = session.put(router);
        set_gateway(session, id, body)?;
        Ok(id)
    },
    update: |session, router, body| {
        let id = session.put(router);
        set_gateway(session, id, body)
    },
    deletable: |session, router| {
        let ports = ports_of(session.store(), router.id, ROUTER_INTERFACE);
        let ports: Vec<String> = ports.map(|port| port.id.to_string()).collect();
        let refusal = || refused("RouterInUse", &[&router.id, &ports.join(", ")]);
        refuse_if(!ports.is_empty(), refusal)
    },
    removed: |session, router| remove_ports_of(session, router.id, ROUTER_GATEWAY),
    show: show_router,
    act,
    ..Hooks::NONE
};

/// Shows the gateway with its addresses.
fn show_router(session: &Session<'_>, router: &Row, name: &str) -> Option<Value> {
    let info = router.get(name).filter(|_| name == GATEWAY)?;
    let port = ports_of(session.store(), router.id, ROUTER_GATEWAY).next();
    Some(json!({
        "network_id": info["network_id"],
        "external_fixed_ips": port.map(|port| port.value("fixed_ips")),
        "enable_snat": info["enable_snat"],
    }))
}

/// Handles `PUT /routers/{id}/{action}`.
fn act(session: &mut Session<'_>, call: &Call<'_>, router: &Row, path: &[&str]) -> Handled {
    let (&http::Method::PUT, [action]) = (call.method, path) else {
        return Ok(None);
    };
    session.may_change(router, "update")?;
    let body = call.json();
    let shown = match *action {
        "add_router_interface" => add_interface(session, router, &body)?,
        "remove_router_interface" => remove_interface(session, router, &body)?,
        "add_extraroutes" | "remove_extraroutes" => change_routes(session, router, action, &body)?,
        _ => return Ok(None),
    };
    Ok(Some(Answer::ok(shown)))
}

fn change_routes(
    session: &mut Session<'_>,
    router: &Row,
    action: &str,
    body: &Value,
) -> Result<Value> {
    let wanted = body["router"]["routes"].as_array();
    let wanted = wanted.ok_or_else(|| refused("InvalidRoutes", &[]))?;
    let before = router.items("routes");
    let is_new = |route: &&Value| !before.contains(route);
    let mut routes = before.to_vec();
    match action {
        "add_extraroutes" => routes.extend(wanted.iter().filter(is_new).cloned()),
        _ => routes.retain(|route| !wanted.contains(route)),
    }
    if routes != before {
        session.edit("router", router.id, |router| router.set("routes", routes));
        session.raise_revision("router", router.id);
    }
    Ok(json!({"router": session.shown_now("router", router.id)}))
}

/// Sets or removes the gateway of a router as a body says. A body without the gateway's attribute changes nothing.
fn set_gateway(session: &mut Session<'_>, id: Uuid, body: &Body) -> Result<()> {
    let Some(info) = body.get(GATEWAY) else {
        return Ok(());
    };
    let router = session.row("router", id)?;
    let wanted = info["network_id"].as_str();
    let known = gateway_network(&router);
    if known == wanted {
        return Ok(());
    }
    if let Some(network) = known {
        check_gateway_unused(session.store(), id, network)?;
        remove_ports_of(session, id, ROUTER_GATEWAY);
        session.edit("router", id, |router| router.clear(GATEWAY));
    }
    let Some(wanted) = wanted else {
        return Ok(());
    };
    let network = session.named("network", wanted)?;
    let refusal = || refused("GatewayNotExternal", &[&wanted]);
    refuse_if(!network.flag(EXTERNAL), refusal)?;
    create_port_of(session, (id, ROUTER_GATEWAY), "", network.id, None)?;
    let snat = info["enable_snat"].as_bool().unwrap_or(true);
    let info = json!({"network_id": wanted, "enable_snat": snat});
    session.edit("router", id, |router| router.set(GATEWAY, info));
    session.raise_revision("router", id);
    Ok(())
}

/// Refuses to remove a gateway that floating IPs or NDP proxies need.
fn check_gateway_unused(store: &Store, router: Uuid, network: &str) -> Result<()> {
    let mut ips = store.all("floating_ip");
    if ips.any(|ip| router_of(store, ip) == Some(router)) {
        let parts: &[&dyn std::fmt::Display] = &[&router, &network];
        return Err(refused("RouterExternalGatewayInUseByFloatingIp", parts));
    }
    let has_proxy = store.of("ndp_proxy", "router_id", router).next().is_some();
    let refusal = || refused("RouterGatewayInUseByNDPProxy", &[&router]);
    refuse_if(has_proxy, refusal)
}

fn add_interface(session: &mut Session<'_>, router: &Row, body: &Value) -> Result<Value> {
    let (port, subnet) = if let Some(text) = body["port_id"].as_str() {
        adopt_port(session, router, text)?
    } else if let Some(text) = body["subnet_id"].as_str() {
        let subnet = session.named("subnet", text)?;
        (add_subnet(session, router, &subnet)?, subnet)
    } else {
        return Err(refused("InterfaceOfNothing", &[]));
    };
    session.raise_revision("router", router.id);
    Ok(interface_shown(router, port, &[&subnet]))
}

/// Gives a router an address in a subnet, and returns the port that has it.
fn add_subnet(session: &mut Session<'_>, router: &Row, subnet: &Row) -> Result<Uuid> {
    check_free(session.store(), router, subnet)?;
    let gateway: Option<IpAddr> = subnet.text("gateway_ip").parse().ok();
    let gateway = gateway.ok_or_else(|| refused("InterfaceWithoutGatewayIp", &[]))?;
    let address = (subnet.id, gateway);
    check_unallocated(session.store(), address, None)?;
    let network = subnet.id_of("network_id").unwrap_or_default();
    if let Some(port) = shared_port(session.store(), router, network, gateway) {
        session.edit("port", port, |port| {
            let addresses: Vec<_> = addresses_of(port).chain([address]).collect();
            port.set("fixed_ips", fixed_ips(addresses));
        });
        return Ok(port);
    }
    let device = (router.id, ROUTER_INTERFACE);
    let made = create_port_of(session, device, &router.project, network, Some(address));
    made.map(|(port, _)| port)
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

/// Turns a port that the user created into an interface of a router. Returns the port's id, and its first subnet.
fn adopt_port(session: &mut Session<'_>, router: &Row, text: &str) -> Result<(Uuid, Row)> {
    let port = session.named("port", text)?;
    check_without_device(&port)?;
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

/// Refuses a subnet that the router is connected to, or that overlaps with such a subnet.
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
fn remove_interface(session: &mut Session<'_>, router: &Row, body: &Value) -> Result<Value> {
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
    Ok(interface_shown(router, port.id, &gone))
}

/// Returns the port of the interface that a call names.
fn interface(store: &Store, router: &Row, body: &Value) -> Result<Row> {
    let mut ports = ports_of(store, router.id, ROUTER_INTERFACE);
    let (port, id, refusal) = if let Some(id) = body["port_id"].as_str() {
        let port = ports.find(|port| port.id.to_string() == id);
        (port, id, "RouterInterfaceNotFound")
    } else if let Some(id) = body["subnet_id"].as_str() {
        let is_on = |port: &&Row| addresses_of(port).any(|(on, _)| on.to_string() == id);
        (ports.find(is_on), id, "RouterInterfaceNotFoundForSubnet")
    } else {
        return Err(refused("InterfaceOfNothing", &[]));
    };
    let missing = || refused(refusal, &[&router.id, &id]);
    port.cloned().ok_or_else(missing)
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

fn interface_shown(router: &Row, port: Uuid, subnets: &[&Row]) -> Value {
    let first = subnets.first();
    let ids = subnets.iter().map(|subnet| subnet.id.to_string());
    json!({
        "id": router.id,
        "project_id": *router.project,
        "port_id": port,
        "network_id": first.map(|subnet| subnet.value("network_id")),
        "subnet_id": first.map(|subnet| subnet.id),
        "subnet_ids": ids.collect::<Value>(),
    })
}
