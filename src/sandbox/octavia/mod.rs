//! Octavia v2 of one region.
//!
//! A balancer takes one change at a time: it is PENDING_* until the change ends, and refuses other changes meanwhile.
//! The port of a VIP is created and deleted by Neutron's rules, so it blocks the deletion of its network.
mod balancers;
mod children;
mod pending;

use std::fmt::Display;
use std::sync::LazyLock;

use http::{Method, StatusCode};
use serde_json::{Value, json};

pub(super) use pending::BalancerChange;

use super::core::{
    Answer, Api, Call, Handled, Kind, ListQuery, Page, Refusal, Result, Session, TAG_FILTERS,
    Tables, filters, id_in, refuse_if, sorts, values,
};

pub(super) static API: Api = Api {
    tables: LazyLock::new(|| {
        Tables::read(include_str!("../../../assets/sandbox/load-balancer.toml"))
    }),
    hooks: &[
        (pending::BALANCER, balancers::LOAD_BALANCER),
        ("listener", children::CHILD),
        ("pool", children::CHILD),
        ("member", children::CHILD),
        ("health_monitor", children::CHILD),
        ("l7policy", children::CHILD),
        ("l7rule", children::CHILD),
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

/// Returns a refusal as Octavia sends it, without a type. A refusal whose type has several words comes from the
/// layer before the API's own functions and has another shape; a 401 comes from keystonemiddleware.
fn refuse(refusal: Refusal, _: &Call<'_>) -> Answer {
    if refusal.status == StatusCode::UNAUTHORIZED {
        return refusal.keystone();
    }
    let (status, message) = (refusal.status, refusal.message);
    let body = match (refusal.kind, status.is_server_error()) {
        (title, _) if title.contains(' ') => {
            json!({"code": status.as_u16(), "title": title, "description": message})
        }
        (_, true) => json!({"faultcode": "Server", "faultstring": message, "debuginfo": null}),
        (_, false) => json!({"faultcode": "Client", "faultstring": message, "debuginfo": null}),
    };
    Answer::json(status, body)
}

fn own(session: &mut Session<'_>, call: &Call<'_>, path: &[&str]) -> Handled {
    if path.is_empty() && call.method == Method::GET {
        return Ok(Some(Answer::ok("v2".into())));
    }
    // A parent in a path is read before the API's own functions run, so its refusal has the other shape.
    let matched = API.match_path(path);
    if let Some((text, parent)) = matched.and_then(|it| it.parent.zip(it.kind.parent)) {
        let refusal = match parent.kind {
            "pool" => "UnknownPool",
            _ => "UnknownPolicy",
        };
        let known = id_in(text).and_then(|id| session.get(parent.kind, id));
        refuse_if(known.is_none(), || refused(refusal, &[&text]))?;
    }
    Ok(None)
}

/// Default and maximum number of rows on a page.
const PAGE_MAX: usize = 1000;

/// Parameters that are not filters.
const CONTROLS: &str = "limit marker page_reverse fields sort sort_key sort_dir";

fn list_query(session: &Session<'_>, kind: &'static Kind, call: &Call<'_>) -> Result<ListQuery> {
    let caller = &session.caller;
    let project = call.param("project_id").unwrap_or(&caller.project);
    refuse_if(!caller.owns(project), || kind.forbidden("list"))?;
    let limit = limit(call)?;
    let (mut filters, unknown) = filters(kind, call, CONTROLS);
    refuse_if(!unknown.is_empty(), || refused("UnknownFilter", &[]))?;
    // A second value makes the database compare with a list, which fails.
    let is_repeated = |(name, values): &(String, Vec<String>)| {
        values.len() > 1 && !TAG_FILTERS.contains(&name.as_str())
    };
    if filters.iter().any(is_repeated) {
        return Err(refused("RepeatedFilter", &[]));
    }
    for (name, _) in &mut filters {
        if name == "load_balancer_id" {
            "loadbalancer_id".clone_into(name);
        }
    }
    let mut sorts = sorts(kind, call, "asc").map_err(|word| refused("UnknownSortKey", &[&word]))?;
    sorts.extend(["created_at", "id"].map(|key| (key.to_owned(), true)));
    let marker = call.param("marker").map(|text| {
        let known = id_in(text).filter(|id| session.store().find(kind.name, *id).is_some());
        known.ok_or_else(|| refused("InvalidMarker", &[&text]))
    });
    Ok(ListQuery {
        filters,
        fields: values(call, "fields"),
        sorts,
        limit,
        marker: marker.transpose()?,
        is_reverse: call.param("page_reverse") == Some("True"),
        ..ListQuery::default()
    })
}

/// Returns the page limit; `None` for all rows in one answer.
fn limit(call: &Call<'_>) -> Result<Option<usize>> {
    let text = match call.param("limit") {
        None => return Ok(Some(PAGE_MAX)),
        Some("infinite") => return Ok(None),
        Some(text) => text,
    };
    let number: Result<i64, _> = text.parse();
    let number = number.map_err(|_| refused("InvalidLimit", &[&text]))?;
    let number = usize::try_from(number).unwrap_or(0);
    Ok((number > 0).then_some(number.min(PAGE_MAX)))
}

/// Returns a list with its links. The links have the limit, the sort keys and the marker, but no filters, fields or
/// directions. A full page has a `next` link; a page after a marker has a `previous` link, unless it is empty.
fn page(kind: &'static Kind, call: &Call<'_>, page: Page) -> Value {
    let limit = page.limit.map(|limit| limit.to_string());
    let mut query = format!("limit={}", limit.as_deref().unwrap_or("None"));
    for key in ["sort", "sort_key"] {
        if let Some(value) = call.param(key) {
            query += &format!("&{key}={value}");
        }
    }
    let link = |id| format!("{}?{query}&marker={id}", call.url);
    let mut links = Vec::new();
    if let Some(first) = page.first.filter(|_| call.param("marker").is_some()) {
        let href = format!("{}&page_reverse=True", link(first));
        links.push(json!({"rel": "previous", "href": href}));
    }
    if let Some(last) = page.last.filter(|_| page.is_full) {
        links.push(json!({"rel": "next", "href": link(last)}));
    }
    json!({kind.plural: page.items, format!("{}_links", kind.plural): links})
}
