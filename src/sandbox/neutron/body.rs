//! Neutron's checks of a body that precede the rules of each kind.
use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::kind::{Kind, P, U, W};
use crate::sandbox::Caller;
use crate::sandbox::wire::{Refusal, Result};

/// Characters in a name or a description.
const TEXT_MAX: usize = 255;

const BOOLEANS: [&str; 9] = [
    "admin_state_up",
    "shared",
    "router:external",
    "enable_dhcp",
    "stateful",
    "is_default",
    "port_security_enabled",
    "distributed",
    "ha",
];

fn bad(message: String) -> Refusal {
    Refusal::bad_request("HTTPBadRequest", message)
}

pub(super) fn invalid(name: &str, reason: &str) -> Refusal {
    bad(format!("Invalid input for {name}. Reason: {reason}"))
}

pub(super) fn missing(name: &str) -> Refusal {
    bad(format!(
        "Failed to parse request. Required attribute '{name}' not specified"
    ))
}

pub(super) fn text<'a>(body: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(invalid(name, &format!("'{other}' is not a valid string."))),
    }
}

pub(super) fn required<'a>(body: &'a Map<String, Value>, name: &str) -> Result<&'a str> {
    text(body, name)?.ok_or_else(|| missing(name))
}

pub(super) fn flag(body: &Map<String, Value>, name: &str) -> Result<Option<bool>> {
    match body.get(name) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(Value::String(word)) if word.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Some(Value::String(word)) if word.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Some(other) => {
            let shown = other
                .as_str()
                .map_or_else(|| other.to_string(), str::to_owned);
            Err(Refusal::bad_request(
                "InvalidInput",
                format!("Invalid input for operation: '{shown}' cannot be converted to boolean."),
            ))
        }
    }
}

pub(super) fn id(body: &Map<String, Value>, name: &str) -> Result<Option<Uuid>> {
    text(body, name)?
        .map(|text| {
            text.parse()
                .map_err(|_| invalid(name, &format!("'{text}' is not a valid UUID.")))
        })
        .transpose()
}

/// Checks the attributes of one resource against its kind.
///
/// Refuses, with Neutron's messages and in its order: an attribute that the kind does not have, one that POST
/// or PUT does not accept, a wrong type, one that only admins may set, and a project other than the caller's.
/// `keep_ids` lets POST name the id.
pub(super) fn checked(
    kind: &Kind,
    body: &Map<String, Value>,
    creating: bool,
    keep_ids: bool,
    caller: &Caller,
) -> Result<()> {
    let unknown: Vec<&str> = body
        .keys()
        .map(String::as_str)
        .filter(|name| kind.attribute(name).is_none())
        .collect();
    if !unknown.is_empty() {
        return Err(bad(format!(
            "Unrecognized attribute(s) '{}'",
            unknown.join(", ")
        )));
    }
    let wanted = if creating { P } else { U };
    for (name, value) in body {
        let Some(attribute) = kind.attribute(name) else {
            continue;
        };
        let allowed = attribute.is(wanted) || (creating && keep_ids && name == "id");
        if !allowed {
            return Err(bad(if creating {
                format!("Attribute '{name}' not allowed in POST")
            } else {
                format!("Cannot update read-only attribute {name}")
            }));
        }
        if matches!(name.as_str(), "name" | "description")
            && text(body, name)?.is_some_and(|text| text.chars().count() > TEXT_MAX)
        {
            let shown = value.as_str().unwrap_or_default();
            return Err(invalid(
                name,
                &format!("'{shown}' exceeds maximum length of {TEXT_MAX}."),
            ));
        }
        if BOOLEANS.contains(&name.as_str()) {
            flag(body, name)?;
        }
        let project = matches!(name.as_str(), "project_id" | "tenant_id");
        if project && !caller.admin && value.as_str() != Some(&caller.project) {
            return Err(bad(format!(
                "Specifying '{name}' other than the authenticated project in request is not allowed \
                 for the current user."
            )));
        }
        if attribute.is(W) && !caller.admin && *value != Value::Bool(false) && !value.is_null() {
            let verb = if creating { "create" } else { "update" };
            let rule = format!("{verb}_{}", kind.singular);
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "PolicyNotAuthorized",
                format!("(rule:{rule} and rule:{rule}:{name}) is disallowed by policy"),
            ));
        }
    }
    Ok(())
}
