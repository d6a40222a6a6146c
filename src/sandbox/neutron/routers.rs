//! Routers: interfaces, gateway, extra routes.
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::floating_ips::FloatingIp;
use super::kind::{A, Attribute, F, Kind, Meta, P, Row, S, U, Unset, W, stored};
use super::ndp_proxies::NdpProxy;
use super::networks::Network;
use super::ports::{Port, ROUTER_GATEWAY, ROUTER_INTERFACE};
use super::revival::Renamed;
use super::store::Store;
use super::subnets::Subnet;
use super::{Scope, Session, addresses, body, conntrack, interfaces};
use crate::sandbox::wire::{Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct Router {
    pub(super) meta: Meta,
    pub(super) admin_state_up: bool,
    pub(super) gateway: Option<Gateway>,
    /// The ports that were attached with `add_router_interface`, oldest first.
    pub(super) interfaces: Vec<Uuid>,
    pub(super) routes: Vec<Route>,
}

#[derive(Clone, Debug)]
pub(super) struct Gateway {
    pub(super) network: Uuid,
    pub(super) port: Uuid,
    enable_snat: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Route {
    pub(super) destination: String,
    pub(super) nexthop: String,
}

static KIND: Kind = Kind {
    singular: "router",
    plural: "routers",
    not_found: "RouterNotFound",
    before: "Router ",
    after: " could not be found",
    bulk: false,
    first_revision: Some(1),
    forgets_marker: false,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("admin_state_up", F | S | P | U, Unset::Absent),
        Attribute::new("status", S, Unset::Text("ACTIVE")),
        Attribute::new("external_gateway_info", P | U, Unset::Absent),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("availability_zones", 0, Unset::List),
        Attribute::new("distributed", P | U | A | W, Unset::Flag(false)),
        Attribute::new("ha", P | U | A | W, Unset::Flag(false)),
        Attribute::new("availability_zone_hints", S | P, Unset::List),
        Attribute::new("routes", U, Unset::Absent),
        Attribute::new("flavor_id", S | P, Unset::Null),
        Attribute::new("conntrack_helpers", 0, Unset::Absent),
        Attribute::new("enable_ndp_proxy", F | P | U, Unset::Flag(false)),
        Attribute::new("tags", F, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
    ],
};

impl Row for Router {
    const KIND: &'static Kind = &KIND;

    stored!(routers, Router);

    fn attribute(&self, name: &str, scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "admin_state_up" => self.admin_state_up.into(),
            "routes" => self
                .routes
                .iter()
                .map(|route| json!({"destination": route.destination, "nexthop": route.nexthop}))
                .collect(),
            "conntrack_helpers" => conntrack::shown_in_router(scope.store, self.meta.id),
            "external_gateway_info" => match &self.gateway {
                None => Value::Null,
                Some(gateway) => json!({
                    "network_id": gateway.network,
                    "external_fixed_ips": scope
                        .store
                        .get::<Port>(gateway.port)
                        .and_then(|port| port.attribute("fixed_ips", scope)),
                    "enable_snat": gateway.enable_snat,
                }),
            },
            _ => return None,
        })
    }

    fn rename(&mut self, names: &Renamed) {
        if let Some(gateway) = &mut self.gateway {
            names.swap(&mut gateway.port);
        }
        for port in &mut self.interfaces {
            names.swap(port);
        }
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let router = Self {
            admin_state_up: body::flag(body, "admin_state_up")?.unwrap_or(true),
            gateway: None,
            interfaces: Vec::new(),
            routes: Vec::new(),
            meta: session.meta::<Self>(body)?,
        };
        let id = session.insert(router);
        if let Some(info) = body.get("external_gateway_info") {
            set_gateway(session, id, info)?;
        }
        Ok(id)
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        if let Some(info) = body.get("external_gateway_info") {
            set_gateway(session, id, info)?;
        }
        if let Some(routes) = body.get("routes") {
            let wanted = parse_routes(routes)?;
            replace_routes(session, id, wanted)?;
        }
        let admin_state_up = body::flag(body, "admin_state_up")?;
        session.edit(id, |router: &mut Self| {
            router.admin_state_up = admin_state_up.unwrap_or(router.admin_state_up);
        });
        Ok(())
    }

    fn deletable(&self, _session: &mut Session<'_>) -> Result<()> {
        if self.interfaces.is_empty() {
            return Ok(());
        }
        let ports: Vec<String> = self.interfaces.iter().map(Uuid::to_string).collect();
        Err(Refusal::conflict(
            "RouterInUse",
            format!(
                "Router {} has ports still attached: {}",
                self.meta.id,
                ports.join(", ")
            ),
        ))
    }

    /// Deletes the router with its conntrack helpers and its gateway port.
    fn delete(session: &mut Session<'_>, id: Uuid) {
        let helpers = conntrack::helpers_of(session.store(), id);
        for helper in helpers.map(|it| it.meta.id).collect::<Vec<_>>() {
            session.take::<conntrack::ConntrackHelper>(helper);
        }
        if let Some(router) = session.take::<Self>(id)
            && let Some(gateway) = router.gateway
        {
            Port::delete(session, gateway.port);
        }
    }
}

/// Handles `PUT /routers/{id}/{action}`.
pub(super) fn act(
    session: &mut Session<'_>,
    id: Uuid,
    action: &str,
    body: &Value,
) -> Result<Value> {
    match action {
        "add_router_interface" => interfaces::add(session, id, body),
        "remove_router_interface" => interfaces::remove(session, id, body),
        "add_extraroutes" | "remove_extraroutes" => {
            let wanted = parse_routes(body.pointer("/router/routes").unwrap_or(&Value::Null))?;
            let mut routes = session.row::<Router>(id)?.routes.clone();
            let before = routes.clone();
            if action == "add_extraroutes" {
                for route in wanted {
                    if !routes.contains(&route) {
                        routes.push(route);
                    }
                }
            } else {
                routes.retain(|route| !wanted.contains(route));
            }
            if routes != before {
                replace_routes(session, id, routes)?;
                session.bump::<Router>(id);
            }
            Ok(json!({"router": session.shown::<Router>(id)}))
        }
        _ => Err(session.no_such_path()),
    }
}

pub(super) fn bad_router(message: &str) -> Refusal {
    Refusal::bad_request("BadRequest", format!("Bad router request: {message}"))
}

/// Lists the subnets of a router's interfaces.
pub(super) fn connected<'a>(
    store: &'a Store,
    router: &'a Router,
) -> impl Iterator<Item = &'a Subnet> {
    router
        .interfaces
        .iter()
        .filter_map(|port| store.get::<Port>(*port))
        .flat_map(|port| &port.fixed_ips)
        .filter_map(|(subnet, _)| store.get::<Subnet>(*subnet))
}

/// Returns the router that leads from a subnet to an external network, for a floating IP.
pub(super) fn leading_to(store: &Store, subnet: Uuid, external: Uuid) -> Option<Uuid> {
    super::subnets::users(store, subnet)
        .filter_map(|port| store.get::<Port>(port))
        .filter(|port| port.device_owner == ROUTER_INTERFACE)
        .filter_map(|port| store.get::<Router>(port.device_id.parse().ok()?))
        .find(|router| {
            router
                .gateway
                .as_ref()
                .is_some_and(|gateway| gateway.network == external)
        })
        .map(|router| router.meta.id)
}

fn set_gateway(session: &mut Session<'_>, id: Uuid, info: &Value) -> Result<()> {
    let router = session.row::<Router>(id)?.clone();
    let wanted = info.get("network_id").and_then(Value::as_str);
    let same = router
        .gateway
        .as_ref()
        .is_some_and(|gateway| Some(gateway.network.to_string().as_str()) == wanted);
    if same || (wanted.is_none() && router.gateway.is_none()) {
        return Ok(());
    }
    if let Some(gateway) = &router.gateway {
        let used = session
            .store()
            .all::<FloatingIp>()
            .values()
            .any(|ip| ip.router(session.store()) == Some(id));
        if used {
            return Err(Refusal::conflict(
                "RouterExternalGatewayInUseByFloatingIp",
                format!(
                    "Gateway cannot be updated for router {id}, since a gateway to external \
                     network {} is required by one or more floating IPs.",
                    gateway.network
                ),
            ));
        }
        let mut proxies = session.store().all::<NdpProxy>().values();
        if proxies.any(|proxy| proxy.router == id) {
            return Err(Refusal::conflict(
                "RouterGatewayInUseByNDPProxy",
                format!(
                    "Unable to unset external gateway of router {id}, There are one or more ndp \
                     proxies still in use on the router."
                ),
            ));
        }
        Port::delete(session, gateway.port);
        session.edit(id, |router: &mut Router| router.gateway = None);
    }
    let Some(wanted) = wanted else {
        return Ok(());
    };
    let network = session.named::<Network>(wanted)?.clone();
    if !network.external {
        return Err(bad_router(&format!(
            "Network {wanted} is not an external network."
        )));
    }
    let port = Port {
        network: network.meta.id,
        mac: session.random_mac(),
        admin_state_up: true,
        device_id: id.to_string(),
        device_owner: ROUTER_GATEWAY.to_owned(),
        fixed_ips: session.free_addresses(network.meta.id)?,
        groups: Vec::new(),
        meta: session.new_meta::<Port>("".into()),
    };
    if port.fixed_ips.is_empty() {
        return Err(addresses::no_more_addresses(network.meta.id));
    }
    let port = session.insert(port);
    let gateway = Gateway {
        network: network.meta.id,
        port,
        enable_snat: info
            .get("enable_snat")
            .and_then(Value::as_bool)
            .unwrap_or(true),
    };
    session.edit(id, |router: &mut Router| router.gateway = Some(gateway));
    session.bump::<Router>(id);
    Ok(())
}

fn parse_routes(routes: &Value) -> Result<Vec<Route>> {
    let bad = |wrong: &Value| {
        body::invalid(
            "routes",
            &format!("Invalid data format for hostroute: '{wrong}'."),
        )
    };
    let parse = |route: &Value| {
        let text = |name: &str| route.get(name).and_then(Value::as_str);
        let (Some(destination), Some(nexthop)) = (text("destination"), text("nexthop")) else {
            return Err(bad(route));
        };
        if destination.parse::<IpNet>().is_err() {
            return Err(body::invalid(
                "routes",
                &format!("'{destination}' is not a valid CIDR."),
            ));
        }
        if nexthop.parse::<IpAddr>().is_err() {
            return Err(body::invalid(
                "routes",
                &format!("'{nexthop}' is not a valid IP address."),
            ));
        }
        Ok(Route {
            destination: destination.to_owned(),
            nexthop: nexthop.to_owned(),
        })
    };
    routes
        .as_array()
        .ok_or_else(|| bad(routes))?
        .iter()
        .map(parse)
        .collect()
}

fn replace_routes(session: &mut Session<'_>, id: Uuid, routes: Vec<Route>) -> Result<()> {
    let router = session.row::<Router>(id)?;
    let store = session.store();
    let reachable = |route: &Route| {
        let Ok(hop) = route.nexthop.parse::<IpAddr>() else {
            return false;
        };
        let outside = router
            .gateway
            .as_ref()
            .and_then(|gateway| store.get::<Port>(gateway.port))
            .into_iter()
            .flat_map(|port| &port.fixed_ips)
            .filter_map(|(subnet, _)| store.get::<Subnet>(*subnet));
        connected(store, router)
            .chain(outside)
            .any(|subnet| subnet.cidr.contains(&hop))
    };
    if !routes.iter().all(reachable) {
        let list: Vec<String> = routes
            .iter()
            .map(|route| {
                format!(
                    "{{'destination': '{}', 'nexthop': '{}'}}",
                    route.destination, route.nexthop
                )
            })
            .collect();
        return Err(Refusal::bad_request(
            "InvalidRoutes",
            format!(
                "Invalid format for routes: [{}], the nexthop is not connected with router",
                list.join(", ")
            ),
        ));
    }
    session.edit(id, |router: &mut Router| router.routes = routes);
    Ok(())
}
