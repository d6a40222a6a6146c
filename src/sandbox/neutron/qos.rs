//! QoS policies, without their rules: networks, ports and floating IPs may use them.

use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::floating_ips::FloatingIp;
use super::kind::{Attribute, F, Kind, Meta, P, Row, S, U, Unset, W, stored};
use super::networks::Network;
use super::ports::Port;
use super::store::Store;
use super::{Scope, Session, body};
use crate::sandbox::wire::{Refusal, Result};

const USED: &str = "qos_policy_id";

#[derive(Clone, Debug)]
pub(super) struct QosPolicy {
    pub(super) meta: Meta,
}

static KIND: Kind = Kind {
    singular: "policy",
    plural: "policies",
    not_found: "QosPolicyNotFound",
    before: "QoS policy ",
    after: " could not be found.",
    bulk: false,
    first_revision: Some(0),
    forgets_marker: true,
    attributes: &[
        Attribute::new("id", F | S, Unset::Absent),
        Attribute::new("project_id", F | S | P, Unset::Absent),
        Attribute::new("name", F | S | P | U, Unset::Absent),
        Attribute::new("shared", F | P | U | W, Unset::Flag(false)),
        Attribute::new("rules", 0, Unset::List),
        Attribute::new("is_default", F | P | U, Unset::Flag(false)),
        Attribute::new("revision_number", F, Unset::Absent),
        Attribute::new("description", F | P | U, Unset::Absent),
        Attribute::new("created_at", 0, Unset::Absent),
        Attribute::new("updated_at", 0, Unset::Absent),
        Attribute::new("tenant_id", F | S | P, Unset::Absent),
        Attribute::new("tags", F, Unset::Absent),
    ],
};

impl Row for QosPolicy {
    const KIND: &'static Kind = &KIND;

    stored!(qos_policies, QosPolicy);

    fn attribute(&self, _name: &str, _scope: &Scope<'_>) -> Option<Value> {
        None
    }

    fn create(session: &mut Session<'_>, body: &Map<String, Value>) -> Result<Uuid> {
        let meta = session.meta::<Self>(body)?;
        Ok(session.insert(Self { meta }))
    }

    fn update(_: &mut Session<'_>, _: Uuid, _: &Map<String, Value>) -> Result<()> {
        Ok(())
    }

    /// The refusal names only the first user.
    fn deletable(&self, session: &mut Session<'_>) -> Result<()> {
        let id = self.meta.id;
        let store = session.store();
        let user = user::<Port>(store, id)
            .map(|user| format!("port {user}"))
            .or_else(|| user::<Network>(store, id).map(|user| format!("network {user}")))
            .or_else(|| user::<FloatingIp>(store, id).map(|user| format!("fip {user}")));
        match user {
            None => Ok(()),
            Some(user) => Err(Refusal::new(
                StatusCode::CONFLICT,
                "QosPolicyInUse",
                format!("QoS Policy {id} is used by {user}."),
            )),
        }
    }

    fn delete(session: &mut Session<'_>, id: Uuid) {
        session.take::<Self>(id);
    }
}

fn user<R: Row>(store: &Store, policy: Uuid) -> Option<Uuid> {
    let policy = policy.to_string();
    let mut rows = store.all::<R>().values();
    let used = |row: &&R| {
        row.meta()
            .more
            .get(USED)
            .is_some_and(|used| *used == *policy)
    };
    rows.find(used).map(|row| row.meta().id)
}

/// Checks that a policy named in a body exists.
pub(super) fn check(session: &Session<'_>, body: &Map<String, Value>) -> Result<()> {
    match body::id(body, USED)? {
        None => Ok(()),
        Some(policy) => session.row::<QosPolicy>(policy).map(drop),
    }
}
