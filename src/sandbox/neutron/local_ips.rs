//! Local IPs, and their associations with ports, which live below them.
use std::net::IpAddr;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::kind::{Attribute, F, Kind, Meta, P, Row, S, U, Unset, stored};
use super::networks::Network;
use super::ports::{LOCAL_IP, Port};
use super::resource::{attributes_in, rows_below};
use super::revival::Renamed;
use super::{Scope, Session, addresses, body};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct LocalIp {
    pub(super) meta: Meta,
    /// The port whose address it has: its own, or one that the user named.
    pub(super) port: Uuid,
    network: Uuid,
    address: IpAddr,
}

static KIND: Kind = Kind {
    singular: "local_ip",
    plural: "local_ips",
    not_found: "LocalIPNotFound",
    before: "Local IP ",
    after: " could not be found.",
    bulk: true,
    first_revision: Some(0),
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("description", F | S | P | U, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("local_port_id", F | S | P, Unset::Absent),
        Attribute::new("network_id", F | S | P, Unset::Absent),
        Attribute::new("local_ip_address", F | S | P, Unset::Absent),
        Attribute::new("ip_mode", F | S | P | U, Unset::Text("translate")),
        Attribute::new("revision_number", F, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
    ],
};

impl Row for LocalIp {
    const KIND: &'static Kind = &KIND;

    stored!(local_ips, LocalIp);

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "local_port_id" => self.port.to_string().into(),
            "network_id" => self.network.to_string().into(),
            "local_ip_address" => self.address.to_string().into(),
            _ => return None,
        })
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.port);
        names.swap(&mut self.network);
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        if let Some(text) = body::text(body, "local_port_id")? {
            let port = session.named::<Port>(text).cloned();
            let port = port.map_err(|_| bad_local_ip(&format!("Port {text} not found.")))?;
            let Some((_, address)) = port.fixed_ips.first().copied() else {
                return Err(addresses::no_more_addresses(port.network));
            };
            let local_ip = Self {
                port: port.meta.id,
                network: port.network,
                address,
                meta: session.meta::<Self>(body)?,
            };
            return Ok(session.insert(local_ip));
        }
        if body::text(body, "network_id")?.is_none() {
            return Err(Refusal::bad_request(
                "LocalIPPortOrNetworkRequired",
                "Either Port ID or Network ID must be specified for Local IP create.",
            ));
        }
        let network = session.referred::<Network>(body, "network_id")?.meta.id;
        let meta = session.meta::<Self>(body)?;
        let fixed_ips = session.free_addresses(network)?;
        let Some((_, address)) = fixed_ips.first().copied() else {
            return Err(addresses::no_more_addresses(network));
        };
        let port = Port {
            network,
            mac: session.random_mac(),
            admin_state_up: true,
            device_id: meta.id.to_string(),
            device_owner: LOCAL_IP.to_owned(),
            fixed_ips,
            groups: Vec::new(),
            meta: session.new_meta::<Port>(meta.project.clone()),
        };
        let port = session.insert(port);
        Ok(session.insert(Self {
            meta,
            port,
            network,
            address,
        }))
    }

    fn update(_: &mut Session<'_>, _: Uuid, _: &Map<String, Value>) -> Result<()> {
        Ok(())
    }

    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let id = self.meta.id;
        let mut associations = session.store().all::<Association>().values();
        if associations.any(|association| association.local_ip == id) {
            return Err(Refusal::conflict(
                "LocalIPInUse",
                format!("Local IP {id} is still associated with one or more ports."),
            ));
        }
        Ok(())
    }

    /// Deletes the local IP and the port that was created for it.
    fn delete(session: &mut Session<'_>, id: Uuid) {
        let Some(local_ip) = session.take::<Self>(id) else {
            return;
        };
        let port = session.store().get::<Port>(local_ip.port);
        if port.is_some_and(|port| port.device_owner == LOCAL_IP) {
            Port::delete(session, local_ip.port);
        }
    }
}

fn bad_local_ip(message: &str) -> Refusal {
    Refusal::bad_request("BadRequest", format!("Bad local_ip request: {message}"))
}

/// An association of a local IP with a port, which together identify it: its own id is never shown.
#[derive(Clone, Debug)]
pub(super) struct Association {
    pub(super) meta: Meta,
    local_ip: Uuid,
    pub(super) port: Uuid,
    fixed_ip: IpAddr,
}

static ASSOCIATION: Kind = Kind {
    singular: "port_association",
    plural: "port_associations",
    not_found: "LocalIPAssociationNotFound",
    before: "Local IP association ",
    after: " could not be found.",
    bulk: false,
    first_revision: None,
    forgets_marker: true,
    attributes: &[
        Attribute::new("local_ip_id", F, Unset::Absent),
        Attribute::new("fixed_port_id", F | P, Unset::Absent),
        Attribute::new("fixed_ip", F | P, Unset::Absent),
        Attribute::new("local_ip_address", 0, Unset::Absent),
        Attribute::new("host", 0, Unset::Text("")),
    ],
};

impl Row for Association {
    const KIND: &'static Kind = &ASSOCIATION;

    stored!(associations, Association);

    fn attribute(&self, name: &str, scope: &Scope<'_>) -> Option<Value> {
        let local_ip = || scope.store.get::<LocalIp>(self.local_ip);
        Some(match name {
            "local_ip_id" => self.local_ip.to_string().into(),
            "fixed_port_id" => self.port.to_string().into(),
            "fixed_ip" => self.fixed_ip.to_string().into(),
            "local_ip_address" => local_ip()?.address.to_string().into(),
            _ => return None,
        })
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.local_ip);
        names.swap(&mut self.port);
    }

    /// The body has the local IP as `local_ip_id`, copied there from the path.
    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let port = body::required(body, "fixed_port_id")?;
        // Neutron answers 500 if the port or the local IP does not exist.
        let port = session.named::<Port>(port).cloned();
        let port = port.map_err(|_| session.internal_error())?;
        let local_ip = body::required(body, "local_ip_id")?;
        let local_ip = session.named::<LocalIp>(local_ip).map(|it| it.meta.id);
        let local_ip = local_ip.map_err(|_| session.internal_error())?;
        let mut all = session.store().all::<Self>().values();
        if all.any(|other| other.port == port.meta.id && other.local_ip == local_ip) {
            return Err(session.internal_error());
        }
        let Some((_, fixed_ip)) = port.fixed_ips.first().copied() else {
            return Err(session.internal_error());
        };
        let association = Self {
            local_ip,
            port: port.meta.id,
            fixed_ip,
            meta: session.new_meta::<Self>(session.caller.project.clone()),
        };
        Ok(session.insert(association))
    }

    fn update(_: &mut Session<'_>, _: Uuid, _: &Map<String, Value>) -> Result<()> {
        Ok(())
    }

    fn deletable(&self, _session: &mut Session<'_>) -> Result<()> {
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }

    fn visible(&self, scope: &Scope<'_>) -> bool {
        let local_ip = scope.store.get::<LocalIp>(self.local_ip);
        local_ip.is_some_and(|local_ip| local_ip.visible(scope))
    }
}

/// Handles `/local_ips/{id}/port_associations` and everything below.
pub(super) fn associations(
    session: &mut Session<'_>,
    call: &Call<'_>,
    local_ip: &str,
    path: &[&str],
) -> Result<Answer> {
    let here = |row: &Association| row.local_ip.to_string() == local_ip;
    match (call.method.as_str(), path) {
        ("GET", []) => rows_below(session, call, here).map(Answer::ok),
        ("POST", []) => {
            let body = call.json();
            let mut attributes = attributes_in::<Association>(&body)?
                .as_object()
                .cloned()
                .unwrap_or_default();
            body::checked(&ASSOCIATION, &attributes, true, false, session.caller)?;
            attributes.insert("local_ip_id".to_owned(), local_ip.into());
            let id = Association::create(session, &attributes)?;
            let shown = session.shown::<Association>(id);
            Ok(Answer::created(
                serde_json::json!({"port_association": shown}),
            ))
        }
        (method @ ("GET" | "DELETE"), [port]) => {
            let mut all = session.store().all::<Association>().values();
            let found = all.find(|row| here(row) && row.port.to_string() == **port);
            let found = found.filter(|row| row.visible(&session.scope()));
            let Some(id) = found.map(|row| row.meta.id) else {
                return Err(Refusal::not_found(
                    ASSOCIATION.not_found,
                    format!("Local IP {local_ip} association with port {port} could not be found."),
                ));
            };
            if method == "DELETE" {
                Association::delete(session, id);
                return Ok(Answer::no_content());
            }
            let shown = session.shown::<Association>(id);
            Ok(Answer::ok(serde_json::json!({"port_association": shown})))
        }
        _ => Err(session.no_such_path()),
    }
}
