//! Creation of a load balancer together with its contents.
//!
//! Pools are created first, so that listeners and policies can refer to them by name.
use std::collections::BTreeMap;

use serde_json::Value;
use uuid::Uuid;

use super::body::{bad, invalid};
use super::children::{self, Body, check_protocols, text};
use super::kind::Kind;
use super::policies;
use super::session::Session;
use super::store::Item;
use crate::sandbox::wire::Result;

type Pools = BTreeMap<String, Uuid>;

pub(super) fn create(session: &mut Session<'_>, balancer: &Item, body: &Body) -> Result<()> {
    let mut pools = items(body, "pools");
    let listeners = items(body, "listeners");
    let mut referred = Vec::new();
    for listener in &listeners {
        gather(listener, "default_pool", &mut pools, &mut referred)?;
        for policy in items(listener, "l7policies") {
            gather(&policy, "redirect_pool", &mut pools, &mut referred)?;
        }
    }
    let mut made = Pools::new();
    let named = |name: &str| pools.iter().any(|pool| text(pool, "name") == Some(name));
    if let Some(name) = referred.iter().find(|name| !named(name)) {
        return Err(invalid(&format!(
            "Pool '{name}' was referenced but no full definition was found."
        )));
    }
    for pool in &pools {
        let id = children::add(session, Kind::Pool, balancer, pool)?;
        let name = text(pool, "name").unwrap_or_default().to_owned();
        if made.insert(name, id).is_some() {
            return Err(invalid(
                "Pool names must be unique when creating a fully populated loadbalancer.",
            ));
        }
        fill_pool(session, id, pool)?;
    }
    for listener in listeners {
        add_listener(session, balancer, listener, &made)?;
    }
    Ok(())
}

fn items(body: &Body, name: &str) -> Vec<Body> {
    let items = body.get(name).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .cloned()
        .collect()
}

/// Gathers the pool of a listener or policy: a body with more than a name describes the pool, a mere name
/// refers to it.
fn gather(
    user: &Body,
    name: &str,
    pools: &mut Vec<Body>,
    referred: &mut Vec<String>,
) -> Result<()> {
    let Some(pool) = user.get(name).and_then(Value::as_object) else {
        return Ok(());
    };
    let Some(name) = text(pool, "name") else {
        return Err(invalid(
            "Pools must be named when creating a fully populated loadbalancer.",
        ));
    };
    if pool.len() > 1 {
        pools.push(pool.clone());
    } else {
        referred.push(name.to_owned());
    }
    Ok(())
}

fn made_in(session: &Session<'_>, kind: Kind, id: Uuid) -> Result<Item> {
    session.find(kind, &id.to_string())
}

fn fill_pool(session: &mut Session<'_>, id: Uuid, body: &Body) -> Result<()> {
    let pool = made_in(session, Kind::Pool, id)?;
    for member in items(body, "members") {
        children::add(session, Kind::Member, &pool, &member)?;
    }
    if let Some(monitor) = body.get("healthmonitor").and_then(Value::as_object) {
        children::add(session, Kind::HealthMonitor, &pool, monitor)?;
    }
    Ok(())
}

/// Replaces the name of a pool by its id.
fn resolve(body: &mut Body, name: &str, id_name: &str, pools: &Pools) -> Result<()> {
    let Some(pool) = body.get(name).and_then(|pool| pool.get("name")) else {
        return Ok(());
    };
    let pool = pool.as_str().unwrap_or_default();
    let Some(id) = pools.get(pool) else {
        return Err(bad(format!("Missing details for Pool object: {pool}")));
    };
    body.insert(id_name.to_owned(), id.to_string().into());
    Ok(())
}

fn add_listener(
    session: &mut Session<'_>,
    balancer: &Item,
    mut body: Body,
    pools: &Pools,
) -> Result<()> {
    resolve(&mut body, "default_pool", "default_pool_id", pools)?;
    if let Some(pool) = text(&body, "default_pool_id") {
        let pool = session.find(Kind::Pool, pool)?;
        let protocol = text(&body, "protocol").unwrap_or_default();
        check_protocols(protocol, Some(pool.text("protocol")))?;
    }
    let id = children::add(session, Kind::Listener, balancer, &body)?;
    let listener = made_in(session, Kind::Listener, id)?;
    for mut policy in items(&body, "l7policies") {
        resolve(&mut policy, "redirect_pool", "redirect_pool_id", pools)?;
        let policy = policies::consistent(&policy)?;
        let id = children::add(session, Kind::Policy, &listener, &policy)?;
        let made = made_in(session, Kind::Policy, id)?;
        for rule in items(&policy, "rules") {
            policies::check_rule(&rule)?;
            children::add(session, Kind::Rule, &made, &rule)?;
        }
    }
    Ok(())
}
