//! Neutron v2.0 of one region: its kinds with their rules, how it reads lists and refuses calls, and the paths that no
//! kind's table has: the tags of a resource, the extensions, and the empty list of resources at the root.
mod addresses;
mod devices;
mod groups;
mod ips;
mod networks;
mod ports;
mod routers;

use std::fmt::Display;
use std::sync::LazyLock;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

pub(super) use addresses::is_inside;
pub(super) use groups::ensure_default;

use super::core::{
    Answer, Api, Call, Handled, Kind, ListQuery, Page, Refusal, Result, Session, Tables, filters,
    sorts, values,
};

pub(super) static API: Api = Api {
    tables: LazyLock::new(|| Tables::read(include_str!("../../../assets/sandbox/network.toml"))),
    hooks: &[
        ("address_group", groups::ADDRESS_GROUP),
        ("floating_ip", ips::FLOATING_IP),
        ("local_ip", ips::LOCAL_IP),
        ("local_ip_association", ips::ASSOCIATION),
        ("ndp_proxy", ips::NDP_PROXY),
        ("network", networks::NETWORK),
        ("port", ports::PORT),
        ("port_forwarding", ips::PORT_FORWARDING),
        ("rbac_policy", networks::RBAC_POLICY),
        ("router", routers::ROUTER),
        ("security_group", groups::SECURITY_GROUP),
        ("security_group_rule", groups::RULE),
        ("segment", networks::SEGMENT),
        ("subnet", networks::SUBNET),
        ("subnet_pool", networks::SUBNET_POOL),
        ("trunk", ports::TRUNK),
    ],
    own,
    list_query,
    page,
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
    if let Some(shown) = root(path) {
        return Ok(Some(Answer::ok(shown)));
    }
    match API.match_path(path).map(|it| (it.kind, it.rest)) {
        Some((kind, [])) if kind.name == "security_group" && call.method == Method::GET => {
            groups::create_missing_defaults(session, call);
            Ok(None)
        }
        Some((kind, [id, "tags", rest @ ..])) if kind.attribute("tags").is_some() => {
            tags(session, call, kind, id, rest).map(Some)
        }
        _ => Ok(None),
    }
}

/// Reads `If-Match: revision_number=N`. A header of another form is ignored, as in Neutron; a malformed
/// number is refused.
fn if_match(call: &Call<'_>) -> Result<Option<u64>> {
    let is_change = matches!(call.method.as_str(), "PUT" | "DELETE");
    let header = call.header("if-match").filter(|_| is_change);
    let number = header.and_then(|it| it.trim().strip_prefix("revision_number="));
    let number = number.map(str::parse).transpose();
    number.map_err(|_| refused("InvalidIfMatch", &[]))
}

/// The extensions of this release of Neutron.
const EXTENSIONS: &str = include_str!("../../../assets/sandbox/extensions.txt");

/// Returns the body at the root or at the extensions; `None` for other paths, and an unknown extension.
fn root(path: &[&str]) -> Option<Value> {
    let mut extensions = EXTENSIONS.split_whitespace();
    let shown = |alias: &str| {
        let updated = "2016-01-01T10:00:00-00:00";
        json!({"name": alias, "alias": alias, "description": "", "updated": updated, "links": []})
    };
    match path {
        [] => Some(json!({"resources": []})),
        ["extensions"] => Some(json!({"extensions": extensions.map(shown).collect::<Value>()})),
        ["extensions", alias] => {
            let known = extensions.find(|known| known == alias)?;
            Some(json!({"extension": shown(known)}))
        }
        _ => None,
    }
}

/// Handles the calls of a resource's tags: `/{collection}/{id}/tags`, also with `/{tag}`.
fn tags(
    session: &mut Session<'_>,
    call: &Call<'_>,
    kind: &'static Kind,
    id: &str,
    path: &[&str],
) -> Result<Answer> {
    let row = session.named(kind.name, id)?;
    let mut tags: Vec<Value> = row.items("tags").to_vec();
    let position = |tags: &[Value], tag: &str| {
        let position = tags.iter().position(|known| known == tag);
        position.ok_or_else(|| refused("TagNotFound", &[&tag]))
    };
    let mut answer = Answer::no_content();
    match (call.method.as_str(), path) {
        ("GET", []) => return Ok(Answer::ok(json!({"tags": tags}))),
        ("GET", [tag]) => return position(&tags, tag).map(|_| answer),
        ("PUT", []) => {
            let given = call.json()["tags"].as_array().cloned();
            let given = given.filter(|tags| tags.iter().all(Value::is_string));
            tags = given.ok_or_else(|| refused("InvalidTags", &[]))?;
            answer = Answer::ok(json!({"tags": tags}));
        }
        ("PUT", [tag]) => {
            tags.push((*tag).into());
            answer = Answer::created(Value::Null);
        }
        ("DELETE", []) => tags.clear(),
        ("DELETE", [tag]) => {
            tags.remove(position(&tags, tag)?);
        }
        _ => return Err(refused("no_page", &[])),
    }
    session.may_change(&row, "update")?;
    tags.sort_by_key(Value::to_string);
    tags.dedup();
    session.edit(kind.name, row.id, |row| row.set("tags", tags));
    session.raise_revision(kind.name, row.id);
    Ok(answer)
}

/// Parameters that are not filters.
const CONTROLS: &str = "limit marker page_reverse fields sort_key sort_dir";

fn list_query(session: &Session<'_>, kind: &'static Kind, call: &Call<'_>) -> Result<ListQuery> {
    let (filters, unknown) = filters(kind, call, CONTROLS);
    if !unknown.is_empty() {
        return Err(refused("UnknownFilter", &[&unknown.join("', '")]));
    }
    let text = call.param("limit").unwrap_or("0");
    let limit = text.parse::<usize>();
    let limit = limit.map_err(|_| refused("InvalidLimit", &[&text]))?;
    let limit = Some(limit).filter(|limit| *limit > 0).into_iter();
    let limit = limit.chain(session.options.page_max).min();
    let text = call.param("marker").filter(|_| limit.is_some());
    let known = |text: &str| session.get(kind.name, text.parse().ok()?);
    let marker = text.and_then(known).map(|row| row.id);
    if let (Some(text), None, false) = (text, marker, kind.forgets_marker) {
        return Err(kind.missing(text));
    }
    let is_reverse = call.param("page_reverse");
    Ok(ListQuery {
        filters,
        fields: values(call, "fields"),
        sorts: sorts(kind, call, "asc").map_err(|word| refused("UnknownSortKey", &[&word]))?,
        limit,
        marker,
        is_reverse: is_reverse.is_some_and(|flag| flag.eq_ignore_ascii_case("true")),
        ..ListQuery::default()
    })
}

/// Returns a list with its links; without a limit, it has none. A full page has a `next` and a `previous` link. Another
/// page has only `previous`, or only `next` if it was read in reverse.
fn page(kind: &'static Kind, call: &Call<'_>, page: Page) -> Value {
    let mut body = json!({kind.plural: page.items});
    if page.limit.is_some() {
        let mut links = Vec::new();
        if page.is_full || page.is_reverse {
            links.push(json!({"rel": "next", "href": link(call, page.last, false)}));
        }
        if page.is_full || !page.is_reverse {
            links.push(json!({"rel": "previous", "href": link(call, page.first, true)}));
        }
        body[format!("{}_links", kind.plural)] = links.into();
    }
    body
}

fn link(call: &Call<'_>, marker: Option<Uuid>, is_reverse: bool) -> String {
    let kept = call.query.iter();
    let kept = kept.filter(|(key, _)| key != "marker" && key != "page_reverse");
    let marker = marker.map(|id| ("marker".to_owned(), id.to_string()));
    let reverse = is_reverse.then(|| ("page_reverse".to_owned(), "True".to_owned()));
    call.link(kept.cloned().chain(marker).chain(reverse))
}
