//! The contents of a load balancer: how they are created, changed, deleted and shown.
use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::pending::{
    BALANCER, Status, begin_change, children, listeners_of, parent_of, set_status,
};
use super::refused;
use crate::sandbox::core::{Body, Call, Hooks, REQUIRED, Result, Row, Session, Store};

pub(super) const CHILD: Hooks = Hooks {
    create,
    update,
    delete,
    removed: |session, row| {
        if row.kind.name == "pool" {
            clear_default_pool(session, row);
        }
    },
    show,
    ..Hooks::NONE
};

/// Removes a deleted pool from the listeners whose default pool it was.
fn clear_default_pool(session: &mut Session<'_>, pool: &Row) {
    for listener in session.store().ids("listener", "default_pool_id", pool.id) {
        session.edit("listener", listener, |row| row.clear("default_pool_id"));
    }
}

/// Computes the attributes that show other rows.
pub(super) fn show(session: &Session<'_>, row: &Row, name: &str) -> Option<Value> {
    let store = session.store();
    let inside = |kind: &str| -> Value {
        let children = children(store, row, kind).into_iter();
        children
            .map(|child| match session.with_contents {
                true => session.shown(child, &[]),
                false => json!({"id": child.id}),
            })
            .collect()
    };
    let monitor = || children(store, row, "health_monitor").into_iter().next();
    let parent = || json!([{"id": parent_of(store, row).map(|parent| parent.id)}]);
    Some(match (row.kind.name, name) {
        (BALANCER, "listeners") => inside("listener"),
        (BALANCER, "pools") => inside("pool"),
        ("listener", "l7policies") => inside("l7policy"),
        ("pool", "members") => inside("member"),
        ("l7policy", "rules") => inside("l7rule"),
        ("pool", "listeners") => listeners_of(store, row)
            .into_iter()
            .map(|(_, id)| json!({"id": id}))
            .collect(),
        ("pool", "healthmonitor") if session.with_contents => {
            monitor().map(|monitor| session.shown(monitor, &[])).into()
        }
        ("pool", "healthmonitor_id") if !session.with_contents => monitor()?.id.to_string().into(),
        ("listener" | "pool", "loadbalancers") if !session.with_contents => parent(),
        ("health_monitor", "pools") if !session.with_contents => parent(),
        (_, "load_balancer_id") => row.value("loadbalancer_id"),
        _ => return None,
    })
}

/// Creates a resource by a call of its own.
fn create(session: &mut Session<'_>, mut row: Row, _: &Body) -> Result<Uuid> {
    let listener = row.id_of("listener_id").filter(|_| row.kind.name == "pool");
    let listener = listener.map(|id| session.row("listener", id)).transpose()?;
    if let Some(listener) = &listener {
        row.clear("listener_id");
        row.set("loadbalancer_id", listener.value("loadbalancer_id"));
    }
    let Some(parent) = parent_of(session.store(), &row).cloned() else {
        let above = row
            .kind
            .parent
            .filter(|above| row.get(above.attribute).is_some());
        return Err(match above {
            Some(above) => session.missing(above.kind, row.text(above.attribute)),
            None => refused("NoParent", &[]),
        });
    };
    session.may_change(&parent, "create")?;
    let has_pool = |listener: &Row| listener.id_of("default_pool_id").is_some();
    if listener.as_ref().is_some_and(has_pool) {
        return Err(refused("HasDefaultPool", &[]));
    }
    if row.kind.name == "health_monitor" && has_monitor(session.store(), &parent) {
        return Err(refused("HasMonitor", &[]));
    }
    begin_change(session, &row, true)?;
    let id = add(session, row, &parent);
    if let Some(listener) = listener {
        set_status(session, "listener", listener.id, Status::PendingUpdate);
        session.edit("listener", listener.id, |listener| {
            listener.set("default_pool_id", id.to_string());
        });
    }
    Ok(id)
}

fn has_monitor(store: &Store, pool: &Row) -> bool {
    !children(store, pool, "health_monitor").is_empty()
}

/// Creates a resource in a parent whose balancer is pending already.
fn add(session: &mut Session<'_>, mut row: Row, parent: &Row) -> Uuid {
    row.project = parent.project.clone();
    if let Some(above) = row.kind.parent {
        row.set(above.attribute, parent.id.to_string());
    }
    if row.kind.name == "l7policy" && row.get("position").is_none() {
        let others = children(session.store(), parent, "l7policy").len();
        row.set("position", others + 1);
    }
    session.put(row)
}

fn update(session: &mut Session<'_>, mut row: Row, body: &Body) -> Result<()> {
    let is_needed = |name: &&String| row.kind.attribute(name).is_some_and(|it| it.is(REQUIRED));
    let nulls = body.iter().filter(|(_, value)| value.is_null());
    if let Some(name) = nulls.map(|(name, _)| name).find(is_needed) {
        return Err(refused("InvalidNull", &[name]));
    }
    begin_change(session, &row, false)?;
    Status::PendingUpdate.set_on(&mut row);
    session.put(row);
    Ok(())
}

/// Begins to delete a resource with its contents.
fn delete(session: &mut Session<'_>, row: &Row, _: &Call<'_>) -> Result<()> {
    for (kind, id) in session.store().tree(row) {
        session.record_unchanged(kind, id);
    }
    if row.kind.name == "pool" {
        for (kind, id) in listeners_of(session.store(), row) {
            session.record_unchanged(kind, id);
        }
    }
    begin_change(session, row, false)?;
    set_status(session, row.kind.name, row.id, Status::PendingDelete);
    Ok(())
}

/// Ids of the created pools, by name.
type Pools = BTreeMap<String, Uuid>;

/// Creates the contents of a load balancer that is created with them. Pools are created first, so that listeners and
/// policies can refer to them by name.
pub(super) fn create_all(session: &mut Session<'_>, balancer: &Row, body: &Body) -> Result<()> {
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
