//! The JSON view of a resource.
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::kind::{Attribute, Kind};
use super::store::{Item, Store};

/// The detail in which the contents of a resource are shown.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Depth {
    /// Their ids.
    Ids,
    /// All their attributes: the answer to the creation of a load balancer.
    Full,
}

/// Returns the JSON view of a resource. `fields`: the wanted attributes; empty for all.
pub(super) fn view(store: &Store, item: &Item, depth: Depth, fields: &[&str]) -> Value {
    let mut shown = Map::new();
    for attribute in item.kind.form().attributes {
        if !fields.is_empty() && !fields.contains(&attribute.name) {
            continue;
        }
        if let Some(value) = shown_value(store, item, attribute, depth) {
            shown.insert(attribute.name.to_owned(), value);
        }
    }
    Value::Object(shown)
}

fn shown_value(store: &Store, item: &Item, attribute: &Attribute, depth: Depth) -> Option<Value> {
    let full = depth == Depth::Full;
    let inside = |kind: Kind| -> Value {
        children(store, item, kind)
            .into_iter()
            .map(|child| match depth {
                Depth::Full => view(store, child, depth, &[]),
                Depth::Ids => json!({"id": child.id}),
            })
            .collect()
    };
    Some(match (item.kind, attribute.name) {
        (_, "name" | "description") => item.text(attribute.name).into(),
        (_, "tenant_id") => item.project.to_string().into(),
        (Kind::LoadBalancer, "listeners") => inside(Kind::Listener),
        (Kind::LoadBalancer, "pools") => inside(Kind::Pool),
        (Kind::LoadBalancer, "additional_vips") => more_vips(item),
        (Kind::Listener, "l7policies") => inside(Kind::Policy),
        (Kind::Listener | Kind::Pool, "loadbalancers") if !full => json!([{"id": item.balancer}]),
        (Kind::Pool, "listeners") => listeners_of(store, item.id)
            .into_iter()
            .map(|id| json!({"id": id}))
            .collect(),
        (Kind::Pool, "members") => inside(Kind::Member),
        (Kind::Pool, "healthmonitor") if full => store
            .children(item.id, Kind::HealthMonitor)
            .first()
            .map_or(Value::Null, |monitor| view(store, monitor, depth, &[])),
        (Kind::Pool, "healthmonitor_id") if full => return None,
        (Kind::HealthMonitor, "pools") if !full => json!([{"id": item.parent}]),
        (Kind::Policy, "listener_id") => item.parent.to_string().into(),
        (Kind::Policy, "rules") => inside(Kind::Rule),
        _ => return plain_value(store, item, attribute.name),
    })
}

/// Returns an attribute as filters compare it: neither a list of resources nor text for people.
pub(super) fn plain_value(store: &Store, item: &Item, name: &str) -> Option<Value> {
    let vip = item.root.as_ref().map(|root| &root.vip);
    Some(match (name, vip) {
        ("id", _) => item.id.to_string().into(),
        ("project_id", _) => item.project.to_string().into(),
        ("provisioning_status", _) => item.status.text().into(),
        ("operating_status", _) => item.operating.into(),
        ("created_at", _) => timestamp(item.created),
        ("updated_at", _) => item.updated.map_or(Value::Null, timestamp),
        ("vip_address", Some(vip)) => vip.address.as_str().into(),
        ("vip_port_id", Some(vip)) => vip.port.to_string().into(),
        ("vip_subnet_id", Some(vip)) => vip.subnet.to_string().into(),
        ("vip_network_id", Some(vip)) => vip.network.to_string().into(),
        ("healthmonitor_id", _) if item.kind == Kind::Pool => store
            .children(item.id, Kind::HealthMonitor)
            .first()
            .map(|monitor| monitor.id.to_string().into())?,
        _ => item.values.get(name).cloned()?,
    })
}

/// Lists the children of a resource; the policies of a listener in their order.
fn children<'s>(store: &'s Store, item: &Item, kind: Kind) -> Vec<&'s Item> {
    let mut found = store.children(item.id, kind);
    if kind == Kind::Policy {
        found.sort_by_key(|policy| policy.value("position").as_i64());
    }
    found
}

fn more_vips(item: &Item) -> Value {
    let vip = item.root.as_ref().map(|root| &root.vip);
    vip.into_iter()
        .flat_map(|vip| {
            vip.more.iter().map(
                |(subnet, address)| json!({"subnet_id": subnet, "ip_address": address, "port_id": vip.port}),
            )
        })
        .collect()
}

/// Lists the listeners whose default pool is `pool`.
pub(super) fn users_of(store: &Store, pool: &Item) -> Vec<Uuid> {
    store
        .children(pool.balancer, Kind::Listener)
        .into_iter()
        .filter(|listener| listener.refers_to("default_pool_id") == Some(pool.id))
        .map(|listener| listener.id)
        .collect()
}

/// Lists the listeners that send to a pool: by default, or by an enabled policy with rules.
pub(super) fn listeners_of(store: &Store, pool: Uuid) -> Vec<Uuid> {
    let Some(balancer) = store.get(pool).map(|pool| pool.balancer) else {
        return Vec::new();
    };
    store
        .children(balancer, Kind::Listener)
        .into_iter()
        .filter(|listener| pools_of(store, listener).contains(&pool))
        .map(|listener| listener.id)
        .collect()
}

/// Lists the pools that a listener sends to, the default one first.
fn pools_of(store: &Store, listener: &Item) -> Vec<Uuid> {
    let mut pools: Vec<Uuid> = listener.refers_to("default_pool_id").into_iter().collect();
    for policy in children(store, listener, Kind::Policy) {
        let works = *policy.value("admin_state_up") == Value::Bool(true)
            && !store.children(policy.id, Kind::Rule).is_empty();
        if let Some(pool) = policy.refers_to("redirect_pool_id").filter(|_| works)
            && !pools.contains(&pool)
        {
            pools.push(pool);
        }
    }
    pools
}

/// Returns the tree of `GET /loadbalancers/{id}/status`.
pub(super) fn statuses(store: &Store, balancer: &Item) -> Value {
    let listeners: Value = store
        .children(balancer.id, Kind::Listener)
        .into_iter()
        .map(|listener| {
            let mut shown = status(listener, &[]);
            shown["pools"] = pools_of(store, listener)
                .into_iter()
                .filter_map(|pool| store.get(pool))
                .map(|pool| pool_status(store, pool))
                .collect();
            shown
        })
        .collect();
    let mut shown = status(balancer, &[]);
    shown["listeners"] = listeners;
    json!({"statuses": {"loadbalancer": shown}})
}

fn pool_status(store: &Store, pool: &Item) -> Value {
    let mut shown = status(pool, &[]);
    if let Some(monitor) = store.children(pool.id, Kind::HealthMonitor).first() {
        shown["health_monitor"] = status(monitor, &["type"]);
    }
    shown["members"] = store
        .children(pool.id, Kind::Member)
        .into_iter()
        .map(|member| status(member, &["address", "protocol_port"]))
        .collect();
    shown
}

fn status(item: &Item, more: &[&str]) -> Value {
    let mut shown = json!({
        "id": item.id,
        "name": item.text("name"),
        "operating_status": item.operating,
        "provisioning_status": item.status.text(),
    });
    for name in more {
        shown[*name] = item.value(name).clone();
    }
    shown
}

fn timestamp(at: DateTime<Utc>) -> Value {
    at.format("%Y-%m-%dT%H:%M:%S").to_string().into()
}
