//! Builds a topology at once, bypassing the API: 100,000 ports in seconds.
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::fixed_ips;
use super::networks::EXTERNAL;
use super::{bad, groups, routers};
use crate::sandbox::row::Row;
use crate::sandbox::session::Session;
use crate::sandbox::wire::Result;

/// Number of networks of one seed. Their subnets are /16 blocks of 10.0.0.0/8 (and 11, 12, …).
const NETWORKS_MAX: u32 = 10_000;
/// Hosts of a /16, minus the gateway, the DHCP port and a reserve for trunks and routes.
const PORTS_MAX: u32 = 60_000;
/// Number of VIPs that fit into a /16 beside that many ports.
const LOAD_BALANCERS_MAX: u32 = 5_000;
const IMAGES_MAX: u32 = 100_000;
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
    pub(in crate::sandbox) subnets: Vec<Uuid>,
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

    /// Refuses a seed that cannot be, and names the field.
    pub(in crate::sandbox) fn check(&self) -> Result<(), String> {
        for (name, wanted, most) in [
            ("networks", self.networks, NETWORKS_MAX),
            ("ports_per_network", self.ports_per_network, PORTS_MAX),
            ("load_balancers", self.load_balancers, LOAD_BALANCERS_MAX),
            ("images", self.images, IMAGES_MAX),
        ] {
            if wanted > most {
                return Err(format!("{name}: at most {most}"));
            }
        }
        for (name, wanted) in [
            ("trunks", self.trunks),
            ("servers", self.servers),
            ("load_balancers", self.load_balancers),
            ("floating_ips", self.floating_ips),
        ] {
            if wanted > 0 && self.networks == 0 {
                return Err(format!("{name}: needs at least one network"));
            }
        }
        if self.floating_ips > 0 && self.routers == 0 {
            return Err("floating_ips: needs at least one router".to_owned());
        }
        Ok(())
    }

    /// Creates the network service's resources. Network `i` has a subnet, a DHCP port, `ports_per_network`
    /// ports, and an interface on router `i mod routers`. A router has a gateway to the network `external`
    /// and, if it has an interface, an extra route. Trunk `i` has its parent port on network `i` and its
    /// subports on the networks that follow.
    pub(in crate::sandbox) fn build(&self, session: &mut Session<'_>) -> Result<Seeded> {
        let project = session.caller.project.clone();
        let group = groups::ensure_default(session, &project);
        let slot = session.store().all("network").count();
        let mut planter = Planter {
            session,
            prefix: self.prefix(),
            group,
            made: Seeded::default(),
        };
        for number in 0..self.networks {
            planter.network(slot + number as usize, number, self.ports_per_network)?;
        }
        if self.routers > 0 {
            let external = planter.external_network()?;
            planter.made.external_network = Some(external);
            for number in 0..self.routers {
                planter.router(number, self.routers, external)?;
            }
        }
        for number in 0..self.trunks {
            planter.trunk(number)?;
        }
        for number in 0..self.servers {
            planter.port(number, &format!("instance-{number}"), OWNERS[0], true)?;
        }
        for number in 0..self.floating_ips {
            let port = planter.port(number, &format!("server-{number}"), OWNERS[0], false)?;
            let body =
                json!({"floating_network_id": planter.made.external_network, "port_id": port});
            let ip = planter.session.create("floating_ip", &body)?;
            planter.made.floating_ips.push(ip);
        }
        Ok(planter.made)
    }
}

struct Planter<'p, 's> {
    session: &'p mut Session<'s>,
    prefix: &'p str,
    group: Uuid,
    made: Seeded,
}

impl Planter<'_, '_> {
    fn name(&self, rest: &str) -> String {
        format!("{}-{rest}", self.prefix)
    }

    /// Creates one network. `slot` selects the address block, so that seeds do not collide.
    fn network(&mut self, slot: usize, number: u32, ports: u32) -> Result<()> {
        let body = json!({"name": self.name(&format!("net-{number}"))});
        let network = self.session.create("network", &body)?;
        let cidr = block(slot);
        let body = json!({
            "name": self.name(&format!("subnet-{number}")),
            "network_id": network,
            "ip_version": 4,
            "cidr": cidr.to_string(),
        });
        let subnet = self.session.create("subnet", &body)?;
        let first = u32::from(cidr.network()) + 2;
        let mut port = |host: u32, name: String, owner: &str| {
            let project = self.session.caller.project.clone();
            let device = (!owner.is_empty()).then(|| self.session.region.ids.uuid());
            let mut port = self.session.new_row("port", &project);
            port.set("network_id", network.to_string());
            port.set("mac_address", self.session.region.ids.mac());
            let address = Ipv4Addr::from(first + host).into();
            port.set("fixed_ips", fixed_ips([(subnet, address)]));
            if !name.is_empty() {
                port.set("name", name);
            }
            if let Some(device) = device {
                port.set("device_owner", owner);
                port.set("device_id", device.to_string());
            }
            if !owner.starts_with("network:") {
                port.set("security_groups", json!([self.group]));
            }
            self.made.ports.push(self.session.put(port));
        };
        port(0, String::new(), "network:dhcp");
        for (host, owner) in (0..ports).zip(OWNERS.iter().cycle()) {
            let name = format!("{}-port-{number}-{host}", self.prefix);
            port(host + 1, name, owner);
        }
        self.made.networks.push(network);
        self.made.subnets.push(subnet);
        Ok(())
    }

    /// Returns the network `external`, which all seeds share: 172.24.0.0/14 has room for 262,000 floating IPs.
    fn external_network(&mut self) -> Result<Uuid> {
        let is_external =
            |network: &&Row| network.flag(EXTERNAL) && network.text("name") == "external";
        let known = self.session.store().all("network").find(is_external);
        if let Some(id) = known.map(|network| network.id) {
            return Ok(id);
        }
        let body = json!({"name": "external", EXTERNAL: true});
        let id = self.session.create("network", &body)?;
        let body = json!({
            "name": "external",
            "network_id": id,
            "ip_version": 4,
            "cidr": "172.24.0.0/14",
            "enable_dhcp": false,
        });
        self.session.create("subnet", &body)?;
        Ok(id)
    }

    fn router(&mut self, number: u32, routers: u32, external: Uuid) -> Result<()> {
        let body = json!({
            "name": self.name(&format!("router-{number}")),
            "external_gateway_info": {"network_id": external},
        });
        let id = self.session.create("router", &body)?;
        let mut first = None;
        for index in (number as usize..self.made.subnets.len()).step_by(routers as usize) {
            let subnet = pick(&self.made.subnets, index)?;
            first = first.or(Some(subnet));
            let body = json!({"subnet_id": subnet});
            routers::apply(self.session, id, "add_router_interface", &body)?;
        }
        let subnet = first.and_then(|subnet| self.session.get("subnet", subnet));
        if let Some(cidr) = subnet.and_then(|row| row.text("cidr").parse::<Ipv4Net>().ok()) {
            let hop = Ipv4Addr::from(u32::from(cidr.broadcast()) - 1);
            let target = format!("198.51.{}.0/24", number % 256);
            let route = json!({"destination": target, "nexthop": hop.to_string()});
            let body = json!({"router": {"routes": [route]}});
            routers::apply(self.session, id, "add_extraroutes", &body)?;
        }
        self.made.routers.push(id);
        Ok(())
    }

    /// Creates a port on one of the networks by the API's own rules.
    fn port(&mut self, network: u32, name: &str, owner: &str, is_server: bool) -> Result<Uuid> {
        let device = (!owner.is_empty()).then(|| self.session.region.ids.uuid());
        let body = json!({
            "name": self.name(name),
            "network_id": pick(&self.made.networks, network as usize)?,
            "device_owner": owner,
            "device_id": device.map_or_else(String::new, |device| device.to_string()),
            "security_groups": [self.group],
        });
        let port = self.session.create("port", &body)?;
        self.made.ports.push(port);
        self.made.servers.extend(device.filter(|_| is_server));
        Ok(port)
    }

    fn trunk(&mut self, number: u32) -> Result<()> {
        let parent = self.port(number, &format!("parent-{number}"), OWNERS[0], false)?;
        let mut subports: Vec<Value> = Vec::new();
        for sub in 0..SUBPORTS {
            let name = format!("subport-{number}-{sub}");
            let port = self.port(number + 1 + sub, &name, "", false)?;
            subports.push(
                json!({"port_id": port, "segmentation_type": "vlan", "segmentation_id": 100 + sub}),
            );
        }
        let name = self.name(&format!("trunk-{number}"));
        let body = json!({"name": name, "port_id": parent, "sub_ports": subports});
        self.made.trunks.push(self.session.create("trunk", &body)?);
        Ok(())
    }
}

/// Returns the block of a slot: 10.0.0.0/16, 10.1.0.0/16, … 11.0.0.0/16 …
fn block(slot: usize) -> Ipv4Net {
    let slot = u32::try_from(slot).unwrap_or(0) % (100 << 8);
    let address = Ipv4Addr::from((10 << 24) + (slot << 16));
    Ipv4Net::new_assert(address, 16)
}

/// Returns an id of a list, as if it went on from its beginning.
fn pick(list: &[Uuid], index: usize) -> Result<Uuid> {
    let id = index.checked_rem(list.len()).and_then(|at| list.get(at));
    id.copied().ok_or_else(|| bad("there is no network"))
}
