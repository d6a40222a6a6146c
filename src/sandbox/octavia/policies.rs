//! L7 policies and their rules: the target of a policy, and the order of policies.
use serde_json::Value;
use uuid::Uuid;

use super::body::bad;
use super::children::{Body, check_protocols, text};
use super::kind::Kind;
use super::session::Session;
use super::store::{Item, Store};
use crate::sandbox::wire::{Refusal, Result};

const TO_POOL: &str = "REDIRECT_TO_POOL";
const TO_URL: &str = "REDIRECT_TO_URL";
const TO_PREFIX: &str = "REDIRECT_PREFIX";
/// The status of a redirection that names no code.
const FOUND: u16 = 302;
const TARGETS: [&str; 3] = ["redirect_pool_id", "redirect_url", "redirect_prefix"];

fn arguments(problem: &str) -> Refusal {
    bad(format!("Invalid L7 Policy arguments: {problem}"))
}

fn check_pool(session: &Session<'_>, listener: &Item, body: &Body) -> Result<()> {
    match text(body, "redirect_pool_id") {
        None => Ok(()),
        Some(id) => {
            let pool = session.find(Kind::Pool, id)?;
            check_protocols(listener.text("protocol"), Some(pool.text("protocol")))
        }
    }
}

/// Returns a new policy's body, completed with the values that its action implies.
pub(super) fn completed(session: &Session<'_>, listener: &Item, body: &Body) -> Result<Body> {
    check_pool(session, listener, body)?;
    consistent(body)
}

/// Returns a policy's change with its consequences: the target decides the action, and the action the target.
pub(super) fn change(session: &Session<'_>, listener: &Item, body: &Body) -> Result<Body> {
    if body.is_empty() {
        return Err(arguments("Invalid update options"));
    }
    let changed = consistent(body)?;
    check_pool(session, listener, &changed)?;
    Ok(changed)
}

pub(super) fn consistent(body: &Body) -> Result<Body> {
    let mut body = body.clone();
    let given = |name: &str| text(&body, name).is_some_and(|text| !text.is_empty());
    let (pool, url, prefix) = (
        given("redirect_pool_id"),
        given("redirect_url"),
        given("redirect_prefix"),
    );
    match text(&body, "action") {
        Some(TO_POOL) if !pool => {
            return Err(arguments(
                "redirect_pool_id or redirect_pool must not be None",
            ));
        }
        Some(TO_URL) if !url => return Err(arguments("redirect_url must not be None")),
        Some(TO_PREFIX) if !prefix => return Err(arguments("redirect_prefix must not be None")),
        _ => {}
    }
    if pool && (url || prefix) {
        return Err(arguments(
            "Cannot specify redirect_pool_id and redirect_url or redirect_prefix at the same time",
        ));
    }
    let (action, target) = match (text(&body, "action"), pool, url, prefix) {
        (Some("REJECT"), ..) => ("REJECT", None),
        (_, true, _, _) => (TO_POOL, Some(TARGETS[0])),
        (_, _, true, _) => (TO_URL, Some(TARGETS[1])),
        (_, _, _, true) => (TO_PREFIX, Some(TARGETS[2])),
        _ => return Ok(body),
    };
    body.insert("action".to_owned(), action.into());
    for name in TARGETS {
        if Some(name) != target {
            body.insert(name.to_owned(), Value::Null);
        }
    }
    let has_code = body
        .get("redirect_http_code")
        .is_some_and(|code| !code.is_null());
    match action {
        TO_URL | TO_PREFIX if has_code => {}
        TO_URL | TO_PREFIX => {
            body.insert("redirect_http_code".to_owned(), FOUND.into());
        }
        _ => {
            body.insert("redirect_http_code".to_owned(), Value::Null);
        }
    }
    Ok(body)
}

/// Renumbers the policies of a listener, with one of them at the position that it asks for, or else last.
pub(super) fn place(session: &mut Session<'_>, id: Uuid) {
    let Some(policy) = session.store().get(id).cloned() else {
        return;
    };
    let wanted = policy.value("position").as_u64();
    let mut others: Vec<(Option<u64>, Uuid)> = session
        .store()
        .children(policy.parent, Kind::Policy)
        .into_iter()
        .filter(|other| other.id != id)
        .map(|other| (other.value("position").as_u64(), other.id))
        .collect();
    others.sort_unstable();
    let mut order: Vec<Uuid> = others.into_iter().map(|(_, other)| other).collect();
    let slot = wanted
        .and_then(|position| usize::try_from(position).ok())
        .map_or(order.len(), |position| position.saturating_sub(1));
    order.insert(slot.min(order.len()), id);
    for (number, policy) in (1_u64..).zip(order) {
        let moved = session
            .store()
            .get(policy)
            .is_some_and(|policy| policy.value("position").as_u64() != Some(number));
        if moved {
            session.edit(policy, |policy| {
                policy.values.insert("position".to_owned(), number.into());
            });
        }
    }
}

/// Returns the policy that redirects to a pool.
pub(super) fn user_of(store: &Store, pool: &Item) -> Option<Uuid> {
    store
        .children(pool.balancer, Kind::Listener)
        .into_iter()
        .flat_map(|listener| store.children(listener.id, Kind::Policy))
        .find(|policy| policy.refers_to("redirect_pool_id") == Some(pool.id))
        .map(|policy| policy.id)
}

/// Checks that a rule's comparison fits its type.
pub(super) fn check_rule(body: &Body) -> Result<()> {
    let wrong = |problem: &str| {
        Err(bad(format!(
            "Error parsing L7Rule: Invalid L7 Rule: {problem}"
        )))
    };
    let given = |name: &str| text(body, name).unwrap_or_default();
    if given("value").is_empty() {
        return wrong("L7 rule type requires a value");
    }
    match given("type") {
        "HEADER" | "COOKIE" if given("key").is_empty() => wrong("L7 rule type requires a key"),
        "FILE_TYPE" if !matches!(given("compare_type"), "EQUAL_TO" | "REGEX") => {
            wrong("invalid comparison type for rule type")
        }
        _ => Ok(()),
    }
}
