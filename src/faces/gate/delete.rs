//! DELETE: passed on, answered, or a cascade of the engine's (T6, N1, N7, P7).

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, Uri, header, request};
use hyper::body::Incoming;
use serde_json::json;
use tokio::time::Instant;
use url::form_urlencoded;

use super::deletions::{DELETIONS, actor};
use super::pass::{Whole, empty, streamed};
use super::refusal::{Refusal, name_deletion, refused};
use super::route::{Named, Place};
use super::rules::{Asker, Ruling, Wish};
use super::{Gate, Out};
use crate::cloud::openstack::Identity;
use crate::control::{Command, Envelope, Receipt};
use crate::domain::kinds::Kind;
use crate::domain::model::{DeletionState, DriftPolicy, PlanOptions, Resource};
use crate::domain::text::escape;

/// What is checked within this time is answered with its outcome (N7).
const CHECK_MAX: Duration = Duration::from_millis(800);

impl Gate {
    pub(super) async fn delete(
        &self,
        head: request::Parts,
        body: Incoming,
        place: Place,
        asker: Asker,
    ) -> Result<Response<Out>, Refusal> {
        let Place::Resource { named, .. } = &place else {
            // A part of something, an edge: an update of what it is part of.
            return self.write(head, body, place, asker).await;
        };
        match self.ruled(&head, named, asker, Wish::Delete).await? {
            Ruling::Pass => {
                self.guard_part(&head, named, asker, Wish::Delete).await?;
                self.delete_or_cascade(head, body, named, asker).await
            }
            Ruling::NotFound if asker == Asker::Local => Err(self.not_found(named).await),
            Ruling::NotFound => {
                self.caller(&head).await?;
                Err(self.not_found(named).await)
            }
            Ruling::BeingChecked => {
                let (_, deletion) = self.known_to(&head, named).await?;
                Ok(accepted(&deletion))
            }
            _ => {
                let (caller, deletion) = self.known_to(&head, named).await?;
                let command = Command::Wake {
                    deletion_id: deletion.clone(),
                };
                self.submit(&caller, command).await?;
                let mut response = Response::new(empty());
                *response.status_mut() = StatusCode::NO_CONTENT;
                name_deletion(response.headers_mut(), Some(&deletion));
                Ok(response)
            }
        }
    }

    async fn delete_or_cascade(
        &self,
        mut head: request::Parts,
        body: Incoming,
        named: &Named,
        asker: Asker,
    ) -> Result<Response<Out>, Refusal> {
        // The service has a cascade of its own, and its own answer to it.
        let kind = self.kinds.get(&named.kind);
        if kind.is_some_and(Kind::cascades_by_itself) {
            return self.pass(head, streamed(body)).await;
        }
        let cascade = cascade_of(&head.uri)?;
        if let Some(uri) = cascade.as_ref().and_then(|_| without_cascade(&head.uri)) {
            head.uri = uri;
        }
        let has_dependents = self.kinds.referrers(&named.kind).next().is_some();
        match cascade {
            Some(true) if asker == Asker::User && has_dependents => {
                self.cascade(&head, named).await
            }
            // The old behaviour, unchanged (N1).
            _ => self.pass(head, streamed(body)).await,
        }
    }

    /// The caller, and the deletion that is under way: for who may delete it.
    async fn known_to(
        &self,
        head: &request::Parts,
        named: &Named,
    ) -> Result<(Identity, String), Refusal> {
        let caller = self.caller(head).await?;
        let row = self.row_for(head, named).await?;
        let kind = self.kinds.get(&named.kind);
        let project = row
            .as_ref()
            .zip(kind)
            .map(|(row, kind)| kind.project_of(row));
        let Some(deletion) = self.deletion_of(named).await else {
            return Err(self.not_found(named).await);
        };
        if project.is_some() && project == caller.project_id
            || self.may_read(&caller, &deletion).await
        {
            self.may_cascade(&caller)?;
            return Ok((caller, deletion));
        }
        match row {
            Some(_) => Err(Refusal::forbidden("it belongs to another project")),
            None => Err(self.not_found(named).await),
        }
    }

    async fn cascade(
        &self,
        head: &request::Parts,
        named: &Named,
    ) -> Result<Response<Out>, Refusal> {
        let caller = self.caller(head).await?;
        let Some(row) = self.row_for(head, named).await? else {
            return Err(self.not_found(named).await);
        };
        self.may_cascade(&caller)?;
        let kind = self.kinds.get(&named.kind);
        let mut shown = kind
            .map(|kind| self.kinds.resources_in(&self.site, kind, &row))
            .unwrap_or_default();
        shown.retain(|resource| resource.key.kind == named.kind);
        let Some(resource) = shown.into_iter().next() else {
            return Err(self.not_found(named).await);
        };
        // What the plan takes is of the root's project: another's in the way refuses it (P4).
        let own = caller.project_id.as_deref() == Some(resource.project_id.as_str());
        if !own && !self.is_admin(&caller) {
            return Err(self.in_use(named, "it belongs to another project", None));
        }
        let before = self.control.snapshot().borrow().last_event;
        let deletion = self.begin(&caller, resource).await?;
        self.checked(named, deletion, before).await
    }

    async fn begin(&self, caller: &Identity, resource: Resource) -> Result<String, Refusal> {
        let command = Command::DeleteSeen {
            resources: vec![resource],
            options: PlanOptions {
                cascade: true,
                drift: DriftPolicy::Absorb,
                ..PlanOptions::default()
            },
        };
        match self.submit(caller, command).await? {
            Receipt::Accepted { deletion_id, .. } => Ok(deletion_id),
            _ => Err(Refusal::unavailable("the engine gave no deletion")),
        }
    }

    /// 202, or the refusal if it comes soon enough (N7). `seen` is an event before the deletion's first.
    async fn checked(
        &self,
        named: &Named,
        id: String,
        mut seen: i64,
    ) -> Result<Response<Out>, Refusal> {
        let until = Instant::now() + CHECK_MAX;
        loop {
            let deletion = self.read_deletion(&id).await?;
            match deletion.state {
                DeletionState::Planning => {}
                DeletionState::Refused => {
                    return Err(self.in_use(named, &deletion.note, Some(id)));
                }
                _ => return Ok(accepted(&id)),
            }
            let left = until.saturating_duration_since(Instant::now()).as_millis();
            let news = self.control.events(seen, u64::try_from(left).unwrap_or(0));
            match news.await.ok().and_then(|events| Some(events.last()?.seq)) {
                Some(last) => seen = last,
                None => return Ok(accepted(&id)),
            }
        }
    }

    /// The cloud's own refusal of what cannot go.
    fn in_use(&self, named: &Named, why: &str, deletion: Option<String>) -> Refusal {
        let message = format!(
            "Unable to complete operation on {} {}: {why}",
            named.kind,
            escape(&named.id)
        );
        let kind = self.kinds.get(&named.kind);
        let in_use = kind.and_then(Kind::in_use_type).unwrap_or("InUse");
        Refusal {
            deletion,
            ..Refusal::new(StatusCode::CONFLICT, in_use, message)
        }
    }

    async fn submit(&self, caller: &Identity, command: Command) -> Result<Receipt, Refusal> {
        let envelope = Envelope {
            command,
            actor: actor(caller),
            reason: String::new(),
            idempotency_key: None,
        };
        self.control.submit(envelope).await.map_err(refused)
    }
}

fn accepted(id: &str) -> Response<Out> {
    let location = format!("{DELETIONS}{id}");
    let mut response =
        Whole::json_of(&json!({ "deletion": { "id": id, "href": location } })).relay();
    *response.status_mut() = StatusCode::ACCEPTED;
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    name_deletion(response.headers_mut(), Some(id));
    response
}

/// `?cascade=`, if it is given: `true` or `false` in any case, 1 or 0.
fn cascade_of(uri: &Uri) -> Result<Option<bool>, Refusal> {
    let query = uri.query().unwrap_or_default();
    let mut given = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == "cascade");
    let Some((_, value)) = given.next() else {
        return Ok(None);
    };
    let wanted = match value.to_lowercase().as_str() {
        "true" | "1" => true,
        "false" | "0" => false,
        _ => {
            let message = format!("cascade must be true or false, not \"{}\"", escape(&value));
            return Err(Refusal::bad_request(message));
        }
    };
    if given.next().is_some() {
        return Err(Refusal::bad_request("cascade is given twice"));
    }
    Ok(Some(wanted))
}

/// The service does not know it.
fn without_cascade(uri: &Uri) -> Option<Uri> {
    let query = uri.query().unwrap_or_default();
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| *pair != "cascade" && !pair.starts_with("cascade="))
        .collect();
    let path = match kept.is_empty() {
        true => uri.path().to_owned(),
        false => format!("{}?{}", uri.path(), kept.join("&")),
    };
    path.parse().ok()
}
