//! Ports.
use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::floating_ips::FloatingIp;
use super::forwardings::Forwarding;
use super::groups::{self, Group};
use super::kind::{A, Attribute, F, Kind, Meta, P, Row, S, U, Unset, W, stored};
use super::local_ips::{Association, LocalIp};
use super::ndp_proxies::NdpProxy;
use super::networks::Network;
use super::revival::Renamed;
use super::routers::Router;
use super::store::Indexes;
use super::trunks::Trunk;
use super::{Scope, Session, body, qos};
use crate::sandbox::wire::{Refusal, Result};

pub(super) const ROUTER_INTERFACE: &str = "network:router_interface";
pub(super) const ROUTER_GATEWAY: &str = "network:router_gateway";
pub(super) const FLOATING_IP: &str = "network:floatingip";
pub(super) const LOCAL_IP: &str = "network:local_ip";

/// Owners whose ports can be deleted only by the calls of their router or floating IP.
const ROUTER_OWNERS: [&str; 7] = [
    ROUTER_INTERFACE,
    "network:router_ha_interface",
    "network:ha_router_replicated_interface",
    "network:router_interface_distributed",
    ROUTER_GATEWAY,
    FLOATING_IP,
    "network:router_centralized_snat",
];

#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) meta: Meta,
    pub(super) network: Uuid,
    pub(super) mac: [u8; 6],
    pub(super) admin_state_up: bool,
    pub(super) device_id: String,
    pub(super) device_owner: String,
    /// Subnet and address.
    pub(super) fixed_ips: Vec<(Uuid, IpAddr)>,
    pub(super) groups: Vec<Uuid>,
}

static KIND: Kind = Kind {
    singular: "port",
    plural: "ports",
    not_found: "PortNotFound",
    before: "Port ",
    after: " could not be found.",
    bulk: true,
    first_revision: Some(1),
    forgets_marker: false,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("network_id", F | S | P, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("mac_address", F | S | P | U, Unset::Absent),
        Attribute::new("admin_state_up", F | S | P | U, Unset::Absent),
        Attribute::new("status", F | S, Unset::Absent),
        Attribute::new("device_id", F | S | P | U, Unset::Absent),
        Attribute::new("device_owner", F | S | P | U, Unset::Absent),
        Attribute::new("fixed_ips", F | P | U, Unset::Absent),
        Attribute::new("allowed_address_pairs", P | U, Unset::List),
        Attribute::new("extra_dhcp_opts", P | U, Unset::List),
        Attribute::new("security_groups", F | P | U, Unset::Absent),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("binding:vnic_type", P | U, Unset::Text("normal")),
        Attribute::new("binding:profile", P | U | A | W, Unset::Object),
        Attribute::new("binding:host_id", F | P | U | A | W, Unset::Text("")),
        Attribute::new("binding:vif_type", A, Unset::Text("unbound")),
        Attribute::new("binding:vif_details", A, Unset::Object),
        Attribute::new("port_security_enabled", P | U, Unset::Absent),
        Attribute::new("qos_policy_id", P | U, Unset::Null),
        Attribute::new("qos_network_policy_id", 0, Unset::Absent),
        Attribute::new("dns_name", P | U, Unset::Text("")),
        Attribute::new("dns_assignment", 0, Unset::Absent),
        Attribute::new("trunk_details", 0, Unset::Absent),
        Attribute::new("resource_request", A, Unset::Null),
        Attribute::new("ip_allocation", F | S, Unset::Text("immediate")),
        // Accepted at creation but ignored: Neutron stores tags only with `PUT …/tags`.
        Attribute::new("tags", F | P, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
    ],
};

impl Row for Port {
    const KIND: &'static Kind = &KIND;

    stored!(ports, Port);

    fn index(&self, indexes: &mut Indexes, present: bool) {
        let id = self.meta.id;
        indexes.ports_by_network.set(&self.network, id, present);
        if !self.device_id.is_empty() {
            indexes.ports_by_device.set(&self.device_id, id, present);
        }
        for group in &self.groups {
            indexes.ports_by_group.set(group, id, present);
        }
        for (subnet, ip) in &self.fixed_ips {
            let used = indexes.addresses.entry(*subnet).or_default();
            if present {
                used.insert(*ip, id);
            } else {
                used.remove(ip);
            }
        }
    }

    fn attribute(&self, name: &str, scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "network_id" => self.network.to_string().into(),
            "mac_address" => self.mac_text().into(),
            "admin_state_up" => self.admin_state_up.into(),
            "status" => self.status().into(),
            "device_id" => self.device_id.as_str().into(),
            "device_owner" => self.device_owner.as_str().into(),
            "fixed_ips" => self
                .fixed_ips
                .iter()
                .map(|(subnet, ip)| json!({"subnet_id": subnet, "ip_address": ip.to_string()}))
                .collect(),
            "security_groups" => self.groups.iter().map(Uuid::to_string).collect(),
            "port_security_enabled" if !self.meta.more.contains_key(name) => {
                (!self.trusted()).into()
            }
            "qos_network_policy_id" => scope
                .store
                .get::<Network>(self.network)
                .and_then(|network| network.meta.more.get("qos_policy_id").cloned())
                .unwrap_or_default(),
            "dns_assignment" => self
                .fixed_ips
                .iter()
                .map(|(_, ip)| host_name(*ip))
                .collect(),
            "trunk_details" => self.trunk_details(scope)?,
            _ => return None,
        })
    }

    /// The owner of the network can see, change and delete all ports on it.
    fn visible(&self, scope: &Scope<'_>) -> bool {
        scope.caller.owns(&self.meta.project)
            || scope
                .store
                .get::<Network>(self.network)
                .is_some_and(|network| scope.caller.owns(&network.meta.project))
    }

    fn writable(&self, scope: &Scope<'_>) -> bool {
        self.visible(scope)
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.network);
        for (subnet, _) in &mut self.fixed_ips {
            names.swap(subnet);
        }
        if let Ok(mut device) = self.device_id.parse() {
            names.swap(&mut device);
            self.device_id = device.to_string();
        }
    }

    fn candidates(filters: &[(String, Vec<String>)], indexes: &Indexes) -> Option<BTreeSet<Uuid>> {
        let ids = |values: &[String]| -> Vec<Uuid> {
            values
                .iter()
                .filter_map(|value| value.parse().ok())
                .collect()
        };
        for (key, values) in filters {
            let found: BTreeSet<Uuid> = match key.as_str() {
                "network_id" => ids(values)
                    .iter()
                    .flat_map(|id| indexes.ports_by_network.of(id))
                    .collect(),
                "device_id" if values.iter().all(|value| !value.is_empty()) => values
                    .iter()
                    .flat_map(|value| indexes.ports_by_device.of(value.as_str()))
                    .collect(),
                "security_groups" => ids(values)
                    .iter()
                    .flat_map(|id| indexes.ports_by_group.of(id))
                    .collect(),
                "fixed_ips" if values.iter().all(|value| value.starts_with("subnet_id=")) => values
                    .iter()
                    .filter_map(|value| value.strip_prefix("subnet_id=")?.parse::<Uuid>().ok())
                    .filter_map(|id| indexes.addresses.get(&id))
                    .flat_map(|used| used.values().copied())
                    .collect(),
                _ => continue,
            };
            return Some(found);
        }
        None
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        qos::check(session, body)?;
        let network = session.referred::<Network>(body, "network_id")?;
        let device_owner = body::text(body, "device_owner")?
            .unwrap_or_default()
            .to_owned();
        let fixed_ips = match body.get("fixed_ips") {
            Some(Value::Array(wanted)) => {
                session.requested_addresses(network.meta.id, wanted, None)?
            }
            _ => session.free_addresses(network.meta.id)?,
        };
        let mut port = Self {
            network: network.meta.id,
            mac: session.mac(body, network.meta.id)?,
            admin_state_up: body::flag(body, "admin_state_up")?.unwrap_or(true),
            device_id: body::text(body, "device_id")?
                .unwrap_or_default()
                .to_owned(),
            device_owner,
            fixed_ips,
            groups: Vec::new(),
            meta: session.meta::<Self>(body)?,
        };
        port.groups = match body.get("security_groups") {
            Some(Value::Array(wanted)) => session.existing_groups(wanted)?,
            _ if port.trusted()
                || body.get("port_security_enabled") == Some(&Value::Bool(false)) =>
            {
                Vec::new()
            }
            _ => vec![groups::ensure_default(session, &port.meta.project.clone())],
        };
        Ok(session.insert(port))
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        qos::check(session, body)?;
        let Some(mut port) = session.store().get::<Self>(id).cloned() else {
            return Err(KIND.missing(id));
        };
        if let Some(Value::Array(wanted)) = body.get("fixed_ips") {
            port.fixed_ips = session.requested_addresses(port.network, wanted, Some(id))?;
        }
        if let Some(Value::Array(wanted)) = body.get("security_groups") {
            port.groups = session.existing_groups(wanted)?;
        }
        if body.contains_key("mac_address") {
            port.mac = session.mac(body, port.network)?;
        }
        if let Some(text) = body::text(body, "device_id")? {
            text.clone_into(&mut port.device_id);
        }
        if let Some(text) = body::text(body, "device_owner")? {
            text.clone_into(&mut port.device_owner);
        }
        port.admin_state_up = body::flag(body, "admin_state_up")?.unwrap_or(port.admin_state_up);
        session.put(port);
        Ok(())
    }

    /// Checks in Neutron's order: ports of routers and floating IPs, then trunks.
    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let id = self.meta.id;
        let services = ["compute:", "baremetal:", "manila:"];
        let serves = |service: &&str| self.device_owner.starts_with(*service);
        if !session.scope().caller.admin && services.iter().any(serves) {
            return Err(session.forbidden("delete_port"));
        }
        let store = session.store();
        if ROUTER_OWNERS.contains(&self.device_owner.as_str())
            && !self.fixed_ips.is_empty()
            && self.device_exists(&session.scope())
        {
            return Err(Refusal::conflict(
                "ServicePortInUse",
                format!(
                    "Port {id} cannot be deleted directly via the port API: has device owner {}.",
                    self.device_owner
                ),
            ));
        }
        if store.all::<LocalIp>().values().any(|it| it.port == id) {
            return Err(Refusal::conflict(
                "ServicePortInUse",
                format!(
                    "Port {id} cannot be deleted directly via the port API: still referenced by \
                     Local IPs."
                ),
            ));
        }
        if let Some(trunk) = store.indexes().trunks_by_parent.of(&id).next() {
            return Err(Refusal::conflict(
                "PortInUseAsTrunkParent",
                format!("Port {id} is currently a parent port for trunk {trunk}."),
            ));
        }
        if let Some(trunk) = store.indexes().trunks_by_subport.of(&id).next() {
            return Err(Refusal::conflict(
                "PortInUseAsSubPort",
                format!("Port {id} is currently a subport for trunk {trunk}."),
            ));
        }
        Ok(())
    }

    /// Floating IPs stay, without a port. Port forwardings, NDP proxies and associations of local IPs are
    /// deleted with the port.
    fn delete(session: &mut Session<'_>, id: Uuid) {
        let floating: Vec<Uuid> = session
            .store()
            .indexes()
            .floating_ips_by_port
            .of(&id)
            .collect();
        let forwardings: Vec<Uuid> = session
            .store()
            .indexes()
            .forwardings_by_port
            .of(&id)
            .collect();
        for ip in floating {
            session.edit(ip, FloatingIp::disassociate);
        }
        for forwarding in forwardings {
            session.take::<Forwarding>(forwarding);
        }
        let proxies = session.store().all::<NdpProxy>().values();
        let proxies = proxies.filter(|it| it.port == id).map(|it| it.meta.id);
        for proxy in proxies.collect::<Vec<_>>() {
            session.take::<NdpProxy>(proxy);
        }
        let associations = session.store().all::<Association>().values();
        let associations = associations.filter(|it| it.port == id);
        for association in associations.map(|it| it.meta.id).collect::<Vec<_>>() {
            session.take::<Association>(association);
        }
        session.take::<Self>(id);
    }
}

impl Port {
    fn mac_text(&self) -> String {
        let [a, b, c, d, e, f] = self.mac;
        format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }

    /// Whether it is one of the network's own ports, which get no security group.
    fn trusted(&self) -> bool {
        self.device_owner.starts_with("network:")
    }

    /// The sandbox has no agent that binds ports, so none is ever ACTIVE.
    fn status(&self) -> &'static str {
        if self.device_owner == FLOATING_IP && self.meta.project.is_empty() {
            "N/A"
        } else {
            "DOWN"
        }
    }

    pub(super) fn is_router_interface(&self) -> bool {
        let interfaces = ROUTER_OWNERS
            .iter()
            .filter(|owner| owner.contains("interface"));
        interfaces
            .chain([&"network:router_centralized_snat"])
            .any(|owner| *owner == self.device_owner)
    }

    fn device_exists(&self, scope: &Scope<'_>) -> bool {
        let Ok(device) = self.device_id.parse::<Uuid>() else {
            return false;
        };
        if self.device_owner == FLOATING_IP {
            scope.store.get::<FloatingIp>(device).is_some()
        } else {
            scope.store.get::<Router>(device).is_some()
        }
    }

    /// Shown only on the trunk's parent port; a subport shows nothing of its trunk.
    fn trunk_details(&self, scope: &Scope<'_>) -> Option<Value> {
        let id = scope
            .store
            .indexes()
            .trunks_by_parent
            .of(&self.meta.id)
            .next()?;
        let trunk = scope.store.get::<Trunk>(id)?;
        let subports: Value = trunk
            .subports
            .iter()
            .map(|sub| {
                json!({
                    "segmentation_id": sub.segmentation_id,
                    "segmentation_type": sub.segmentation_type,
                    "port_id": sub.port,
                    "mac_address": scope.store.get::<Self>(sub.port).map(Self::mac_text),
                })
            })
            .collect();
        Some(json!({"trunk_id": id, "sub_ports": subports}))
    }
}

fn host_name(ip: IpAddr) -> Value {
    let host = format!("host-{}", ip.to_string().replace(['.', ':'], "-"));
    json!({"ip_address": ip.to_string(), "hostname": host, "fqdn": format!("{host}.openstacklocal.")})
}

/// The checks of a port's body.
impl Session<'_> {
    fn existing_groups(&self, wanted: &[Value]) -> Result<Vec<Uuid>> {
        wanted
            .iter()
            .map(|value| {
                let text = value.as_str().unwrap_or_default();
                text.parse()
                    .ok()
                    .filter(|id| self.store().get::<Group>(*id).is_some())
                    .ok_or_else(|| Group::KIND.missing(text))
            })
            .collect()
    }

    fn mac(&mut self, body: &Map<String, Value>, network: Uuid) -> Result<[u8; 6]> {
        let Some(text) = body::text(body, "mac_address")? else {
            return Ok(self.random_mac());
        };
        let bytes: Vec<u8> = text
            .split(':')
            .filter_map(|part| u8::from_str_radix(part, 16).ok())
            .collect();
        let mac: [u8; 6] = bytes.try_into().map_err(|_| {
            body::invalid(
                "mac_address",
                &format!("'{text}' is not a valid MAC address."),
            )
        })?;
        let taken = self
            .store()
            .indexes()
            .ports_by_network
            .of(&network)
            .filter_map(|id| self.store().get::<Port>(id))
            .any(|port| port.mac == mac);
        if taken {
            return Err(Refusal::conflict(
                "MacAddressInUse",
                format!(
                    "Unable to complete operation for network {network}. The mac address {text} is in use."
                ),
            ));
        }
        Ok(mac)
    }
}
