//! Networks, their segments, and the RBAC policies that share them.
use serde_json::Value;
use uuid::Uuid;

use super::devices::{EXTERNAL, is_automatic, router_of};
use super::refused;
use crate::sandbox::core::{Body, Hooks, Result, Row, Session, refuse_if};

const NUMBER: &str = "provider:segmentation_id";

pub(super) const NETWORK: Hooks = Hooks {
    create: create_network,
    deletable: check_network_unused,
    show: show_network,
    visible: |session, network| {
        session.caller.owns(&network.project)
            || network.flag("shared")
            || network.flag(EXTERNAL)
            || is_granted(session, network)
    },
    ..Hooks::NONE
};

fn create_network(session: &mut Session<'_>, mut network: Row, _: &Body) -> Result<Uuid> {
    if network.get(NUMBER).is_none() {
        network.set(NUMBER, network.number);
    }
    // Derived from the network's id, so that the segment uses up none of a seed's ids.
    const OWN: u128 = 0x5e60_0000_0000;
    let id = Uuid::from_u128(network.id.as_u128() ^ OWN);
    let project = network.project.clone();
    let mut segment = Row::new(
        session.store.kind("segment"),
        id,
        network.number,
        project,
        session.now,
    );
    segment.updated = network.updated;
    segment.set("network_id", network.id.to_string());
    segment.set("segmentation_id", network.value(NUMBER));
    let id = session.put(network);
    session.put(segment);
    Ok(id)
}

fn show_network(session: &Session<'_>, network: &Row, name: &str) -> Option<Value> {
    Some(match name {
        "shared" => (network.flag("shared") || is_granted(session, network)).into(),
        "is_default" if network.flag(EXTERNAL) => network.flag("is_default").into(),
        "subnets" => {
            let subnets = session.store.of("subnet", "network_id", network.id);
            subnets.map(|subnet| subnet.id.to_string()).collect()
        }
        _ => return None,
    })
}

/// Whether an RBAC policy shares a network with the caller's project, or with all projects.
fn is_granted(session: &Session<'_>, network: &Row) -> bool {
    let mut policies = session.store.of("rbac_policy", "object_id", network.id);
    policies.any(|policy| ["*", &session.caller.project].contains(&policy.text("target_tenant")))
}

/// Refuses to delete a network that has a port which is not deleted with it. The free floating IPs of an external
/// network are deleted first, **even if the deletion of the network is then refused**: Neutron does that in a
/// separate transaction.
fn check_network_unused(session: &mut Session<'_>, network: &Row) -> Result<()> {
    let id = network.id;
    if network.flag(EXTERNAL) {
        let store = session.store();
        let is_free = |ip: &&Row| ip.id_of("port_id").is_none() && router_of(store, ip).is_none();
        let ips = store.of("floating_ip", "floating_network_id", id);
        let free: Vec<Uuid> = ips.filter(is_free).map(|ip| ip.id).collect();
        for ip in free {
            session.remove("floating_ip", ip);
        }
        session.commit();
    }
    let ports = session.store().of("port", "network_id", id);
    let blocking: Vec<String> = ports
        .filter(|port| !is_automatic(port))
        .map(|port| port.id.to_string())
        .collect();
    let refusal = || refused("NetworkInUse", &[&id, &blocking.join(",")]);
    refuse_if(!blocking.is_empty(), refusal)
}

/// Each network has an initial segment, and an admin may add more.
pub(super) const SEGMENT: Hooks = Hooks {
    create: |session, mut segment, _| {
        if !session.caller.is_admin {
            return Err(segment.kind.forbidden("create"));
        }
        if segment.get("segmentation_id").is_none() {
            segment.set("segmentation_id", segment.number);
        }
        Ok(session.put(segment))
    },
    visible: |session, _| session.caller.is_admin,
    ..Hooks::NONE
};

pub(super) const RBAC_POLICY: Hooks = Hooks {
    create: |session, policy, _| {
        let network = policy.id_of("object_id");
        let id = session.put(policy);
        session.raise_revision("network", network.unwrap_or_default());
        Ok(id)
    },
    deletable: check_policy_unused,
    ..Hooks::NONE
};

/// Refuses to delete a policy while a project with which it shares the network has a port there.
fn check_policy_unused(session: &mut Session<'_>, policy: &Row) -> Result<()> {
    let id = policy.id_of("object_id").unwrap_or_default();
    let owner = session.get("network", id).map(|row| row.project.clone());
    let target = policy.text("target_tenant");
    let mut ports = session.store().of("port", "network_id", id);
    let is_used = ports.any(|port| {
        *port.project == *target || (target == "*" && Some(&port.project) != owner.as_ref())
    });
    refuse_if(is_used, || refused("RbacPolicyInUse", &[&id]))
}
