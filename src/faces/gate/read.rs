//! GET and lists: passed on, hidden, or shown as deleting (T5, T7, T13).

use http::uri::PathAndQuery;
use http::{Response, StatusCode, Uri, request};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::pass::Whole;
use super::refusal::{Refusal, name_deletion};
use super::route::{Named, Place};
use super::rules::{Asker, Ruling, Wish, ruling};
use super::{Gate, Out};
use crate::control::{Page as Answered, Query};
use crate::domain::kinds::Kind;
use crate::domain::model::{KindName, ResourceKey};

/// Pages that one request may take from the upstream to fill one of its own: 100,000 rows.
const REFILLS_MAX: usize = 200;
/// Rows of such a page.
const REFILL_ROWS: usize = 500;

impl Gate {
    pub(super) async fn read(
        &self,
        head: request::Parts,
        body: Out,
        place: Place,
        asker: Asker,
    ) -> Result<Response<Out>, Refusal> {
        match place {
            Place::Elsewhere => self.pass(head, body).await,
            Place::Collection { kind, parent } => {
                if let Some(parent) = parent.filter(|it| self.hides(it, asker)) {
                    return self.hidden(head, body, &parent, asker).await;
                }
                if !self.tombstones.any(&self.site, &kind) {
                    return self.pass(head, body).await;
                }
                self.list(head, &kind, asker).await
            }
            Place::Resource { named, parent } => {
                if let Some(parent) = parent.filter(|it| self.hides(it, asker)) {
                    return self.hidden(head, body, &parent, asker).await;
                }
                match self.ruling(&named, asker, Wish::Read) {
                    Ruling::NotFound => self.hidden(head, body, &named, asker).await,
                    Ruling::ShowDeleting => self.deleting(head, &named).await,
                    _ => self.pass(head, body).await,
                }
            }
            Place::Below(named) => match self.hides(&named, asker) {
                true => self.hidden(head, body, &named, asker).await,
                false => self.pass(head, body).await,
            },
        }
    }

    fn hides(&self, named: &Named, asker: Asker) -> bool {
        self.ruling(named, asker, Wish::Read) == Ruling::NotFound
    }

    /// A local is told at once. For all others the upstream says whose token it is: what it refuses, or
    /// no longer has, is its own answer.
    pub(super) async fn hidden(
        &self,
        head: request::Parts,
        body: Out,
        named: &Named,
        asker: Asker,
    ) -> Result<Response<Out>, Refusal> {
        if asker != Asker::Local {
            let answered = self.pass(head, body).await?;
            if !answered.status().is_success() {
                return Ok(answered);
            }
        }
        Err(self.not_found(named).await)
    }

    pub(super) async fn not_found(&self, named: &Named) -> Refusal {
        let refusal = match self.kinds.get(&named.kind) {
            Some(kind) => Refusal::not_found(kind, &named.id),
            None => Refusal::new(StatusCode::NOT_FOUND, "HTTPNotFound", "not found"),
        };
        Refusal {
            deletion: self.deletion_of(named).await,
            ..refusal
        }
    }

    async fn deleting(
        &self,
        head: request::Parts,
        named: &Named,
    ) -> Result<Response<Out>, Refusal> {
        let Some(kind) = self.kinds.get(&named.kind) else {
            return Err(self.not_found(named).await);
        };
        let fields = Asked::of(&head.uri, kind);
        let mut answered = self.fetch(head.clone()).await?;
        let deletion = self.deletion_of(named).await;
        if answered.head.status == StatusCode::NOT_FOUND
            && let Some(shown) = self.shown_before(&head, kind, named, &fields).await?
        {
            answered = shown;
        }
        let Some(mut json) = answered
            .json()
            .filter(|_| answered.head.status == StatusCode::OK)
        else {
            return Ok(answered.relay());
        };
        let row = kind.item_in(&mut json).and_then(Value::as_object_mut);
        if let Some(row) = row {
            show_deleting(kind, row, &fields);
        }
        let mut response = answered.with_json(&json);
        name_deletion(response.headers_mut(), deletion.as_deref());
        Ok(response)
    }

    /// The resource as it was, once the engine's own delete has taken effect (T7): for its own project and
    /// for admins, whom the service would have shown it to.
    async fn shown_before(
        &self,
        head: &request::Parts,
        kind: &Kind,
        named: &Named,
        fields: &Asked,
    ) -> Result<Option<Whole>, Refusal> {
        let key = ResourceKey {
            site: self.site.clone(),
            kind: named.kind.clone(),
            id: named.id.to_lowercase(),
        };
        let kept = self.control.query(Query::ShownBefore { key }).await;
        let Ok(Answered::ShownBefore { row: Some(mut row) }) = kept else {
            return Ok(None);
        };
        let caller = self.caller(head).await?;
        let admin = self.is_admin(&caller);
        if !admin && caller.project_id != Some(kind.project_of(&row)) {
            return Ok(None);
        }
        if let Some(row) = row.as_object_mut() {
            // An admin may have asked for the deletion.
            let hidden = |field: &String| !admin && kind.spec.admin_fields.contains(field);
            row.retain(|field, _| fields.wants(field) && !hidden(field));
        }
        let item = kind.spec.list.as_ref().and_then(|list| list.item.as_ref());
        Ok(Some(Whole::json_of(&match item {
            Some(item) => json!({ item: row }),
            None => row,
        })))
    }

    /// A page as the rules leave it: full, and with a marker that is seen (T13).
    async fn list(
        &self,
        head: request::Parts,
        kind: &KindName,
        asker: Asker,
    ) -> Result<Response<Out>, Refusal> {
        let Some((kind, list)) = self
            .kinds
            .get(kind)
            .and_then(|kind| Some((kind, kind.spec.list.as_ref()?)))
        else {
            return self.pass(head, super::pass::empty()).await;
        };
        let fields = Asked::of(&head.uri, kind);
        let mut first = head.clone();
        first.uri = fields.with_ids(&head.uri);
        let mut answered = self.fetch(first).await?;
        let Some(mut page) = Page::of(&answered, &list.items) else {
            return Ok(answered.relay());
        };
        let mut changed = fields.added_ids;
        let mut rows = self.seen(kind, asker, &fields, page.take_rows(), &mut changed);
        if rows.len() < page.size && page.next.is_some() {
            let full = page.size;
            let mut next = page.next.clone();
            let mut refills = 0;
            while rows.len() < full
                && let Some(link) = next.take()
            {
                refills += 1;
                if refills > REFILLS_MAX {
                    let message = "too much of this list is being deleted; ask with a filter";
                    return Err(Refusal::unavailable(message));
                }
                let link = with_query(&link, "limit", &REFILL_ROWS.to_string());
                let fetched = self.fetch_at(&head, &link).await?;
                let Some(mut more) = Page::of(&fetched, &list.items) else {
                    return Ok(fetched.relay());
                };
                next.clone_from(&more.next);
                let more = more.take_rows();
                rows.extend(self.seen(kind, asker, &fields, more, &mut changed));
            }
            let more = rows.len() > full || next.is_some();
            rows.truncate(full);
            let last = rows.last().and_then(|row| kind.id_of(row));
            page.say_next(last.filter(|_| more).as_deref());
        }
        if !changed {
            return Ok(answered.relay());
        }
        for row in &mut rows {
            fields.strip(row);
        }
        page.put_rows(&list.items, rows);
        page.forget_added(&fields.missing);
        answered.body = bytes::Bytes::new();
        Ok(answered.with_json(&page.json))
    }

    /// The rows that are shown, as they are shown.
    fn seen(
        &self,
        kind: &Kind,
        asker: Asker,
        fields: &Asked,
        rows: Vec<Value>,
        changed: &mut bool,
    ) -> Vec<Value> {
        let mut seen = Vec::with_capacity(rows.len());
        for mut row in rows {
            let phase = kind.id_of(&row).and_then(|id| self.phase(&kind.name, &id));
            match ruling(phase, asker, Wish::Read) {
                Ruling::NotFound => *changed = true,
                Ruling::ShowDeleting => {
                    *changed = true;
                    if let Some(row) = row.as_object_mut() {
                        show_deleting(kind, row, fields);
                    }
                    seen.push(row);
                }
                _ => seen.push(row),
            }
        }
        seen
    }
}

/// One page of a list.
struct Page {
    json: Value,
    rows: Vec<Value>,
    size: usize,
    /// Path and query of the page after it.
    next: Option<String>,
}

impl Page {
    fn of(answered: &Whole, items: &str) -> Option<Self> {
        let mut json = answered
            .json()
            .filter(|_| answered.head.status == StatusCode::OK)?;
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

    fn take_rows(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.rows)
    }

    fn put_rows(&mut self, items: &str, rows: Vec<Value>) {
        if let Some(shown) = self.json.get_mut(items) {
            *shown = Value::Array(rows);
        }
    }

    /// Takes the fields that the gate added off the links.
    fn forget_added(&mut self, fields: &[String]) {
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
    fn say_next(&mut self, last: Option<&str>) {
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
fn with_query(link: &str, key: &str, value: &str) -> String {
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
struct Asked {
    /// None: all.
    fields: Option<Vec<String>>,
    /// Fields of the id that the gate must see and the client did not ask for.
    missing: Vec<String>,
    added_ids: bool,
}

impl Asked {
    fn of(uri: &Uri, kind: &Kind) -> Self {
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
        Self {
            added_ids: !missing.is_empty(),
            fields,
            missing,
        }
    }

    fn wants(&self, field: &str) -> bool {
        let fields = self.fields.as_ref();
        fields.is_none_or(|fields| fields.iter().any(|it| it == field))
    }

    fn with_ids(&self, uri: &Uri) -> Uri {
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

    fn strip(&self, row: &mut Value) {
        if let Some(row) = row.as_object_mut() {
            for field in &self.missing {
                row.shift_remove(field);
            }
        }
    }
}

fn show_deleting(kind: &Kind, row: &mut Map<String, Value>, asked: &Asked) {
    for (field, value) in &kind.spec.deleting {
        if asked.wants(field) {
            row.insert(field.clone(), Value::String(value.clone()));
        }
    }
}
