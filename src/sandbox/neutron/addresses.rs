//! The choice of a port's addresses.
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde_json::{Value, json};
use uuid::Uuid;

use super::refused;
use crate::sandbox::core::{Result, Row, Session, Store, number_of, refuse_if};

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

/// Returns the address with this number, in the IP version of a subnet.
pub(super) fn address_at(subnet: &Row, number: u128) -> Option<IpAddr> {
    match cidr_of(subnet)? {
        IpNet::V4(_) => Some(Ipv4Addr::from(u32::try_from(number).ok()?).into()),
        IpNet::V6(_) => Some(Ipv6Addr::from(number).into()),
    }
}

/// Returns the allocation pools of a subnet, as numbers: all hosts but the gateway.
pub(super) fn pools(subnet: &Row) -> Vec<RangeInclusive<u128>> {
    let Some(cidr) = cidr_of(subnet) else {
        return Vec::new();
    };
    let (network, broadcast) = (number_of(cidr.network()), number_of(cidr.broadcast()));
    let (first, last) = match cidr {
        IpNet::V4(net) if net.prefix_len() < 31 => (network + 1, broadcast - 1),
        _ => (network, broadcast),
    };
    let gateway = subnet.text("gateway_ip").parse().ok();
    let Some(gateway) = gateway.filter(|address| cidr.contains(address)) else {
        return vec![first..=last];
    };
    let gateway = number_of(gateway);
    let below = (first < gateway).then(|| first..=gateway - 1);
    let above = (gateway < last).then(|| gateway + 1..=last);
    below.into_iter().chain(above).collect()
}

/// Returns the next free address: the one after the highest in use, or else the lowest gap.
pub(super) fn free_address(store: &Store, subnet: &Row) -> Option<IpAddr> {
    let pools = pools(subnet);
    let used = || {
        let ports = store.ranked("port", "fixed_ips", subnet.id.as_u128());
        ports.map(|(_, number)| number)
    };
    let next = match used().next_back() {
        Some(highest) => highest.saturating_add(1),
        None => *pools.first()?.start(),
    };
    if pools.iter().any(|pool| pool.contains(&next)) {
        return address_at(subnet, next);
    }
    let gap = pools.into_iter().find_map(|mut pool| {
        let used = used().skip_while(|number| number < pool.start());
        let pairs = used.zip(pool.clone());
        let taken = pairs.take_while(|(used, number)| used == number).count();
        pool.nth(taken)
    });
    address_at(subnet, gap?)
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
    let none_left = || refused("IpAddressGenerationFailure", &[&network]);
    let found = found.into_values();
    found.map(|slot| slot.ok_or_else(none_left)).collect()
}

/// Refuses an address that another port than `own` has.
pub(super) fn check_unallocated(
    store: &Store,
    (subnet, address): Address,
    own: Option<Uuid>,
) -> Result<()> {
    let mut ports = store.ranked("port", "fixed_ips", subnet.as_u128());
    let port = ports.find(|(_, number)| *number == number_of(address));
    let is_taken = port.is_some_and(|(port, _)| Some(port.id) != own);
    let refusal = || refused("IpAddressAlreadyAllocated", &[&address, &subnet]);
    refuse_if(is_taken, refusal)
}

/// Returns the addresses that a `fixed_ips` asks for. `own`: the port that may have them already.
pub(super) fn requested_addresses(
    session: &Session<'_>,
    network: Uuid,
    wanted: &[Value],
    own: Uuid,
) -> Result<Vec<Address>> {
    let store = session.store();
    let choose = |one: &Value| {
        let text = one["ip_address"].as_str();
        let address: Option<IpAddr> = text.and_then(|text| text.parse().ok());
        let invalid = || refused("InvalidIpForSubnet", &[&text.unwrap_or_default()]);
        let is_in = |subnet: &&Row| address.is_some_and(|address| is_inside(subnet, address));
        let mut subnets = store.of("subnet", "network_id", network);
        let subnet = match one["subnet_id"].as_str() {
            Some(id) => subnets
                .find(|subnet| subnet.id.to_string() == id)
                .ok_or_else(|| session.missing("subnet", id))?,
            None => subnets.find(is_in).ok_or_else(invalid)?,
        };
        let address = match text {
            Some(_) => address.filter(|_| is_in(&subnet)).ok_or_else(invalid)?,
            None => free_address(store, subnet)
                .ok_or_else(|| refused("IpAddressGenerationFailure", &[&network]))?,
        };
        check_unallocated(store, (subnet.id, address), Some(own))?;
        Ok((subnet.id, address))
    };
    wanted.iter().map(choose).collect()
}
