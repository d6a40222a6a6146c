//! Address groups: lists of prefixes that security group rules name.

use http::StatusCode;
use ipnet::IpNet;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::groups::Rule;
use super::kind::{Attribute, F, Kind, Meta, P, Row, S, U, Unset, stored};
use super::pools::parse_prefixes;
use super::{Scope, Session};
use crate::sandbox::wire::{Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct AddressGroup {
    pub(super) meta: Meta,
    addresses: Vec<IpNet>,
}

static KIND: Kind = Kind {
    singular: "address_group",
    plural: "address_groups",
    not_found: "AddressGroupNotFound",
    before: "Address group ",
    after: " could not be found.",
    bulk: false,
    first_revision: Some(0),
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("addresses", P, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
    ],
};

impl Row for AddressGroup {
    const KIND: &'static Kind = &KIND;

    stored!(address_groups, AddressGroup);

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        (name == "addresses").then(|| self.addresses.iter().map(IpNet::to_string).collect())
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let group = Self {
            addresses: parse_prefixes(body, "addresses")?,
            meta: session.meta::<Self>(body)?,
        };
        let has_addresses = !group.addresses.is_empty();
        let id = session.insert(group);
        // Neutron adds them in a second step.
        if has_addresses {
            session.bump::<Self>(id);
        }
        Ok(id)
    }

    fn update(_: &mut Session<'_>, _: Uuid, _: &Map<String, Value>) -> Result<()> {
        Ok(())
    }

    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let id = self.meta.id;
        let mut rules = session.store().all::<Rule>().values();
        if rules.any(|rule| rule.remote_addresses == Some(id)) {
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "AddressGroupInUse",
                format!("Address group {id} is in use on one or more security group rules."),
            ));
        }
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }
}
