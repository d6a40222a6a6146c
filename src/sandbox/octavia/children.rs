//! The contents of a load balancer: how they are created, changed, deleted and shown.
use serde_json::{Value, json};
use uuid::Uuid;

use super::contents::{BALANCER, children, listeners_of, parent_of};
use super::pending::{Status, begin_change, set_status};
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
pub(super) fn add(session: &mut Session<'_>, mut row: Row, parent: &Row) -> Uuid {
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
