//! Subnets, and the choice of a port's address in them.
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::kind::{A, Attribute, F, Kind, Meta, P, Row, S, U, Unset, W, stored};
use super::networks::{Network, goes_by_itself};
use super::pools::Pool;
use super::ports::Port;
use super::revival::Renamed;
use super::segments::Segment;
use super::store::{Indexes, Store};
use super::{Scope, Session, body};
use crate::sandbox::wire::{Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct Subnet {
    pub(super) meta: Meta,
    pub(super) network: Uuid,
    pub(super) cidr: IpNet,
    pub(super) gateway: Option<IpAddr>,
    pub(super) enable_dhcp: bool,
    /// The subnet pool that the CIDR was taken from.
    pub(super) pool: Option<Uuid>,
}

static KIND: Kind = Kind {
    singular: "subnet",
    plural: "subnets",
    not_found: "SubnetNotFound",
    before: "Subnet ",
    after: " could not be found.",
    bulk: true,
    first_revision: Some(0),
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
        Attribute::new("network_id", F | S | P, Unset::Absent),
        Attribute::new("ip_version", F | S | P, Unset::Absent),
        Attribute::new("subnetpool_id", F | S | P, Unset::Absent),
        Attribute::new("enable_dhcp", F | S | P | U, Unset::Absent),
        Attribute::new("ipv6_ra_mode", F | S | P, Unset::Null),
        Attribute::new("ipv6_address_mode", F | S | P, Unset::Null),
        Attribute::new("gateway_ip", F | S | P | U, Unset::Absent),
        Attribute::new("cidr", F | S | P, Unset::Absent),
        Attribute::new("prefixlen", P, Unset::Absent),
        Attribute::new("allocation_pools", P | U, Unset::Absent),
        Attribute::new("host_routes", P | U, Unset::List),
        Attribute::new("dns_nameservers", P | U, Unset::List),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("router:external", F, Unset::Absent),
        Attribute::new("service_types", P | U, Unset::List),
        Attribute::new("segment_id", F | S | P | U | A | W, Unset::Null),
        Attribute::new("tags", F, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
        // Accepted as a filter, but never shown.
        Attribute::new("shared", F, Unset::Absent),
    ],
};

impl Row for Subnet {
    const KIND: &'static Kind = &KIND;

    stored!(subnets, Subnet);

    fn index(&self, indexes: &mut Indexes, present: bool) {
        indexes
            .subnets_by_network
            .set(&self.network, self.meta.id, present);
    }

    fn attribute(&self, name: &str, scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "network_id" => self.network.to_string().into(),
            "ip_version" => self.version().into(),
            "subnetpool_id" => self.pool.map(|id| id.to_string()).into(),
            "enable_dhcp" => self.enable_dhcp.into(),
            "gateway_ip" => self.gateway.map(|ip| ip.to_string()).into(),
            "cidr" => self.cidr.to_string().into(),
            "allocation_pools" if !self.meta.more.contains_key(name) => self
                .ranges()
                .iter()
                .map(|(start, end)| json!({"start": start.to_string(), "end": end.to_string()}))
                .collect(),
            "router:external" => scope
                .store
                .get::<Network>(self.network)
                .is_some_and(|network| network.external)
                .into(),
            _ => return None,
        })
    }

    fn visible(&self, scope: &Scope<'_>) -> bool {
        scope.caller.owns(&self.meta.project)
            || scope
                .store
                .get::<Network>(self.network)
                .is_some_and(|network| network.visible(scope))
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.network);
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let network = session.referred::<Network>(body, "network_id")?;
        if !network.writable(&session.scope()) {
            return Err(session.forbidden("create_subnet"));
        }
        if !body.contains_key("ip_version") {
            return Err(body::missing("ip_version"));
        }
        let pool = body::id(body, "subnetpool_id")?;
        let cidr = match body::text(body, "cidr")? {
            Some(text) => text.parse::<IpNet>().map(|net| net.trunc()).map_err(|_| {
                Refusal::bad_request(
                    "InvalidInput",
                    format!("Invalid input for operation: {text} is not in a CIDR format."),
                )
            })?,
            None => from_pool(session, pool, body)?,
        };
        if let Some(segment) = body::id(body, "segment_id")? {
            session.row::<Segment>(segment)?;
        }
        no_overlap(session.store(), network.meta.id, cidr, pool)?;
        let gateway = match body.get("gateway_ip") {
            Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.parse().map_err(|_| {
                body::invalid(
                    "gateway_ip",
                    &format!("'{text}' is not a valid IP address."),
                )
            })?),
            _ => cidr.hosts().next(),
        };
        let subnet = Self {
            network: network.meta.id,
            cidr,
            gateway,
            enable_dhcp: body::flag(body, "enable_dhcp")?.unwrap_or(true),
            pool,
            meta: session.meta::<Self>(body)?,
        };
        let id = session.insert(subnet);
        session.bump::<Network>(network.meta.id);
        Ok(id)
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        let enable_dhcp = body::flag(body, "enable_dhcp")?;
        let gateway = match body.get("gateway_ip") {
            Some(Value::String(text)) => Some(text.parse().ok()),
            Some(_) => Some(None),
            None => None,
        };
        session.edit(id, |subnet: &mut Self| {
            subnet.enable_dhcp = enable_dhcp.unwrap_or(subnet.enable_dhcp);
            subnet.gateway = gateway.unwrap_or(subnet.gateway);
        });
        Ok(())
    }

    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let id = self.meta.id;
        let automatic = self.has_automatic_addresses();
        let used = users(session.store(), id)
            .filter_map(|port| session.store().get::<Port>(port))
            .any(|port| match automatic {
                // Ports lose automatic addresses; only a router's interface blocks the subnet.
                true => port.is_router_interface(),
                false => !goes_by_itself(&port.device_owner),
            });
        if used {
            return Err(Refusal::conflict(
                "SubnetInUse",
                format!(
                    "Unable to complete operation on subnet {id}: One or more ports have an IP \
                     allocation from this subnet."
                ),
            ));
        }
        Ok(())
    }

    /// Deletes the subnet. DHCP ports, and those with automatic addresses, lose its addresses but stay.
    fn delete(session: &mut Session<'_>, id: Uuid) {
        let ports: Vec<Uuid> = users(session.store(), id).collect();
        for port in ports {
            session.edit(port, |port: &mut Port| {
                port.fixed_ips.retain(|(subnet, _)| *subnet != id);
            });
        }
        if let Some(subnet) = session.take::<Self>(id) {
            session.bump::<Network>(subnet.network);
        }
    }
}

impl Subnet {
    pub(super) fn version(&self) -> u8 {
        match self.cidr {
            IpNet::V4(_) => 4,
            IpNet::V6(_) => 6,
        }
    }

    /// Whether addresses come from SLAAC or stateless DHCPv6, by either mode attribute.
    pub(super) fn has_automatic_addresses(&self) -> bool {
        ["ipv6_address_mode", "ipv6_ra_mode"].iter().any(|name| {
            let mode = self.meta.more.get(*name).and_then(Value::as_str);
            matches!(mode, Some("slaac" | "dhcpv6-stateless"))
        })
    }

    pub(super) fn segment(&self) -> Option<Uuid> {
        self.meta.more.get("segment_id")?.as_str()?.parse().ok()
    }

    /// Returns the allocation pools: all hosts but the gateway.
    fn ranges(&self) -> Vec<(IpAddr, IpAddr)> {
        let (first, last) = edges(self.cidr);
        let Some(gateway) = self.gateway.filter(|ip| self.cidr.contains(ip)) else {
            return vec![(first, last)];
        };
        let mut ranges = Vec::new();
        if gateway > first {
            ranges.push((first, step(gateway, -1)));
        }
        if gateway < last {
            ranges.push((step(gateway, 1), last));
        }
        ranges
    }

    /// Returns the number of addresses in the allocation pools, used or not.
    pub(super) fn room(&self) -> u128 {
        let number = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => u128::from(u32::from(ip)),
            IpAddr::V6(ip) => u128::from(ip),
        };
        let ranges = self.ranges().into_iter();
        let sizes = ranges.map(|(start, end)| (number(end) - number(start)).saturating_add(1));
        sizes.fold(0, u128::saturating_add)
    }

    /// Returns the next free address: the one after the highest in use, or else the lowest gap.
    pub(super) fn free_address(&self, store: &Store) -> Option<IpAddr> {
        let ranges = self.ranges();
        let used = store.indexes().addresses.get(&self.meta.id);
        let inside = |ip: IpAddr| ranges.iter().any(|(start, end)| *start <= ip && ip <= *end);
        let Some(used) = used else {
            return ranges.first().map(|(start, _)| *start);
        };
        if let Some((highest, _)) = used.last_key_value() {
            let (_, last) = edges(self.cidr);
            let next = step(*highest, 1);
            if next <= last && inside(next) {
                return Some(next);
            }
        }
        ranges.iter().find_map(|(start, end)| {
            let mut ip = *start;
            while used.contains_key(&ip) {
                if ip == *end {
                    return None;
                }
                ip = step(ip, 1);
            }
            (ip <= *end).then_some(ip)
        })
    }
}

/// Returns the ports that have an address in a subnet.
pub(super) fn users(store: &Store, subnet: Uuid) -> impl Iterator<Item = Uuid> + '_ {
    store
        .indexes()
        .addresses
        .get(&subnet)
        .into_iter()
        .flat_map(|used| used.values().copied())
}

/// Returns the first and the last host address.
fn edges(cidr: IpNet) -> (IpAddr, IpAddr) {
    match cidr {
        IpNet::V4(net) if net.prefix_len() < 31 => {
            (step(cidr.network(), 1), step(cidr.broadcast(), -1))
        }
        _ => (
            cidr.hosts().next().unwrap_or_else(|| cidr.network()),
            cidr.broadcast(),
        ),
    }
}

fn step(ip: IpAddr, by: i8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4(u32::from(ip).wrapping_add_signed(i32::from(by)).into()),
        IpAddr::V6(ip) => IpAddr::V6(u128::from(ip).wrapping_add_signed(i128::from(by)).into()),
    }
}

fn no_overlap(store: &Store, network: Uuid, cidr: IpNet, pool: Option<Uuid>) -> Result<()> {
    let siblings = store
        .indexes()
        .subnets_by_network
        .of(&network)
        .filter_map(|id| store.get::<Subnet>(id));
    for sibling in siblings {
        let same_version = sibling.cidr.addr().is_ipv4() == cidr.addr().is_ipv4();
        if same_version && sibling.pool != pool {
            return Err(Refusal::bad_request(
                "NetworkSubnetPoolAffinityError",
                "Subnets hosted on the same network must be allocated from the same subnet pool.",
            ));
        }
        if overlap(sibling.cidr, cidr) {
            return Err(Refusal::bad_request(
                "InvalidInput",
                format!(
                    "Invalid input for operation: Requested subnet with cidr: {cidr} for network: \
                     {network} overlaps with another subnet."
                ),
            ));
        }
    }
    Ok(())
}

pub(super) fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// Returns the first free block of a subnet pool.
fn from_pool(
    session: &Session<'_>,
    pool: Option<Uuid>,
    body: &Map<String, Value>,
) -> Result<IpNet> {
    let Some(pool_id) = pool else {
        return Err(Refusal::bad_request(
            "BadRequest",
            "Bad subnets request: a subnetpool must be specified in the absence of a cidr.",
        ));
    };
    let Some(pool) = session.store().get::<Pool>(pool_id) else {
        return Err(Pool::KIND.missing(pool_id));
    };
    let length = body
        .get("prefixlen")
        .and_then(Value::as_u64)
        .and_then(|bits| u8::try_from(bits).ok())
        .unwrap_or(pool.default_prefixlen);
    let taken: Vec<IpNet> = session
        .store()
        .all::<Subnet>()
        .values()
        .filter(|subnet| subnet.pool == Some(pool_id))
        .map(|subnet| subnet.cidr)
        .collect();
    pool.prefixes
        .iter()
        .filter_map(|prefix| prefix.subnets(length).ok())
        .flatten()
        .find(|block| !taken.iter().any(|used| overlap(*used, *block)))
        .ok_or_else(|| {
            Refusal::conflict(
                "SubnetAllocationError",
                "Failed to allocate subnet: Insufficient prefix space to allocate subnet size /"
                    .to_owned()
                    + &length.to_string()
                    + ".",
            )
        })
}
