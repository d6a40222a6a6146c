//! Floating IPs.
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::forwardings::Forwarding;
use super::kind::{Attribute, F, Kind, Meta, P, Row, S, U, Unset, stored};
use super::networks::Network;
use super::ports::{FLOATING_IP, Port};
use super::revival::Renamed;
use super::routers;
use super::store::{Indexes, Store};
use super::{Scope, Session, addresses, body, qos};
use crate::sandbox::wire::{Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct FloatingIp {
    pub(super) meta: Meta,
    pub(super) network: Uuid,
    pub(super) address: IpAddr,
    /// The hidden port on the external network that has the address.
    pub(super) own_port: Uuid,
    pub(super) port: Option<Uuid>,
    fixed: Option<IpAddr>,
    /// The router of the association.
    via: Option<Uuid>,
}

static KIND: Kind = Kind {
    singular: "floatingip",
    plural: "floatingips",
    not_found: "FloatingIPNotFound",
    before: "Floating IP ",
    after: " could not be found",
    bulk: false,
    first_revision: Some(0),
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("floating_ip_address", F | S | P, Unset::Absent),
        Attribute::new("floating_network_id", F | S | P, Unset::Absent),
        Attribute::new("subnet_id", P, Unset::Absent),
        Attribute::new("router_id", F | S, Unset::Absent),
        Attribute::new("port_id", F | P | U, Unset::Absent),
        Attribute::new("fixed_ip_address", F | S | P | U, Unset::Absent),
        Attribute::new("status", F | S, Unset::Text("DOWN")),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("qos_policy_id", P | U, Unset::Null),
        Attribute::new("port_details", 0, Unset::Absent),
        Attribute::new("dns_domain", P, Unset::Text("")),
        Attribute::new("dns_name", P, Unset::Text("")),
        Attribute::new("port_forwardings", 0, Unset::Absent),
        Attribute::new("tags", F, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
    ],
};

impl Row for FloatingIp {
    const KIND: &'static Kind = &KIND;

    stored!(floating_ips, FloatingIp);

    fn index(&self, indexes: &mut Indexes, present: bool) {
        indexes
            .floating_ips_by_network
            .set(&self.network, self.meta.id, present);
        if let Some(port) = self.port {
            indexes
                .floating_ips_by_port
                .set(&port, self.meta.id, present);
        }
    }

    fn attribute(&self, name: &str, scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "floating_ip_address" => self.address.to_string().into(),
            "floating_network_id" => self.network.to_string().into(),
            "router_id" => self.router(scope.store).map(|id| id.to_string()).into(),
            "port_id" => self.port.map(|id| id.to_string()).into(),
            "fixed_ip_address" => self.fixed.map(|ip| ip.to_string()).into(),
            "port_details" => match self.port.and_then(|id| scope.store.get::<Port>(id)) {
                None => Value::Null,
                Some(port) => json!({
                    "name": port.meta.name,
                    "network_id": port.network,
                    "mac_address": port.attribute("mac_address", scope),
                    "admin_state_up": port.admin_state_up,
                    "status": "DOWN",
                    "device_id": port.device_id,
                    "device_owner": port.device_owner,
                }),
            },
            "port_forwardings" => forwardings(scope.store, self.meta.id)
                .map(|forwarding| {
                    json!({
                        "id": forwarding.meta.id,
                        "protocol": forwarding.protocol,
                        "internal_ip_address": forwarding.internal_ip.to_string(),
                        "internal_port_id": forwarding.internal_port_id,
                        "internal_port": forwarding.internal_port,
                        "external_port": forwarding.external_port,
                    })
                })
                .collect(),
            _ => return None,
        })
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.network);
        names.swap(&mut self.own_port);
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        qos::check(session, body)?;
        let network = session.referred::<Network>(body, "floating_network_id")?;
        if !network.external {
            return Err(bad_floating_ip(&format!(
                "Network {} is not a valid external network.",
                network.meta.id
            )));
        }
        let meta = session.meta::<Self>(body)?;
        let id = meta.id;
        let fixed_ips = session.free_addresses(network.meta.id)?;
        let Some((_, address)) = fixed_ips.first().copied() else {
            return Err(addresses::no_more_addresses(network.meta.id));
        };
        let port = Port {
            network: network.meta.id,
            mac: session.random_mac(),
            admin_state_up: true,
            device_id: id.to_string(),
            device_owner: FLOATING_IP.to_owned(),
            fixed_ips,
            groups: Vec::new(),
            meta: session.new_meta::<Port>("".into()),
        };
        let own_port = session.insert(port);
        session.insert(Self {
            meta,
            network: network.meta.id,
            address,
            own_port,
            port: None,
            fixed: None,
            via: None,
        });
        if body.get("port_id").is_some_and(|port| !port.is_null()) {
            associate(session, id, body)?;
        }
        Ok(id)
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        qos::check(session, body)?;
        match body.get("port_id") {
            None => Ok(()),
            Some(Value::Null) => {
                session.edit(id, Self::disassociate);
                Ok(())
            }
            Some(_) => associate(session, id, body),
        }
    }

    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        if forwardings(session.store(), self.meta.id).next().is_some() {
            return Err(in_use_by_forwarding(self.meta.id));
        }
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        if let Some(ip) = session.take::<Self>(id) {
            session.take::<Port>(ip.own_port);
        }
    }
}

impl FloatingIp {
    pub(super) fn disassociate(&mut self) {
        self.port = None;
        self.fixed = None;
        self.via = None;
    }

    /// Returns the router of the association, or of the forwardings.
    pub(super) fn router(&self, store: &Store) -> Option<Uuid> {
        self.via.or_else(|| {
            forwardings(store, self.meta.id)
                .next()
                .map(|forwarding| forwarding.router)
        })
    }

    /// Returns the internal addresses that it leads to.
    pub(super) fn inside_addresses(&self, store: &Store) -> Vec<IpAddr> {
        forwardings(store, self.meta.id)
            .map(|forwarding| forwarding.internal_ip)
            .chain(self.fixed)
            .collect()
    }
}

pub(super) fn forwardings(store: &Store, ip: Uuid) -> impl Iterator<Item = &Forwarding> {
    store
        .indexes()
        .forwardings_by_floating_ip
        .of(&ip)
        .filter_map(|id| store.get::<Forwarding>(id))
}

fn bad_floating_ip(message: &str) -> Refusal {
    Refusal::bad_request("BadRequest", format!("Bad floatingip request: {message}"))
}

fn in_use_by_forwarding(id: Uuid) -> Refusal {
    Refusal::conflict(
        "FipInUseByPortForwarding",
        format!("Floating IP {id} in use by Port Forwarding resources."),
    )
}

fn associate(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
    let port = session.referred::<Port>(body, "port_id")?;
    let ip = session.row::<FloatingIp>(id)?.clone();
    let wanted = body::text(body, "fixed_ip_address")?;
    let Some((subnet, fixed)) = port
        .fixed_ips
        .iter()
        .find(|(_, fixed)| wanted.is_none_or(|wanted| fixed.to_string() == wanted))
        .copied()
    else {
        return Err(bad_floating_ip(&format!(
            "Cannot add floating IP to port {} that has no fixed IPv4 addresses.",
            port.meta.id
        )));
    };
    if forwardings(session.store(), id).next().is_some() {
        return Err(in_use_by_forwarding(id));
    }
    let taken = session
        .store()
        .indexes()
        .floating_ips_by_port
        .of(&port.meta.id)
        .filter_map(|other| session.store().get::<FloatingIp>(other))
        .any(|other| {
            other.meta.id != id && other.fixed == Some(fixed) && other.network == ip.network
        });
    if taken {
        return Err(Refusal::conflict(
            "FloatingIPPortAlreadyAssociated",
            format!(
                "Cannot associate floating IP {} ({}) with port {} using fixed IP {fixed}, as that \
                 fixed IP already has a floating IP on external network {}.",
                ip.address, ip.meta.id, port.meta.id, ip.network
            ),
        ));
    }
    let via = reach(session, &port, subnet, ip.network)?;
    session.edit(id, |ip: &mut FloatingIp| {
        ip.port = Some(port.meta.id);
        ip.fixed = Some(fixed);
        ip.via = Some(via);
    });
    Ok(())
}

pub(super) fn reach(
    session: &Session<'_>,
    port: &Port,
    subnet: Uuid,
    external: Uuid,
) -> Result<Uuid> {
    routers::leading_to(session.store(), subnet, external).ok_or_else(|| {
        Refusal::not_found(
            "ExternalGatewayForFloatingIPNotFound",
            format!(
                "External network {external} is not reachable from subnet {subnet}.  Therefore, \
                 cannot associate Port {} with a Floating IP.",
                port.meta.id
            ),
        )
    })
}
