//! DELETE: passed on, answered, or a cascade of the engine's (T6, N1, N7, P7).

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, Uri, header, request};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::form_urlencoded;

use super::pass::{empty, streamed};
use super::refusal::{Refusal, name_deletion};
use super::route::{Named, Place};
use super::rules::{Asker, Ruling, Wish};
use super::{Gate, Out};
use crate::cloud::openstack::Identity;
use crate::control::{Command, ControlError, Envelope, Page, Query, Receipt};
use crate::domain::model::{
    Actor, Deletion, DeletionState, DriftPolicy, Origin, PlanOptions, Resource,
};
use crate::domain::text::escape;

/// Where the gate itself tells of deletions.
pub(super) const DELETIONS: &str = "/gone/v1/deletions/";
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
        let asker = match self.ruling(named, asker, Wish::Delete) {
            Ruling::Pass => asker,
            _ if asker == Asker::User && self.is_service(&head).await? => Asker::Service,
            _ => asker,
        };
        match self.ruling(named, asker, Wish::Delete) {
            Ruling::Pass => {
                self.guard_part(&head, named, asker).await?;
                self.delete_or_cascade(head, body, place, asker).await
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
        place: Place,
        asker: Asker,
    ) -> Result<Response<Out>, Refusal> {
        let Place::Resource { named, .. } = &place else {
            return self.pass(head, streamed(body)).await;
        };
        // Octavia has a cascade of its own, and its own answer to it.
        if self.service == "load-balancer" {
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

    /// The caller, and the deletion that is under way: for who may delete and sees the resource, or
    /// whose it was.
    async fn known_to(
        &self,
        head: &request::Parts,
        named: &Named,
    ) -> Result<(Identity, String), Refusal> {
        let caller = self.caller(head).await?;
        self.may_cascade(&caller)?;
        let Some(deletion) = self.deletion_of(named).await else {
            return Err(self.not_found(named).await);
        };
        if self.sees(head, named).await? || self.may_read(&caller, &deletion).await {
            return Ok((caller, deletion));
        }
        Err(self.not_found(named).await)
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
            return Err(in_use(named, "it belongs to another project", None));
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
                DeletionState::Refused => return Err(in_use(named, &deletion.note, Some(id))),
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

    async fn submit(&self, caller: &Identity, command: Command) -> Result<Receipt, Refusal> {
        let envelope = Envelope {
            command,
            actor: actor(caller),
            reason: String::new(),
            idempotency_key: None,
        };
        self.control.submit(envelope).await.map_err(refused)
    }

    async fn read_deletion(&self, id: &str) -> Result<Deletion, Refusal> {
        match self
            .control
            .query(Query::Deletion { id: id.to_owned() })
            .await
        {
            Ok(Page::Deletion { row }) => Ok(*row),
            Ok(_) => Err(Refusal::unavailable("the engine answered something else")),
            Err(error) => Err(refused(error)),
        }
    }

    /// `GET /gone/v1/deletions/{id}`, for who may know of it.
    pub(super) async fn deletion(
        &self,
        head: &request::Parts,
        id: &str,
    ) -> Result<Response<Out>, Refusal> {
        let caller = self.caller(head).await?;
        let unknown = || {
            let message = format!("deletion {} could not be found.", escape(id));
            Refusal::new(StatusCode::NOT_FOUND, "HTTPNotFound", message)
        };
        if id.contains('/') || !self.may_read(&caller, id).await {
            return Err(unknown());
        }
        let deletion = self.read_deletion(id).await.map_err(|_| unknown())?;
        let mut response = whole(&json!(deletion));
        name_deletion(response.headers_mut(), Some(&deletion.id));
        Ok(response)
    }

    /// Who asked for it, whose project its targets are of, and admins.
    async fn may_read(&self, caller: &Identity, id: &str) -> bool {
        if self.is_admin(caller) {
            return true;
        }
        let Ok(deletion) = self.read_deletion(id).await else {
            return false;
        };
        if deletion.requested_by == actor(caller) {
            return true;
        }
        let asked = Query::FrozenPlan {
            deletion_id: deletion.id.clone(),
        };
        let Ok(Page::Plan { plan }) = self.control.query(asked).await else {
            return false;
        };
        let of_targets = plan.steps.iter().filter(|step| {
            let key = step.key();
            plan.targets.iter().any(|target| target.key == key)
        });
        let mut projects = of_targets.map(|step| &*step.project_id).peekable();
        projects.peek().is_some() && projects.all(|it| caller.project_id.as_deref() == Some(it))
    }
}

/// As the audit and the console name who came this way.
fn actor(caller: &Identity) -> Actor {
    let project = caller.project_id.as_deref().unwrap_or("no project");
    Actor {
        name: format!(
            "{} ({}) of {project}",
            escape(&caller.user_name),
            caller.user_id
        ),
        origin: Origin::Gate,
    }
}

fn accepted(id: &str) -> Response<Out> {
    let location = format!("{DELETIONS}{id}");
    let mut response = whole(&json!({ "deletion": { "id": id, "href": location } }));
    *response.status_mut() = StatusCode::ACCEPTED;
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    name_deletion(response.headers_mut(), Some(id));
    response
}

fn whole(body: &Value) -> Response<Out> {
    let mut response = Response::new(Either::Right(Full::from(body.to_string())));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The cloud's own refusal of what cannot go.
fn in_use(named: &Named, why: &str, deletion: Option<String>) -> Refusal {
    let message = format!(
        "Unable to complete operation on {} {}: {why}",
        named.kind,
        escape(&named.id)
    );
    Refusal {
        deletion,
        ..Refusal::new(StatusCode::CONFLICT, type_in_use(named), message)
    }
}

fn type_in_use(named: &Named) -> &'static str {
    match named.kind.as_str() {
        "network" => "NetworkInUse",
        "subnet" => "SubnetInUse",
        "port" => "PortInUse",
        "router" => "RouterInUse",
        "security_group" => "SecurityGroupInUse",
        "trunk" => "TrunkInUse",
        _ => "InUse",
    }
}

fn refused(error: ControlError) -> Refusal {
    let message = error.to_string();
    match error {
        ControlError::Refused { .. } | ControlError::Conflict { .. } => {
            Refusal::new(StatusCode::CONFLICT, "Conflict", message)
        }
        ControlError::NotFound { .. } => {
            Refusal::new(StatusCode::NOT_FOUND, "HTTPNotFound", message)
        }
        _ => Refusal::unavailable(message),
    }
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
