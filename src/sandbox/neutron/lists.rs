//! Lists: filters, sorting, fields, pages.
use std::cmp::Ordering;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Scope;
use super::kind::{self, F, Kind, Row, S};
use crate::sandbox::wire::{Call, Refusal, Result};

/// Parameters that are not filters.
const CONTROLS: [&str; 6] = [
    "limit",
    "marker",
    "page_reverse",
    "fields",
    "sort_key",
    "sort_dir",
];
const TAG_FILTERS: [&str; 4] = ["tags", "tags-any", "not-tags", "not-tags-any"];

/// The parameters of a list request.
struct Wanted<'a> {
    /// An attribute and its values, which are alternatives.
    filters: Vec<(String, Vec<String>)>,
    fields: Vec<&'a str>,
    /// An attribute, and whether its order is ascending. The last one is the id.
    sorts: Vec<(&'a str, bool)>,
    /// `None`: everything in one answer.
    limit: Option<usize>,
    marker: Option<&'a str>,
    reverse: bool,
}

fn bad(message: String) -> Refusal {
    Refusal::bad_request("HTTPBadRequest", message)
}

/// Returns the wanted attributes of a single resource. Refuses filters that the kind does not have.
pub(super) fn fields_of<'a>(kind: &Kind, call: &'a Call<'_>) -> Result<Vec<&'a str>> {
    filters(kind, call)?;
    Ok(fields(call))
}

/// Returns the attributes that a list shows. A list of segments ignores the wanted ones, except that it omits
/// an unwanted id.
fn fields_in_list<'a>(kind: &Kind, call: &'a Call<'_>) -> Vec<&'a str> {
    let asked = fields(call);
    if kind.singular != "segment" || asked.is_empty() {
        return asked;
    }
    let names = kind.attributes.iter().map(|attribute| attribute.name);
    names
        .filter(|name| *name != "id" || asked.contains(name))
        .collect()
}

fn fields<'a>(call: &'a Call<'_>) -> Vec<&'a str> {
    values(call, "fields").collect()
}

fn values<'a>(call: &'a Call<'_>, name: &str) -> impl Iterator<Item = &'a str> {
    call.query
        .iter()
        .filter(move |(key, value)| key == name && !value.is_empty())
        .map(|(_, value)| value.as_str())
}

fn filters(kind: &Kind, call: &Call<'_>) -> Result<Vec<(String, Vec<String>)>> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut unknown: Vec<String> = Vec::new();
    for (key, value) in &call.query {
        if CONTROLS.contains(&key.as_str()) {
            continue;
        }
        let tagged = TAG_FILTERS.contains(&key.as_str())
            && kind.attribute("tags").is_some_and(|tags| tags.is(F));
        if !tagged && !kind.attribute(key).is_some_and(|attribute| attribute.is(F)) {
            let shown = format!("'{key}'");
            if !unknown.contains(&shown) {
                unknown.push(shown);
            }
            continue;
        }
        match found.iter_mut().find(|(name, _)| name == key) {
            Some((_, values)) => values.push(value.clone()),
            None => found.push((key.clone(), vec![value.clone()])),
        }
    }
    if unknown.is_empty() {
        Ok(found)
    } else {
        Err(bad(format!(
            "[{}] is invalid attribute for filtering",
            unknown.join(", ")
        )))
    }
}

impl<'a> Wanted<'a> {
    fn of(kind: &Kind, call: &'a Call<'_>, page_max: Option<usize>) -> Result<Self> {
        let filters = filters(kind, call)?;
        let limit = match (limit(call)?, page_max) {
            (0, max) => max,
            (limit, Some(max)) => Some(limit.min(max)),
            (limit, None) => Some(limit),
        };
        Ok(Self {
            filters,
            fields: fields_in_list(kind, call),
            sorts: sorts(kind, call)?,
            limit,
            marker: call.param("marker").filter(|_| limit.is_some()),
            reverse: call
                .param("page_reverse")
                .is_some_and(|flag| flag.eq_ignore_ascii_case("true")),
        })
    }
}

/// Returns the page limit; 0 means no limit.
fn limit(call: &Call<'_>) -> Result<usize> {
    let text = call.param("limit").unwrap_or("0");
    text.parse().map_err(|_| {
        Refusal::bad_request(
            "BadRequest",
            format!("Bad limit request: Limit must be an integer 0 or greater and not '{text}'."),
        )
    })
}

fn sorts<'a>(kind: &Kind, call: &'a Call<'_>) -> Result<Vec<(&'a str, bool)>> {
    let keys: Vec<&str> = values(call, "sort_key").collect();
    let dirs: Vec<&str> = values(call, "sort_dir").collect();
    if keys.len() != dirs.len() {
        return Err(bad(
            "The number of sort_keys and sort_dirs must be same".to_owned()
        ));
    }
    let listed = |wrong: Vec<&&str>| {
        let shown: Vec<String> = wrong.iter().map(|word| format!("'{word}'")).collect();
        format!("[{}]", shown.join(", "))
    };
    let wrong: Vec<&&str> = keys
        .iter()
        .filter(|key| !kind.attribute(key).is_some_and(|attribute| attribute.is(S)))
        .collect();
    if !wrong.is_empty() {
        return Err(bad(format!(
            "{} is invalid attribute for sort_keys",
            listed(wrong)
        )));
    }
    let wrong: Vec<&&str> = dirs
        .iter()
        .filter(|dir| !matches!(**dir, "asc" | "desc"))
        .collect();
    if !wrong.is_empty() {
        return Err(bad(format!(
            "{} is invalid value for sort_dirs, valid value is 'asc' and 'desc'",
            listed(wrong)
        )));
    }
    let mut sorts: Vec<(&str, bool)> = keys
        .into_iter()
        .zip(dirs.into_iter().map(|dir| dir == "asc"))
        .collect();
    if !sorts.iter().any(|(key, _)| *key == "id") {
        sorts.push(("id", true));
    }
    Ok(sorts)
}

/// Returns the body of `GET` on a collection.
pub(super) fn list<R: Row>(
    call: &Call<'_>,
    scope: &Scope<'_>,
    page_max: Option<usize>,
) -> Result<Value> {
    let kind = R::KIND;
    let wanted = Wanted::of(kind, call, page_max)?;
    let page = page::<R>(&wanted, scope)?;
    let items: Vec<Value> = page
        .iter()
        .map(|row| kind::view(*row, &wanted.fields, scope))
        .collect();
    let mut body = Map::new();
    body.insert(kind.plural.to_owned(), items.into());
    if let Some(limit) = wanted.limit {
        let ids: Vec<Uuid> = page.iter().map(|row| row.meta().id).collect();
        body.insert(
            format!("{}_links", kind.plural),
            links(call, &ids, limit, wanted.reverse),
        );
    }
    Ok(Value::Object(body))
}

fn page<'s, R: Row>(wanted: &Wanted<'_>, scope: &Scope<'s>) -> Result<Vec<&'s R>> {
    let marker = marker::<R>(wanted, scope)?;
    let by_id = wanted.sorts.len() == 1;
    if by_id
        && !wanted.reverse
        && wanted
            .sorts
            .first()
            .is_some_and(|(_, ascending)| *ascending)
    {
        return Ok(page_by_id(wanted, scope, marker));
    }
    let mut rows: Vec<&R> = matching(wanted, scope, None).collect();
    rows.sort_by(|one, other| compare(*one, *other, &wanted.sorts, scope));
    let mut rows: Vec<&R> = if wanted.reverse {
        rows.reverse();
        rows.into_iter()
            .skip_while(|row| {
                marker.is_some_and(|marker| {
                    compare(*row, marker, &wanted.sorts, scope) != Ordering::Less
                })
            })
            .collect()
    } else {
        rows.into_iter()
            .skip_while(|row| {
                marker.is_some_and(|marker| {
                    compare(*row, marker, &wanted.sorts, scope) != Ordering::Greater
                })
            })
            .collect()
    };
    rows.truncate(wanted.limit.unwrap_or(usize::MAX));
    if wanted.reverse {
        rows.reverse();
    }
    Ok(rows)
}

/// Returns a page in the order of ids. This common case needs no sorting, and stops when the page is full.
fn page_by_id<'s, R: Row>(
    wanted: &Wanted<'_>,
    scope: &Scope<'s>,
    marker: Option<&R>,
) -> Vec<&'s R> {
    matching(wanted, scope, marker.map(|marker| marker.meta().id))
        .take(wanted.limit.unwrap_or(usize::MAX))
        .collect()
}

/// Returns the row after which the page starts. If it is gone the answer is 404, or for some kinds the list
/// from the beginning.
fn marker<'s, R: Row>(wanted: &Wanted<'_>, scope: &Scope<'s>) -> Result<Option<&'s R>> {
    let Some(text) = wanted.marker else {
        return Ok(None);
    };
    let found = text.parse().ok().and_then(|id| scope.store.get::<R>(id));
    if found.is_none() && !R::KIND.forgets_marker {
        return Err(R::KIND.missing(text));
    }
    Ok(found)
}

/// Returns the visible rows that pass the filters, by ascending id, starting after `after`.
fn matching<'s, 'w, R: Row + 's>(
    wanted: &'w Wanted<'_>,
    scope: &'w Scope<'s>,
    after: Option<Uuid>,
) -> Box<dyn Iterator<Item = &'s R> + 'w>
where
    's: 'w,
{
    use std::ops::Bound::{Excluded, Unbounded};

    let by_id = wanted
        .filters
        .iter()
        .find(|(key, _)| key == "id")
        .map(|(_, values)| {
            values
                .iter()
                .filter_map(|value| value.parse::<Uuid>().ok())
                .collect()
        });
    let start = after.map_or(Unbounded, Excluded);
    let store = scope.store;
    let rows: Box<dyn Iterator<Item = &'s R> + 'w> =
        match by_id.or_else(|| R::candidates(&wanted.filters, store.indexes())) {
            Some(ids) => Box::new(
                ids.into_iter()
                    .filter(move |id| after.is_none_or(|after| *id > after))
                    .filter_map(move |id| store.get::<R>(id)),
            ),
            None => Box::new(
                store
                    .all::<R>()
                    .range((start, Unbounded))
                    .map(|(_, row)| row),
            ),
        };
    Box::new(rows.filter(move |row| {
        row.visible(scope)
            && wanted
                .filters
                .iter()
                .all(|(key, values)| passes(*row, key, values, scope))
    }))
}

fn passes<R: Row>(row: &R, key: &str, values: &[String], scope: &Scope<'_>) -> bool {
    if TAG_FILTERS.contains(&key) {
        return tagged(row, key, values);
    }
    let shown = R::KIND
        .attribute(key)
        .and_then(|attribute| kind::value_of(row, attribute, scope))
        .unwrap_or(Value::Null);
    if key == "fixed_ips" {
        return holds_address(&shown, values);
    }
    values.iter().any(|value| equals(&shown, value))
}

/// Whether a row passes a tag filter. A repeated filter adds its tags.
fn tagged<R: Row>(row: &R, key: &str, values: &[String]) -> bool {
    let tags = &row.meta().tags;
    let mut wanted = values.iter().flat_map(|value| value.split(','));
    match key {
        "tags" => wanted.all(|tag| tags.contains(tag)),
        "tags-any" => wanted.any(|tag| tags.contains(tag)),
        "not-tags" => !wanted.all(|tag| tags.contains(tag)),
        _ => !wanted.any(|tag| tags.contains(tag)),
    }
}

fn equals(shown: &Value, wanted: &str) -> bool {
    match shown {
        Value::Null | Value::Object(_) => false,
        Value::Bool(flag) => match wanted.to_ascii_lowercase().as_str() {
            "true" | "1" => *flag,
            "false" | "0" => !*flag,
            _ => false,
        },
        Value::Number(number) => number.to_string() == wanted,
        Value::String(text) => text == wanted,
        Value::Array(items) => items.iter().any(|item| equals(item, wanted)),
    }
}

/// Whether a `fixed_ips` filter matches (`subnet_id=X`, `ip_address=X`, `ip_address_substr=X`): values of one
/// name are alternatives, and all names must match the same address.
fn holds_address(shown: &Value, wanted: &[String]) -> bool {
    let conditions: Vec<(&str, &str)> = wanted
        .iter()
        .filter_map(|value| value.split_once('='))
        .collect();
    let of = |name: &str| -> Vec<&str> {
        conditions
            .iter()
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| *value)
            .collect()
    };
    let (subnets, addresses, parts) = (of("subnet_id"), of("ip_address"), of("ip_address_substr"));
    shown.as_array().into_iter().flatten().any(|fixed| {
        let subnet = fixed
            .get("subnet_id")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let address = fixed
            .get("ip_address")
            .and_then(Value::as_str)
            .unwrap_or_default();
        (subnets.is_empty() || subnets.contains(&subnet))
            && (addresses.is_empty() || addresses.contains(&address))
            && (parts.is_empty() || parts.iter().any(|part| address.contains(part)))
    })
}

fn compare<R: Row>(one: &R, other: &R, sorts: &[(&str, bool)], scope: &Scope<'_>) -> Ordering {
    for (key, ascending) in sorts {
        let value = |row: &R| {
            R::KIND
                .attribute(key)
                .and_then(|attribute| kind::value_of(row, attribute, scope))
                .unwrap_or(Value::Null)
        };
        let order = order(&value(one), &value(other));
        if order != Ordering::Equal {
            return if *ascending { order } else { order.reverse() };
        }
    }
    Ordering::Equal
}

fn order(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one
            .as_f64()
            .partial_cmp(&other.as_f64())
            .unwrap_or(Ordering::Equal),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (one, other) => one.to_string().cmp(&other.to_string()),
    }
}

/// Returns the links of a page. The first page has a `previous` too, and any full page a `next`.
fn links(call: &Call<'_>, ids: &[Uuid], limit: usize, reverse: bool) -> Value {
    let short = ids.len() < limit;
    let mut links = Vec::new();
    if !short || reverse {
        links.push(json!({"rel": "next", "href": link(call, ids.last(), false)}));
    }
    if !short || !reverse {
        links.push(json!({"rel": "previous", "href": link(call, ids.first(), true)}));
    }
    links.into()
}

fn link(call: &Call<'_>, marker: Option<&Uuid>, reverse: bool) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (key, value) in &call.query {
        if key != "marker" && key != "page_reverse" {
            query.append_pair(key, value);
        }
    }
    if let Some(marker) = marker {
        query.append_pair("marker", &marker.to_string());
    }
    if reverse {
        query.append_pair("page_reverse", "True");
    }
    format!("{}?{}", call.url, query.finish())
}
