//! The contents of a load balancer: where they can be created, and what their changes involve.
use serde_json::{Map, Value};
use uuid::Uuid;

use super::balancers::{not_found, set};
use super::body::{bad, conflict, failed, invalid};
use super::kind::Kind;
use super::policies;
use super::revival::Tree;
use super::session::{Session, missing};
use super::store::{Item, Status};
use crate::sandbox::wire::{Refusal, Result};

/// The metadata service's address, which no member may have.
const RESERVED: &str = "169.254.169.254";
/// Pool protocols that fit each listener protocol.
const PROTOCOLS: [(&str, &[&str]); 7] = [
    ("TCP", &["HTTP", "HTTPS", "PROXY", "PROXYV2", "TCP"]),
    ("HTTP", &["HTTP", "PROXY", "PROXYV2"]),
    ("HTTPS", &["HTTPS", "PROXY", "PROXYV2", "TCP"]),
    ("TERMINATED_HTTPS", &["HTTP", "PROXY", "PROXYV2"]),
    ("UDP", &["UDP"]),
    ("SCTP", &["SCTP"]),
    ("PROMETHEUS", &[]),
];
/// Protocols with a transport of their own; all others use TCP.
const OWN_TRANSPORT: [&str; 2] = ["UDP", "SCTP"];
/// Attributes that only HTTP monitors have, with their defaults.
const HTTP_ONLY: [(&str, &str); 3] = [
    ("http_method", "GET"),
    ("url_path", "/"),
    ("expected_codes", "200"),
];

pub(super) type Body = Map<String, Value>;

pub(super) fn text<'b>(body: &'b Body, name: &str) -> Option<&'b str> {
    body.get(name).and_then(Value::as_str)
}

/// Creates a resource by a call of its own; `holder` is the resource in the path that contains it.
pub(super) fn create(
    session: &mut Session<'_>,
    kind: Kind,
    holder: Option<&Item>,
    body: &Body,
) -> Result<Uuid> {
    match (kind, holder) {
        (Kind::Member, Some(pool)) => {
            session.may_change(&pool.project)?;
            check_member(session, body)?;
            session.hold_for(kind, pool)?;
            add(session, kind, pool, body)
        }
        (Kind::Rule, Some(policy)) => {
            session.may_change(&policy.project)?;
            policies::check_rule(body)?;
            session.hold_for(kind, policy)?;
            add(session, kind, policy, body)
        }
        (Kind::HealthMonitor, _) => {
            let pool = named(session, Kind::Pool, body, "pool_id")?;
            session.may_change(&pool.project)?;
            session.hold_for(kind, &pool)?;
            add(session, kind, &pool, body)
        }
        (Kind::Policy, _) => {
            let listener = named(session, Kind::Listener, body, "listener_id")?;
            session.may_change(&listener.project)?;
            let body = policies::completed(session, &listener, body)?;
            session.hold_for(kind, &listener)?;
            add(session, kind, &listener, &body)
        }
        (Kind::Pool, _) => create_pool(session, body),
        _ => create_listener(session, body),
    }
}

fn named(session: &Session<'_>, kind: Kind, body: &Body, name: &str) -> Result<Item> {
    session.holder(kind, text(body, name).unwrap_or_default())
}

fn create_listener(session: &mut Session<'_>, body: &Body) -> Result<Uuid> {
    let balancer = named(session, Kind::LoadBalancer, body, "loadbalancer_id")?;
    session.may_change(&balancer.project)?;
    let protocol = text(body, "protocol").unwrap_or_default();
    check_default_pool(session, &balancer, protocol, body)?;
    session.hold_for(Kind::Listener, &balancer)?;
    add(session, Kind::Listener, &balancer, body)
}

fn create_pool(session: &mut Session<'_>, body: &Body) -> Result<Uuid> {
    let listener = text(body, "listener_id").map(|id| session.find(Kind::Listener, id));
    let balancer = match (text(body, "loadbalancer_id"), &listener) {
        (Some(id), _) => session.holder(Kind::LoadBalancer, id)?,
        (None, Some(Ok(listener))) => {
            session.holder(Kind::LoadBalancer, &listener.balancer.to_string())?
        }
        (None, Some(Err(_))) => {
            return Err(failed(
                "'NoneType' object has no attribute 'load_balancer_id'",
            ));
        }
        (None, None) => {
            return Err(invalid(
                "Must provide at least one of: loadbalancer_id, listener_id",
            ));
        }
    };
    session.may_change(&balancer.project)?;
    let listener = listener.transpose()?;
    let mut touched = Vec::new();
    if let Some(listener) = &listener {
        check_protocols(listener.text("protocol"), text(body, "protocol"))?;
        if listener.refers_to("default_pool_id").is_some() {
            return Err(conflict("This listener already has a default pool"));
        }
        touched.push(listener.id);
    }
    session.hold(balancer.id, &touched)?;
    let id = add(session, Kind::Pool, &balancer, body)?;
    for listener in touched {
        session.edit(listener, |listener| {
            let pool = id.to_string().into();
            listener.values.insert("default_pool_id".to_owned(), pool);
        });
    }
    Ok(id)
}

fn check_default_pool(
    session: &Session<'_>,
    balancer: &Item,
    protocol: &str,
    body: &Body,
) -> Result<()> {
    let Some(id) = text(body, "default_pool_id") else {
        return Ok(());
    };
    let pool = session.find(Kind::Pool, id)?;
    if pool.balancer != balancer.id {
        return Err(missing(Kind::Pool, id));
    }
    check_protocols(protocol, Some(pool.text("protocol")))
}

pub(super) fn check_protocols(listener: &str, pool: Option<&str>) -> Result<()> {
    let pool = pool.unwrap_or_default();
    let fits = PROTOCOLS
        .iter()
        .any(|(protocol, pools)| *protocol == listener && pools.contains(&pool));
    if fits {
        return Ok(());
    }
    Err(invalid(&format!(
        "The pool protocol '{pool}' is invalid while the listener protocol is '{listener}'."
    )))
}

fn check_member(session: &Session<'_>, body: &Body) -> Result<()> {
    if text(body, "address") == Some(RESERVED) {
        return Err(bad(format!(
            "{RESERVED} is not a valid option for member address"
        )));
    }
    match text(body, "subnet_id") {
        Some(id) if !is_subnet(session, id) => Err(not_found("Subnet", id)),
        _ => Ok(()),
    }
}

fn is_subnet(session: &Session<'_>, id: &str) -> bool {
    id.parse()
        .is_ok_and(|id| session.neutron.vip_subnet(session.caller, id).is_some())
}

/// Creates a resource in `parent`, whose balancer is pending already.
pub(super) fn add(
    session: &mut Session<'_>,
    kind: Kind,
    parent: &Item,
    body: &Body,
) -> Result<Uuid> {
    let mut item = session.make(kind, parent, body);
    match kind {
        Kind::Listener => check_listener(session, &item)?,
        Kind::Member => {
            item.operating = add_member(session, &item)?;
        }
        Kind::HealthMonitor => complete_monitor(session, &mut item)?,
        _ => {}
    }
    let id = item.id;
    session.octavia.store.put(item);
    if kind == Kind::Policy {
        policies::place(session, id);
        session.octavia.store.edit(id, |item| item.updated = None);
    }
    Ok(id)
}

/// Refuses a listener whose port another listener of the balancer uses, unless one is UDP and the other TCP.
fn check_listener(session: &Session<'_>, new: &Item) -> Result<()> {
    if new.text("protocol") == "TERMINATED_HTTPS"
        && new.value("default_tls_container_ref").is_null()
        && new
            .value("sni_container_refs")
            .as_array()
            .is_none_or(Vec::is_empty)
    {
        return Err(invalid(
            "An SNI or default certificate container reference must be provided for \
             TERMINATED_HTTPS protocol listeners.",
        ));
    }
    let transport = |listener: &Item| {
        let protocol = listener.text("protocol");
        OWN_TRANSPORT.into_iter().find(|own| *own == protocol)
    };
    let port = new.value("protocol_port");
    let taken = session
        .store()
        .children(new.balancer, Kind::Listener)
        .into_iter()
        .find(|known| known.value("protocol_port") == port && transport(known) == transport(new));
    match taken {
        None => Ok(()),
        Some(known) => Err(conflict(format!(
            "Another Listener on this Load Balancer is already using protocol {} and protocol_port \
             {port}",
            known.text("protocol")
        ))),
    }
}

/// Returns the operating status of a new member.
fn add_member(session: &Session<'_>, new: &Item) -> Result<&'static str> {
    let store = session.store();
    let (address, port) = (new.text("address"), new.value("protocol_port"));
    let taken = store
        .children(new.parent, Kind::Member)
        .into_iter()
        .any(|known| known.text("address") == address && known.value("protocol_port") == port);
    if taken {
        return Err(conflict(format!(
            "Another member on this pool is already using ip {address} on protocol_port {port}"
        )));
    }
    let watched = !store.children(new.parent, Kind::HealthMonitor).is_empty();
    Ok(if watched { "OFFLINE" } else { "NO_MONITOR" })
}

fn speaks_http(monitor: &Item) -> bool {
    matches!(monitor.text("type"), "HTTP" | "HTTPS")
}

fn not_of_type(name: &str, kind: &str) -> Refusal {
    bad(format!(
        "{name} is not a valid option for health monitors of type {kind}"
    ))
}

/// Completes a new monitor: adds the defaults of HTTP attributes, or refuses them on other types. A pool has
/// at most one monitor.
fn complete_monitor(session: &Session<'_>, new: &mut Item) -> Result<()> {
    for (name, usual) in HTTP_ONLY {
        let given = !new.value(name).is_null();
        if !speaks_http(new) && given {
            return Err(not_of_type(name, new.text("type")));
        }
        if speaks_http(new) && !given {
            new.values.insert(name.to_owned(), usual.into());
        }
    }
    let store = session.store();
    if store.children(new.parent, Kind::HealthMonitor).is_empty() {
        Ok(())
    } else {
        Err(conflict("This pool already has a health monitor"))
    }
}

pub(super) fn update(session: &mut Session<'_>, item: &Item, body: &Body) -> Result<()> {
    let mut body = body.clone();
    match item.kind {
        Kind::Listener => {
            let balancer = session.holder(Kind::LoadBalancer, &item.balancer.to_string())?;
            check_default_pool(session, &balancer, item.text("protocol"), &body)?;
        }
        Kind::HealthMonitor => check_monitor_change(item, &mut body)?,
        Kind::Policy => {
            let listener = session.find(Kind::Listener, &item.parent.to_string())?;
            body = policies::change(session, &listener, &body)?;
        }
        Kind::Rule => {
            let mut whole = item.values.clone();
            whole.extend(body.clone());
            policies::check_rule(&whole)?;
        }
        _ => {}
    }
    session.hold_with(item)?;
    set(session, item, &body);
    session.edit(item.id, |item| item.status = Status::PendingUpdate);
    if item.kind == Kind::Policy && body.contains_key("position") {
        policies::place(session, item.id);
    }
    Ok(())
}

fn check_monitor_change(monitor: &Item, body: &mut Body) -> Result<()> {
    for (name, usual) in HTTP_ONLY {
        let Some(value) = body.get_mut(name) else {
            continue;
        };
        if !speaks_http(monitor) {
            return Err(not_of_type(name, monitor.text("type")));
        }
        if value.is_null() {
            *value = usual.into();
        }
    }
    for name in ["delay", "max_retries", "timeout"] {
        if body.get(name).is_some_and(Value::is_null) {
            return Err(bad(format!("None is not a valid option for {name}")));
        }
    }
    Ok(())
}

/// Deletes a resource with its contents. Only a pool can be in use.
pub(super) fn delete(session: &mut Session<'_>, item: &Item) -> Result<()> {
    if item.kind == Kind::Pool
        && let Some(policy) = policies::user_of(session.store(), item)
    {
        return Err(conflict(format!(
            "Pool {} is in use by L7 policy {policy}",
            item.id
        )));
    }
    let tree = Tree::of(session, item);
    session.hold_with(item)?;
    session.edit(item.id, |item| item.status = Status::PendingDelete);
    session.deleted.push(tree);
    Ok(())
}
