//! DELETE: passed on, answered, or turned into a cascade of the engine (T6, N1, N7, P7).

use std::pin::pin;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use crate::system::listener::Arriving;
use futures_util::TryStreamExt as _;
use http::{HeaderValue, StatusCode, Uri, header};
use http_body_util::{Either, Full};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use url::form_urlencoded;

use super::deletions::{DELETIONS, actor};
use super::page::edit_query;
use super::pass::Whole;
use super::refusal::{Refusal, Result, name_deletion, refused};
use super::rights::Caller;
use super::route::{Named, PathTarget};
use super::rules::{Operation, RequestSource, Ruling};
use super::{Call, Gate, Head, Response};
use crate::control::traffic::Treatment;
use crate::control::{Command, Envelope, Receipt, Snapshot, query};
use crate::domain::model::{Deletion, DeletionState, DriftPolicy, PlanOptions, Step, StepState};
use crate::domain::text::escape;

/// A check that ends within this time is answered with its outcome (N7).
const CHECK_MAX: Duration = Duration::from_millis(800);
/// Longest time of the requests that ask the service, after the check ([`CHECK_MAX`]), which blockers the caller may
/// see. With the check, the answer takes a second at most.
const SHOWN_MAX: Duration = Duration::from_millis(150);

impl Gate {
    pub(super) async fn delete(&self, call: Call, body: Arriving, target: PathTarget) -> Result {
        let PathTarget::Resource { named, .. } = &target else {
            // Any other path, such as one below a resource, or an edge: handled as an update.
            return self.write(call, body, target).await;
        };
        match self.ruled(&call, named, Operation::Delete).await? {
            Ruling::Pass => {
                let part = slice::from_ref(named);
                self.guard_parts(&call, part, Operation::Delete, true)
                    .await?;
                self.delete_now(call, body, named).await
            }
            Ruling::NotFound => {
                if call.asker != RequestSource::Local {
                    self.caller(&call.head).await?;
                }
                Err(self.not_found(named).await)
            }
            ruling => {
                let (caller, deletion) = self.known_to(&call.head, named).await?;
                if ruling == Ruling::BeingChecked {
                    return Ok(self.accepted(&deletion));
                }
                let deletion_id = deletion.clone();
                let command = Command::RepeatDelete { deletion_id };
                self.submit(&caller, command).await?;
                Ok(self.no_content(&deletion))
            }
        }
    }

    /// Handles a DELETE that no tombstone decides.
    async fn delete_now(&self, call: Call, body: Arriving, named: &Named) -> Result {
        let Call { mut head, asker } = call;
        let kind = self.kind(&named.kind)?;
        // A service that cascades by itself, such as Octavia, gives its own answer.
        let by_itself = kind.calls.cascades_by_itself();
        let cascade = flag(&head.uri, "cascade")?;
        let park = flag(&head.uri, "park")? == Some(true);
        let has_dependents = self.parts.kinds.referrers(&named.kind).next().is_some();
        let options = PlanOptions {
            cascade: cascade == Some(true) && has_dependents,
            drift: DriftPolicy::Absorb,
            park,
            ..PlanOptions::default()
        };
        if asker == RequestSource::User && options.cascade && !by_itself {
            return self.cascade(&head, named, options).await;
        }
        let mut out = self
            .parts
            .mapping
            .iter()
            .filter(|it| it.central == self.site);
        let may_have_copies = out.any(|it| it.by.filter(kind, []).is_some());
        if asker == RequestSource::User
            && (park || may_have_copies)
            // A service deletes its own resources with its own rights.
            && !self.is_service(&head).await?
        {
            return self.delete_everywhere(&head, named, options).await;
        }
        // The service's own behaviour, unchanged (N1).
        let is_ours = |name: &str| name == "park" || name == "cascade" && !by_itself;
        head.uri = edit_query(&head.uri, |name, _| !is_ours(name), []);
        self.pass(head, Either::Left(body)).await
    }

    /// Returns the caller and the deletion in progress, if the caller may delete the resource.
    async fn known_to(&self, head: &Head, named: &Named) -> Result<(Caller, String)> {
        let caller = self.caller(head).await?;
        let row = self.row_for(head, named).await?;
        let kind = self.kind(&named.kind)?;
        let project = row.as_ref().map(|row| kind.project_of(row));
        let Some(deletion) = self.deletion_of(&self.site, named).await else {
            return Err(self.not_found(named).await);
        };
        if project.is_some() && project == caller.identity.project_id
            || self.readable(&caller, &deletion).await?.is_some()
        {
            self.may_cascade(&caller)?;
            return Ok((caller, deletion));
        }
        if row.is_none() {
            return Err(self.not_found(named).await);
        }
        let id = escape(&named.id);
        let message = format!("{} {id} belongs to another project", kind.name);
        Err(Refusal::forbidden(message))
    }

    /// Submits the deletion of a resource that the service shows to the caller, and that belongs to the caller's
    /// project unless the caller is an admin.
    async fn begin(
        &self,
        head: &Head,
        named: &Named,
        options: PlanOptions,
    ) -> Result<(Caller, String)> {
        let caller = self.caller(head).await?;
        let Some(row) = self.row_for(head, named).await? else {
            return Err(self.not_found(named).await);
        };
        self.may_cascade(&caller)?;
        let kind = self.kind(&named.kind)?;
        let shown = self.parts.kinds.resources_in(&self.site, kind, &row);
        let Some(resource) = shown.into_iter().find(|it| it.key.kind == named.kind) else {
            return Err(self.not_found(named).await);
        };
        // The plan covers the root's project only, and is refused because of a blocker of another project (P4).
        if !caller.owns(&resource.project_id) && !caller.is_admin {
            return Err(self.in_use(named, "it belongs to another project", None, None));
        }
        let resources = vec![resource];
        let command = Command::DeleteResources { resources, options };
        let receipt = self.submit(&caller, command).await?;
        let accepted = receipt.into_accepted().map_err(refused)?;
        Ok((caller, accepted.deletion_id))
    }

    /// Begins a cascade. Answers 202, or the refusal if it comes soon enough (N7).
    async fn cascade(&self, head: &Head, named: &Named, options: PlanOptions) -> Result {
        let (caller, id) = self.begin(head, named, options).await?;
        let (until, mut changes) = (Instant::now() + CHECK_MAX, self.changes());
        let (mut deletion, mut left) = self.after_change(&id, until, &mut changes).await?;
        while deletion.state == DeletionState::Planning && !left.is_zero() {
            (deletion, left) = self.after_change(&id, until, &mut changes).await?;
        }
        if deletion.state == DeletionState::Refused {
            return Err(self.refused_by_plan(&caller, head, named, deletion).await);
        }
        Ok(self.accepted(&id))
    }

    /// Handles a plain DELETE of a resource that may have copies, which are deleted too, or that the engine deletes
    /// once nothing blocks it (`park`). Until a call is sent, the gate refuses the request as the cloud would;
    /// after that, nothing is undone.
    async fn delete_everywhere(&self, head: &Head, named: &Named, options: PlanOptions) -> Result {
        use DeletionState::{Gone, Planning, Refused, Running, Stuck};
        let (caller, id) = self.begin(head, named, options).await?;
        let until = Instant::now() + self.parts.settings.plain_wait;
        let mut changes = self.changes();
        let deletion = loop {
            let (deletion, left) = self.after_change(&id, until, &mut changes).await?;
            let goes = matches!(deletion.state, Planning | Running);
            if !goes || left.is_zero() {
                break deletion;
            }
            if !is_blocked_or_stuck(&deletion) {
                continue;
            }
            let ends = options.park || deletion.counts.stuck > 0;
            if ends || !self.all_move_within(left, &id).await? {
                break deletion;
            }
        };
        match deletion.state {
            Refused => Err(self.refused_by_plan(&caller, head, named, deletion).await),
            Planning => Ok(self.accepted(&id)),
            _ if options.park && is_blocked_or_stuck(&deletion) => Ok(self.accepted(&id)),
            Running | Gone if !is_blocked_or_stuck(&deletion) => Ok(self.no_content(&id)),
            Running | Stuck => {
                let waiting = self.parts.control.ask(blocked_or_stuck_steps(&id)).await;
                let mut waiting = waiting.map_err(refused)?.rows.into_iter();
                let error = waiting.find_map(|step| step.last_error);
                let says = error.as_ref().map_or("", |error| &error.message);
                let why =
                    format!("deletion {id} has begun, and a step is blocked or stuck: {says}");
                let kind = error.map(|error| error.kind);
                Err(self.in_use(named, &why, kind.as_deref(), Some(id)))
            }
            state => {
                let why = format!("deletion {id} is {}", state.as_str());
                Err(self.in_use(named, &why, None, Some(id)))
            }
        }
    }

    /// Whether the next attempt of each blocked step comes in this time, and so is worth the wait: a 503 that lasts a
    /// second is not a refusal.
    async fn all_move_within(&self, left: Duration, id: &str) -> Result<bool> {
        let now = self.parts.clock.now();
        let moves = |step: &Step| {
            let next = step.next_attempt_at;
            // An attempt that is overdue comes at once.
            next.is_some_and(|at| (at - now).to_std().map_or(true, |wait| wait < left))
        };
        let mut pages = pin!(self.parts.control.pages(blocked_or_stuck_steps(id)));
        while let Some(steps) = pages.try_next().await.map_err(refused)? {
            if !steps.iter().all(moves) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns a receiver of the engine's snapshots. It is marked as changed, so that a deletion is read at once.
    fn changes(&self) -> Changes {
        let mut changes = self.parts.control.snapshot();
        changes.mark_changed();
        changes
    }

    /// Returns a deletion after the engine's next change, or at `until` if that comes first, and the time that is left.
    async fn after_change(
        &self,
        id: &str,
        until: Instant,
        changes: &mut Changes,
    ) -> Result<(Deletion, Duration)> {
        let change = timeout_at(until, changes.changed()).await;
        let deletion = self.read_deletion(id).await?;
        let left = match change {
            Ok(Ok(())) => until.saturating_duration_since(Instant::now()),
            _ => Duration::ZERO,
        };
        Ok((deletion, left))
    }

    /// Returns the plan's refusal, with the blockers that the caller may know of (P7).
    async fn refused_by_plan(
        &self,
        caller: &Caller,
        head: &Head,
        named: &Named,
        deletion: Deletion,
    ) -> Refusal {
        let deletion = self.as_shown_to(caller, head, deletion, SHOWN_MAX).await;
        let mut blockers = deletion.refused.iter();
        let by = blockers.find_map(|refused| refused.blocker.as_ref().map(|it| &it.kind));
        let calls = self.calls_of(&named.kind);
        let kind = calls.and_then(|calls| calls.in_use_type(by));
        self.in_use(named, &deletion.note, kind, Some(deletion.id))
    }

    /// Returns the refusal to delete a resource, as the cloud words it for a resource in use. Its error type is `said`,
    /// or else the kind's type for a resource in use.
    fn in_use(
        &self,
        named: &Named,
        why: &str,
        said: Option<&str>,
        deletion: Option<String>,
    ) -> Refusal {
        let message = format!(
            "Unable to complete operation on {} {}: {why}",
            named.kind,
            escape(&named.id)
        );
        let calls = self.calls_of(&named.kind);
        let own = calls.and_then(|calls| calls.in_use_type(None));
        let said = said.filter(|said| !said.is_empty());
        let kind = said.or(own).unwrap_or("InUse");
        Refusal::new(StatusCode::CONFLICT, kind, message).by(deletion)
    }

    fn no_content(&self, id: &str) -> Response {
        self.counter.count_treatment(Treatment::Accepted);
        let mut response = Response::new(Either::Right(Full::default()));
        *response.status_mut() = StatusCode::NO_CONTENT;
        name_deletion(response.headers_mut(), Some(id));
        response
    }

    fn accepted(&self, id: &str) -> Response {
        self.counter.count_treatment(Treatment::Accepted);
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

    pub(super) async fn submit(&self, caller: &Caller, command: Command) -> Result<Receipt> {
        let envelope = Envelope::new(command, actor(caller));
        self.parts.control.submit(envelope).await.map_err(refused)
    }
}

type Changes = watch::Receiver<Arc<Snapshot>>;

fn blocked_or_stuck_steps(deletion_id: &str) -> query::Steps {
    query::Steps {
        states: vec![StepState::Stuck, StepState::Blocked],
        ..query::Steps::of(deletion_id)
    }
}

fn is_blocked_or_stuck(deletion: &Deletion) -> bool {
    deletion.counts.blocked + deletion.counts.stuck > 0
}

/// Returns a parameter of the query, if it is given. Its values are `true` and `false`, regardless of case, 1 and 0.
fn flag(uri: &Uri, name: &str) -> Result<Option<bool>> {
    let query = uri.query().unwrap_or_default();
    let mut given = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
    let Some((_, value)) = given.next() else {
        return Ok(None);
    };
    let message = match value.to_lowercase().as_str() {
        _ if given.next().is_some() => format!("{name} is given twice"),
        "true" | "1" => return Ok(Some(true)),
        "false" | "0" => return Ok(Some(false)),
        _ => format!("{name} must be true or false, not \"{}\"", escape(&value)),
    };
    Err(Refusal::bad_request(message))
}
