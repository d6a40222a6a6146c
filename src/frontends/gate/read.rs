//! GET and lists: passed on, hidden, or shown as deleting (T5, T7, T13).

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode, request};
use serde_json::{Map, Value, json};

use super::budget::{LargePage, Read};
use super::page::{Direction, Page, PageRequest, Row, with_query};
use super::pass::{Admitted, Whole};
use super::refusal::{Refusal, name_deletion, refused};
use super::route::{Named, Place};
use super::rules::{Asker, Operation, Ruling, ruling};
use super::threads::Yielder;
use super::{Gate, Out, threads};
use crate::cloud::openstack::{RestCalls, item_in};
use crate::control::query;
use crate::control::traffic::Met;
use crate::domain::kinds::{Bond, Kind, Kinds, Reference};
use crate::domain::model::KindName;

/// Maximum number of pages that are read from the upstream to fill one page: 100,000 rows.
const REFILLS_MAX: usize = 200;
/// Rows in such a page.
const REFILL_ROWS: usize = 500;

impl Gate {
    pub(super) async fn read(
        self: &Arc<Self>,
        head: request::Parts,
        body: Out,
        place: Place,
        asker: Asker,
    ) -> Result<Response<Out>, Refusal> {
        let above = match &place {
            Place::Elsewhere => None,
            Place::Collection { parent, .. } | Place::Resource { parent, .. } => parent.as_ref(),
            Place::Below(named) => Some(named),
        };
        if let Some(above) = above
            && self.hides(&head, above, asker).await?
        {
            return self.hidden(head, body, above, asker).await;
        }
        match place {
            Place::Collection { kind, .. }
                if self.tombstones.any(&self.site, &kind) || self.has_parts(&kind, asker) =>
            {
                self.list(head, &kind, asker).await
            }
            Place::Resource { named, .. } => match self.ruling(&named, asker, Operation::Read) {
                Ruling::NotFound => self.hidden(head, body, &named, asker).await,
                Ruling::ShowDeleting => self.deleting(head, &named).await,
                _ if self.may_be_part(&named, asker) => self.part(head, &named, asker).await,
                _ => self.pass(head, body).await,
            },
            Place::Elsewhere | Place::Collection { .. } | Place::Below(_) => {
                self.pass(head, body).await
            }
        }
    }

    /// Whether everything below this resource is hidden, because it or its parent is.
    async fn hides(
        &self,
        head: &request::Parts,
        named: &Named,
        asker: Asker,
    ) -> Result<bool, Refusal> {
        if self.ruling(named, asker, Operation::Read) == Ruling::NotFound {
            return Ok(true);
        }
        if asker != Asker::Local || !self.may_be_part(named, asker) {
            return Ok(false);
        }
        self.authenticate(head).await?;
        let whole = self.whole_of(named, Bond::Part).await?;
        Ok(whole.is_some_and(|it| self.ruling(&it, asker, Operation::Read) == Ruling::NotFound))
    }

    /// Whether resources of this kind may be parts, which are shown as their parent is.
    fn has_parts(&self, kind: &KindName, asker: Asker) -> bool {
        asker != Asker::Central && self.may_go_along(kind, Bond::Part)
    }

    fn may_be_part(&self, named: &Named, asker: Asker) -> bool {
        self.phase(&named.kind, &named.id).is_none() && self.has_parts(&named.kind, asker)
    }

    /// Answers a GET of a possible part: it is shown as its parent is (T20).
    async fn part(
        &self,
        head: request::Parts,
        named: &Named,
        asker: Asker,
    ) -> Result<Response<Out>, Refusal> {
        let Some(kind) = self.kinds.get(&named.kind) else {
            return Err(self.not_found(named).await);
        };
        let asked = PageRequest::of(&head.uri, kind, &fields_of_parts(kind));
        let is_head = head.method == Method::HEAD;
        let mut first = head;
        first.uri = asked.asked_of_the_service(&first.uri);
        let answered = self.fetch(first).await?;
        let json = answered.json().await;
        let json = json.filter(|_| answered.head.status == StatusCode::OK);
        let Some(mut json) = json else {
            return self.unfiltered(answered, is_head);
        };
        let Some(row) = item_in(kind, &mut json) else {
            return self.unfiltered(answered, is_head);
        };
        let mut shown = row.take();
        let rows = std::iter::once(shown.clone());
        let wholes = self.wholes_of_rows(kind, rows, Bond::Part).await?;
        let whole = wholes.into_iter().flatten().next();
        let ruling = whole
            .as_ref()
            .map(|it| self.ruling(it, asker, Operation::Read));
        let mut deletion = None;
        match (whole, ruling) {
            (Some(whole), Some(Ruling::NotFound)) => {
                let deletion = self.deletion_of(&whole).await;
                return Err(self.not_found(named).await.by(deletion));
            }
            (Some(whole), Some(Ruling::ShowDeleting)) => {
                self.counter.met(Met::Deleting);
                deletion = self.deletion_of(&whole).await;
                if let Some(row) = shown.as_object_mut() {
                    show_deleting(kind, row, &asked);
                }
            }
            _ if asked.changes_the_request() => {}
            _ => return Ok(answered.relay()),
        }
        asked.strip(&mut shown);
        if let Some(row) = item_in(kind, &mut json) {
            *row = shown;
        }
        let mut response = answered.with_json(json).await;
        name_deletion(response.headers_mut(), deletion.as_deref());
        Ok(response)
    }

    /// Answers that a resource is not found. A local site learns it at once. For other callers the upstream
    /// checks the token first: its refusal, or its own 404, is the answer.
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
            None => Refusal::of(StatusCode::NOT_FOUND, "not found"),
        };
        refusal.by(self.deletion_of(named).await)
    }

    async fn deleting(
        &self,
        head: request::Parts,
        named: &Named,
    ) -> Result<Response<Out>, Refusal> {
        let Some(kind) = self.kinds.get(&named.kind) else {
            return Err(self.not_found(named).await);
        };
        let fields = PageRequest::of(&head.uri, kind, &[]);
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
        let row = item_in(kind, &mut json).and_then(Value::as_object_mut);
        if let Some(row) = row {
            show_deleting(kind, row, &fields);
        }
        self.counter.met(Met::Deleting);
        let mut response = answered.with_json(json).await;
        name_deletion(response.headers_mut(), deletion.as_deref());
        Ok(response)
    }

    /// Returns the resource as it was before the engine's own delete took effect (T7): for its own project
    /// and for admins, to whom the service would have shown it.
    async fn shown_before(
        &self,
        head: &request::Parts,
        kind: &Kind,
        named: &Named,
        fields: &PageRequest,
    ) -> Result<Option<Whole>, Refusal> {
        let key = named.at(&self.site);
        let kept = self.control.ask(query::ShownBefore { key }).await;
        let Some(mut row) = kept.map_err(refused)? else {
            return Ok(None);
        };
        let caller = self.caller(head).await?;
        let admin = caller.is_admin;
        if !admin && caller.project_id != Some(kind.project_of(&row)) {
            return Ok(None);
        }
        if let Some(row) = row.as_object_mut() {
            // An admin may have requested the deletion.
            let hidden = |field: &String| !admin && kind.spec.admin_fields.contains(field);
            row.retain(|field, _| fields.wants(field) && !hidden(field));
        }
        let list = kind
            .calls_of::<RestCalls>()
            .and_then(|calls| calls.list.as_ref());
        let item = list.and_then(|list| list.item.as_ref());
        Ok(Some(Whole::json_of(&match item {
            Some(item) => json!({ item: row }),
            None => row,
        })))
    }

    /// Answers with a page to which the rules are applied: full, and with markers of visible rows only (T13,
    /// T21).
    async fn list(
        self: &Arc<Self>,
        head: request::Parts,
        kind: &KindName,
        asker: Asker,
    ) -> Result<Response<Out>, Refusal> {
        let Some(kind) = self.kinds.get(kind).filter(|kind| kind.spec.list.is_some()) else {
            return self.pass(head, super::pass::empty()).await;
        };
        let wanted = Arc::new(Wanted::of(self, &head, kind, asker));
        let mut first = head.clone();
        first.uri = wanted.asked.asked_of_the_service(&head.uri);
        let response = self.send(first).await?;
        let first = self.admit(response, Read::Rows).await?;
        let (gate, room) = (self.clone(), first.room);
        let shown = async move { gate.shown(head, first, &wanted).await };
        threads::offload_if_large(room, shown).await
    }

    /// Completes a list from its first page.
    async fn shown(
        self: &Arc<Self>,
        head: request::Parts,
        first: Admitted,
        wanted: &Arc<Wanted>,
    ) -> Result<Response<Out>, Refusal> {
        let is_head = head.method == Method::HEAD;
        let mut large = None;
        let (answered, page) = self.page(first, wanted, &mut large).await?;
        let Some((mut page, (_, items))) = page.zip(wanted.kind_in(&self.kinds)) else {
            return self.unfiltered(answered, is_head);
        };
        let mut onward = page.onward(wanted.direction);
        let mut refills = 0;
        while page.rows.len() < page.size
            && let Some(link) = onward.take()
        {
            refills += 1;
            if refills > REFILLS_MAX {
                let message = "too much of this list is being deleted; ask with a filter";
                return Err(Refusal::unavailable(message));
            }
            let link = with_query(&link, "limit", &REFILL_ROWS.to_string());
            let response = self.send_to(&head, &link).await?;
            let more = self.admit(response, Read::Rows).await?;
            let (gate, room, wanted) = (self.clone(), more.room, wanted.clone());
            let direction = wanted.direction;
            let read = async move {
                let read = gate.page(more, &wanted, &mut large).await;
                (large, read)
            };
            let (kept, read) = threads::offload_if_large(room, read).await;
            large = kept;
            let more = match read? {
                (_, Some(more)) => more,
                (fetched, None) => return self.unfiltered(fetched, is_head),
            };
            onward = more.onward(direction);
            page.append(more, direction);
        }
        if let Some(met) = page.met {
            self.counter.met(met);
        } else if !wanted.asked.changes_the_request() {
            return Ok(answered.relay());
        }
        let more = page.rows.len() > page.size || onward.is_some();
        Ok(answered.with_text(page.text(items, &wanted.asked, wanted.direction, more)))
    }

    /// Reads an answer, and the page in it with the rules applied; the page is None if the answer is not one.
    /// A list takes `large` with its first large page, and keeps it to its end.
    async fn page(
        &self,
        admitted: Admitted,
        wanted: &Wanted,
        large: &mut Option<LargePage>,
    ) -> Result<(Whole, Option<Page>), Refusal> {
        let answered = self.read_admitted(admitted).await?;
        if large.is_none() {
            *large = self.large_page(&answered).await?;
        }
        let kind = wanted.kind_in(&self.kinds);
        let kind = kind.filter(|_| answered.head.status == StatusCode::OK);
        let read = kind.and_then(|(kind, items)| Some((kind, Page::split(&answered.body, items)?)));
        let page = match read {
            Some((kind, (page, rows))) => self.rule(kind, wanted, page, &rows).await?,
            None => None,
        };
        Ok((answered, page))
    }

    /// Handles an answer that is not a page or a resource. The service's refusals and answers without a body
    /// pass; a success that cannot be parsed may name hidden resources.
    fn unfiltered(&self, answered: Whole, is_head: bool) -> Result<Response<Out>, Refusal> {
        let status = answered.head.status;
        if is_head || !status.is_success() || status == StatusCode::NO_CONTENT {
            return Ok(answered.relay());
        }
        tracing::warn!(gate = %self.address, %status, "an answer of the upstream cannot be read");
        Err(Refusal::bad_gateway(format!(
            "{} answered {status} with what cannot be read, so what is hidden cannot be taken out of it",
            self.name()
        )))
    }

    /// Applies the rules to every row of a page. None if a row cannot be read.
    async fn rule(
        &self,
        kind: &Kind,
        wanted: &Wanted,
        mut page: Page,
        rows: &[Bytes],
    ) -> Result<Option<Page>, Refusal> {
        let Wanted { asker, asked, .. } = wanted;
        let mut yielder = Yielder::default();
        let mut read = |row: &Bytes| {
            yielder.after(row.len());
            serde_json::from_slice::<Value>(row).ok()
        };
        let wholes = match self.has_parts(&kind.name, *asker) {
            true => {
                // The loop below reports a row that cannot be read.
                let values = rows.iter().map(|row| read(row).unwrap_or_default());
                self.wholes_of_rows(kind, values, Bond::Part).await?
            }
            false => vec![None; rows.len()],
        };
        for (text, whole) in rows.iter().zip(wholes) {
            let Some(mut row) = read(text) else {
                return Ok(None);
            };
            let id = kind.id_of(&row);
            let own = id.as_ref().and_then(|id| self.phase(&kind.name, id));
            let of_whole = || whole.and_then(|whole| self.phase(&whole.kind, &whole.id));
            let ruling = ruling(own.or_else(of_whole), *asker, Operation::Read);
            let is_deleting = match ruling {
                Ruling::NotFound => {
                    page.met = Some(Met::Hidden);
                    continue;
                }
                Ruling::ShowDeleting => {
                    page.met.get_or_insert(Met::Deleting);
                    if let Some(row) = row.as_object_mut() {
                        show_deleting(kind, row, asked);
                    }
                    true
                }
                Ruling::Pass | Ruling::UnderWay | Ruling::BeingChecked | Ruling::Conflict => false,
            };
            if asked.finds(&row, is_deleting) {
                let is_changed = is_deleting || !asked.missing.is_empty();
                asked.strip(&mut row);
                let text = match is_changed {
                    true => row.to_string().into(),
                    false => text.clone(),
                };
                page.rows.push(Row { text, id });
            }
        }
        Ok(Some(page))
    }
}

/// A client's request for a list.
struct Wanted {
    kind: KindName,
    asker: Asker,
    asked: PageRequest,
    direction: Direction,
}

impl Wanted {
    fn of(gate: &Gate, head: &request::Parts, kind: &Kind, asker: Asker) -> Self {
        let needed = match gate.has_parts(&kind.name, asker) {
            true => fields_of_parts(kind),
            false => Vec::new(),
        };
        let asked = PageRequest::of(&head.uri, kind, &needed);
        Self {
            kind: kind.name.clone(),
            asker,
            asked: match asker {
                // A central site sees what the service has, so the service applies the filter.
                Asker::Central => asked.by_the_service(),
                Asker::User | Asker::Local | Asker::Service => asked,
            },
            direction: Direction::of(&head.uri),
        }
    }

    /// The kind, and the key of the rows in a page.
    fn kind_in<'k>(&self, kinds: &'k Kinds) -> Option<(&'k Kind, &'k str)> {
        let kind = kinds.get(&self.kind)?;
        let list = kind.calls_of::<RestCalls>()?.list.as_ref()?;
        Some((kind, &list.items))
    }
}

/// Returns the fields that the gate needs in a row to find the parent of a part.
fn fields_of_parts(kind: &Kind) -> Vec<&str> {
    let fields = kind.bonds(Bond::Part).flat_map(Reference::row_fields);
    fields.collect()
}

fn show_deleting(kind: &Kind, row: &mut Map<String, Value>, asked: &PageRequest) {
    for (field, value) in &kind.spec.deleting {
        if asked.wants(field) {
            row.insert(field.clone(), Value::String(value.clone()));
        }
    }
}
