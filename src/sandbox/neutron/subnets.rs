//! Subnets and subnet pools.
use ipnet::IpNet;
use serde_json::{Value, json};
use uuid::Uuid;

use super::addresses::{cidr_of, overlap, ranges};
use super::devices::{EXTERNAL, is_automatic, is_router_interface, remove_addresses};
use super::refused;
use crate::sandbox::core::{Body, Hooks, Result, Row, Session, Store, refuse_if};

pub(super) const SUBNET: Hooks = Hooks {
    create: create_subnet,
    deletable: check_subnet_unused,
    removed: subnet_removed,
    show: show_subnet,
    visible: |session, subnet| {
        session.caller.owns(&subnet.project)
            || network_of(session.store(), subnet).is_some_and(|network| session.sees(network))
    },
    ..Hooks::NONE
};

fn network_of<'s>(store: &'s Store, subnet: &Row) -> Option<&'s Row> {
    store.referred(subnet, "network_id", "network")
}

fn show_subnet(session: &Session<'_>, subnet: &Row, name: &str) -> Option<Value> {
    Some(match name {
        "allocation_pools" if subnet.get(name).is_none() => ranges(subnet)
            .iter()
            .map(|(start, end)| json!({"start": start.to_string(), "end": end.to_string()}))
            .collect(),
        EXTERNAL => {
            let network = network_of(session.store(), subnet);
            network.is_some_and(|network| network.flag(EXTERNAL)).into()
        }
        _ => return None,
    })
}

fn create_subnet(session: &mut Session<'_>, mut subnet: Row, body: &Body) -> Result<Uuid> {
    let network = session.required_row("network", body, "network_id")?;
    if session.may_change(&network, "update").is_err() {
        return Err(subnet.kind.forbidden("create"));
    }
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
    let id = session.put(subnet);
    session.raise_revision("network", network.id);
    Ok(id)
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

/// Removes the subnet's addresses from DHCP ports and from ports with automatic addresses. The ports stay.
fn subnet_removed(session: &mut Session<'_>, subnet: &Row) {
    for port in session.store().ids("port", "fixed_ips", subnet.id) {
        session.edit("port", port, |port| remove_addresses(port, subnet.id));
    }
    if let Some(network) = subnet.id_of("network_id") {
        session.raise_revision("network", network);
    }
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
