//! Creation of a load balancer together with its contents.
//!
//! Pools are created first, so that listeners and policies can refer to them by name.
use std::collections::BTreeMap;

use serde_json::Value;
use uuid::Uuid;

use super::children::add;
use super::refused;
use crate::sandbox::core::{Body, Result, Row, Session};

/// Ids of the created pools, by name.
type Pools = BTreeMap<String, Uuid>;

pub(super) fn create(session: &mut Session<'_>, balancer: &Row, body: &Body) -> Result<()> {
    let mut pools = items(body, "pools");
    let listeners = items(body, "listeners");
    for listener in &listeners {
        pools.extend(described(listener, "default_pool"));
        for policy in items(listener, "l7policies") {
            pools.extend(described(&policy, "redirect_pool"));
        }
    }
    let mut made = Pools::new();
    for pool in &pools {
        let row = add_row(session, "pool", balancer, pool);
        for member in items(pool, "members") {
            add_row(session, "member", &row, &member);
        }
        if let Some(monitor) = pool.get("healthmonitor").and_then(Value::as_object) {
            add_row(session, "health_monitor", &row, monitor);
        }
        made.insert(row.text("name").to_owned(), row.id);
    }
    for mut listener in listeners {
        resolve(&mut listener, "default_pool", "default_pool_id", &made)?;
        let row = add_row(session, "listener", balancer, &listener);
        for mut policy in items(&listener, "l7policies") {
            resolve(&mut policy, "redirect_pool", "redirect_pool_id", &made)?;
            let row = add_row(session, "l7policy", &row, &policy);
            for rule in items(&policy, "rules") {
                add_row(session, "l7rule", &row, &rule);
            }
        }
    }
    Ok(())
}

fn items(body: &Body, name: &str) -> Vec<Body> {
    let items = body.get(name).and_then(Value::as_array);
    let items = items.into_iter().flatten();
    items.filter_map(Value::as_object).cloned().collect()
}

/// Returns the pool that a listener or policy describes. A pool with a name alone refers to another description.
fn described(user: &Body, name: &str) -> Option<Body> {
    let pool = user.get(name)?.as_object()?;
    (pool.len() > 1).then(|| pool.clone())
}

/// Creates a row in a parent.
fn add_row(session: &mut Session<'_>, kind: &str, parent: &Row, body: &Body) -> Row {
    let mut row = session.new_row(kind, &parent.project);
    row.apply(body);
    add(session, row.clone(), parent);
    row
}

/// Replaces the name of a pool by its id.
fn resolve(body: &mut Body, name: &str, id_name: &str, pools: &Pools) -> Result<()> {
    let Some(pool) = body.get(name).and_then(|pool| pool["name"].as_str()) else {
        return Ok(());
    };
    let id = pools.get(pool);
    let id = id.ok_or_else(|| refused("UndefinedPool", &[&pool]))?;
    body.insert(id_name.to_owned(), id.to_string().into());
    Ok(())
}
