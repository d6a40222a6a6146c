//! Routers: gateway and extra routes.
use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{fixed_ips, free_addresses, no_more_addresses};
use super::devices::{
    EXTERNAL, GATEWAY, ROUTER_GATEWAY, ROUTER_INTERFACE, create_port_of, gateway_network, ports_of,
    remove_ports_of, router_of,
};
use super::{interfaces, refused};
use crate::sandbox::core::{
    Answer, Body, Call, Handled, Hooks, Result, Row, Session, Store, refuse_if,
};

pub(super) const ROUTER: Hooks = Hooks {
    create: |session, mut router, body| {
        router.clear(GATEWAY);
        let id = session.put(router);
        set_gateway(session, id, body)?;
        Ok(id)
    },
    // `set_gateway` changes the gateway, by rules of its own.
    update: |session, mut router, body| {
        let id = router.id;
        let before = session.get("router", id).and_then(|row| row.get(GATEWAY));
        match before.cloned() {
            Some(info) => router.set(GATEWAY, info),
            None => router.clear(GATEWAY),
        }
        session.put(router);
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

fn show_router(session: &Session<'_>, router: &Row, name: &str) -> Option<Value> {
    Some(match name {
        GATEWAY => {
            let info = router.get(GATEWAY)?;
            let port = ports_of(session.store(), router.id, ROUTER_GATEWAY).next();
            json!({
                "network_id": info["network_id"],
                "external_fixed_ips": port.map(|port| port.value("fixed_ips")),
                "enable_snat": info["enable_snat"],
            })
        }
        "conntrack_helpers" => {
            let helpers = session.store.of("conntrack_helper", "router_id", router.id);
            let fields = "protocol port helper";
            helpers.map(|helper| session.part(helper, fields)).collect()
        }
        _ => return None,
    })
}

/// Handles `PUT /routers/{id}/{action}`.
fn act(session: &mut Session<'_>, call: &Call<'_>, router: &Row, path: &[&str]) -> Handled {
    let (&http::Method::PUT, [action]) = (call.method, path) else {
        return Ok(None);
    };
    session.may_change(router, "update")?;
    let body = call.json();
    let shown = match *action {
        "add_router_interface" => interfaces::add(session, router, &body)?,
        "remove_router_interface" => interfaces::remove(session, router, &body)?,
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
    let mut routes = before.to_vec();
    if action == "add_extraroutes" {
        let new = wanted.iter().filter(|route| !before.contains(route));
        routes.extend(new.cloned());
    } else {
        routes.retain(|route| !wanted.contains(route));
    }
    if routes != before {
        session.edit("router", router.id, |router| router.set("routes", routes));
        session.raise_revision("router", router.id);
    }
    Ok(json!({"router": session.shown_now("router", router.id)}))
}

/// Sets or removes the gateway of a router as a body says. Without the attribute, the gateway stays.
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
    if !network.flag(EXTERNAL) {
        return Err(refused("GatewayNotExternal", &[&wanted]));
    }
    let addresses = free_addresses(session.store(), network.id)?;
    refuse_if(addresses.is_empty(), || no_more_addresses(network.id))?;
    let device = (id, ROUTER_GATEWAY);
    create_port_of(session, device, "", network.id, fixed_ips(addresses));
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
