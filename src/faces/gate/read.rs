//! GET and lists: passed on, hidden, or shown as deleting (T5, T7, T13).

use http::{Method, Response, StatusCode, request};
use serde_json::{Map, Value, json};

use super::page::{Asked, Page, with_query};
use super::pass::Whole;
use super::refusal::{Refusal, name_deletion};
use super::route::{Named, Place};
use super::rules::{Asker, Ruling, Wish, ruling};
use super::{Gate, Out};
use crate::control::traffic::Met;
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
        let json = answered.json().await;
        let Some(mut json) = json.filter(|_| answered.head.status == StatusCode::OK) else {
            return Ok(answered.relay());
        };
        let row = kind.item_in(&mut json).and_then(Value::as_object_mut);
        if let Some(row) = row {
            show_deleting(kind, row, &fields);
        }
        self.counter.met(Met::Deleting);
        let mut response = answered.with_json(json).await;
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
        let admin = caller.is_admin;
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
        let is_head = head.method == Method::HEAD;
        let mut first = head.clone();
        first.uri = fields.with_ids(&head.uri);
        let answered = self.fetch(first).await?;
        let Some(mut page) = Page::of(&answered, &list.items).await else {
            return self.unfiltered(answered, is_head);
        };
        let mut met = None;
        let mut rows = self.seen(kind, asker, &fields, page.take_rows(), &mut met);
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
                let Some(mut more) = Page::of(&fetched, &list.items).await else {
                    return self.unfiltered(fetched, is_head);
                };
                next.clone_from(&more.next);
                let more = more.take_rows();
                rows.extend(self.seen(kind, asker, &fields, more, &mut met));
            }
            let more = rows.len() > full || next.is_some();
            rows.truncate(full);
            let last = rows.last().and_then(|row| kind.id_of(row));
            page.say_next(last.filter(|_| more).as_deref());
        }
        if let Some(met) = met {
            self.counter.met(met);
        } else if fields.missing.is_empty() {
            return Ok(answered.relay());
        }
        for row in &mut rows {
            fields.strip(row);
        }
        page.put_rows(&list.items, rows);
        page.forget_added(&fields.missing);
        Ok(answered.with_json(page.json).await)
    }

    /// An answer to a list that is no page. The service's refusals and what has no body pass; a success that
    /// cannot be read may name what is hidden.
    fn unfiltered(&self, answered: Whole, is_head: bool) -> Result<Response<Out>, Refusal> {
        let status = answered.head.status;
        if is_head || !status.is_success() || status == StatusCode::NO_CONTENT {
            return Ok(answered.relay());
        }
        tracing::warn!(gate = %self.address, %status, "a list of the upstream cannot be read");
        let message = format!(
            "{} answered {status} with a list that cannot be read, so what is hidden cannot be taken out of it",
            self.name()
        );
        Err(Refusal::new(
            StatusCode::BAD_GATEWAY,
            "HTTPBadGateway",
            message,
        ))
    }

    /// The rows that are shown, as they are shown; and whether any is not as the service has it.
    fn seen(
        &self,
        kind: &Kind,
        asker: Asker,
        fields: &Asked,
        rows: Vec<Value>,
        met: &mut Option<Met>,
    ) -> Vec<Value> {
        let mut seen = Vec::with_capacity(rows.len());
        for mut row in rows {
            let phase = kind.id_of(&row).and_then(|id| self.phase(&kind.name, &id));
            match ruling(phase, asker, Wish::Read) {
                Ruling::NotFound => *met = Some(Met::Hidden),
                Ruling::ShowDeleting => {
                    met.get_or_insert(Met::Deleting);
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

fn show_deleting(kind: &Kind, row: &mut Map<String, Value>, asked: &Asked) {
    for (field, value) in &kind.spec.deleting {
        if asked.wants(field) {
            row.insert(field.clone(), Value::String(value.clone()));
        }
    }
}
