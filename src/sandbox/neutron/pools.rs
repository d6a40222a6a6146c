//! Subnet pools and RBAC policies, as far as networks and subnets need them.

use http::StatusCode;
use ipnet::IpNet;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::kind::{Attribute, F, Kind, Meta, P, Row, S, U, Unset, W, stored};
use super::networks::Network;
use super::ports::Port;
use super::revival::Renamed;
use super::scopes::AddressScope;
use super::store::Indexes;
use super::subnets::Subnet;
use super::{Scope, Session, body};
use crate::sandbox::wire::{Refusal, Result};

#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) meta: Meta,
    pub(super) prefixes: Vec<IpNet>,
    pub(super) default_prefixlen: u8,
    pub(super) scope: Option<Uuid>,
}

static KIND: Kind = Kind {
    singular: "subnetpool",
    plural: "subnetpools",
    not_found: "SubnetPoolNotFound",
    before: "Subnet pool ",
    after: " could not be found.",
    bulk: false,
    first_revision: Some(0),
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("default_prefixlen", F | S | P | U, Unset::Absent),
        Attribute::new("min_prefixlen", F | S | P | U, Unset::Text("8")),
        Attribute::new("max_prefixlen", F | S | P | U, Unset::Text("32")),
        Attribute::new("is_default", F | S | P | U | W, Unset::Flag(false)),
        Attribute::new("shared", F | P | W, Unset::Flag(false)),
        Attribute::new("prefixes", P | U, Unset::Absent),
        Attribute::new("ip_version", F | S, Unset::Absent),
        Attribute::new("default_quota", F | S | P | U, Unset::Null),
        Attribute::new("address_scope_id", F | S | P | U, Unset::Absent),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("tags", F, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
    ],
};

impl Row for Pool {
    const KIND: &'static Kind = &KIND;

    stored!(pools, Pool);

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "prefixes" => self.prefixes.iter().map(IpNet::to_string).collect(),
            "default_prefixlen" => self.default_prefixlen.to_string().into(),
            "ip_version" => match self.prefixes.first() {
                Some(IpNet::V6(_)) => 6.into(),
                _ => 4.into(),
            },
            "address_scope_id" => self.scope.map(|id| id.to_string()).into(),
            _ => return None,
        })
    }

    fn rename(&mut self, names: &Renamed) {
        if let Some(scope) = &mut self.scope {
            names.swap(scope);
        }
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let prefixes = parse_prefixes(body, "prefixes")?;
        if prefixes.is_empty() {
            return Err(body::missing("prefixes"));
        }
        let pool = Self {
            default_prefixlen: body
                .get("default_prefixlen")
                .and_then(Value::as_u64)
                .and_then(|bits| u8::try_from(bits).ok())
                .unwrap_or(24),
            scope: scope_of(session, body, &prefixes)?,
            prefixes,
            meta: session.meta::<Self>(body)?,
        };
        Ok(session.insert(pool))
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        let prefixes = parse_prefixes(body, "prefixes")?;
        let scope = scope_of(session, body, &prefixes)?;
        session.edit(id, |pool: &mut Self| {
            if !prefixes.is_empty() {
                pool.prefixes = prefixes;
            }
            if body.contains_key("address_scope_id") {
                pool.scope = scope;
            }
        });
        Ok(())
    }

    /// Refuses with 400, not 409.
    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let used = session
            .store()
            .all::<Subnet>()
            .values()
            .any(|subnet| subnet.pool == Some(self.meta.id));
        if used {
            return Err(Refusal::bad_request(
                "SubnetPoolDeleteError",
                "Unable to delete subnet pool: Subnet pool has existing allocations.",
            ));
        }
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }
}

/// Returns the address scope of a pool. Pools in one scope must not share prefixes.
fn scope_of(
    session: &Session<'_>,
    body: &Map<String, Value>,
    prefixes: &[IpNet],
) -> Result<Option<Uuid>> {
    let Some(id) = body::id(body, "address_scope_id")? else {
        return Ok(None);
    };
    session.row::<AddressScope>(id)?;
    let mut others = session.store().all::<Pool>().values();
    let overlaps = |other: &IpNet| {
        let mut own = prefixes.iter();
        own.any(|own| own.contains(other) || other.contains(own))
    };
    if others.any(|pool| pool.scope == Some(id) && pool.prefixes.iter().any(overlaps)) {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "AddressScopePrefixConflict",
            "Failed to associate address scope: subnetpools within an address scope must have \
             unique prefixes.",
        ));
    }
    Ok(Some(id))
}

pub(super) fn parse_prefixes(body: &Map<String, Value>, name: &str) -> Result<Vec<IpNet>> {
    body.get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|prefix| {
            prefix
                .as_str()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| {
                    let shown = prefix
                        .as_str()
                        .map_or_else(|| prefix.to_string(), str::to_owned);
                    body::invalid(name, &format!("'{shown}' is not a valid IP subnet."))
                })
        })
        .collect()
}

#[derive(Clone, Debug)]
pub(super) struct RbacPolicy {
    pub(super) meta: Meta,
    object: Uuid,
    object_type: String,
    action: String,
    /// A project's id, or `*`.
    pub(super) target: String,
}

static POLICY: Kind = Kind {
    singular: "rbac_policy",
    plural: "rbac_policies",
    not_found: "RbacPolicyNotFound",
    before: "RBAC policy of type unknown with ID ",
    after: " not found",
    bulk: true,
    first_revision: None,
    forgets_marker: false,
    attributes: &[
        Attribute::new("id", F, Unset::Absent),
        Attribute::new("project_id", F | P, Unset::Absent),
        Attribute::new("action", F | P, Unset::Absent),
        Attribute::new("object_id", F | P, Unset::Absent),
        Attribute::new("target_tenant", F | P | U, Unset::Absent),
        Attribute::new("object_type", F | P, Unset::Absent),
        Attribute::new("tenant_id", F | P, Unset::Absent),
    ],
};

impl Row for RbacPolicy {
    const KIND: &'static Kind = &POLICY;

    stored!(policies, Policy);

    fn index(&self, indexes: &mut Indexes, present: bool) {
        indexes
            .policies_by_object
            .set(&self.object, self.meta.id, present);
    }

    fn attribute(&self, name: &str, _scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "action" => self.action.as_str().into(),
            "object_id" => self.object.to_string().into(),
            "object_type" => self.object_type.as_str().into(),
            "target_tenant" => self.target.as_str().into(),
            _ => return None,
        })
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.object);
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let object_type = body::required(body, "object_type")?.to_owned();
        if object_type != "network" {
            return Err(Refusal::bad_request(
                "InvalidInput",
                format!(
                    "Invalid input for operation: '{object_type}' is not a valid RBAC object type."
                ),
            ));
        }
        let network = session.referred::<Network>(body, "object_id")?;
        let policy = Self {
            object: network.meta.id,
            object_type,
            action: body::required(body, "action")?.to_owned(),
            target: body::required(body, "target_tenant")?.to_owned(),
            meta: session.meta::<Self>(body)?,
        };
        let id = session.insert(policy);
        session.bump::<Network>(network.meta.id);
        Ok(id)
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        let target = body::text(body, "target_tenant")?.map(str::to_owned);
        session.edit(id, |policy: &mut Self| {
            if let Some(target) = target {
                policy.target = target;
            }
        });
        Ok(())
    }

    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let owner = session
            .store()
            .get::<Network>(self.object)
            .map(|network| network.meta.project.clone());
        let used = session
            .store()
            .indexes()
            .ports_by_network
            .of(&self.object)
            .filter_map(|port| session.store().get::<Port>(port))
            .any(|port| {
                *port.meta.project == *self.target
                    || (self.target == "*" && Some(&port.meta.project) != owner.as_ref())
            });
        if used {
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "RbacPolicyInUse",
                format!(
                    "RBAC policy on object {0} cannot be removed because other objects depend on \
                     it.\nDetails: Callback neutron.plugins.ml2.plugin.NeutronDbPluginV2.\
                     validate_network_rbac_policy_change-1 failed with \"Unable to reconfigure \
                     sharing settings for network {0}. Multiple projects are using it.\"",
                    self.object
                ),
            ));
        }
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }
}
