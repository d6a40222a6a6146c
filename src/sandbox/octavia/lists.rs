//! Lists: filters, sorting, fields, pages.
use std::cmp::Ordering;

use http::StatusCode;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::body::{bad, failed};
use super::kind::{C, F, Kind};
use super::store::{Item, Store};
use super::view::{Depth, plain_value, view};
use crate::sandbox::wire::{Call, Refusal, Result};

/// Octavia's default page limit.
const PAGE_MAX: usize = 1000;

/// Parameters that are not filters.
const CONTROLS: [&str; 7] = [
    "limit",
    "marker",
    "page_reverse",
    "fields",
    "sort",
    "sort_key",
    "sort_dir",
];
const TAG_FILTERS: [&str; 4] = ["tags", "tags-any", "not-tags", "not-tags-any"];

/// The resources that a list covers.
pub(super) struct Scope<'a> {
    pub(super) kind: Kind,
    /// Their parent; `None` for all.
    pub(super) parent: Option<Uuid>,
    /// Their project; `None` for all.
    pub(super) project: Option<&'a str>,
}

/// An attribute, and whether its order is ascending.
type Sort<'a> = (&'a str, bool);

/// Returns a refusal from the layer before the API's own functions, which has another shape.
fn page(message: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "Bad Request", message)
}

/// Returns the wanted attributes of a list or a single resource; empty for all.
pub(super) fn fields<'a>(call: &'a Call<'_>) -> Vec<&'a str> {
    call.query
        .iter()
        .filter(|(key, _)| key == "fields")
        .map(|(_, value)| value.as_str())
        .collect()
}

/// Returns the body of `GET` on a collection.
pub(super) fn list(call: &Call<'_>, store: &Store, scope: &Scope<'_>) -> Result<Value> {
    let limit = limit(call)?;
    let sorts = sorts(call)?;
    let filters = filters(scope.kind, call)?;
    let sorts = check_sorts(scope.kind, sorts)?;
    let marker = match call.param("marker") {
        None => None,
        Some(text) => Some(marker(store, scope.kind, text)?),
    };
    let reverse = call.param("page_reverse") == Some("True");
    let mut rows: Vec<&Item> = match scope.parent {
        Some(parent) => store.children(parent, scope.kind),
        None => store.all(scope.kind).collect(),
    };
    rows.retain(|item| {
        scope
            .project
            .is_none_or(|project| *item.project == *project)
            && filters
                .iter()
                .all(|(name, value)| passes(store, item, name, value))
    });
    if let Some(marker) = marker {
        let wanted = if reverse {
            Ordering::Less
        } else {
            Ordering::Greater
        };
        rows.retain(|item| compare(store, item, marker, &sorts) == wanted);
    }
    rows.sort_by(|one, other| compare(store, one, other, &sorts));
    // A reversed page also begins at the front, not before the marker.
    rows.truncate(limit.unwrap_or(usize::MAX));
    let fields = fields(call);
    let items: Vec<Value> = rows
        .iter()
        .map(|item| view(store, item, Depth::Ids, &fields))
        .collect();
    let plural = scope.kind.form().plural;
    let mut body = Map::new();
    body.insert(plural.to_owned(), items.into());
    body.insert(format!("{plural}_links"), links(call, &rows, limit));
    Ok(Value::Object(body))
}

/// Returns the page limit; `None`: everything in one answer.
fn limit(call: &Call<'_>) -> Result<Option<usize>> {
    match call.param("limit") {
        None => Ok(Some(PAGE_MAX)),
        Some("infinite") => Ok(None),
        Some(text) => match text.parse::<i64>() {
            Err(_) => Err(page(format!(
                "Supplied pagination limit '{text}' is not valid."
            ))),
            Ok(number) if number < 1 => Ok(None),
            Ok(number) => Ok(Some(
                usize::try_from(number).map_or(PAGE_MAX, |number| number.min(PAGE_MAX)),
            )),
        },
    }
}

fn sorts<'a>(call: &'a Call<'_>) -> Result<Vec<Sort<'a>>> {
    let direction = |word: &str| match word.to_ascii_lowercase().as_str() {
        "asc" => Ok(true),
        "desc" => Ok(false),
        other => Err(page(format!(
            "Supplied sort direction '{other}' is not valid."
        ))),
    };
    if let Some(sort) = call.param("sort") {
        return sort
            .split(',')
            .map(|part| match part.split_once(':') {
                None => Ok((part, true)),
                Some((key, word)) => Ok((key, direction(word)?)),
            })
            .collect();
    }
    let Some(keys) = call.param("sort_key") else {
        return Ok(Vec::new());
    };
    let mut words = call.param("sort_dir").unwrap_or("asc").split(',');
    keys.split(',')
        .map(|key| Ok((key, direction(words.next().unwrap_or("asc"))?)))
        .collect()
}

fn check_sorts(kind: Kind, mut sorts: Vec<Sort<'_>>) -> Result<Vec<Sort<'_>>> {
    for (key, _) in &sorts {
        let known = kind.form().attribute(key);
        if !known.is_some_and(|attribute| attribute.is(F)) {
            return Err(bad(format!("Supplied sort key '{key}' is not valid.")));
        }
    }
    for key in ["created_at", "id"] {
        if !sorts.iter().any(|(known, _)| *known == key) {
            sorts.push((key, true));
        }
    }
    Ok(sorts)
}

/// Reads the filters. Each may be given only once: a second one makes the database compare with a list, which
/// fails.
fn filters(kind: Kind, call: &Call<'_>) -> Result<Vec<(String, String)>> {
    let form = kind.form();
    let mut found: Vec<(String, String)> = Vec::new();
    let mut fails = None;
    for (key, value) in &call.query {
        if CONTROLS.contains(&key.as_str()) {
            continue;
        }
        let attribute = form.attribute(key);
        let tagged = TAG_FILTERS.contains(&key.as_str());
        if attribute.is_some_and(|attribute| attribute.is(C)) {
            fails = Some(
                "Can't compare a collection to an object or collection; use contains() to test for membership.",
            );
        } else if !tagged
            && !form.parents.contains(&key.as_str())
            && !attribute.is_some_and(|attribute| attribute.is(F))
        {
            return Err(bad("One or more arguments are either duplicate or invalid"));
        } else if !tagged && found.iter().any(|(name, _)| name == key) {
            fails = Some(
                "(pymysql.err.OperationalError) (4078, \"Illegal parameter data types varchar and row for operation '='\")",
            );
        }
        found.push((key.clone(), value.clone()));
    }
    match fails {
        Some(message) => Err(failed(message)),
        None => Ok(found),
    }
}

fn passes(store: &Store, item: &Item, name: &str, wanted: &str) -> bool {
    if TAG_FILTERS.contains(&name) {
        return tagged(item, name, wanted);
    }
    let form = item.kind.form();
    let holder = match name {
        _ if !form.parents.contains(&name) => None,
        "loadbalancer_id" | "load_balancer_id" => Some(item.balancer),
        _ => Some(item.parent),
    };
    if let Some(holder) = holder {
        return holder.to_string().eq_ignore_ascii_case(wanted);
    }
    match plain_value(store, item, name) {
        Some(Value::String(text)) => text.eq_ignore_ascii_case(wanted),
        Some(Value::Number(number)) => number.to_string() == wanted,
        Some(Value::Bool(flag)) => match wanted.to_ascii_lowercase().as_str() {
            "true" | "1" => flag,
            "false" | "0" => !flag,
            _ => false,
        },
        _ => false,
    }
}

fn tagged(item: &Item, name: &str, wanted: &str) -> bool {
    let tags = item.value("tags").as_array();
    let has =
        |tag: &str| tags.is_some_and(|tags| tags.iter().any(|known| known.as_str() == Some(tag)));
    let mut wanted = wanted.split(',');
    match name {
        "tags" => wanted.all(has),
        "tags-any" => wanted.any(has),
        "not-tags" => !wanted.all(has),
        _ => !wanted.any(has),
    }
}

/// Returns the resource after which a page begins. A deleted balancer is still valid.
fn marker<'s>(store: &'s Store, kind: Kind, text: &str) -> Result<&'s Item> {
    text.parse()
        .ok()
        .and_then(|id| store.find(id))
        .filter(|item| item.kind == kind)
        .ok_or_else(|| bad(format!("Supplied pagination marker '{text}' is not valid.")))
}

fn compare(store: &Store, one: &Item, other: &Item, sorts: &[Sort<'_>]) -> Ordering {
    for (key, ascending) in sorts {
        let order = match *key {
            "id" => one.id.cmp(&other.id),
            "created_at" => one.created.timestamp().cmp(&other.created.timestamp()),
            key => order(
                &plain_value(store, one, key),
                &plain_value(store, other, key),
            ),
        };
        if order != Ordering::Equal {
            return if *ascending { order } else { order.reverse() };
        }
    }
    Ordering::Equal
}

fn order(one: &Option<Value>, other: &Option<Value>) -> Ordering {
    match (one, other) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => one.as_i64().cmp(&other.as_i64()),
        (Some(Value::Bool(one)), Some(Value::Bool(other))) => one.cmp(other),
        (one, other) => {
            let text = |value: &Option<Value>| {
                let text = value.as_ref().and_then(Value::as_str);
                text.unwrap_or_default().to_ascii_lowercase()
            };
            text(one).cmp(&text(other))
        }
    }
}

/// Returns the links of a page. They carry the limit, the sort keys and the marker, but no filter, fields or
/// directions. `next` is there whenever the page is full, `previous` whenever there was a marker.
fn links(call: &Call<'_>, rows: &[&Item], limit: Option<usize>) -> Value {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return json!([]);
    };
    let mut query = match limit {
        Some(limit) => format!("limit={limit}"),
        None => "limit=None".to_owned(),
    };
    for key in ["sort", "sort_key"] {
        if let Some(value) = call.param(key) {
            query = format!("{query}&{key}={value}");
        }
    }
    let link = |id: Uuid| format!("{}?{query}&marker={id}", call.url);
    let mut links = Vec::new();
    if call.param("marker").is_some() {
        let href = format!("{}&page_reverse=True", link(first.id));
        links.push(json!({"rel": "previous", "href": href}));
    }
    if limit.is_none_or(|limit| rows.len() >= limit) {
        links.push(json!({"rel": "next", "href": link(last.id)}));
    }
    links.into()
}
