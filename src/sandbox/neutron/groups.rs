//! Security groups and their rules.
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::address_groups::AddressGroup;
use super::kind::{self, Attribute, F, Kind, Meta, P, Row, S, U, Unset, stored};
use super::revival::Renamed;
use super::store::{Indexes, Store};
use super::{Scope, Session, body};
use crate::sandbox::wire::{Refusal, Result};

const DEFAULT: &str = "default";

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) meta: Meta,
    stateful: bool,
}

static KIND: Kind = Kind {
    singular: "security_group",
    plural: "security_groups",
    not_found: "SecurityGroupNotFound",
    before: "Security group ",
    after: " does not exist",
    bulk: true,
    first_revision: Some(1),
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("stateful", F | P | U, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("shared", F, Unset::Flag(false)),
        Attribute::new("security_group_rules", 0, Unset::Absent),
        Attribute::new("tags", F, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
    ],
};

impl Row for Group {
    const KIND: &'static Kind = &KIND;

    stored!(groups, Group);

    fn attribute(&self, name: &str, scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "stateful" => self.stateful.into(),
            "security_group_rules" => scope
                .store
                .indexes()
                .rules_by_group
                .of(&self.meta.id)
                .filter_map(|id| scope.store.get::<Rule>(id))
                .map(|rule| kind::view(rule, &[], scope))
                .collect(),
            _ => return None,
        })
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let meta = session.meta::<Self>(body)?;
        if meta.name == DEFAULT {
            return Err(Refusal::conflict(
                "SecurityGroupDefaultAlreadyExists",
                "Default security group already exists.",
            ));
        }
        ensure_default(session, &meta.project.clone());
        let stateful = body::flag(body, "stateful")?.unwrap_or(true);
        let project = meta.project.clone();
        let id = session.insert(Self { meta, stateful });
        for ethertype in ["IPv4", "IPv6"] {
            insert_rule(session, &project, id, "egress", ethertype, None);
        }
        Ok(id)
    }

    fn update(session: &mut Session<'_>, id: Uuid, body: &Map<String, Value>) -> Result<()> {
        let stateful = body::flag(body, "stateful")?;
        session.edit(id, |group: &mut Self| {
            group.stateful = stateful.unwrap_or(group.stateful);
        });
        Ok(())
    }

    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let id = self.meta.id;
        if session.store().indexes().ports_by_group.has(&id) {
            return Err(Refusal::conflict(
                "SecurityGroupInUse",
                format!("Security Group {id} in use."),
            ));
        }
        if self.meta.name == DEFAULT && !session.caller().admin {
            return Err(Refusal::conflict(
                "SecurityGroupCannotRemoveDefault",
                "Insufficient rights for removing default security group.",
            ));
        }
        Ok(())
    }

    /// Deletes the group with its rules and, silently, the rules of other groups that name it.
    fn delete(session: &mut Session<'_>, id: Uuid) {
        let indexes = session.store().indexes();
        let rules: Vec<Uuid> = indexes
            .rules_by_group
            .of(&id)
            .chain(indexes.rules_by_remote_group.of(&id))
            .collect();
        for rule in rules {
            session.take::<Rule>(rule);
        }
        session.take::<Self>(id);
    }
}

/// Returns the project's default group, and creates it if it is missing.
pub(super) fn ensure_default(session: &mut Session<'_>, project: &Arc<str>) -> Uuid {
    if let Some(id) = default_of(session.store(), project) {
        return id;
    }
    let mut meta = session.new_meta::<Group>(project.clone());
    DEFAULT.clone_into(&mut meta.name);
    "Default security group".clone_into(&mut meta.description);
    let id = session.insert(Group {
        meta,
        stateful: true,
    });
    for ethertype in ["IPv4", "IPv6"] {
        insert_rule(session, project, id, "egress", ethertype, None);
        insert_rule(session, project, id, "ingress", ethertype, Some(id));
    }
    id
}

fn default_of(store: &Store, project: &str) -> Option<Uuid> {
    store
        .all::<Group>()
        .values()
        .find(|group| *group.meta.project == *project && group.meta.name == DEFAULT)
        .map(|group| group.meta.id)
}

fn insert_rule(
    session: &mut Session<'_>,
    project: &Arc<str>,
    group: Uuid,
    direction: &str,
    ethertype: &str,
    remote_group: Option<Uuid>,
) {
    let meta = session.new_meta::<Rule>(project.clone());
    session.insert(Rule {
        meta,
        group,
        remote_group,
        remote_addresses: None,
        direction: direction.to_owned(),
        ethertype: ethertype.to_owned(),
    });
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) meta: Meta,
    group: Uuid,
    remote_group: Option<Uuid>,
    pub(super) remote_addresses: Option<Uuid>,
    direction: String,
    ethertype: String,
}

static RULE: Kind = Kind {
    singular: "security_group_rule",
    plural: "security_group_rules",
    not_found: "SecurityGroupRuleNotFound",
    before: "Security group rule ",
    after: " does not exist",
    bulk: true,
    first_revision: Some(0),
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("security_group_id", F | S | P, Unset::Absent),
        Attribute::new("ethertype", F | S | P, Unset::Absent),
        Attribute::new("direction", F | S | P, Unset::Absent),
        Attribute::new("protocol", F | S | P, Unset::Null),
        Attribute::new("port_range_min", F | S | P, Unset::Null),
        Attribute::new("port_range_max", F | S | P, Unset::Null),
        Attribute::new("remote_ip_prefix", F | S | P, Unset::Null),
        Attribute::new("remote_address_group_id", F | S | P, Unset::Absent),
        Attribute::new("normalized_cidr", F, Unset::Null),
        Attribute::new("remote_group_id", F | S | P, Unset::Absent),
        Attribute::new("belongs_to_default_sg", F, Unset::Absent),
        Attribute::new("description", F | P, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("revision_number", F, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
    ],
};

impl Row for Rule {
    const KIND: &'static Kind = &RULE;

    stored!(rules, Rule);

    fn index(&self, indexes: &mut Indexes, present: bool) {
        let id = self.meta.id;
        indexes.rules_by_group.set(&self.group, id, present);
        if let Some(remote) = self.remote_group {
            indexes.rules_by_remote_group.set(&remote, id, present);
        }
    }

    fn attribute(&self, name: &str, scope: &Scope<'_>) -> Option<Value> {
        Some(match name {
            "security_group_id" => self.group.to_string().into(),
            "remote_group_id" => self.remote_group.map(|id| id.to_string()).into(),
            "remote_address_group_id" => self.remote_addresses.map(|id| id.to_string()).into(),
            "direction" => self.direction.as_str().into(),
            "ethertype" => self.ethertype.as_str().into(),
            "belongs_to_default_sg" => scope
                .store
                .get::<Group>(self.group)
                .is_some_and(|group| group.meta.name == DEFAULT)
                .into(),
            _ => return None,
        })
    }

    fn rename(&mut self, names: &Renamed) {
        names.swap(&mut self.group);
        let remotes = self.remote_group.iter_mut();
        for remote in remotes.chain(&mut self.remote_addresses) {
            names.swap(remote);
        }
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let group = session.referred::<Group>(body, "security_group_id")?;
        let remote_group = match body.get("remote_group_id") {
            None | Some(Value::Null) => None,
            Some(_) => Some(session.referred::<Group>(body, "remote_group_id")?.meta.id),
        };
        let remote_addresses = body::id(body, "remote_address_group_id")?;
        if let Some(addresses) = remote_addresses {
            session.row::<AddressGroup>(addresses)?;
        }
        let rule = Self {
            group: group.meta.id,
            remote_group,
            remote_addresses,
            direction: body::required(body, "direction")?.to_owned(),
            ethertype: body::text(body, "ethertype")?.unwrap_or("IPv4").to_owned(),
            meta: session.meta::<Self>(body)?,
        };
        if let Some(twin) = rule.twin(session.store()) {
            return Err(Refusal::conflict(
                "SecurityGroupRuleExists",
                format!("Security group rule already exists. Rule id is {twin}."),
            ));
        }
        let id = session.insert(rule);
        session.bump::<Group>(group.meta.id);
        Ok(id)
    }

    fn update(session: &mut Session<'_>, _id: Uuid, _body: &Map<String, Value>) -> Result<()> {
        Err(session.unsupported())
    }

    fn deletable(&self, _session: &mut Session<'_>) -> Result<()> {
        Ok(())
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        if let Some(rule) = session.take::<Self>(id) {
            session.bump::<Group>(rule.group);
        }
    }
}

impl Rule {
    /// Returns another rule with the same content.
    fn twin(&self, store: &Store) -> Option<Uuid> {
        let said = |rule: &Self, name: &str| rule.meta.more.get(name).cloned().unwrap_or_default();
        store
            .indexes()
            .rules_by_group
            .of(&self.group)
            .filter_map(|id| store.get::<Self>(id))
            .find(|other| {
                other.direction == self.direction
                    && other.ethertype == self.ethertype
                    && other.remote_group == self.remote_group
                    && other.remote_addresses == self.remote_addresses
                    && [
                        "protocol",
                        "port_range_min",
                        "port_range_max",
                        "remote_ip_prefix",
                    ]
                    .iter()
                    .all(|name| said(self, name) == said(other, name))
            })
            .map(|other| other.meta.id)
    }
}

/// Checks that all rules of a bulk request belong to one group.
pub(super) fn one_group(items: &[Value]) -> Result<()> {
    let mut groups = items.iter().filter_map(|item| {
        item.pointer("/security_group_rule/security_group_id")
            .or_else(|| item.get("security_group_id"))
    });
    let first = groups.next();
    if groups.all(|group| Some(group) == first) {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::BAD_REQUEST,
        "SecurityGroupNotSingleGroupRules",
        "Only allowed to update rules for one security profile at a time",
    ))
}
