//! Lists of all services: filters, order and pages. Each service reads its own parameters.
use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use super::attribute::SORTS;
use super::kind::Kind;
use super::row::Row;
use super::session::Session;
use super::wire::{Call, Result, refuse_if};

/// Filters by tags, where a kind has tags.
pub(crate) const TAG_FILTERS: [&str; 4] = ["tags", "tags-any", "not-tags", "not-tags-any"];

/// A condition on a row.
pub(crate) type Condition = Box<dyn Fn(&Session<'_>, &Row) -> bool>;

/// The parameters of a list.
#[derive(Default)]
pub(crate) struct ListQuery {
    /// Attributes and their values, which are alternatives; the values of a tag filter are not (see `has_tags`).
    pub(crate) filters: Vec<(String, Vec<String>)>,
    /// The attributes to show; empty for all.
    pub(crate) fields: Vec<String>,
    /// Attributes, and whether their order is ascending. Ties are broken by id.
    pub(crate) sorts: Vec<(String, bool)>,
    /// The most rows of a page; `None`: all rows in one answer.
    pub(crate) limit: Option<usize>,
    /// The row after which the page starts.
    pub(crate) marker: Option<Uuid>,
    /// Whether the page ends before the marker.
    pub(crate) is_reverse: bool,
    /// The condition on a row to be in the caller's list; by default, that the caller sees the row.
    pub(crate) shows: Option<Condition>,
    /// Whether `shows` also decides on the deleted rows that the kind keeps.
    pub(crate) with_deleted: bool,
}

/// The rows of a page, and the data for its links.
pub(crate) struct Page {
    pub(crate) items: Value,
    pub(crate) first: Option<Uuid>,
    pub(crate) last: Option<Uuid>,
    pub(crate) is_full: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) is_reverse: bool,
}

impl ListQuery {
    pub(crate) fn fields(&self) -> Vec<&str> {
        self.fields.iter().map(String::as_str).collect()
    }
}

/// Returns the values of a parameter, without empty ones.
pub(crate) fn values(call: &Call<'_>, name: &str) -> Vec<String> {
    let pairs = call.query.iter();
    pairs
        .filter(|(key, value)| key == name && !value.is_empty())
        .map(|(_, value)| value.clone())
        .collect()
}

/// Reads the order of a list: `sort=name:asc,id`, or `sort_key=name&sort_dir=asc`, each with commas or given
/// several times. Keys without a direction have the `usual` one. The error is the word that is not a sort key, or
/// not a direction.
pub(crate) fn sorts(
    kind: &Kind,
    call: &Call<'_>,
    usual: &str,
) -> Result<Vec<(String, bool)>, String> {
    let all = |name: &str| -> Vec<String> {
        let values = values(call, name);
        let words = values.iter().flat_map(|value| value.split(','));
        words.map(str::to_owned).collect()
    };
    let mut words = all("sort_dir").into_iter();
    let keys = all("sort").into_iter().chain(all("sort_key"));
    keys.map(|part| {
        let word = words.next();
        let word = word.as_deref().unwrap_or(usual);
        let (key, word) = part.split_once(':').unwrap_or((&part, word));
        let sorts = kind.attribute(key).is_some_and(|known| known.is(SORTS));
        refuse_if(!sorts, || key.to_owned())?;
        match word {
            "asc" => Ok((key.to_owned(), true)),
            "desc" => Ok((key.to_owned(), false)),
            word => Err(word.to_owned()),
        }
    })
    .collect()
}

/// Returns the filters among the parameters, and the names of those that the kind does not have. `controls` has
/// the names of the parameters that are not filters, separated by spaces.
pub(crate) fn filters(
    kind: &Kind,
    call: &Call<'_>,
    controls: &str,
) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut unknown: Vec<String> = Vec::new();
    for (key, value) in &call.query {
        if controls.split(' ').any(|control| control == key) {
            continue;
        }
        let tags = match TAG_FILTERS.contains(&key.as_str()) {
            true => "tags",
            false => key,
        };
        if !kind.has_filter(tags) {
            if !unknown.contains(key) {
                unknown.push(key.clone());
            }
            continue;
        }
        match found.iter_mut().find(|(name, _)| name == key) {
            Some((_, values)) => values.push(value.clone()),
            None => found.push((key.clone(), vec![value.clone()])),
        }
    }
    (found, unknown)
}

/// Returns the page of a list, or of the list of a parent's children.
pub(crate) fn page(
    session: &Session<'_>,
    kind: &'static Kind,
    parent: Option<Uuid>,
    mut query: ListQuery,
) -> Page {
    if let (Some(id), Some(above)) = (parent, &kind.parent) {
        let filter = (above.attribute.to_owned(), vec![id.to_string()]);
        query.filters.insert(0, filter);
    }
    let rows = select(session, kind, &query);
    let fields = query.fields();
    Page {
        items: rows.iter().map(|row| session.shown(row, &fields)).collect(),
        first: rows.first().map(|row| row.id),
        last: rows.last().map(|row| row.id),
        is_full: query.limit.is_none_or(|limit| rows.len() >= limit),
        limit: query.limit,
        is_reverse: query.is_reverse,
    }
}

fn select<'s>(session: &'s Session<'_>, kind: &'static Kind, query: &ListQuery) -> Vec<&'s Row> {
    let limit = query.limit.unwrap_or(usize::MAX);
    let find = |id| session.store().find(kind.name, id);
    let marker = query.marker.and_then(find);
    // The common case needs no sorting, and stops when the page is full.
    if query.sorts.is_empty() && !query.is_reverse {
        return matching(session, kind, query, marker.map(|row| row.id))
            .take(limit)
            .collect();
    }
    let keys = |row: &Row| -> Vec<Key> {
        let attributes = query.sorts.iter().map(|(name, _)| kind.attribute(name));
        let values = attributes.map(|attribute| session.value(row, attribute?));
        let key = |value: Option<Value>| Key::of(value.unwrap_or_default(), kind);
        let id = Key::Text(row.id.to_string());
        values.map(key).chain([id]).collect()
    };
    let last_ascends = query.sorts.last().is_none_or(|(_, ascends)| *ascends);
    let directions = query.sorts.iter().map(|(_, ascends)| *ascends);
    let directions = directions.chain([last_ascends]);
    let compare = |one: &(Vec<Key>, &Row), other: &(Vec<Key>, &Row)| {
        let pairs = directions.clone().zip(one.0.iter().zip(&other.0));
        let mut orders = pairs.map(|(ascends, (one, other))| {
            let order = one.partial_cmp(other).unwrap_or(Ordering::Equal);
            // A page before the marker is read backwards.
            match ascends == query.is_reverse {
                true => order.reverse(),
                false => order,
            }
        });
        let order = orders.find(|order| order.is_ne());
        order.unwrap_or(Ordering::Equal)
    };
    let rows = matching(session, kind, query, None);
    let mut rows: Vec<_> = rows.map(|row| (keys(row), row)).collect();
    rows.sort_by(compare);
    if let Some(marker) = marker {
        let marker = (keys(marker), marker);
        rows.retain(|row| compare(row, &marker).is_gt());
    }
    rows.truncate(limit);
    if query.is_reverse {
        rows.reverse();
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Returns the rows that pass the filters, by ascending id, after an id.
fn matching<'s: 'q, 'q>(
    session: &'s Session<'_>,
    kind: &'static Kind,
    query: &'q ListQuery,
    after: Option<Uuid>,
) -> Box<dyn Iterator<Item = &'s Row> + 'q> {
    let store = session.store();
    // Deleted rows are in no index.
    let indexed = (!query.with_deleted).then(|| candidates(session, kind, query));
    let rows: Box<dyn Iterator<Item = &'s Row> + 'q> = match indexed.flatten() {
        Some(ids) => {
            let ids = ids.into_iter().filter(move |id| Some(*id) > after);
            Box::new(ids.filter_map(|id| store.find(kind.name, id)))
        }
        None => Box::new(store.list_with_deleted(kind.name, after)),
    };
    Box::new(rows.filter(move |row| {
        let shows = || match &query.shows {
            Some(shows) => shows(session, row),
            None => session.sees(row),
        };
        let mut filters = query.filters.iter();
        (query.with_deleted || !row.is_deleted)
            && shows()
            && filters.all(|(name, values)| passes(session, row, name, values))
    }))
}

/// Returns the ids of the rows that may pass the filters, from an index; `None` if all rows must be checked.
fn candidates(
    session: &Session<'_>,
    kind: &'static Kind,
    query: &ListQuery,
) -> Option<BTreeSet<Uuid>> {
    query.filters.iter().find_map(|(name, values)| {
        if name == "id" {
            return Some(values.iter().filter_map(|id| id.parse().ok()).collect());
        }
        let is_indexed = kind.indexed.contains(&name.as_str());
        // The objects of a list are indexed by their first id alone.
        let keys = values.iter().map(|value| match name.as_str() {
            "fixed_ips" => value.strip_prefix("subnet_id=").unwrap_or_default(),
            _ => value,
        });
        if !is_indexed || keys.clone().any(str::is_empty) {
            return None;
        }
        let rows = keys.flat_map(|key| session.store.list_by_text(kind.name, name, key));
        Some(rows.map(|row| row.id).collect())
    })
}

fn passes(session: &Session<'_>, row: &Row, name: &str, values: &[String]) -> bool {
    if TAG_FILTERS.contains(&name) {
        return has_tags(row, name, values);
    }
    let value = match row.kind.attribute(name) {
        Some(attribute) => session.value(row, attribute),
        None => row.others().and_then(|others| others.get(name).cloned()),
    };
    let value = value.unwrap_or_default();
    match &value {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().any(|item| has_parts(item, values))
        }
        value => values
            .iter()
            .any(|wanted| equals(value, wanted, row.kind.service.ignores_case)),
    }
}

/// Whether a row passes a tag filter. A repeated filter adds its tags.
fn has_tags(row: &Row, name: &str, values: &[String]) -> bool {
    let tags = row.items("tags");
    let has = |tag: &str| tags.iter().any(|known| known == tag);
    let mut wanted = values.iter().flat_map(|value| value.split(','));
    match name {
        "tags" => wanted.all(has),
        "tags-any" => wanted.any(has),
        "not-tags" => !wanted.all(has),
        _ => !wanted.any(has),
    }
}

fn equals(value: &Value, wanted: &str, ignores_case: bool) -> bool {
    match value {
        Value::Null | Value::Object(_) => false,
        Value::Bool(true) => ["true", "1"].contains(&wanted.to_ascii_lowercase().as_str()),
        Value::Bool(false) => ["false", "0"].contains(&wanted.to_ascii_lowercase().as_str()),
        Value::Number(number) => number.to_string() == wanted,
        Value::String(text) if ignores_case => text.eq_ignore_ascii_case(wanted),
        Value::String(text) => text == wanted,
        Value::Array(items) => items.iter().any(|item| equals(item, wanted, ignores_case)),
    }
}

/// Whether an object of a list passes conditions such as `subnet_id=X`: those of one name are alternatives, and
/// one of each name must be met.
fn has_parts(item: &Value, conditions: &[String]) -> bool {
    let conditions: Vec<(&str, &str)> = conditions
        .iter()
        .filter_map(|condition| condition.split_once('='))
        .collect();
    let meets = |(name, wanted): &(&str, &str)| match name.strip_suffix("_substr") {
        Some(name) => item[name].as_str().is_some_and(|is| is.contains(wanted)),
        None => item[*name] == *wanted,
    };
    conditions.iter().all(|(name, _)| {
        let mut alternatives = conditions.iter().filter(|(other, _)| other == name);
        alternatives.any(meets)
    })
}

/// A value by which a list is sorted, in the order of the variants.
#[derive(PartialEq, PartialOrd)]
enum Key {
    Null,
    Number(f64),
    Text(String),
}

impl Key {
    fn of(value: Value, kind: &Kind) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Number(number) => Self::Number(number.as_f64().unwrap_or_default()),
            Value::String(text) if kind.service.ignores_case => Self::Text(text.to_lowercase()),
            Value::String(text) => Self::Text(text),
            other => Self::Text(other.to_string()),
        }
    }
}

/// Maximum and default number of rows on a page, for lists that begin with the newest row.
const NEWEST_MAX: usize = 1000;

/// Reads the limit and the marker of a list that begins with the newest row, as Nova's and Cinder's lists do.
pub(crate) fn newest_first(
    session: &Session<'_>,
    kind: &'static Kind,
    call: &Call<'_>,
) -> Result<ListQuery> {
    let limit = call.param("limit").map(|text| {
        let limit = text.parse::<usize>();
        limit.map_err(|_| kind.refusal("bad_limit", &[&text]))
    });
    let marker = call.param("marker").map(|text| {
        let row = text.parse().ok();
        let row = row.and_then(|id| session.store().find(kind.name, id));
        row.map(|row| row.id)
            .ok_or_else(|| kind.refusal("bad_marker", &[&text]))
    });
    Ok(ListQuery {
        sorts: vec![("number".to_owned(), false)],
        limit: Some(limit.transpose()?.unwrap_or(NEWEST_MAX).min(NEWEST_MAX)),
        marker: marker.transpose()?,
        ..ListQuery::default()
    })
}

/// Returns the body of a page as Nova and Cinder write it. A full page has a link to the next page.
pub(crate) fn linked(kind: &'static Kind, call: &Call<'_>, page: Page) -> Value {
    let mut body = json!({kind.plural: page.items});
    if let Some(last) = page.last.filter(|_| page.is_full) {
        let kept = call.query.iter().filter(|(name, _)| name != "marker");
        let marker = ("marker".to_owned(), last.to_string());
        let href = call.link(kept.cloned().chain([marker]));
        body[format!("{}_links", kind.plural)] = json!([{"rel": "next", "href": href}]);
    }
    body
}

/// Whether a parameter is present and its value does not mean false. An empty value means true.
pub(crate) fn is_set(call: &Call<'_>, name: &str) -> bool {
    let no = ["0", "f", "false", "off", "n", "no"];
    let value = call.param(name);
    value.is_some_and(|word| !no.contains(&word.to_ascii_lowercase().as_str()))
}
