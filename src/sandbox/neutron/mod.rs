//! Neutron v2.0 of one region: its kinds with their rules, and how it reads lists and refuses calls.
mod addresses;
mod devices;
mod floating_ips;
mod groups;
mod lists;
mod networks;
mod others;
mod paths;
mod ports;
mod routers;
mod trunks;

use std::fmt::Display;
use std::sync::LazyLock;

use http::{Method, StatusCode};
use serde_json::json;

pub(super) use addresses::is_inside;
pub(super) use groups::ensure_default;

use super::core::{Answer, Api, Call, Handled, Refusal, Result, Session, Tables};

pub(super) static API: Api = Api {
    tables: LazyLock::new(|| Tables::read(include_str!("../../../assets/sandbox/network.toml"))),
    hooks: &[
        ("address_group", groups::ADDRESS_GROUP),
        ("conntrack_helper", others::CONNTRACK_HELPER),
        ("floating_ip", floating_ips::FLOATING_IP),
        ("local_ip", others::LOCAL_IP),
        ("local_ip_association", others::ASSOCIATION),
        ("metering_label", others::METERING_LABEL),
        ("metering_label_rule", others::METERING_RULE),
        ("ndp_proxy", others::NDP_PROXY),
        ("network", networks::NETWORK),
        ("port", ports::PORT),
        ("port_forwarding", floating_ips::PORT_FORWARDING),
        ("rbac_policy", networks::RBAC_POLICY),
        ("router", routers::ROUTER),
        ("security_group", groups::SECURITY_GROUP),
        ("security_group_rule", groups::RULE),
        ("segment", networks::SEGMENT),
        ("subnet", networks::SUBNET),
        ("subnet_pool", networks::SUBNET_POOL),
        ("trunk", trunks::TRUNK),
    ],
    own,
    list_query: lists::list_query,
    page: lists::page,
    refuse,
};

/// Returns the refusal with a name, from the service's file.
fn refused(name: &str, parts: &[&dyn Display]) -> Refusal {
    API.tables.service.refusal(name, parts)
}

/// Returns a refusal as Neutron's body. A 401 comes from keystonemiddleware and has Keystone's shape.
fn refuse(refusal: Refusal, _: &Call<'_>) -> Answer {
    if refusal.status == StatusCode::UNAUTHORIZED {
        return refusal.keystone();
    }
    let error = json!({"type": refusal.kind, "message": refusal.message, "detail": ""});
    Answer::json(refusal.status, json!({"NeutronError": error}))
}

fn own(session: &mut Session<'_>, call: &Call<'_>, path: &[&str]) -> Handled {
    session.if_match = if_match(call)?;
    if let Some(answer) = paths::root(path)? {
        return Ok(Some(answer));
    }
    let Some(matched) = API.match_path(path) else {
        return Ok(None);
    };
    match matched.rest {
        [] if matched.kind.name == "security_group" && call.method == Method::GET => {
            groups::create_missing_defaults(session, call);
            Ok(None)
        }
        [id, "tags", rest @ ..] if matched.kind.attribute("tags").is_some() => {
            paths::tags(session, call, matched.kind, id, rest).map(Some)
        }
        _ => Ok(None),
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
    let number = number.parse().map(Some);
    number.map_err(|_| refused("InvalidIfMatch", &[]))
}
