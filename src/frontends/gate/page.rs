//! One page of a list as a service shows it, and the fields that a client asked for.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::rows;
use crate::control::traffic::Treatment;
use crate::domain::kinds::Kind;

pub(super) struct Page {
    /// All fields but the rows.
    json: Map<String, Value>,
    /// Name of the field that has the rows.
    items: String,
    pub(super) rows: Vec<Row>,
    /// Number of rows that the service sent.
    pub(super) size: usize,
    /// How the rules changed the page; None if they did not.
    pub(super) treatment: Option<Treatment>,
    direction: Direction,
    /// Path and query of the link to the rest of the list.
    pub(super) onward: Option<String>,
}

pub(super) struct Row {
    pub(super) text: Bytes,
    /// The row's id, which is the marker of a neighbouring page.
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
    /// Splits the text of a page into the page and its rows as the service sent them. None if the text is no page.
    pub(super) fn split(
        text: &Bytes,
        items: &str,
        direction: Direction,
    ) -> Option<(Self, Vec<Bytes>)> {
        let (mut json, rows) = rows::split(text, items)?;
        let rel = match direction {
            Direction::Forward => NEXT,
            Direction::Backward => PREVIOUS,
        };
        let page = Self {
            onward: link_of(&mut json, rel).and_then(|link| {
                let link: Uri = link.parse().ok()?;
                Some(link.path_and_query()?.as_str().to_owned())
            }),
            size: rows.len(),
            json,
            items: items.to_owned(),
            rows: Vec::with_capacity(rows.len()),
            treatment: None,
            direction,
        };
        Some((page, rows))
    }

    /// Appends the rows of the next page in the list's direction.
    pub(super) fn append(&mut self, mut beside: Self) {
        self.onward = beside.onward;
        if self.treatment != Some(Treatment::Hidden) {
            self.treatment = beside.treatment.or(self.treatment);
        }
        match self.direction {
            Direction::Forward => self.rows.append(&mut beside.rows),
            Direction::Backward => {
                beside.rows.append(&mut self.rows);
                self.rows = beside.rows;
            }
        }
    }

    /// Returns the JSON of the page, with at most as many rows as the service sent. Its links have the client's own
    /// fields and filter.
    pub(super) fn text(mut self, asked: &PageRequest) -> Bytes {
        let over = self.rows.len().saturating_sub(self.size);
        let more = over > 0 || self.onward.is_some();
        let shown = match self.direction {
            Direction::Forward => 0..self.size.min(self.rows.len()),
            Direction::Backward => over..self.rows.len(),
        };
        let rows = std::mem::take(&mut self.rows);
        let rows = rows.get(shown).unwrap_or_default();
        // The link in the list's direction stays only if the list has more rows there.
        let direction = self.direction;
        let goes_on = |side: Direction| side != direction || more;
        let next = rows.last().filter(|_| goes_on(Direction::Forward));
        let previous = rows.first().filter(|_| goes_on(Direction::Backward));
        self.name(NEXT, next.and_then(|row| row.id.as_deref()));
        self.name(PREVIOUS, previous.and_then(|row| row.id.as_deref()));
        if asked.changes_the_request() {
            let is_kept =
                |name: &str, value: &str| name != "fields" || !asked.missing.contains(value);
            for (_, link) in links(&mut self.json) {
                *link = edit_link(link, is_kept, asked.left_out());
            }
        }
        rows::join(&self.json, &self.items, rows.iter().map(|row| &row.text))
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
                let links = self
                    .json
                    .iter_mut()
                    .filter(|(key, _)| key.ends_with("_links"));
                for links in links.filter_map(|(_, links)| links.as_array_mut()) {
                    links.retain(|link| link.get("rel").and_then(Value::as_str) != Some(rel));
                }
            }
        }
    }
}

/// Names of the links to the neighbouring pages.
const NEXT: &str = "next";
const PREVIOUS: &str = "previous";

/// Returns the links of a page, each with its relation to the page: Glance's `next`, or the `…_links` of other services.
fn links(page: &mut Map<String, Value>) -> impl Iterator<Item = (&'static str, &mut String)> {
    let links = page.iter_mut().flat_map(|(key, value)| {
        if key == NEXT {
            return vec![(NEXT, value)];
        }
        let links = value.as_array_mut().filter(|_| key.ends_with("_links"));
        let links = links.into_iter().flatten().filter_map(|link| {
            let is_to = |rel: &&str| link.get("rel").and_then(Value::as_str) == Some(*rel);
            let rel = [NEXT, PREVIOUS].into_iter().find(is_to)?;
            Some((rel, link.get_mut("href")?))
        });
        links.collect()
    });
    links.filter_map(|(rel, link)| match link {
        Value::String(link) => Some((rel, link)),
        _ => None,
    })
}

fn link_of<'p>(page: &'p mut Map<String, Value>, rel: &str) -> Option<&'p mut String> {
    let mut links = links(page).filter(|(it, _)| *it == rel);
    links.next().map(|(_, link)| link)
}

/// Returns the URI with those of its parameters that `keeps` accepts, as they were sent, and with those in `added`.
pub(super) fn edit_query<'p>(
    uri: &Uri,
    keeps: impl Fn(&str, &str) -> bool,
    added: impl IntoIterator<Item = (&'p str, &'p str)>,
) -> Uri {
    let mut parts = uri.clone().into_parts();
    let path = parts.path_and_query.as_ref();
    let path = edit_link(path.map_or("/", PathAndQuery::as_str), keeps, added);
    parts.path_and_query = PathAndQuery::try_from(path).ok().or(parts.path_and_query);
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

/// Returns the link with this parameter set to this value.
pub(super) fn with_query(link: &str, key: &str, value: &str) -> String {
    edit_link(link, |name, _| name != key, [(key, value)])
}

/// Works like [`edit_query`], for a link as text.
fn edit_link<'p>(
    link: &str,
    keeps: impl Fn(&str, &str) -> bool,
    added: impl IntoIterator<Item = (&'p str, &'p str)>,
) -> String {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let is_kept = |pair: &&str| {
        let mut parsed = form_urlencoded::parse(pair.as_bytes());
        parsed
            .next()
            .is_some_and(|(name, value)| keeps(&name, &value))
    };
    let mut pairs: Vec<&str> = query.split('&').filter(is_kept).collect();
    let added = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(added)
        .finish();
    pairs.extend(Some(&*added).filter(|added| !added.is_empty()));
    match pairs.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", pairs.join("&")),
    }
}

/// The parts of a client's request for a list, or for one resource, that the gate needs.
pub(super) struct PageRequest {
    /// The fields that the client asked for; None for all.
    fields: Option<Vec<String>>,
    /// Fields that the gate needs and the client did not ask for.
    pub(super) missing: BTreeSet<String>,
    pub(super) filter: Option<StateFilter>,
    pub(super) direction: Direction,
}

/// A filter by the field that shows "deleting".
pub(super) struct StateFilter {
    field: String,
    wanted: Vec<String>,
    /// Whether the filter matches the state shown for deletions, which the service does not know: then the gate
    /// filters.
    by_gate: bool,
}

impl PageRequest {
    /// Reads a request. `needed` are the fields that the gate needs in addition to the id.
    pub(super) fn of(uri: &Uri, kind: &Kind, needed: &[&str]) -> Self {
        let list = kind.spec.list.as_ref();
        // Where the service cannot select fields, the parameter `fields` has another meaning.
        let can = list.is_some_and(|list| !list.fields.is_empty());
        let query = uri.query().unwrap_or_default();
        let fields: Vec<String> = form_urlencoded::parse(query.as_bytes())
            .filter(|(key, value)| key == "fields" && !value.is_empty())
            .flat_map(|(_, value)| value.split(',').map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let fields = Some(fields).filter(|fields| can && !fields.is_empty());
        let filter = StateFilter::of(query, kind);
        let filtered = filter.iter().filter(|filter| filter.by_gate);
        let ids = list.into_iter().flat_map(|list| list.id.iter().cloned());
        let needed = ids
            .chain(needed.iter().map(|field| (*field).to_owned()))
            .chain(filtered.map(|filter| filter.field.clone()));
        let missing = fields.iter().flat_map(|fields| {
            let needed = needed.clone();
            needed.filter(|field| !fields.contains(field))
        });
        Self {
            missing: missing.collect(),
            fields,
            filter,
            direction: Direction::of(query),
        }
    }

    pub(super) fn wants(&self, field: &str) -> bool {
        let fields = self.fields.as_ref();
        fields.is_none_or(|fields| fields.iter().any(|it| it == field))
    }

    /// Returns the URI for the service: with the fields that the gate needs, and without the filter that the
    /// gate applies.
    pub(super) fn service_uri(&self, uri: &Uri) -> Uri {
        if !self.changes_the_request() {
            return uri.clone();
        }
        let is_kept = |name: &str, _: &str| self.left_out().all(|(field, _)| field != name);
        let added = self.missing.iter().map(|field| ("fields", &**field));
        edit_query(uri, is_kept, added)
    }

    /// Whether the request to the service differs from the client's (added `fields`, or a filter that the gate applies
    /// itself), so that the answer must be rewritten.
    pub(super) fn changes_the_request(&self) -> bool {
        !self.missing.is_empty() || self.left_out().next().is_some()
    }

    /// Whether the client's filter by state matches a row, which is shown as deleting or as the service has
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

    /// Returns the parameters of the filter that the gate applies itself.
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
