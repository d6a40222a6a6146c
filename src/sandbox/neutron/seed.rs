//! Builds a topology at once, bypassing the API: 100,000 ports in seconds.
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::body;
use super::floating_ips::FloatingIp;
use super::groups;
use super::kind::Row;
use super::networks::Network;
use super::ports::Port;
use super::routers::{self, Router};
use super::subnets::Subnet;
use super::trunks::{Subport, Trunk};
use super::{Neutron, Session};
use crate::sandbox::Caller;
use crate::sandbox::wire::{Answer, Refusal, Result};

/// Number of networks of one seed. Their subnets are /16 blocks of 10.0.0.0/8 (and 11, 12, …).
const NETWORKS_MAX: u32 = 10_000;
/// Hosts of a /16, minus the gateway, the DHCP port and a reserve for trunks and routes.
const PORTS_MAX: u32 = 60_000;
/// Number of VIPs that fit into a /16 beside that many ports.
const LOAD_BALANCERS_MAX: u32 = 5_000;
/// Owners of the ports of a seeded network, in rotation.
const OWNERS: [&str; 8] = [
    "compute:nova",
    "compute:nova",
    "",
    "compute:nova",
    "compute:az2",
    "compute:nova",
    "baremetal:none",
    "",
];
const SUBPORTS: u32 = 2;

/// The body of `POST /sandbox/v1/seed`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::sandbox) struct Seed {
    /// The first region when missing.
    pub(in crate::sandbox) region: Option<String>,
    /// Prefix of all names; `seed` when missing. `prefix` is an alias.
    #[serde(alias = "prefix")]
    name: Option<String>,
    /// Name or id; `admin` when missing.
    pub(in crate::sandbox) project: Option<String>,
    networks: u32,
    /// In addition to the network's DHCP port, router interface and trunk ports.
    ports_per_network: u32,
    routers: u32,
    /// Each on a port of its own behind a router, spread over the networks.
    floating_ips: u32,
    trunks: u32,
    /// Each a `compute:nova` port with a device of its own, spread over the networks.
    servers: u32,
    /// On the first network, each with a listener, a pool of two members and a health monitor.
    pub(in crate::sandbox) load_balancers: u32,
    /// Shared, with two members each.
    pub(in crate::sandbox) images: u32,
}

/// The ids of the resources that a seed created.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::sandbox) struct Seeded {
    networks: Vec<Uuid>,
    subnets: Vec<Uuid>,
    ports: Vec<Uuid>,
    routers: Vec<Uuid>,
    floating_ips: Vec<Uuid>,
    trunks: Vec<Uuid>,
    /// Ids of the devices; their ports are among `ports`.
    servers: Vec<Uuid>,
    pub(in crate::sandbox) images: Vec<Uuid>,
    external_network: Option<Uuid>,
    pub(in crate::sandbox) load_balancers: Vec<Uuid>,
}

impl Seed {
    /// Returns the prefix of all names.
    pub(in crate::sandbox) fn prefix(&self) -> &str {
        self.name.as_deref().unwrap_or("seed")
    }
}

impl Seeded {
    pub(in crate::sandbox) fn first_subnet(&self) -> Option<Uuid> {
        self.subnets.first().copied()
    }
}

impl Neutron {
    /// Creates the resources of a seed. Network `i` has a subnet, a DHCP port, `ports_per_network` ports, and
    /// an interface on router `i mod routers`. A router has a gateway to the network `external` and, if it
    /// has an interface, an extra route. Trunk `i` has its parent port on network `i` and its subports on the
    /// networks that follow.
    pub(in crate::sandbox) fn seed(
        &mut self,
        seed: &Seed,
        caller: &Caller,
        now: DateTime<Utc>,
    ) -> Result<Seeded, String> {
        if seed.networks > NETWORKS_MAX {
            return Err(format!("networks: at most {NETWORKS_MAX}"));
        }
        if seed.ports_per_network > PORTS_MAX {
            return Err(format!("ports_per_network: at most {PORTS_MAX}"));
        }
        let needs = |wanted: u32, what: &str| {
            if wanted > 0 && seed.networks == 0 {
                return Err(format!("{what}: needs at least one network"));
            }
            Ok(())
        };
        needs(seed.trunks, "trunks")?;
        needs(seed.servers, "servers")?;
        needs(seed.load_balancers, "load_balancers")?;
        if seed.load_balancers > LOAD_BALANCERS_MAX {
            return Err(format!("load_balancers: at most {LOAD_BALANCERS_MAX}"));
        }
        if seed.floating_ips > 0 && seed.routers == 0 {
            return Err("floating_ips: needs at least one router".to_owned());
        }
        needs(seed.floating_ips, "floating_ips")?;
        let mut made = Seeded::default();
        let outcome = self.transact(caller, now, |session| {
            build(session, seed, &mut made)?;
            Ok(Answer::no_content())
        });
        if outcome.answer.is_success() {
            Ok(made)
        } else {
            Err(format!("the seed does not fit: {:?}", outcome.answer.body))
        }
    }
}

fn build(session: &mut Session<'_>, seed: &Seed, made: &mut Seeded) -> Result<()> {
    let project = session.caller().project.clone();
    let prefix = seed.prefix();
    let group = groups::ensure_default(session, &project);
    let base = session.store().all::<Network>().len();
    for number in 0..seed.networks {
        network(
            session,
            seed,
            prefix,
            base + number as usize,
            number,
            group,
            made,
        )?;
    }
    if seed.routers > 0 {
        let external = external_network(session)?;
        made.external_network = Some(external);
        for number in 0..seed.routers {
            made.routers
                .push(router(session, seed, prefix, number, external, made)?);
        }
    }
    for number in 0..seed.trunks {
        trunk(session, prefix, number, group, made)?;
    }
    for number in 0..seed.servers {
        server(session, prefix, number, group, made)?;
    }
    for number in 0..seed.floating_ips {
        floating_ip(session, prefix, number, group, made)?;
    }
    Ok(())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Creates one network. `slot` selects the address block, so that seeds do not collide.
fn network(
    session: &mut Session<'_>,
    seed: &Seed,
    prefix: &str,
    slot: usize,
    number: u32,
    group: Uuid,
    made: &mut Seeded,
) -> Result<()> {
    let id = Network::create(
        session,
        &object(json!({"name": format!("{prefix}-net-{number}")})),
    )?;
    let cidr = block(slot);
    let subnet = Subnet::create(
        session,
        &object(json!({
            "name": format!("{prefix}-subnet-{number}"),
            "network_id": id,
            "ip_version": 4,
            "cidr": cidr.to_string(),
        })),
    )?;
    let first = u32::from(cidr.network()) + 2;
    let mut port = |host: u32, name: String, owner: &str| {
        let device = if owner.is_empty() {
            String::new()
        } else {
            session.neutron.ids.uuid().to_string()
        };
        let mut meta = session.new_meta::<Port>(session.caller.project.clone());
        meta.name = name;
        let groups = if owner.starts_with("network:") {
            Vec::new()
        } else {
            vec![group]
        };
        let mac = session.random_mac();
        session.insert(Port {
            meta,
            network: id,
            mac,
            admin_state_up: true,
            device_id: device,
            device_owner: owner.to_owned(),
            fixed_ips: vec![(subnet, IpAddr::V4(Ipv4Addr::from(first + host)))],
            groups,
        })
    };
    made.ports.push(port(0, String::new(), "network:dhcp"));
    for (host, owner) in (0..seed.ports_per_network).zip(OWNERS.iter().cycle()) {
        made.ports.push(port(
            host + 1,
            format!("{prefix}-port-{number}-{host}"),
            owner,
        ));
    }
    made.networks.push(id);
    made.subnets.push(subnet);
    Ok(())
}

/// Returns the block of a slot: 10.0.0.0/16, 10.1.0.0/16, … 11.0.0.0/16 …
fn block(slot: usize) -> Ipv4Net {
    let slot = u32::try_from(slot).unwrap_or(0) % (100 << 8);
    let address = Ipv4Addr::from((10 << 24) + (slot << 16));
    Ipv4Net::new_assert(address, 16)
}

/// Returns the network `external`, which all seeds share: 172.24.0.0/14 has room for 262,000 floating IPs.
fn external_network(session: &mut Session<'_>) -> Result<Uuid> {
    let known = session
        .store()
        .all::<Network>()
        .values()
        .find(|network| network.external && network.meta.name == "external")
        .map(|network| network.meta.id);
    if let Some(id) = known {
        return Ok(id);
    }
    let id = Network::create(
        session,
        &object(json!({"name": "external", "router:external": true})),
    )?;
    Subnet::create(
        session,
        &object(json!({
            "name": "external",
            "network_id": id,
            "ip_version": 4,
            "cidr": "172.24.0.0/14",
            "enable_dhcp": false,
        })),
    )?;
    Ok(id)
}

fn router(
    session: &mut Session<'_>,
    seed: &Seed,
    prefix: &str,
    number: u32,
    external: Uuid,
    made: &Seeded,
) -> Result<Uuid> {
    let id = Router::create(
        session,
        &object(json!({
            "name": format!("{prefix}-router-{number}"),
            "external_gateway_info": {"network_id": external},
        })),
    )?;
    let mine: Vec<Uuid> = (0u32..)
        .zip(&made.subnets)
        .filter(|(index, _)| index % seed.routers == number)
        .map(|(_, subnet)| *subnet)
        .collect();
    for subnet in &mine {
        routers::act(
            session,
            id,
            "add_router_interface",
            &json!({"subnet_id": subnet}),
        )?;
    }
    if let Some(IpNet::V4(cidr)) = mine
        .first()
        .and_then(|subnet| session.store().get::<Subnet>(*subnet))
        .map(|subnet| subnet.cidr)
    {
        let hop = Ipv4Addr::from(u32::from(cidr.broadcast()) - 1);
        let route = json!({"destination": format!("198.51.{}.0/24", number % 256), "nexthop": hop.to_string()});
        routers::act(
            session,
            id,
            "add_extraroutes",
            &json!({"router": {"routes": [route]}}),
        )?;
    }
    Ok(id)
}

/// Creates a port by the API's own rules.
fn extra_port(
    session: &mut Session<'_>,
    network: Uuid,
    name: String,
    owner: &str,
    group: Uuid,
) -> Result<Uuid> {
    let device = if owner.is_empty() {
        String::new()
    } else {
        session.neutron.ids.uuid().to_string()
    };
    Port::create(
        session,
        &object(json!({
            "name": name,
            "network_id": network,
            "device_owner": owner,
            "device_id": device,
            "security_groups": [group],
        })),
    )
}

fn pick(list: &[Uuid], index: u32) -> Result<Uuid> {
    index
        .checked_rem(u32::try_from(list.len()).unwrap_or(0))
        .and_then(|at| list.get(at as usize))
        .copied()
        .ok_or_else(|| body::missing("networks"))
}

fn trunk(
    session: &mut Session<'_>,
    prefix: &str,
    number: u32,
    group: Uuid,
    made: &mut Seeded,
) -> Result<()> {
    let network = pick(&made.networks, number)?;
    let parent = extra_port(
        session,
        network,
        format!("{prefix}-parent-{number}"),
        "compute:nova",
        group,
    )?;
    let mut subports = Vec::new();
    for sub in 0..SUBPORTS {
        let network = pick(&made.networks, number + 1 + sub)?;
        let port = extra_port(
            session,
            network,
            format!("{prefix}-subport-{number}-{sub}"),
            "",
            group,
        )?;
        subports.push(Subport {
            port,
            segmentation_type: "vlan".to_owned(),
            segmentation_id: u64::from(100 + sub),
        });
        made.ports.push(port);
    }
    made.ports.push(parent);
    let project: Arc<str> = session.caller().project.clone();
    let mut meta = session.new_meta::<Trunk>(project);
    meta.name = format!("{prefix}-trunk-{number}");
    made.trunks.push(session.insert(Trunk {
        meta,
        port: parent,
        admin_state_up: true,
        subports,
    }));
    Ok(())
}

fn floating_ip(
    session: &mut Session<'_>,
    prefix: &str,
    number: u32,
    group: Uuid,
    made: &mut Seeded,
) -> Result<()> {
    let network = pick(&made.networks, number)?;
    let Some(external) = made.external_network else {
        return Err(Refusal::bad_request("BadRequest", "no external network"));
    };
    let port = extra_port(
        session,
        network,
        format!("{prefix}-server-{number}"),
        "compute:nova",
        group,
    )?;
    made.ports.push(port);
    let ip = FloatingIp::create(
        session,
        &object(json!({"floating_network_id": external, "port_id": port})),
    )?;
    made.floating_ips.push(ip);
    Ok(())
}

fn server(
    session: &mut Session<'_>,
    prefix: &str,
    number: u32,
    group: Uuid,
    made: &mut Seeded,
) -> Result<()> {
    let network = pick(&made.networks, number)?;
    let name = format!("{prefix}-instance-{number}");
    let port = extra_port(session, network, name, "compute:nova", group)?;
    let device: Option<Uuid> = session.row::<Port>(port)?.device_id.parse().ok();
    made.ports.push(port);
    made.servers.extend(device);
    Ok(())
}
