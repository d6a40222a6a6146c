//! GET and HEAD: passed on, hidden, or shown as deleting (T5, T7).

use std::slice;
use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::budget::Read;
use super::page::PageRequest;
use super::pass::Whole;
use super::refusal::{Refusal, Result, name_deletion, refused};
use super::route::{Named, PathTarget};
use super::rules::{Operation, RequestSource, Ruling};
use super::{Call, Gate, Head, Out};
use crate::cloud::openstack::item_in;
use crate::control::query;
use crate::control::traffic::Treatment;
use crate::domain::kinds::{Bond, Kind, Reference};
use crate::domain::model::KindName;

impl Gate {
    pub(super) async fn read(
        self: &Arc<Self>,
        call: Call,
        body: Out,
        target: PathTarget,
    ) -> Result {
        let asker = call.asker;
        let above = match &target {
            PathTarget::Elsewhere => None,
            PathTarget::Collection { parent, .. } | PathTarget::Resource { parent, .. } => {
                parent.as_ref()
            }
            PathTarget::Below(named) => Some(named),
        };
        if let Some(above) = above
            && self.hides(&call, above).await?
        {
            return self.hidden(call, body, above).await;
        }
        match target {
            PathTarget::Collection { kind, .. }
                if self.parts.tombstones.any(&self.site, &kind) || self.has_parts(&kind, asker) =>
            {
                self.list(call, &kind).await
            }
            PathTarget::Resource { named, .. } => match self.ruling(&named, asker, Operation::Read)
            {
                Ruling::NotFound => self.hidden(call, body, &named).await,
                Ruling::ShowDeleting => self.resource(call, &named, true).await,
                _ if self.may_be_part(&named, asker) => self.resource(call, &named, false).await,
                _ => self.pass(call.head, body).await,
            },
            _ => self.pass(call.head, body).await,
        }
    }

    /// Whether everything below this resource is hidden, because the resource or its parent is.
    async fn hides(&self, call: &Call, named: &Named) -> Result<bool> {
        let asker = call.asker;
        if self.ruling(named, asker, Operation::Read) == Ruling::NotFound {
            return Ok(true);
        }
        if asker != RequestSource::Local || !self.may_be_part(named, asker) {
            return Ok(false);
        }
        self.authenticate(&call.head).await?;
        let wholes = self.wholes_of(slice::from_ref(named), Bond::Part).await?;
        let is_hidden = |it: &Named| self.ruling(it, asker, Operation::Read) == Ruling::NotFound;
        Ok(wholes.iter().flatten().any(is_hidden))
    }

    /// Whether resources of this kind may be parts, which are shown as their parent is.
    pub(super) fn has_parts(&self, kind: &KindName, asker: RequestSource) -> bool {
        asker != RequestSource::Central && self.may_go_along(kind, Bond::Part)
    }

    fn may_be_part(&self, named: &Named, asker: RequestSource) -> bool {
        self.phase(&named.kind, &named.id).is_none() && self.has_parts(&named.kind, asker)
    }

    /// Answers a GET or HEAD of a resource that is shown as deleting, or else of a possible part, which is shown as its
    /// parent is (T7, T20).
    async fn resource(&self, call: Call, named: &Named, is_deleting: bool) -> Result {
        let Call { head, asker } = call;
        let kind = self.kind(&named.kind)?;
        let asked = PageRequest::of(&head.uri, kind, &fields_of_parts(kind));
        let mut first = head.clone();
        first.uri = asked.service_uri(&head.uri);
        let response = self.send(first).await?;
        let mut answered = self.read_whole(response, Read::Tree).await?;
        if is_deleting
            && answered.head.status == StatusCode::NOT_FOUND
            && let Some(shown) = self.shown_before(&head, kind, named, &asked).await?
        {
            answered = shown;
        }
        let json = answered.json().await;
        let mut json = json.filter(|_| answered.head.status == StatusCode::OK);
        let Some(row) = json.as_mut().and_then(|json| item_in(kind, json)) else {
            return self.unfiltered(answered, head.method == Method::HEAD);
        };
        let whole = match is_deleting {
            true => Some(named.clone()),
            false => {
                let rows = std::iter::once(row.clone());
                let wholes = self.wholes_of_rows(kind, rows, Bond::Part).await?;
                wholes.into_iter().flatten().next()
            }
        };
        // The tombstone may have changed while the service was asked, but the row may be older than the delete. So if
        // the first ruling was to show the row as deleting, the row is still shown as deleting.
        let ruling = |whole: &Named| match is_deleting {
            true => Ruling::ShowDeleting,
            false => self.ruling(whole, asker, Operation::Read),
        };
        let mut deletion = None;
        match whole.map(|whole| (ruling(&whole), whole)) {
            Some((Ruling::NotFound, whole)) => {
                let deletion = self.deletion_of(&self.site, &whole).await;
                return Err(self.not_found(named).await.by(deletion));
            }
            Some((Ruling::ShowDeleting, whole)) => {
                deletion = self.deletion_of(&self.site, &whole).await;
                self.counter.count_treatment(Treatment::Deleting);
                show_deleting(kind, row, &asked);
            }
            _ if asked.changes_the_request() => {}
            _ => return Ok(answered.relay()),
        }
        asked.strip(row);
        let mut response = answered.with_json(json.unwrap_or_default()).await;
        name_deletion(response.headers_mut(), deletion.as_deref());
        Ok(response)
    }

    /// Answers that a resource is not found. A local site gets this answer at once. For other callers the upstream
    /// checks the token first: its refusal, or its own 404, is the answer.
    pub(super) async fn hidden(&self, call: Call, body: Out, named: &Named) -> Result {
        if call.asker != RequestSource::Local {
            let answered = self.pass(call.head, body).await?;
            if !answered.status().is_success() {
                return Ok(answered);
            }
        }
        Err(self.not_found(named).await)
    }

    pub(super) async fn not_found(&self, named: &Named) -> Refusal {
        let kind = self.kind(&named.kind);
        let refusal = kind.map_or_else(|no| no, |kind| Refusal::not_found(kind, &named.id));
        refusal.by(self.deletion_of(&self.site, named).await)
    }

    /// Returns the resource as it was before the engine's own delete took effect (T7): for its own project
    /// and for admins, to whom the service would have shown it.
    async fn shown_before(
        &self,
        head: &Head,
        kind: &Kind,
        named: &Named,
        fields: &PageRequest,
    ) -> Result<Option<Whole>> {
        let key = named.at(&self.site);
        let kept = self.parts.control.ask(query::ShownBefore { key }).await;
        let Some(mut row) = kept.map_err(refused)? else {
            return Ok(None);
        };
        let caller = self.caller(head).await?;
        let admin = caller.is_admin;
        if !admin && !caller.owns(&kind.project_of(&row)) {
            return Ok(None);
        }
        if let Some(row) = row.as_object_mut() {
            // The kept row may have fields for admins only, since an admin may have requested the deletion.
            let hidden = |field: &String| !admin && kind.spec.admin_fields.contains(field);
            row.retain(|field, _| fields.wants(field) && !hidden(field));
        }
        let calls = self.calls_of(&named.kind);
        let list = calls.and_then(|calls| calls.list.as_ref());
        Ok(Some(Whole::json_of(
            &match list.and_then(|list| list.item.as_ref()) {
                Some(item) => json!({ item: row }),
                None => row,
            },
        )))
    }
}

/// Returns the fields that the gate needs in a row to find the parent of a part.
pub(super) fn fields_of_parts(kind: &Kind) -> Vec<&str> {
    let fields = kind.bonds(Bond::Part).flat_map(Reference::row_fields);
    fields.collect()
}

pub(super) fn show_deleting(kind: &Kind, row: &mut Value, asked: &PageRequest) {
    let Some(row) = row.as_object_mut() else {
        return;
    };
    for (field, value) in &kind.spec.deleting {
        if asked.wants(field) {
            row.insert(field.clone(), Value::String(value.clone()));
        }
    }
}
