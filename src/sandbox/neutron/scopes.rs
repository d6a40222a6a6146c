//! Address scopes, which keep the prefixes of their pools apart.

use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::kind::{Attribute, F, Kind, Meta, P, Row, S, U, Unset, W, stored};
use super::pools::Pool;
use super::{Scope, Session, body};
use crate::sandbox::wire::{Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct AddressScope {
    pub(super) meta: Meta,
    ip_version: u64,
}

static KIND: Kind = Kind {
    singular: "address_scope",
    plural: "address_scopes",
    not_found: "AddressScopeNotFound",
    before: "Address scope ",
    after: " could not be found.",
    bulk: false,
    first_revision: None,
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("shared", F | P | U | W, Unset::Flag(false)),
        Attribute::new("ip_version", F | S | P, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
    ],
};

impl Row for AddressScope {
    const KIND: &'static Kind = &KIND;

    stored!(scopes, Scope);

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        (name == "ip_version").then(|| self.ip_version.into())
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let ip_version = body
            .get("ip_version")
            .and_then(Value::as_u64)
            .ok_or_else(|| body::missing("ip_version"))?;
        let meta = session.meta::<Self>(body)?;
        Ok(session.insert(Self { meta, ip_version }))
    }

    fn update(_: &mut Session<'_>, _: Uuid, _: &Map<String, Value>) -> Result<()> {
        Ok(())
    }

    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let id = self.meta.id;
        let mut pools = session.store().all::<Pool>().values();
        if pools.any(|pool| pool.scope == Some(id)) {
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "AddressScopeInUse",
                format!(
                    "Unable to complete operation on address scope {id}. There are one or more \
                     subnet pools in use on the address scope."
                ),
            ));
        }
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }
}
