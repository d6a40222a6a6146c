//! The load-balancer service's use of the network service: possible places of a VIP, and its port.
use std::net::IpAddr;

use chrono::{DateTime, Utc};
use http::StatusCode;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::groups::Group;
use super::kind::Row;
use super::networks::Network;
use super::ports::Port;
use super::qos::QosPolicy;
use super::revival::{Renamed, put_back_port};
use super::subnets::Subnet;
use super::{Changes, Neutron, Scope};
use crate::sandbox::Caller;
use crate::sandbox::wire::Answer;

/// A subnet that a VIP may be in.
pub(in crate::sandbox) struct VipSubnet {
    pub(in crate::sandbox) id: Uuid,
    pub(in crate::sandbox) network: Uuid,
    cidr: ipnet::IpNet,
    /// Number of free addresses.
    pub(in crate::sandbox) free: u128,
}

impl VipSubnet {
    pub(in crate::sandbox) fn holds(&self, address: &str) -> bool {
        address
            .parse::<IpAddr>()
            .is_ok_and(|address| self.cidr.contains(&address))
    }

    /// Returns the addresses of its hosts, in ascending order.
    pub(in crate::sandbox) fn hosts(&self) -> impl Iterator<Item = IpAddr> {
        self.cidr.hosts()
    }

    pub(in crate::sandbox) fn is_version_4(&self) -> bool {
        matches!(self.cidr, ipnet::IpNet::V4(_))
    }
}

/// The port of a VIP.
#[derive(Clone)]
pub(in crate::sandbox) struct VipPort(Port);

impl VipPort {
    pub(in crate::sandbox) fn id(&self) -> Uuid {
        self.0.meta.id
    }

    pub(in crate::sandbox) fn network(&self) -> Uuid {
        self.0.network
    }

    /// Returns the device that uses the port; empty for none.
    pub(in crate::sandbox) fn device(&self) -> &str {
        &self.0.device_id
    }

    pub(in crate::sandbox) fn qos_policy(&self) -> Option<&str> {
        self.0.meta.more.get("qos_policy_id")?.as_str()
    }

    /// Returns the subnet and the address of each fixed IP.
    pub(in crate::sandbox) fn addresses(&self) -> impl Iterator<Item = (Uuid, String)> {
        self.0
            .fixed_ips
            .iter()
            .map(|(subnet, address)| (*subnet, address.to_string()))
    }
}

/// The properties of a balancer's new port.
pub(in crate::sandbox) struct WantedPort<'a> {
    pub(in crate::sandbox) balancer: Uuid,
    pub(in crate::sandbox) project: &'a str,
    pub(in crate::sandbox) network: Uuid,
    /// The subnet, and the address if a certain one is wanted.
    pub(in crate::sandbox) addresses: Vec<(Uuid, Option<String>)>,
    /// Empty for the project's default group.
    pub(in crate::sandbox) groups: &'a Value,
}

/// Prefixes of the name and the device of a balancer's port.
const NAME: &str = "octavia-lb-";
const DEVICE: &str = "lb-";

impl Neutron {
    /// Returns a row if the caller may see it.
    fn seen<R: Row>(&self, caller: &Caller, id: Uuid) -> Option<&R> {
        let scope = Scope {
            store: &self.store,
            caller,
        };
        let row = self.store.get::<R>(id);
        row.filter(|row| row.visible(&scope))
    }

    pub(in crate::sandbox) fn vip_subnet(&self, caller: &Caller, id: Uuid) -> Option<VipSubnet> {
        let subnet = self.seen::<Subnet>(caller, id)?;
        let used = self.store.indexes().addresses.get(&id);
        let used = used.map_or(0, |used| used.len() as u128);
        Some(VipSubnet {
            id,
            network: subnet.network,
            cidr: subnet.cidr,
            free: subnet.room().saturating_sub(used),
        })
    }

    /// Lists the subnets of a network; `None` when there is no such network.
    pub(in crate::sandbox) fn vip_network(
        &self,
        caller: &Caller,
        id: Uuid,
    ) -> Option<Vec<VipSubnet>> {
        self.seen::<Network>(caller, id)?;
        let subnets = self.store.indexes().subnets_by_network.of(&id);
        Some(
            subnets
                .filter_map(|subnet| self.vip_subnet(caller, subnet))
                .collect(),
        )
    }

    pub(in crate::sandbox) fn vip_port(&self, caller: &Caller, id: Uuid) -> Option<VipPort> {
        self.seen::<Port>(caller, id).cloned().map(VipPort)
    }

    pub(in crate::sandbox) fn has_qos_policy(&self, caller: &Caller, id: Uuid) -> bool {
        self.seen::<QosPolicy>(caller, id).is_some()
    }

    pub(in crate::sandbox) fn has_group(&self, caller: &Caller, id: Uuid) -> bool {
        self.seen::<Group>(caller, id).is_some()
    }

    /// Creates a balancer's port by the rules of all ports, or returns the status of the refusal.
    pub(in crate::sandbox) fn make_vip_port(
        &mut self,
        wanted: &WantedPort<'_>,
        now: DateTime<Utc>,
    ) -> Result<(VipPort, Changes), StatusCode> {
        let body = body(wanted);
        let service = Caller::admin_of(wanted.project);
        let mut made = None;
        let outcome = self.transact(&service, now, |session| {
            made = Some(Port::create(session, &body)?);
            Ok(Answer::no_content())
        });
        match made.and_then(|id| self.store.get::<Port>(id)) {
            Some(port) => Ok((VipPort(port.clone()), outcome.changes.network)),
            None => Err(outcome.answer.status),
        }
    }

    /// Deletes a balancer's port, if it still exists.
    pub(in crate::sandbox) fn delete_vip_port(&mut self, id: Uuid, now: DateTime<Utc>) {
        let service = Caller::admin_of("");
        self.transact(&service, now, |session| {
            Port::delete(session, id);
            Ok(Answer::no_content())
        });
    }

    /// Revives a deleted port for the same balancer or, under a new id, for another.
    pub(in crate::sandbox) fn put_back_vip_port(
        &mut self,
        port: VipPort,
        other: Option<Uuid>,
    ) -> Uuid {
        let VipPort(mut port) = port;
        if let Some(balancer) = other {
            port.meta.id = self.ids.uuid();
            port.meta.name = format!("{NAME}{balancer}");
            port.device_id = format!("{DEVICE}{balancer}");
        }
        let id = port.meta.id;
        put_back_port(&mut self.store, port, &Renamed::default());
        id
    }
}

fn body(wanted: &WantedPort<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("name", format!("{NAME}{}", wanted.balancer).into());
    set("network_id", wanted.network.to_string().into());
    set("admin_state_up", false.into());
    set("device_id", format!("{DEVICE}{}", wanted.balancer).into());
    set("device_owner", "Octavia".into());
    let addresses = wanted.addresses.iter();
    let addresses = addresses.map(|(subnet, address)| match address {
        Some(address) => json!({"subnet_id": subnet, "ip_address": address}),
        None => json!({"subnet_id": subnet}),
    });
    set("fixed_ips", addresses.collect());
    if wanted
        .groups
        .as_array()
        .is_some_and(|groups| !groups.is_empty())
    {
        set("security_groups", wanted.groups.clone());
    }
    body
}
