//! Networks.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::floating_ips::FloatingIp;
use super::kind::{A, Attribute, F, Kind, Meta, P, Row, S, U, Unset, W, stored};
use super::pools::RbacPolicy;
use super::ports::Port;
use super::segments::{self, Segment};
use super::subnets::Subnet;
use super::{Scope, Session, body, qos};
use crate::sandbox::wire::{Refusal, Result};

/// Owners of the ports that Neutron deletes with their network.
const AUTO_DELETE_OWNERS: [&str; 3] = [
    "network:dhcp",
    "network:distributed",
    "network:floatingip_agent_gateway",
];

pub(super) fn goes_by_itself(device_owner: &str) -> bool {
    AUTO_DELETE_OWNERS.contains(&device_owner)
}

#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) meta: Meta,
    pub(super) admin_state_up: bool,
    pub(super) shared: bool,
    pub(super) external: bool,
    pub(super) segmentation_id: u32,
}

static KIND: Kind = Kind {
    singular: "network",
    plural: "networks",
    not_found: "NetworkNotFound",
    before: "Network ",
    after: " could not be found.",
    bulk: true,
    first_revision: Some(1),
    forgets_marker: false,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("admin_state_up", F | S | P | U, Unset::Absent),
        Attribute::new("mtu", F | S | P | U, Unset::Number(1450)),
        Attribute::new("status", F | S, Unset::Text("ACTIVE")),
        Attribute::new("subnets", 0, Unset::List),
        Attribute::new("shared", F | P | U | W, Unset::Absent),
        Attribute::new("availability_zone_hints", S | P, Unset::List),
        Attribute::new("availability_zones", 0, Unset::List),
        Attribute::new("ipv4_address_scope", 0, Unset::Null),
        Attribute::new("ipv6_address_scope", 0, Unset::Null),
        Attribute::new("router:external", F | P | U | W, Unset::Absent),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("port_security_enabled", P | U, Unset::Flag(true)),
        Attribute::new("qos_policy_id", P | U, Unset::Null),
        Attribute::new("dns_domain", P | U, Unset::Text("")),
        Attribute::new("l2_adjacency", 0, Unset::Flag(true)),
        Attribute::new("is_default", F | P | U | W, Unset::Absent),
        Attribute::new("tags", F, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
        Attribute::new(
            "provider:network_type",
            F | P | U | A | W,
            Unset::Text("vxlan"),
        ),
        Attribute::new("provider:physical_network", F | P | U | A | W, Unset::Null),
        Attribute::new("provider:segmentation_id", F | P | U | A | W, Unset::Absent),
    ],
};

impl Row for Network {
    const KIND: &'static Kind = &KIND;

    stored!(networks, Network);

    fn attribute(&self, name: &str, scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "admin_state_up" => self.admin_state_up.into(),
            "shared" => (self.shared || self.granted(scope)).into(),
            "router:external" => self.external.into(),
            // Only external networks show it.
            "is_default" if self.external => false.into(),
            "subnets" => scope
                .store
                .indexes()
                .subnets_by_network
                .of(&self.meta.id)
                .map(|id| id.to_string())
                .collect(),
            "provider:segmentation_id" => self.segmentation_id.into(),
            _ => return None,
        })
    }

    fn visible(&self, scope: &Scope<'_>) -> bool {
        scope.caller.owns(&self.meta.project) || self.shared || self.external || self.granted(scope)
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        qos::check(session, body)?;
        let network = Self {
            admin_state_up: body::flag(body, "admin_state_up")?.unwrap_or(true),
            shared: body::flag(body, "shared")?.unwrap_or(false),
            external: body::flag(body, "router:external")?.unwrap_or(false),
            segmentation_id: session.next_segment(),
            meta: session.meta::<Self>(body)?,
        };
        let segment = segments::first_of(&network);
        session.insert(segment);
        Ok(session.insert(network))
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        qos::check(session, body)?;
        let admin_state_up = body::flag(body, "admin_state_up")?;
        let shared = body::flag(body, "shared")?;
        let external = body::flag(body, "router:external")?;
        session.edit(id, |network: &mut Self| {
            network.admin_state_up = admin_state_up.unwrap_or(network.admin_state_up);
            network.shared = shared.unwrap_or(network.shared);
            network.external = external.unwrap_or(network.external);
        });
        Ok(())
    }

    /// Refuses while the network has a port of an owner outside `AUTO_DELETE_OWNERS`. An external network's
    /// free floating IPs are deleted first, **even if the deletion of the network is then refused**: Neutron
    /// does that in a separate transaction.
    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let id = self.meta.id;
        if self.external {
            let free: Vec<Uuid> = session
                .store()
                .indexes()
                .floating_ips_by_network
                .of(&id)
                .filter(|ip| {
                    session
                        .store()
                        .get::<FloatingIp>(*ip)
                        .is_some_and(|ip| ip.port.is_none() && ip.router(session.store()).is_none())
                })
                .collect();
            for ip in free {
                FloatingIp::delete(session, ip);
            }
            session.commit();
        }
        let blocking: Vec<String> = session
            .store()
            .indexes()
            .ports_by_network
            .of(&id)
            .filter_map(|port| session.store().get::<Port>(port))
            .filter(|port| !goes_by_itself(&port.device_owner))
            .map(|port| port.meta.id.to_string())
            .collect();
        if blocking.is_empty() {
            return Ok(());
        }
        Err(Refusal::conflict(
            "NetworkInUse",
            format!(
                "Unable to complete operation on network {id}. There are one or more ports still \
                 in use on the network, id for these ports is: {}.",
                blocking.join(",")
            ),
        ))
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        let indexes = session.store().indexes();
        let ports: Vec<Uuid> = indexes.ports_by_network.of(&id).collect();
        let subnets: Vec<Uuid> = indexes.subnets_by_network.of(&id).collect();
        let policies: Vec<Uuid> = indexes.policies_by_object.of(&id).collect();
        let segments: Vec<Uuid> = indexes.segments_by_network.of(&id).collect();
        for port in ports {
            Port::delete(session, port);
        }
        for subnet in subnets {
            session.take::<Subnet>(subnet);
        }
        for segment in segments {
            session.take::<Segment>(segment);
        }
        for policy in policies {
            session.take::<RbacPolicy>(policy);
        }
        session.take::<Self>(id);
    }
}

impl Network {
    /// Whether an RBAC policy shares it with the caller's project, or with all projects.
    fn granted(&self, scope: &Scope<'_>) -> bool {
        scope
            .store
            .indexes()
            .policies_by_object
            .of(&self.meta.id)
            .filter_map(|id| scope.store.get::<RbacPolicy>(id))
            .any(|policy| policy.target == "*" || *policy.target == *scope.caller.project)
    }
}
