//! One page of a list as a service shows it, and the fields that a client asked for.

use std::borrow::Borrow;

use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::rows;
use crate::control::traffic::Treatment;
use crate::domain::kinds::Kind;

/// One page of a list.
pub(super) struct Page {
    /// All fields but the rows.
    json: Map<String, Value>,
    /// The field of the rows.
    items: String,
    pub(super) rows: Vec<Row>,
    /// Number of rows that the service sent.
    pub(super) size: usize,
    /// How the rules changed the page; None if they did not.
    pub(super) treatment: Option<Treatment>,
    /// Path and query of the neighbouring pages.
    next: Option<String>,
    previous: Option<String>,
}

/// A row of a page.
pub(super) struct Row {
    pub(super) text: Bytes,
    /// Marker of the neighbouring pages.
    pub(super) id: Option<String>,
}

/// The side of a page on which its list continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    /// `page_reverse=true`: the rows before the marker, still in the order of the list.
    Backward,
}

impl Direction {
    fn of(query: &str) -> Self {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let reverse = pairs.find(|(key, _)| key == "page_reverse");
        match reverse.map(|(_, value)| value.to_lowercase()).as_deref() {
            Some("true" | "t" | "1" | "yes" | "y" | "on") => Self::Backward,
            _ => Self::Forward,
        }
    }
}

impl Page {
    /// Splits the text of a page into the page and its rows as the service sent them. None if it is not a page.
    pub(super) fn split(text: &Bytes, items: &str) -> Option<(Self, Vec<Bytes>)> {
        let (mut json, rows) = rows::split(text, items)?;
        let mut to = |rel: &str| link_of(&mut json, rel).and_then(|link| path_of(link));
        let (next, previous) = (to(NEXT), to(PREVIOUS));
        let page = Self {
            size: rows.len(),
            json,
            items: items.to_owned(),
            rows: Vec::with_capacity(rows.len()),
            treatment: None,
            next,
            previous,
        };
        Some((page, rows))
    }

    /// Appends the rows of the neighbouring page in this direction.
    pub(super) fn append(&mut self, mut beside: Self, direction: Direction) {
        if self.treatment != Some(Treatment::Hidden) {
            self.treatment = beside.treatment.or(self.treatment);
        }
        match direction {
            Direction::Forward => self.rows.append(&mut beside.rows),
            Direction::Backward => {
                beside.rows.append(&mut self.rows);
                self.rows = beside.rows;
            }
        }
    }

    /// Returns the JSON of the page, with at most as many rows as the service sent. `more` says whether the list
    /// continues.
    pub(super) fn text(mut self, asked: &PageRequest, more: bool) -> Bytes {
        let over = self.rows.len().saturating_sub(self.size);
        let shown = match asked.direction {
            Direction::Forward => 0..self.size.min(self.rows.len()),
            Direction::Backward => over..self.rows.len(),
        };
        let rows = std::mem::take(&mut self.rows);
        let rows = rows.get(shown).unwrap_or_default();
        // The link in the list's direction stays only if there is more.
        let goes_on = |side: Direction| side != asked.direction || more;
        let next = rows.last().filter(|_| goes_on(Direction::Forward));
        let previous = rows.first().filter(|_| goes_on(Direction::Backward));
        self.name(NEXT, next.and_then(|row| row.id.as_deref()));
        self.name(PREVIOUS, previous.and_then(|row| row.id.as_deref()));
        self.restore_query(asked);
        rows::join(&self.json, &self.items, rows.iter().map(|row| &row.text))
    }

    /// Removes from the links the fields that the gate added, and restores the filter that it left out.
    fn restore_query(&mut self, asked: &PageRequest) {
        for link in self.links() {
            for field in &asked.missing {
                *link = without_query(link, "fields", field);
            }
            for (key, value) in asked.left_out() {
                *link = with_pair(link, key, value, |_| true);
            }
        }
    }

    /// Returns the link to the rest of the list.
    pub(super) fn onward(&self, direction: Direction) -> Option<String> {
        match direction {
            Direction::Forward => self.next.clone(),
            Direction::Backward => self.previous.clone(),
        }
    }

    /// Sets the marker of a link; without a marker, removes the link.
    fn name(&mut self, rel: &str, marker: Option<&str>) {
        match marker {
            Some(marker) => {
                if let Some(link) = link_of(&mut self.json, rel) {
                    *link = with_query(link, "marker", marker);
                }
            }
            None => {
                self.json.remove(rel);
                let links = links_of(&mut self.json).into_iter();
                links.for_each(|links| links.retain(|link| !is_to(link, rel)));
            }
        }
    }

    /// Returns all links, to be changed.
    fn links(&mut self) -> impl Iterator<Item = &mut String> {
        let written = self
            .json
            .iter_mut()
            .flat_map(|(key, value)| match key.ends_with("_links") {
                true => {
                    let links = value.as_array_mut().into_iter().flatten();
                    links.filter_map(|link| link.get_mut("href")).collect()
                }
                false if key == NEXT => vec![value],
                false => Vec::new(),
            });
        written.filter_map(|link| match link {
            Value::String(link) => Some(link),
            _ => None,
        })
    }
}

/// Names of the links to the neighbouring pages.
const NEXT: &str = "next";
const PREVIOUS: &str = "previous";

/// Returns Glance's `next`, or a link of Neutron's and Octavia's.
fn link_of<'p>(page: &'p mut Map<String, Value>, rel: &str) -> Option<&'p mut String> {
    let link = match page.contains_key(rel) {
        true => page.get_mut(rel)?,
        false => {
            let mut links = links_of(page)?.iter_mut();
            links.find(|link| is_to(link, rel))?.get_mut("href")?
        }
    };
    match link {
        Value::String(link) => Some(link),
        _ => None,
    }
}

fn links_of(page: &mut Map<String, Value>) -> Option<&mut Vec<Value>> {
    let mut links = page.iter_mut().filter(|(key, _)| key.ends_with("_links"));
    links.find_map(|(_, links)| links.as_array_mut())
}

fn is_to(link: &Value, rel: &str) -> bool {
    link.get("rel").and_then(Value::as_str) == Some(rel)
}

fn path_of(link: &str) -> Option<String> {
    let uri: Uri = link.parse().ok()?;
    uri.path_and_query().map(|path| path.as_str().to_owned())
}

/// Returns the URI with these pairs as its query.
pub(super) fn with_pairs<P: Borrow<str>>(uri: &Uri, pairs: &[P]) -> Uri {
    let path = match pairs {
        [] => uri.path().to_owned(),
        pairs => format!("{}?{}", uri.path(), pairs.join("&")),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(path).ok().or(parts.path_and_query);
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

/// Returns the link with this parameter set to this value.
pub(super) fn with_query(link: &str, key: &str, value: &str) -> String {
    with_pair(link, key, value, |name| name != key)
}

/// Appends a pair to those pairs of a link that are kept by name.
fn with_pair(link: &str, key: &str, value: &str, keeps: impl Fn(&str) -> bool) -> String {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let kept = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| keeps(name));
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    pairs.extend_pairs(kept).append_pair(key, value);
    format!("{path}?{}", pairs.finish())
}

fn without_query(link: &str, key: &str, value: &str) -> String {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let pair = format!("{key}={value}");
    let kept: Vec<&str> = query.split('&').filter(|it| *it != pair).collect();
    format!("{path}?{}", kept.join("&"))
}

/// The parts of a client's request for a list, or for one resource, that the gate needs.
pub(super) struct PageRequest {
    /// The fields that the client asked for; None for all.
    fields: Option<Vec<String>>,
    /// Fields that the gate needs and the client did not ask for.
    pub(super) missing: Vec<String>,
    filter: Option<StateFilter>,
    pub(super) direction: Direction,
}

/// A filter by the field that shows "deleting".
struct StateFilter {
    field: String,
    wanted: Vec<String>,
    /// Whether it matches the state shown for deletions, which the service does not know: then the gate
    /// filters.
    by_gate: bool,
}

impl PageRequest {
    /// Reads a request. `needed` are the fields that the gate needs in addition to the id.
    pub(super) fn of(uri: &Uri, kind: &Kind, needed: &[&str]) -> Self {
        let list = kind.spec.list.as_ref();
        // Where the service cannot select fields, the parameter means something else.
        let can = list.is_some_and(|list| !list.fields.is_empty());
        let query = uri.query().unwrap_or_default();
        let fields: Vec<String> = form_urlencoded::parse(query.as_bytes())
            .filter(|(key, value)| key == "fields" && !value.is_empty())
            .flat_map(|(_, value)| value.split(',').map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let fields = Some(fields).filter(|fields| can && !fields.is_empty());
        let filter = StateFilter::of(query, kind);
        let filtered = filter.iter().filter(|filter| filter.by_gate);
        let ids = list.map(|list| list.id.clone()).unwrap_or_default();
        let needed = needed.iter().map(|field| (*field).to_owned());
        let mut missing: Vec<String> = match &fields {
            Some(fields) => ids
                .into_iter()
                .chain(needed)
                .chain(filtered.map(|filter| filter.field.clone()))
                .filter(|field| !fields.contains(field))
                .collect(),
            None => Vec::new(),
        };
        missing.sort();
        missing.dedup();
        Self {
            fields,
            missing,
            filter,
            direction: Direction::of(query),
        }
    }

    /// Leaves the filter to the service.
    pub(super) fn by_the_service(self) -> Self {
        Self {
            filter: None,
            ..self
        }
    }

    pub(super) fn wants(&self, field: &str) -> bool {
        let fields = self.fields.as_ref();
        fields.is_none_or(|fields| fields.iter().any(|it| it == field))
    }

    /// Returns the URI for the service: with the fields that the gate needs, and without the filter that the
    /// gate applies.
    pub(super) fn service_uri(&self, uri: &Uri) -> Uri {
        let by_gate = self.filter.as_ref().filter(|filter| filter.by_gate);
        if self.missing.is_empty() && by_gate.is_none() {
            return uri.clone();
        }
        let is_left_out = |pair: &&str| {
            let mut pair = form_urlencoded::parse(pair.as_bytes());
            let key = pair.next().map(|(key, _)| key);
            by_gate.is_some_and(|filter| key.as_deref() == Some(filter.field.as_str()))
        };
        let query = uri.query().unwrap_or_default().split('&');
        let kept = query.filter(|pair| !pair.is_empty() && !is_left_out(pair));
        let added = self.missing.iter().map(|field| format!("fields={field}"));
        let query: Vec<String> = kept.map(str::to_owned).chain(added).collect();
        with_pairs(uri, &query)
    }

    /// Whether the request to the service differs from the client's (added `fields`, or a filter that the gate applies
    /// itself), so that the answer must be rewritten.
    pub(super) fn changes_the_request(&self) -> bool {
        !self.missing.is_empty() || self.filter.as_ref().is_some_and(|filter| filter.by_gate)
    }

    /// Whether the client's filter by state matches a row: one shown as deleting, or one as the service has
    /// it (T21).
    pub(super) fn finds(&self, row: &Value, is_shown_deleting: bool) -> bool {
        let Some(filter) = &self.filter else {
            return true;
        };
        match (is_shown_deleting, filter.by_gate) {
            (true, by_gate) => by_gate,
            (false, false) => true,
            (false, true) => {
                let state = row.get(&filter.field).and_then(Value::as_str);
                state.is_some_and(|state| filter.wants(state))
            }
        }
    }

    fn left_out(&self) -> impl Iterator<Item = (&str, &str)> {
        let by_gate = self.filter.iter().filter(|filter| filter.by_gate);
        by_gate.flat_map(|filter| {
            let given = filter.wanted.iter();
            given.map(|value| (filter.field.as_str(), value.as_str()))
        })
    }

    pub(super) fn strip(&self, row: &mut Value) {
        if let Some(row) = row.as_object_mut() {
            for field in &self.missing {
                row.shift_remove(field);
            }
        }
    }
}

impl StateFilter {
    fn of(query: &str, kind: &Kind) -> Option<Self> {
        kind.spec.deleting.iter().find_map(|(field, deleting)| {
            let pairs = form_urlencoded::parse(query.as_bytes());
            let given = pairs.filter(|(key, _)| key == field);
            let wanted: Vec<String> = given.map(|(_, value)| value.into_owned()).collect();
            let mut filter = Self {
                field: field.clone(),
                wanted,
                by_gate: false,
            };
            filter.by_gate = filter.wants(deleting);
            (!filter.wanted.is_empty()).then_some(filter)
        })
    }

    /// Whether the filter matches a state, ignoring case as databases do. `in:A,B` is Glance's list of
    /// values.
    fn wants(&self, state: &str) -> bool {
        let wanted = self.wanted.iter();
        let mut values = wanted.flat_map(|value| match value.strip_prefix("in:") {
            Some(values) => values.split(',').collect(),
            None => vec![value.as_str()],
        });
        values.any(|value| value.eq_ignore_ascii_case(state))
    }
}
