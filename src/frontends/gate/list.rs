//! Lists: each page filled up with further rows where some are hidden (T13, T21).

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::Value;

use super::budget::{LargePage, Read, SMALL_BYTES_MAX};
use super::page::{Page, PageRequest, Row, with_query};
use super::pass::{Whole, too_many};
use super::read::{fields_of_parts, show_deleting};
use super::refusal::{Refusal, Result};
use super::rules::{Operation, RequestSource, Ruling, ruling};
use super::threads::Yielder;
use super::{Call, Gate, Response, threads};
use crate::cloud::openstack::RestCalls;
use crate::control::traffic::Treatment;
use crate::domain::kinds::Bond;
use crate::domain::model::KindName;

/// Maximum number of pages that are read from the upstream to fill one page: 100,000 rows.
const REFILLS_MAX: usize = 200;
/// Rows in a page that is read to fill another one.
const REFILL_ROWS: usize = 500;

impl Gate {
    /// Answers with a page to which the rules are applied: full, and with markers of visible rows only (T13,
    /// T21).
    pub(super) async fn list(self: &Arc<Self>, call: Call, kind: &KindName) -> Result {
        let Call { head, asker } = call;
        let kind = self.kind(kind)?;
        let with_parts = Some(kind).filter(|kind| self.has_parts(&kind.name, asker));
        let needed = with_parts.map(fields_of_parts).unwrap_or_default();
        let mut asked = PageRequest::of(&head.uri, kind, &needed);
        if asker == RequestSource::Central {
            // A central site gets the states of the rows as the service has them, so the service applies the filter.
            asked.filter = None;
        }
        let kind = kind.name.clone();
        let wanted = Arc::new(Wanted { kind, asker, asked });
        let mut first = head.clone();
        first.uri = wanted.asked.service_uri(&head.uri);
        let first = self.send(first).await?;
        let mut large = None;
        let (answered, page) = self.page(first, &wanted, &mut large).await?;
        let is_head = head.method == Method::HEAD;
        let Some(mut page) = page else {
            return self.unfiltered(answered, is_head);
        };
        let mut refills = 0;
        while page.rows.len() < page.size
            && let Some(link) = page.onward.take()
        {
            refills += 1;
            if refills > REFILLS_MAX {
                let message = "too many resources of this list are being deleted to fill a page; narrow the \
                               list with a filter";
                return Err(Refusal::unavailable(message));
            }
            let link = with_query(&link, "limit", &REFILL_ROWS.to_string());
            let more = self.send_to(&head, &link).await?;
            match self.page(more, &wanted, &mut large).await? {
                (_, Some(more)) => page.append(more),
                (fetched, None) => return self.unfiltered(fetched, is_head),
            }
        }
        if let Some(treatment) = page.treatment {
            self.counter.count_treatment(treatment);
        } else if !wanted.asked.changes_the_request() {
            return Ok(answered.relay());
        }
        let bytes = answered.body.len();
        let joined = async move { answered.with_text(page.text(&wanted.asked)) };
        Ok(threads::offload_if_large(bytes, joined).await)
    }

    /// Reads an answer, and the page in it with the rules applied; the page is None if the answer is not a page, or a
    /// row cannot be read. A list takes `large` with its first large page, and keeps this permit until the list ends.
    async fn page(
        self: &Arc<Self>,
        response: Response,
        wanted: &Arc<Wanted>,
        large: &mut Option<LargePage>,
    ) -> Result<(Whole, Option<Page>)> {
        let answered = self.read_whole(response, Read::Rows).await?;
        let (gate, wanted, bytes) = (self.clone(), wanted.clone(), answered.body.len());
        if large.is_none() && bytes > SMALL_BYTES_MAX {
            let permit = self
                .parts
                .budget
                .large_page(self.parts.settings.limits.answer_timeout);
            *large = Some(permit.await.ok_or_else(too_many)?);
        }
        let ruled = async move {
            let page = gate.rule(&answered, &wanted).await?;
            Ok((answered, page))
        };
        threads::offload_if_large(bytes, ruled).await
    }

    /// Handles an answer that is not a page or a resource. The service's refusals and answers without a body
    /// pass; a success that cannot be parsed may name hidden resources.
    pub(super) fn unfiltered(&self, answered: Whole, is_head: bool) -> Result {
        let status = answered.head.status;
        if is_head || !status.is_success() || status == StatusCode::NO_CONTENT {
            return Ok(answered.relay());
        }
        tracing::warn!(gate = %self.address, %status, "an answer of the upstream cannot be read");
        let message = format!(
            "the gate cannot parse the answer of {} ({status}), so it cannot remove hidden resources from it; send the \
             request again, or read the gate's log",
            self.name()
        );
        Err(Refusal::of(StatusCode::BAD_GATEWAY, message))
    }

    /// Applies the rules to every row of the page in an answer. None if the answer is not a page, or a row cannot be
    /// read.
    async fn rule(&self, answered: &Whole, wanted: &Wanted) -> Result<Option<Page>> {
        let Wanted { kind, asker, asked } = wanted;
        let kind = self.kind(kind)?;
        let calls: Option<&RestCalls> = kind.calls_of();
        let list = calls.and_then(|calls| calls.list.as_ref());
        let list = list.filter(|_| answered.head.status == StatusCode::OK);
        let split = list.and_then(|it| Page::split(&answered.body, &it.items, asked.direction));
        let Some((mut page, rows)) = split else {
            return Ok(None);
        };
        let mut yielder = Yielder::new();
        let mut read = |row: &Bytes| {
            yielder.after_row();
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
                    page.treatment = Some(Treatment::Hidden);
                    continue;
                }
                Ruling::ShowDeleting => {
                    page.treatment.get_or_insert(Treatment::Deleting);
                    show_deleting(kind, &mut row, asked);
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
    asker: RequestSource,
    asked: PageRequest,
}
