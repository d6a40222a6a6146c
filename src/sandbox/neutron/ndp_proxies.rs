//! NDP proxies, which announce a port's IPv6 address on the external network of a router.
use std::net::IpAddr;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::kind::{Attribute, Kind, Meta, P, Row, U, Unset, stored};
use super::ports::Port;
use super::revival::Renamed;
use super::routers::{Router, connected};
use super::{Scope, Session, body};
use crate::sandbox::wire::{Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct NdpProxy {
    pub(super) meta: Meta,
    pub(super) router: Uuid,
    pub(super) port: Uuid,
    pub(super) address: IpAddr,
}

static KIND: Kind = Kind {
    singular: "ndp_proxy",
    plural: "ndp_proxies",
    not_found: "NDPProxyNotFound",
    before: "Ndp proxy ",
    after: " could not be found.",
    bulk: false,
    first_revision: Some(0),
    forgets_marker: true,
    // This kind refuses every filter.
    attributes: &[
        Attribute::new("id", 0, Unset::Absent),
        Attribute::new("name", P | U, Unset::Absent),
        Attribute::new("project_id", P, Unset::Absent),
        Attribute::new("router_id", P, Unset::Absent),
        Attribute::new("port_id", P, Unset::Absent),
        Attribute::new("ip_address", P, Unset::Absent),
        Attribute::new("description", P | U, Unset::Absent),
        Attribute::new("revision_number", 0, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("tenant_id", P, Unset::Absent),
    ],
};

impl Row for NdpProxy {
    const KIND: &'static Kind = &KIND;

    stored!(ndp_proxies, NdpProxy);

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "router_id" => self.router.to_string().into(),
            "port_id" => self.port.to_string().into(),
            "ip_address" => self.address.to_string().into(),
            _ => return None,
        })
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.router);
        names.swap(&mut self.port);
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let port = session.referred::<Port>(body, "port_id")?;
        let wanted = body::required(body, "router_id")?;
        let router = session.named::<Router>(wanted).ok();
        let store = session.store();
        let reached = router.and_then(|router| {
            let mut behind = port.fixed_ips.iter().filter(|(_, ip)| ip.is_ipv6());
            behind.find(|(subnet, _)| connected(store, router).any(|it| it.meta.id == *subnet))
        });
        let (Some(router), Some((_, address))) = (router, reached.copied()) else {
            return Err(Refusal::conflict(
                "PortUnreachableRouter",
                format!(
                    "The port {} cannot reach the router {wanted} by IPv6 subnet.",
                    port.meta.id
                ),
            ));
        };
        if router.meta.more.get("enable_ndp_proxy") != Some(&Value::Bool(true)) {
            return Err(Refusal::conflict(
                "RouterNDPProxyNotEnable",
                format!(
                    "The enable_ndp_proxy parameter of router {wanted} must be set as True while create ndp proxy entry on it."
                ),
            ));
        }
        let proxy = Self {
            router: router.meta.id,
            port: port.meta.id,
            address,
            meta: session.meta::<Self>(body)?,
        };
        Ok(session.insert(proxy))
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
}
