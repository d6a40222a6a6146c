//! The choice of a port's addresses.
use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};
use uuid::Uuid;

use super::refused;
use crate::sandbox::core::{Refusal, Result, Row, Session, Store, number_of};

/// A subnet and an address in it.
pub(super) type Address = (Uuid, IpAddr);

/// Returns the addresses of a port.
pub(super) fn addresses_of(port: &Row) -> impl Iterator<Item = Address> + '_ {
    port.items("fixed_ips").iter().filter_map(|fixed| {
        let subnet = fixed["subnet_id"].as_str()?.parse().ok()?;
        let address = fixed["ip_address"].as_str()?.parse().ok()?;
        Some((subnet, address))
    })
}

/// Returns the value of `fixed_ips` for addresses.
pub(super) fn fixed_ips(addresses: impl IntoIterator<Item = Address>) -> Value {
    let addresses = addresses.into_iter();
    addresses
        .map(|(subnet, address)| json!({"subnet_id": subnet, "ip_address": address.to_string()}))
        .collect()
}

pub(super) fn cidr_of(subnet: &Row) -> Option<IpNet> {
    subnet.text("cidr").parse().ok()
}

pub(in crate::sandbox) fn is_inside(subnet: &Row, address: IpAddr) -> bool {
    cidr_of(subnet).is_some_and(|cidr| cidr.contains(&address))
}

pub(super) fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

pub(super) fn no_more_addresses(network: Uuid) -> Refusal {
    refused("IpAddressGenerationFailure", &[&network])
}

pub(super) fn already_allocated(subnet: Uuid, address: IpAddr) -> Refusal {
    refused("IpAddressAlreadyAllocated", &[&address, &subnet])
}

fn no_such_address(text: Option<&str>) -> Refusal {
    refused("InvalidIpForSubnet", &[&text.unwrap_or_default()])
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

fn step(address: IpAddr, by: i8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => IpAddr::V4(u32::from(ip).wrapping_add_signed(by.into()).into()),
        IpAddr::V6(ip) => IpAddr::V6(u128::from(ip).wrapping_add_signed(by.into()).into()),
    }
}

/// Returns the allocation pools of a subnet: all hosts but the gateway.
pub(super) fn ranges(subnet: &Row) -> Vec<(IpAddr, IpAddr)> {
    let Some(cidr) = cidr_of(subnet) else {
        return Vec::new();
    };
    let (first, last) = edges(cidr);
    let gateway = subnet.text("gateway_ip").parse().ok();
    let Some(gateway) = gateway.filter(|address| cidr.contains(address)) else {
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

/// Returns the port that has an address.
pub(super) fn port_with(store: &Store, subnet: Uuid, address: IpAddr) -> Option<Uuid> {
    let mut ports = store.ranked("port", "fixed_ips", subnet.as_u128());
    let port = ports.find(|(_, number)| *number == number_of(address));
    port.map(|(port, _)| port.id)
}

/// Returns the next free address: the one after the highest in use, or else the lowest gap.
pub(super) fn free_address(store: &Store, subnet: &Row) -> Option<IpAddr> {
    let is_v4 = cidr_of(subnet)?.addr().is_ipv4();
    let address = |number: u128| match is_v4 {
        true => Some(IpAddr::V4(u32::try_from(number).ok()?.into())),
        false => Some(IpAddr::V6(number.into())),
    };
    let ranges = ranges(subnet).into_iter();
    let mut ranges = ranges.map(|(start, end)| number_of(start)..=number_of(end));
    let used = || {
        let ports = store.ranked("port", "fixed_ips", subnet.id.as_u128());
        ports.map(|(_, number)| number)
    };
    let Some(highest) = used().next_back() else {
        return address(*ranges.next()?.start());
    };
    let next = highest.saturating_add(1);
    if ranges.clone().any(|range| range.contains(&next)) {
        return address(next);
    }
    let gap = ranges.find_map(|range| {
        let mut free = *range.start();
        for used in used().skip_while(|used| used < range.start()) {
            if used != free {
                break;
            }
            free += 1;
        }
        range.contains(&free).then_some(free)
    });
    address(gap?)
}

/// Returns one free address for each IP version that the network has a subnet for. Refuses if a version has none.
pub(super) fn free_addresses(store: &Store, network: Uuid) -> Result<Vec<Address>> {
    let mut found: BTreeMap<bool, Option<Address>> = BTreeMap::new();
    for subnet in store.of("subnet", "network_id", network) {
        let is_v6 = cidr_of(subnet).is_some_and(|cidr| cidr.addr().is_ipv6());
        let slot = found.entry(is_v6).or_default();
        if slot.is_none() {
            *slot = free_address(store, subnet).map(|address| (subnet.id, address));
        }
    }
    found
        .into_values()
        .map(|slot| slot.ok_or_else(|| no_more_addresses(network)))
        .collect()
}

/// Returns the addresses that a `fixed_ips` asks for. `own`: the port that may have them already.
pub(super) fn requested_addresses(
    session: &Session<'_>,
    network: Uuid,
    wanted: &[Value],
    own: Uuid,
) -> Result<Vec<Address>> {
    let store = session.store();
    let mut chosen = Vec::new();
    for one in wanted {
        let text = one["ip_address"].as_str();
        let address: Option<IpAddr> = text.and_then(|text| text.parse().ok());
        let mut subnets = store.of("subnet", "network_id", network);
        let subnet = match one["subnet_id"].as_str() {
            Some(id) => subnets
                .find(|subnet| subnet.id.to_string() == id)
                .ok_or_else(|| session.missing("subnet", id))?,
            None => subnets
                .find(|subnet| address.is_some_and(|address| is_inside(subnet, address)))
                .ok_or_else(|| no_such_address(text))?,
        };
        let address = match text {
            Some(text) => address
                .filter(|address| is_inside(subnet, *address))
                .ok_or_else(|| no_such_address(Some(text)))?,
            None => free_address(store, subnet).ok_or_else(|| no_more_addresses(network))?,
        };
        let port = port_with(store, subnet.id, address);
        if port.is_some_and(|port| port != own) {
            return Err(already_allocated(subnet.id, address));
        }
        chosen.push((subnet.id, address));
    }
    Ok(chosen)
}
