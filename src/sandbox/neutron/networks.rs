//! Networks, their segments, the RBAC policies that share them, subnets and subnet pools.
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{address_at, cidr_of, overlap, pools};
use super::devices::{EXTERNAL, is_automatic, is_router_interface, remove_addresses, router_of};
use super::refused;
use crate::sandbox::core::{Body, Hooks, Result, Row, Session, Store, refuse_if};

const NUMBER: &str = "provider:segmentation_id";

pub(super) const NETWORK: Hooks = Hooks {
    create: create_network,
    deletable: check_network_unused,
    show: show_network,
    visible: |session, network| {
        session.caller.owns(&network.project)
            || network.flag("shared")
            || network.flag(EXTERNAL)
            || is_granted(session, network)
    },
    ..Hooks::NONE
};

fn create_network(session: &mut Session<'_>, mut network: Row, _: &Body) -> Result<Uuid> {
    if network.get(NUMBER).is_none() {
        network.set(NUMBER, network.number);
    }
    // Derived from the network's id, so that the segment uses up none of a seed's ids.
    const OWN: u128 = 0x5e60_0000_0000;
    let id = Uuid::from_u128(network.id.as_u128() ^ OWN);
    let (kind, project) = (session.store.kind("segment"), network.project.clone());
    let mut segment = Row::new(kind, id, network.number, project, session.now);
    segment.updated = network.updated;
    segment.set("network_id", network.id.to_string());
    segment.set("segmentation_id", network.value(NUMBER));
    let id = session.put(network);
    session.put(segment);
    Ok(id)
}

fn show_network(session: &Session<'_>, network: &Row, name: &str) -> Option<Value> {
    Some(match name {
        "shared" => (network.flag("shared") || is_granted(session, network)).into(),
        "is_default" if network.flag(EXTERNAL) => network.flag("is_default").into(),
        _ => return None,
    })
}

/// Whether an RBAC policy for a network names the caller's project, or all projects. Every policy counts as one that
/// shares the network, whatever its action is.
fn is_granted(session: &Session<'_>, network: &Row) -> bool {
    let mut policies = session.store.of("rbac_policy", "object_id", network.id);
    policies.any(|policy| ["*", &session.caller.project].contains(&policy.text("target_tenant")))
}

/// Refuses to delete a network that has a port which is not deleted with it. The free floating IPs of an external
/// network are deleted first, **even if the deletion of the network is then refused**: Neutron does that in a
/// separate transaction.
fn check_network_unused(session: &mut Session<'_>, network: &Row) -> Result<()> {
    let id = network.id;
    if network.flag(EXTERNAL) {
        let store = session.store();
        let is_free = |ip: &&Row| ip.id_of("port_id").is_none() && router_of(store, ip).is_none();
        let ips = store.of("floating_ip", "floating_network_id", id);
        let free: Vec<Uuid> = ips.filter(is_free).map(|ip| ip.id).collect();
        for ip in free {
            session.remove("floating_ip", ip);
        }
        session.commit();
    }
    let ports = session.store().of("port", "network_id", id);
    let blocking: Vec<String> = ports
        .filter(|port| !is_automatic(port))
        .map(|port| port.id.to_string())
        .collect();
    let refusal = || refused("NetworkInUse", &[&id, &blocking.join(",")]);
    refuse_if(!blocking.is_empty(), refusal)
}

/// Each network has an initial segment, and an admin may add more.
pub(super) const SEGMENT: Hooks = Hooks {
    create: |session, mut segment, _| {
        if segment.get("segmentation_id").is_none() {
            segment.set("segmentation_id", segment.number);
        }
        Ok(session.put(segment))
    },
    ..Hooks::NONE
};

pub(super) const RBAC_POLICY: Hooks = Hooks {
    deletable: check_policy_unused,
    ..Hooks::NONE
};

/// Refuses to delete a policy while a project with which it shares the network has a port there.
fn check_policy_unused(session: &mut Session<'_>, policy: &Row) -> Result<()> {
    let id = policy.id_of("object_id").unwrap_or_default();
    let owner = session.get("network", id).map(|row| row.project.clone());
    let target = policy.text("target_tenant");
    let mut ports = session.store().of("port", "network_id", id);
    let is_used = ports.any(|port| {
        *port.project == *target || (target == "*" && Some(&port.project) != owner.as_ref())
    });
    refuse_if(is_used, || refused("RbacPolicyInUse", &[&id]))
}

pub(super) const SUBNET: Hooks = Hooks {
    create: create_subnet,
    deletable: check_subnet_unused,
    // The subnet's addresses are removed from DHCP ports and from ports with automatic addresses. The ports stay.
    removed: |session, subnet| {
        for port in session.store().ids("port", "fixed_ips", subnet.id) {
            session.edit("port", port, |port| remove_addresses(port, subnet.id));
        }
    },
    show: |_, subnet, name| {
        if name != "allocation_pools" || subnet.get(name).is_some() {
            return None;
        }
        let address = |number: &u128| address_at(subnet, *number);
        let shown = |pool: &RangeInclusive<u128>| {
            let (start, end) = (address(pool.start()), address(pool.end()));
            json!({"start": start, "end": end})
        };
        Some(pools(subnet).iter().map(shown).collect())
    },
    ..Hooks::NONE
};

fn create_subnet(session: &mut Session<'_>, mut subnet: Row, body: &Body) -> Result<Uuid> {
    let network = session.required_row("network", body, "network_id")?;
    let allowed = session.may_change(&network, "update");
    allowed.map_err(|_| subnet.kind.forbidden("create"))?;
    let cidr = match body.get("cidr").and_then(Value::as_str) {
        Some(text) => {
            let cidr = text.parse::<IpNet>().map(|net| net.trunc());
            cidr.map_err(|_| refused("InvalidCidr", &[&text]))?
        }
        None => {
            let pool = subnet.id_of("subnetpool_id");
            let pool = pool.ok_or_else(|| refused("NoCidr", &[]))?;
            free_block(session.store(), &session.row("subnet_pool", pool)?, &subnet)?
        }
    };
    check_overlap(session.store(), network.id, cidr, &subnet)?;
    subnet.set("cidr", cidr.to_string());
    if body.get("gateway_ip").is_none() {
        let first = cidr.hosts().next().map(|address| address.to_string());
        subnet.set("gateway_ip", first);
    }
    Ok(session.put(subnet))
}

fn check_overlap(store: &Store, network: Uuid, cidr: IpNet, new: &Row) -> Result<()> {
    for sibling in store.of("subnet", "network_id", network) {
        let Some(taken) = cidr_of(sibling) else {
            continue;
        };
        let is_same_version = taken.addr().is_ipv4() == cidr.addr().is_ipv4();
        if is_same_version && sibling.id_of("subnetpool_id") != new.id_of("subnetpool_id") {
            return Err(refused("NetworkSubnetPoolAffinityError", &[]));
        }
        if overlap(taken, cidr) {
            return Err(refused("SubnetOverlap", &[&cidr, &network]));
        }
    }
    Ok(())
}

/// Whether the subnet's addresses come from SLAAC or stateless DHCPv6, by either mode attribute.
fn has_automatic_addresses(subnet: &Row) -> bool {
    let mut modes = ["ipv6_address_mode", "ipv6_ra_mode"].into_iter();
    modes.any(|name| matches!(subnet.text(name), "slaac" | "dhcpv6-stateless"))
}

fn check_subnet_unused(session: &mut Session<'_>, subnet: &Row) -> Result<()> {
    let loses_addresses = has_automatic_addresses(subnet);
    let mut ports = session.store().of("port", "fixed_ips", subnet.id);
    let is_blocked = ports.any(|port| match loses_addresses {
        // Ports lose automatic addresses, so only a router's interface blocks the subnet.
        true => is_router_interface(port),
        false => !is_automatic(port),
    });
    refuse_if(is_blocked, || refused("SubnetInUse", &[&subnet.id]))
}

const PREFIX_LENGTH: &str = "default_prefixlen";

pub(super) const SUBNET_POOL: Hooks = Hooks {
    show: |_, pool, name| match name {
        PREFIX_LENGTH => Some(pool.value(name).to_string().into()),
        "ip_version" => match prefixes(pool).next() {
            Some(IpNet::V6(_)) => Some(6.into()),
            _ => Some(4.into()),
        },
        _ => None,
    },
    ..Hooks::NONE
};

fn prefixes(pool: &Row) -> impl Iterator<Item = IpNet> + '_ {
    let texts = pool.items("prefixes").iter().filter_map(Value::as_str);
    texts.filter_map(|text| text.parse().ok())
}

/// Returns the first free block of a pool for a subnet.
fn free_block(store: &Store, pool: &Row, subnet: &Row) -> Result<IpNet> {
    let number = |value: Value| value.as_u64().and_then(|bits| u8::try_from(bits).ok());
    let length = number(subnet.value("prefixlen")).or_else(|| number(pool.value(PREFIX_LENGTH)));
    let length = length.unwrap_or_default();
    let taken = store.of("subnet", "subnetpool_id", pool.id);
    let taken: Vec<IpNet> = taken.filter_map(cidr_of).collect();
    prefixes(pool)
        .filter_map(|prefix| prefix.subnets(length).ok())
        .flatten()
        .find(|block| !taken.iter().any(|used| overlap(*used, *block)))
        .ok_or_else(|| refused("SubnetAllocationError", &[&length]))
}
