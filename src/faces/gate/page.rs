//! One page of a list as a service shows it, and which fields of it a client asked for.

use http::uri::PathAndQuery;
use http::{StatusCode, Uri};
use serde_json::Value;
use url::form_urlencoded;

use super::pass::Whole;
use crate::domain::kinds::Kind;

/// One page of a list.
pub(super) struct Page {
    pub(super) json: Value,
    rows: Vec<Value>,
    pub(super) size: usize,
    /// Path and query of the page after it.
    pub(super) next: Option<String>,
}

impl Page {
    pub(super) async fn of(answered: &Whole, items: &str) -> Option<Self> {
        let json = answered.json().await;
        let mut json = json.filter(|_| answered.head.status == StatusCode::OK)?;
        let rows = match json.get_mut(items)? {
            Value::Array(rows) => std::mem::take(rows),
            _ => return None,
        };
        let next = next_link(&json).and_then(|link| path_of(&link));
        Some(Self {
            size: rows.len(),
            json,
            rows,
            next,
        })
    }

    pub(super) fn take_rows(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.rows)
    }

    pub(super) fn put_rows(&mut self, items: &str, rows: Vec<Value>) {
        if let Some(shown) = self.json.get_mut(items) {
            *shown = Value::Array(rows);
        }
    }

    /// Takes the fields that the gate added off the links.
    pub(super) fn forget_added(&mut self, fields: &[String]) {
        let links = self.json.as_object_mut().into_iter().flatten();
        let links = links.filter(|(key, _)| key.ends_with("_links"));
        for link in links
            .filter_map(|(_, links)| links.as_array_mut())
            .flatten()
        {
            if let Some(Value::String(link)) = link.get_mut("href") {
                for field in fields {
                    *link = without_query(link, "fields", field);
                }
            }
        }
    }

    /// The page after this begins behind `last`; without one there is none.
    pub(super) fn say_next(&mut self, last: Option<&str>) {
        let Some(object) = self.json.as_object_mut() else {
            return;
        };
        match (last, object.get_mut("next")) {
            (Some(last), Some(Value::String(link))) => {
                *link = with_query(link, "marker", last);
                return;
            }
            (None, Some(_)) => {
                object.remove("next");
                return;
            }
            (_, _) => {}
        }
        let links = object
            .iter_mut()
            .find(|(key, _)| key.ends_with("_links"))
            .and_then(|(_, links)| links.as_array_mut());
        let Some(links) = links else { return };
        let is_next = |link: &Value| link.get("rel").and_then(Value::as_str) == Some("next");
        match last {
            None => links.retain(|link| !is_next(link)),
            Some(last) => {
                let next = links.iter_mut().find(|link| is_next(link));
                if let Some(Value::String(link)) = next.and_then(|link| link.get_mut("href")) {
                    *link = with_query(link, "marker", last);
                }
            }
        }
    }
}

/// Glance's `next`, or the link of Neutron's and Octavia's.
fn next_link(json: &Value) -> Option<String> {
    let object = json.as_object()?;
    if let Some(Value::String(next)) = object.get("next") {
        return Some(next.clone());
    }
    let mut links = object.iter().filter(|(key, _)| key.ends_with("_links"));
    let links = links.find_map(|(_, links)| links.as_array())?;
    let next = links
        .iter()
        .find(|link| link.get("rel").and_then(Value::as_str) == Some("next"))?;
    next.get("href")?.as_str().map(str::to_owned)
}

fn path_of(link: &str) -> Option<String> {
    let uri: Uri = link.parse().ok()?;
    uri.path_and_query().map(|path| path.as_str().to_owned())
}

/// The link with this parameter set to this value.
pub(super) fn with_query(link: &str, key: &str, value: &str) -> String {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let kept = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name != key);
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

/// Which fields a client asks for.
pub(super) struct Asked {
    /// None: all.
    fields: Option<Vec<String>>,
    /// Fields of the id that the gate must see and the client did not ask for.
    pub(super) missing: Vec<String>,
}

impl Asked {
    pub(super) fn of(uri: &Uri, kind: &Kind) -> Self {
        let list = kind.spec.list.as_ref();
        // Where the service cannot, the parameter means something else.
        let can = list.is_some_and(|list| !list.fields.is_empty());
        let query = uri.query().unwrap_or_default();
        let fields: Vec<String> = form_urlencoded::parse(query.as_bytes())
            .filter(|(key, value)| key == "fields" && !value.is_empty())
            .flat_map(|(_, value)| value.split(',').map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let fields = Some(fields).filter(|fields| can && !fields.is_empty());
        let ids = list.map(|list| list.id.clone()).unwrap_or_default();
        let missing: Vec<String> = match &fields {
            Some(fields) => ids.into_iter().filter(|id| !fields.contains(id)).collect(),
            None => Vec::new(),
        };
        Self { fields, missing }
    }

    pub(super) fn wants(&self, field: &str) -> bool {
        let fields = self.fields.as_ref();
        fields.is_none_or(|fields| fields.iter().any(|it| it == field))
    }

    pub(super) fn with_ids(&self, uri: &Uri) -> Uri {
        if self.missing.is_empty() {
            return uri.clone();
        }
        let mut query = uri.query().unwrap_or_default().to_owned();
        for field in &self.missing {
            query.push_str("&fields=");
            query.push_str(field);
        }
        let mut parts = uri.clone().into_parts();
        let path = format!("{}?{query}", uri.path());
        parts.path_and_query = PathAndQuery::try_from(path).ok().or(parts.path_and_query);
        Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
    }

    pub(super) fn strip(&self, row: &mut Value) {
        if let Some(row) = row.as_object_mut() {
            for field in &self.missing {
                row.shift_remove(field);
            }
        }
    }
}
