//! Neutron v2.0 of one region: its kinds with their rules, and how it reads lists and refuses calls.
mod addresses;
mod fixed;
mod floating_ips;
mod groups;
mod interfaces;
mod lists;
mod networks;
mod others;
mod ports;
mod routers;
mod seed;
mod subnets;
mod tags;
mod trunks;

use std::sync::LazyLock;

use http::{Method, StatusCode};
use serde_json::json;

pub(super) use addresses::is_inside;
pub(super) use seed::{Seed, Seeded};

use super::api::{Api, Problem};
use super::body::{NO_FLAG, plain};
use super::kind::{self, Hooks, Kind};
use super::resource::refusal;
use super::session::Session;
use super::wire::{Answer, Call, Handled, Refusal, Result};

pub(super) static API: Api = Api {
    kind: "network",
    name: "neutron",
    roots: &["/v2.0"],
    kinds: || &KINDS,
    times: "%Y-%m-%dT%H:%M:%SZ",
    folds: false,
    hides: true,
    open: fixed::versions,
    own,
    wanted: lists::wanted,
    page: lists::page,
    problem,
    refuse,
};

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let tables = include_str!("../../../assets/sandbox/network.toml");
    kind::tables(tables, &API, hooks)
});

fn hooks(kind: &str) -> Hooks {
    match kind {
        "address_group" => groups::ADDRESS_GROUP,
        "conntrack_helper" => others::CONNTRACK_HELPER,
        "floating_ip" => floating_ips::FLOATING_IP,
        "local_ip" => others::LOCAL_IP,
        "local_ip_association" => others::ASSOCIATION,
        "metering_label" => others::METERING_LABEL,
        "metering_label_rule" => others::METERING_RULE,
        "ndp_proxy" => others::NDP_PROXY,
        "network" => networks::NETWORK,
        "port" => ports::PORT,
        "port_forwarding" => floating_ips::PORT_FORWARDING,
        "rbac_policy" => networks::RBAC_POLICY,
        "router" => routers::ROUTER,
        "security_group" => groups::SECURITY_GROUP,
        "security_group_rule" => groups::RULE,
        "segment" => networks::SEGMENT,
        "subnet" => subnets::SUBNET,
        "subnet_pool" => subnets::SUBNET_POOL,
        "trunk" => trunks::TRUNK,
        _ => Hooks::NONE,
    }
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::bad_request("HTTPBadRequest", message)
}

/// Returns the refusal of a request that makes no sense for a kind.
fn bad_request(kind: &str, message: impl std::fmt::Display) -> Refusal {
    Refusal::bad_request("BadRequest", format!("Bad {kind} request: {message}"))
}

fn invalid(name: &str, reason: &str) -> Refusal {
    bad(format!("Invalid input for {name}. Reason: {reason}"))
}

fn forbidden(rule: &str) -> Refusal {
    let message = format!("rule:{rule} is disallowed by policy");
    Refusal::new(StatusCode::FORBIDDEN, "PolicyNotAuthorized", message)
}

fn no_page() -> Refusal {
    Refusal::not_found("HTTPNotFound", "The resource could not be found.")
}

fn problem(problem: Problem<'_>) -> Refusal {
    let verb = |is_new: bool| if is_new { "create" } else { "update" };
    match problem {
        Problem::NoPage => no_page(),
        Problem::NoMethod => refusal(
            405,
            "HTTPMethodNotAllowed",
            "The server could not comply with the request since it is either malformed or otherwise incorrect.",
        ),
        Problem::NoId(kind) => kind.missing("None"),
        Problem::NoBody(kind) => bad(format!(
            "Unable to find '{}' in request body",
            kind.singular
        )),
        Problem::Forbidden(verb, kind) => forbidden(&format!("{verb}_{}", kind.singular)),
        Problem::Taken(kind, id) => {
            let message = format!("{} with id {id} already exists.", kind.singular);
            Refusal::conflict("Conflict", message)
        }
        Problem::NoBulk => bad("Bulk operation not supported"),
        Problem::Unknown(_, names) => bad(format!("Unrecognized attribute(s) '{names}'")),
        Problem::NotTaken(_, name, true) => bad(format!("Attribute '{name}' not allowed in POST")),
        Problem::NotTaken(_, name, false) => {
            bad(format!("Cannot update read-only attribute {name}"))
        }
        Problem::Required(name) => bad(format!(
            "Failed to parse request. Required attribute '{name}' not specified"
        )),
        Problem::Invalid(_, value, NO_FLAG) => Refusal::bad_request(
            "InvalidInput",
            format!(
                "Invalid input for operation: '{}' cannot be converted to boolean.",
                plain(value)
            ),
        ),
        Problem::Invalid(name, _, reason) => invalid(name, reason),
        Problem::AdminOnly(kind, name, is_new) => {
            let rule = format!("{}_{}", verb(is_new), kind.singular);
            let message = format!("(rule:{rule} and rule:{rule}:{name}) is disallowed by policy");
            Refusal::new(StatusCode::FORBIDDEN, "PolicyNotAuthorized", message)
        }
        Problem::OtherProject(name, _) => bad(format!(
            "Specifying '{name}' other than the authenticated project in request is not allowed \
             for the current user."
        )),
    }
}

/// Returns a refusal as Neutron's body. A 401 comes from keystonemiddleware and has Keystone's shape.
fn refuse(refusal: Refusal, _: &Call<'_>) -> Answer {
    if refusal.status == StatusCode::UNAUTHORIZED {
        return refusal.keystone();
    }
    let Refusal {
        status,
        kind,
        message,
    } = refusal;
    let error = json!({"type": kind, "message": message, "detail": ""});
    Answer::json(status, json!({"NeutronError": error}))
}

fn own(session: &mut Session<'_>, call: &Call<'_>, path: Option<&[&str]>) -> Handled {
    match if_match(call) {
        Ok(revision) => session.if_match = revision,
        Err(refusal) => return Some(Err(refusal)),
    }
    let path = path?;
    if let Some(result) = fixed::answer(call, path) {
        return Some(result);
    }
    let place = API.place(path)?;
    match place.rest {
        [] if place.kind.name == "security_group" && call.method == Method::GET => {
            groups::refill(session, call);
            None
        }
        [id, "tags", rest @ ..] if place.kind.attribute("tags").is_some() => {
            Some(tags::answer(session, call, place.kind, id, rest))
        }
        _ => None,
    }
}

/// Reads `If-Match: revision_number=N`. A header of another form is ignored, as in Neutron; a malformed
/// number is refused.
fn if_match(call: &Call<'_>) -> Result<Option<u64>> {
    if call.method != Method::PUT && call.method != Method::DELETE {
        return Ok(None);
    }
    let header = call.header("if-match");
    let Some(number) = header.and_then(|it| it.trim().strip_prefix("revision_number=")) else {
        return Ok(None);
    };
    number.parse().map(Some).map_err(|_| {
        bad_request(
            "if-match",
            "Revision number etag must be in the format of revision_number=<int>.",
        )
    })
}
