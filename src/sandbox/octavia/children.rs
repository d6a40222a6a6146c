//! The contents of a load balancer: how they are created, changed, deleted and shown.
use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::pending::{Status, begin_change, children, listeners_of, parent_of, set_status};
use super::refused;
use crate::sandbox::core::{Body, Call, Hooks, REQUIRED, Result, Row, Session, Shape, refuse_if};

pub(super) const CHILD: Hooks = Hooks {
    create,
    update,
    delete,
    // A deleted pool is no longer the default pool of its listeners.
    removed: |session, row| {
        for listener in session.store().ids("listener", "default_pool_id", row.id) {
            session.edit("listener", listener, |row| row.clear("default_pool_id"));
        }
    },
    show,
    ..Hooks::NONE
};

/// Computes the attributes that show other rows.
pub(super) fn show(session: &Session<'_>, row: &Row, name: &str) -> Option<Value> {
    let store = session.store();
    let (kind, with_contents) = (row.kind.name, session.with_contents);
    if let Some(Shape::Children(kind)) = row.kind.attribute(name).map(|it| &it.shape) {
        let shown = |child: &Row| match with_contents {
            true => session.shown(child, &[]),
            false => json!({"id": child.id}),
        };
        return Some(children(store, row, kind).into_iter().map(shown).collect());
    }
    let monitor = || children(store, row, "health_monitor").into_iter().next();
    Some(match (kind, name) {
        ("pool", "listeners") => {
            let listeners = listeners_of(store, row).into_iter();
            listeners.map(|id| json!({"id": id})).collect()
        }
        ("pool", "healthmonitor") if with_contents => {
            monitor().map(|monitor| session.shown(monitor, &[])).into()
        }
        ("pool", "healthmonitor_id") if !with_contents => monitor()?.id.to_string().into(),
        (_, "loadbalancers") | ("health_monitor", "pools") if !with_contents => {
            json!([{"id": parent_of(store, row).map(|parent| parent.id)}])
        }
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
    let parent = parent_of(session.store(), &row).cloned();
    let parent = parent.ok_or_else(|| match row.kind.parent {
        Some(above) if row.get(above.attribute).is_some() => {
            session.missing(above.kind, row.text(above.attribute))
        }
        _ => refused("NoParent", &[]),
    })?;
    session.may_change(&parent, "create")?;
    let has_pool = |listener: &Row| listener.id_of("default_pool_id").is_some();
    let has_pool = listener.as_ref().is_some_and(has_pool);
    refuse_if(has_pool, || refused("HasDefaultPool", &[]))?;
    let has_monitor = row.kind.name == "health_monitor"
        && !children(session.store(), &parent, "health_monitor").is_empty();
    refuse_if(has_monitor, || refused("HasMonitor", &[]))?;
    if let Some(listener) = listener {
        session.edit("listener", listener.id, |listener| {
            listener.set("default_pool_id", row.id.to_string());
        });
    }
    begin_change(session, &row)?;
    Ok(add(session, row, &parent))
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

fn update(session: &mut Session<'_>, row: Row, body: &Body) -> Result<()> {
    let is_needed = |name: &&String| row.kind.attribute(name).is_some_and(|it| it.is(REQUIRED));
    let nulls = body.iter().filter(|(_, value)| value.is_null());
    if let Some(name) = nulls.map(|(name, _)| name).find(is_needed) {
        return Err(refused("InvalidNull", &[name]));
    }
    session.put(row.clone());
    begin_change(session, &row)
}

/// Begins to delete a resource with its contents.
fn delete(session: &mut Session<'_>, row: &Row, _: &Call<'_>) -> Result<()> {
    for (kind, id) in session.store().tree(row) {
        session.record_unchanged(kind, id);
    }
    begin_change(session, row)?;
    set_status(session, row.kind.name, row.id, Status::PendingDelete);
    Ok(())
}

/// Ids of the created pools, by name.
type Pools = BTreeMap<String, Uuid>;

/// Creates the contents of a load balancer that is created with them. Pools are created first, so that listeners and
/// policies can refer to them by name.
pub(super) fn create_all(session: &mut Session<'_>, balancer: &Row, body: &Body) -> Result<()> {
    let mut pools: Vec<&Body> = items(body.get("pools")).collect();
    for listener in items(body.get("listeners")) {
        pools.extend(described(listener, "default_pool"));
        for policy in items(listener.get("l7policies")) {
            pools.extend(described(policy, "redirect_pool"));
        }
    }
    let mut made = Pools::new();
    for pool in pools {
        let row = add_row(session, "pool", balancer, pool, &made)?;
        made.insert(row.text("name").to_owned(), row.id);
    }
    for listener in items(body.get("listeners")) {
        add_row(session, "listener", balancer, listener, &made)?;
    }
    Ok(())
}

/// Returns the objects of a list, or an object alone.
fn items(value: Option<&Value>) -> impl Iterator<Item = &Body> {
    let items = match value {
        Some(Value::Array(items)) => items.as_slice(),
        single => single.map_or(&[][..], std::slice::from_ref),
    };
    items.iter().filter_map(Value::as_object)
}

/// Returns the pool that a listener or policy describes. A pool with a name alone refers to another description.
fn described<'b>(user: &'b Body, name: &str) -> Option<&'b Body> {
    let pool = user.get(name)?.as_object();
    pool.filter(|pool| pool.len() > 1)
}

/// Creates a row in a parent, with the contents that its body describes.
fn add_row(
    session: &mut Session<'_>,
    kind: &str,
    parent: &Row,
    body: &Body,
    pools: &Pools,
) -> Result<Row> {
    let mut row = session.new_row(kind, &parent.project);
    row.apply(body);
    for (name, id_name) in [
        ("default_pool", "default_pool_id"),
        ("redirect_pool", "redirect_pool_id"),
    ] {
        if let Some(pool) = body.get(name).and_then(|pool| pool["name"].as_str()) {
            let id = pools.get(pool);
            let id = id.ok_or_else(|| refused("UndefinedPool", &[&pool]))?;
            row.set(id_name, id.to_string());
        }
    }
    add(session, row.clone(), parent);
    for (name, value) in body {
        let shape = row.kind.attribute(name).map(|it| &it.shape);
        if let Some(Shape::Child(kind) | Shape::Children(kind)) = shape {
            for child in items(Some(value)) {
                add_row(session, kind, &row, child, pools)?;
            }
        }
    }
    Ok(row)
}
