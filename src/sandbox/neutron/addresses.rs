//! The choice of a port's addresses.
use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;
use uuid::Uuid;

use super::kind::Row;
use super::session::Session;
use super::subnets::Subnet;
use crate::sandbox::wire::{Refusal, Result};

impl Session<'_> {
    /// Returns one free address for each IP version that the network has a subnet for.
    pub(super) fn free_addresses(&self, network: Uuid) -> Result<Vec<(Uuid, IpAddr)>> {
        let mut found: BTreeMap<u8, Option<(Uuid, IpAddr)>> = BTreeMap::new();
        for id in self.store().indexes().subnets_by_network.of(&network) {
            let Some(subnet) = self.store().get::<Subnet>(id) else {
                continue;
            };
            let slot = found.entry(subnet.version()).or_default();
            if slot.is_none() {
                *slot = subnet.free_address(self.store()).map(|ip| (id, ip));
            }
        }
        found
            .into_values()
            .map(|slot| slot.ok_or_else(|| no_more_addresses(network)))
            .collect()
    }

    /// Returns the addresses that a `fixed_ips` asks for. `own`: the port that may have them already.
    pub(super) fn requested_addresses(
        &self,
        network: Uuid,
        wanted: &[Value],
        own: Option<Uuid>,
    ) -> Result<Vec<(Uuid, IpAddr)>> {
        let store = self.store();
        let mut chosen: Vec<(Uuid, IpAddr)> = Vec::new();
        for one in wanted {
            let subnet = match one.get("subnet_id").and_then(Value::as_str) {
                Some(text) => text
                    .parse()
                    .ok()
                    .and_then(|id| store.get::<Subnet>(id))
                    .filter(|subnet| subnet.network == network)
                    .ok_or_else(|| Subnet::KIND.missing(text))?,
                None => {
                    let ip = one
                        .get("ip_address")
                        .and_then(Value::as_str)
                        .and_then(|ip| ip.parse::<IpAddr>().ok());
                    store
                        .indexes()
                        .subnets_by_network
                        .of(&network)
                        .filter_map(|id| store.get::<Subnet>(id))
                        .find(|subnet| ip.is_some_and(|ip| subnet.cidr.contains(&ip)))
                        .ok_or_else(|| {
                            Refusal::bad_request(
                                "InvalidIpForNetwork",
                                "IP address is not a valid IP for any of the subnets on the specified network.",
                            )
                        })?
                }
            };
            let id = subnet.meta.id;
            let ip = match one.get("ip_address").and_then(Value::as_str) {
                Some(text) => text
                    .parse::<IpAddr>()
                    .ok()
                    .filter(|ip| subnet.cidr.contains(ip))
                    .ok_or_else(|| {
                        Refusal::bad_request(
                            "InvalidIpForSubnet",
                            format!(
                                "IP address {text} is not a valid IP for the specified subnet."
                            ),
                        )
                    })?,
                None => subnet
                    .free_address(store)
                    .ok_or_else(|| no_more_addresses(network))?,
            };
            let holder = store
                .indexes()
                .addresses
                .get(&id)
                .and_then(|used| used.get(&ip));
            if holder.is_some_and(|port| Some(*port) != own) {
                return Err(Refusal::conflict(
                    "IpAddressAlreadyAllocated",
                    format!("IP address {ip} already allocated in subnet {id}"),
                ));
            }
            chosen.push((id, ip));
        }
        Ok(chosen)
    }
}

pub(super) fn no_more_addresses(network: Uuid) -> Refusal {
    Refusal::conflict(
        "IpAddressGenerationFailure",
        format!("No more IP addresses available on network {network}."),
    )
}
