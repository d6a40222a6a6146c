//! Routers: gateway and extra routes.

use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{addresses_of, fixed_ips, free_addresses, no_more_addresses};
use super::networks::EXTERNAL;
use super::ports::{ROUTER_GATEWAY, ROUTER_INTERFACE, create_own};
use super::{bad_request, floating_ips, interfaces, invalid};
use crate::sandbox::kind::{Body, Hooks};
use crate::sandbox::row::Row;
use crate::sandbox::session::{Session, View};
use crate::sandbox::store::Store;
use crate::sandbox::wire::{Answer, Call, Handled, Refusal, Result};

const GATEWAY: &str = "external_gateway_info";

pub(super) const ROUTER: Hooks = Hooks {
    create: |session, mut router, body| {
        router.clear(GATEWAY);
        let id = session.put(router);
        match body.get(GATEWAY) {
            Some(info) => set_gateway(session, id, info).map(|()| id),
            None => Ok(id),
        }
    },
    update: update_router,
    deletable: router_deletable,
    removed: |session, router| {
        for port in ports_of(session.store(), router.id, ROUTER_GATEWAY) {
            session.remove("port", port);
        }
    },
    show: show_router,
    act,
    ..Hooks::NONE
};

/// Returns the ports of a device that have a certain owner.
pub(super) fn ports_of(store: &Store, device: Uuid, owner: &str) -> Vec<Uuid> {
    let ports = store.of("port", "device_id", device);
    let ports = ports.filter(|port| port.text("device_owner") == owner);
    ports.map(|port| port.id).collect()
}

fn show_router(view: &View<'_>, router: &Row, name: &str) -> Option<Value> {
    Some(match name {
        GATEWAY => {
            let info = router.get(GATEWAY)?;
            let ports = ports_of(view.store, router.id, ROUTER_GATEWAY);
            let port = ports.first().and_then(|port| view.store.get("port", *port));
            json!({
                "network_id": info["network_id"],
                "external_fixed_ips": port.map(|port| port.value("fixed_ips")),
                "enable_snat": info["enable_snat"],
            })
        }
        "conntrack_helpers" => {
            let helpers = view.store.of("conntrack_helper", "router_id", router.id);
            let fields = "protocol port helper";
            helpers.map(|helper| view.part(helper, fields)).collect()
        }
        _ => return None,
    })
}

/// The gateway is changed by its own rules.
fn update_router(session: &mut Session<'_>, mut router: Row, body: &Body) -> Result<()> {
    let id = router.id;
    let before = session.get("router", id).cloned();
    match before.as_ref().and_then(|before| before.get(GATEWAY)) {
        Some(info) => router.set(GATEWAY, info.clone()),
        None => router.clear(GATEWAY),
    }
    session.put(router);
    match body.get(GATEWAY) {
        Some(info) => set_gateway(session, id, info),
        None => Ok(()),
    }
}

fn router_deletable(session: &mut Session<'_>, router: &Row) -> Result<()> {
    let ports = ports_of(session.store(), router.id, ROUTER_INTERFACE);
    if ports.is_empty() {
        return Ok(());
    }
    let ports: Vec<String> = ports.iter().map(Uuid::to_string).collect();
    Err(Refusal::conflict(
        "RouterInUse",
        format!(
            "Router {} has ports still attached: {}",
            router.id,
            ports.join(", ")
        ),
    ))
}

/// Handles `PUT /routers/{id}/{action}`.
fn act(session: &mut Session<'_>, call: &Call<'_>, router: &Row, path: &[&str]) -> Handled {
    let [action] = path else {
        return None;
    };
    if call.method != http::Method::PUT {
        return None;
    }
    let body = call.json();
    let result = session.may_change(router, "update");
    let result = result.and_then(|()| apply(session, router.id, action, &body));
    Some(result.map(Answer::ok))
}

/// Performs an action on a router, and returns its answer.
pub(super) fn apply(
    session: &mut Session<'_>,
    id: Uuid,
    action: &str,
    body: &Value,
) -> Result<Value> {
    let router = session.row("router", id)?;
    let adds = action == "add_extraroutes";
    match action {
        "add_router_interface" => return interfaces::add(session, &router, body),
        "remove_router_interface" => return interfaces::remove(session, &router, body),
        "add_extraroutes" | "remove_extraroutes" => {}
        _ => return Err(super::no_page()),
    }
    let wanted = body["router"]["routes"].as_array();
    let wanted = wanted.ok_or_else(|| invalid("routes", "it is not a list of routes."))?;
    let mut routes = router.items("routes").to_vec();
    if adds {
        routes.extend(
            wanted
                .iter()
                .filter(|route| !router.items("routes").contains(route))
                .cloned(),
        );
    } else {
        routes.retain(|route| !wanted.contains(route));
    }
    if routes != router.items("routes") {
        session.edit("router", id, |router| router.set("routes", routes));
        session.bump("router", id);
    }
    Ok(json!({"router": session.shown("router", id)}))
}

pub(super) fn bad_router(message: impl std::fmt::Display) -> Refusal {
    bad_request("router", message)
}

/// Lists the subnets of a router's interfaces.
pub(super) fn connected(store: &Store, router: Uuid) -> Vec<&Row> {
    let ports = ports_of(store, router, ROUTER_INTERFACE).into_iter();
    let ports = ports.filter_map(|port| store.get("port", port));
    ports
        .flat_map(addresses_of)
        .filter_map(|(subnet, _)| store.get("subnet", subnet))
        .collect()
}

/// Returns the network of a router's gateway.
fn gateway_network(router: &Row) -> Option<&str> {
    router.get(GATEWAY)?["network_id"].as_str()
}

/// Returns the router that leads from a subnet to an external network, for a floating IP.
pub(super) fn leading_to(store: &Store, subnet: Uuid, external: Uuid) -> Option<Uuid> {
    let external = external.to_string();
    store
        .of("port", "fixed_ips", subnet)
        .filter(|port| port.text("device_owner") == ROUTER_INTERFACE)
        .filter_map(|port| store.get("router", port.id_of("device_id")?))
        .find(|router| gateway_network(router) == Some(&external))
        .map(|router| router.id)
}

fn set_gateway(session: &mut Session<'_>, id: Uuid, info: &Value) -> Result<()> {
    let router = session.row("router", id)?;
    let wanted = info["network_id"].as_str();
    let known = gateway_network(&router);
    if known == wanted {
        return Ok(());
    }
    if let Some(network) = known {
        free_of_floating_ips(session.store(), id, network)?;
        for port in ports_of(session.store(), id, ROUTER_GATEWAY) {
            session.remove("port", port);
        }
        session.edit("router", id, |router| router.clear(GATEWAY));
    }
    let Some(wanted) = wanted else {
        return Ok(());
    };
    let network = session.named("network", wanted)?;
    if !network.flag(EXTERNAL) {
        let message = format!("Network {wanted} is not an external network.");
        return Err(bad_router(message));
    }
    let addresses = free_addresses(session.store(), network.id)?;
    if addresses.is_empty() {
        return Err(no_more_addresses(network.id));
    }
    let addresses = fixed_ips(addresses);
    create_own(session, "", network.id, id, ROUTER_GATEWAY, addresses);
    let snat = info["enable_snat"].as_bool().unwrap_or(true);
    let info = json!({"network_id": wanted, "enable_snat": snat});
    session.edit("router", id, |router| router.set(GATEWAY, info));
    session.bump("router", id);
    Ok(())
}

/// Refuses to take a gateway that floating IPs, or NDP proxies, need.
fn free_of_floating_ips(store: &Store, router: Uuid, network: &str) -> Result<()> {
    let mut ips = store.all("floating_ip");
    if ips.any(|ip| floating_ips::router_of(store, ip) == Some(router)) {
        return Err(Refusal::conflict(
            "RouterExternalGatewayInUseByFloatingIp",
            format!(
                "Gateway cannot be updated for router {router}, since a gateway to external network \
                 {network} is required by one or more floating IPs."
            ),
        ));
    }
    match store.of("ndp_proxy", "router_id", router).next() {
        None => Ok(()),
        Some(_) => Err(Refusal::conflict(
            "RouterGatewayInUseByNDPProxy",
            format!(
                "Unable to unset external gateway of router {router}, There are one or more ndp \
                 proxies still in use on the router."
            ),
        )),
    }
}
