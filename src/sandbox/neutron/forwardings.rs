//! Port forwardings, which live below their floating IP.
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::floating_ips::{FloatingIp, reach};
use super::kind::{self, Attribute, F, Kind, Meta, P, Row, S, U, Unset, stored};
use super::ports::Port;
use super::resource::{attributes_in, resource};
use super::store::Indexes;
use super::{Scope, Session, body};
use crate::sandbox::wire::{Answer, Call, Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct Forwarding {
    pub(super) meta: Meta,
    pub(super) floating_ip: Uuid,
    pub(super) router: Uuid,
    pub(super) protocol: String,
    pub(super) internal_port_id: Uuid,
    pub(super) internal_ip: IpAddr,
    pub(super) internal_port: u16,
    pub(super) external_port: u16,
}

static KIND: Kind = Kind {
    singular: "port_forwarding",
    plural: "port_forwardings",
    not_found: "PortForwardingNotFound",
    before: "Port Forwarding ",
    after: " could not be found.",
    bulk: false,
    first_revision: None,
    forgets_marker: false,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("external_port", F | S | P | U, Unset::Absent),
        Attribute::new("external_port_range", P | U, Unset::Absent),
        Attribute::new("protocol", F | S | P | U, Unset::Absent),
        Attribute::new("internal_port_id", F | S | P | U, Unset::Absent),
        Attribute::new("internal_ip_address", F | S | P | U, Unset::Absent),
        Attribute::new("internal_port", F | P | U, Unset::Absent),
        Attribute::new("internal_port_range", P | U, Unset::Absent),
        Attribute::new("description", P | U, Unset::Absent),
    ],
};

impl Row for Forwarding {
    const KIND: &'static Kind = &KIND;

    stored!(forwardings, Forwarding);

    fn index(&self, indexes: &mut Indexes, present: bool) {
        let id = self.meta.id;
        indexes
            .forwardings_by_floating_ip
            .set(&self.floating_ip, id, present);
        indexes
            .forwardings_by_port
            .set(&self.internal_port_id, id, present);
    }

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "external_port" => self.external_port.into(),
            "external_port_range" => format!("{0}:{0}", self.external_port).into(),
            "protocol" => self.protocol.as_str().into(),
            "internal_port_id" => self.internal_port_id.to_string().into(),
            "internal_ip_address" => self.internal_ip.to_string().into(),
            "internal_port" => self.internal_port.into(),
            "internal_port_range" => format!("{0}:{0}", self.internal_port).into(),
            _ => return None,
        })
    }

    /// The body has the floating IP as `floatingip_id`, copied there from the path.
    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let floating = session.referred::<FloatingIp>(body, "floatingip_id")?;
        let port = session.referred::<Port>(body, "internal_port_id")?;
        if floating.port.is_some() {
            return Err(Refusal::conflict(
                "PortHasBindingFloatingIP",
                format!(
                    "Cannot create port forwarding to floating IP {} ({}) with port {} using fixed \
                     IP {}, as that floating IP is already associated.",
                    floating.address,
                    floating.meta.id,
                    port.meta.id,
                    body::text(body, "internal_ip_address")?.unwrap_or_default(),
                ),
            ));
        }
        let wanted = body::text(body, "internal_ip_address")?;
        let Some((subnet, internal_ip)) = port
            .fixed_ips
            .iter()
            .find(|(_, ip)| wanted.is_none_or(|wanted| ip.to_string() == wanted))
            .copied()
        else {
            return Err(Refusal::bad_request(
                "BadRequest",
                "Bad port_forwarding request: Requested internal IP address is not a fixed IP of the internal port.",
            ));
        };
        let number = |name: &str| {
            body.get(name)
                .and_then(Value::as_u64)
                .and_then(|port| u16::try_from(port).ok())
                .filter(|port| *port > 0)
                .ok_or_else(|| body::invalid(name, "it is not a valid port number."))
        };
        let forwarding = Self {
            floating_ip: floating.meta.id,
            router: reach(session, &port, subnet, floating.network)?,
            protocol: body::text(body, "protocol")?.unwrap_or("tcp").to_owned(),
            internal_port_id: port.meta.id,
            internal_ip,
            internal_port: number("internal_port")?,
            external_port: number("external_port")?,
            meta: session.meta::<Self>(body)?,
        };
        let id = session.insert(forwarding);
        session.bump::<FloatingIp>(floating.meta.id);
        Ok(id)
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        let number = |name: &str| {
            body.get(name)
                .and_then(Value::as_u64)
                .and_then(|port| u16::try_from(port).ok())
        };
        let protocol = body::text(body, "protocol")?.map(str::to_owned);
        session.edit(id, |forwarding: &mut Self| {
            forwarding.external_port = number("external_port").unwrap_or(forwarding.external_port);
            forwarding.internal_port = number("internal_port").unwrap_or(forwarding.internal_port);
            if let Some(protocol) = protocol {
                forwarding.protocol = protocol;
            }
        });
        Ok(())
    }

    fn deletable(&self, _session: &mut Session<'_>) -> Result<()> {
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }
}

/// Handles the port forwardings below a floating IP, the only path to them.
pub(super) fn below(
    session: &mut Session<'_>,
    call: &Call<'_>,
    ip: &str,
    path: &[&str],
) -> Result<Answer> {
    let ip = session.named::<FloatingIp>(ip)?.meta.id;
    let here = |session: &Session<'_>, text: &str| {
        session
            .named::<Forwarding>(text)
            .ok()
            .filter(|forwarding| forwarding.floating_ip == ip)
            .map(|forwarding| forwarding.meta.id)
            .ok_or_else(|| Forwarding::KIND.missing(text))
    };
    match (call.method.as_str(), path) {
        ("GET", []) => {
            let scope = session.scope();
            let all: Value = scope
                .store
                .indexes()
                .forwardings_by_floating_ip
                .of(&ip)
                .filter_map(|id| scope.store.get::<Forwarding>(id))
                .map(|forwarding| kind::view(forwarding, &[], &scope))
                .collect();
            Ok(Answer::ok(json!({"port_forwardings": all})))
        }
        ("POST", []) => {
            if !session.caller.writes() {
                return Err(session.forbidden("create_floatingip_port_forwarding"));
            }
            let body = call.json();
            let mut attributes = attributes_in::<Forwarding>(&body)?
                .as_object()
                .cloned()
                .unwrap_or_default();
            body::checked(Forwarding::KIND, &attributes, true, false, session.caller)?;
            attributes.insert("floatingip_id".to_owned(), ip.to_string().into());
            let id = Forwarding::create(session, &attributes)?;
            Ok(Answer::created(
                json!({"port_forwarding": session.shown::<Forwarding>(id)}),
            ))
        }
        (_, [id]) => {
            here(session, id)?;
            resource::<Forwarding>(session, call, path)
        }
        _ => Err(session.no_such_path()),
    }
}
