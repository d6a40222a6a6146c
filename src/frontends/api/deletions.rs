//! Deletions and their steps: requested, read and controlled.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::caller::Caller;
use super::input::{self, Params, StrictJson, TargetInput};
use super::problem::Problem;
use super::{Api, List};
use crate::control::{
    Accepted, Command, ControlError, Envelope, Retried, RetryFilter, SiteProgress, query,
};
use crate::domain::model::{Deletion, DeletionState, DriftPolicy, OnFailure, PlanOptions, Step};

/// Either targets with options, or the hash of a plan that froze both.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeletionRequest {
    targets: Option<Vec<TargetInput>>,
    plan_hash: Option<String>,
    cascade: Option<bool>,
    on_failure: Option<OnFailure>,
    drift: Option<DriftPolicy>,
    release_floating_ips: Option<bool>,
    include_public: Option<bool>,
    with_project: Option<bool>,
    deadline: Option<DateTime<Utc>>,
    #[serde(default)]
    reason: String,
}

/// The body of the calls that control a deletion, a step or a site; it may be left out.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Steering {
    #[serde(default)]
    reason: String,
}

/// `POST /deletions`: 202 and the deletion, with `existing: true` if its target was being deleted
/// already (T6).
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    StrictJson(mut request): StrictJson<DeletionRequest>,
) -> Result<Response, Problem> {
    let reason = std::mem::take(&mut request.reason);
    let given = (request.drift, request.on_failure);
    let says_more = given != (None, None) || !reason.is_empty();
    let deadline = request.deadline;
    let envelope = Envelope {
        deadline,
        ..caller.asks(command(&api, request).await?, reason)?
    };
    if !says_more {
        return accepted(&api, envelope).await;
    }
    let repeated = Envelope {
        idempotency_key: None,
        ..envelope.clone()
    };
    let accepted = api.control.submit(envelope).await?.into_accepted()?;
    if accepted.existing {
        // The options of a repeated request apply to the deletion that it joins, or are refused.
        let command = Command::SetOptions {
            deletion_id: accepted.deletion_id.clone(),
            drift: given.0,
            on_failure: given.1,
        };
        api.control
            .submit(Envelope {
                command,
                ..repeated
            })
            .await?;
    }
    respond(&api, accepted).await
}

/// Submits a deletion: 202 with the deletion, or its refusal if planning has already refused it.
pub(super) async fn accepted(api: &Api, envelope: Envelope) -> Result<Response, Problem> {
    let accepted = api.control.submit(envelope).await?.into_accepted()?;
    respond(api, accepted).await
}

async fn respond(api: &Api, accepted: Accepted) -> Result<Response, Problem> {
    let existing = accepted.existing;
    let deletion = api.deletion(accepted.deletion_id).await?;
    let location = format!("/api/v1/deletions/{}", deletion.id);
    if deletion.state == DeletionState::Refused {
        // Planning has already ended (N7): the answer is the refusal.
        let problem = Problem::from(ControlError::Refused {
            message: refusal_in_words(&deletion),
            refused: deletion.refused.clone(),
        });
        return Ok((
            [(header::LOCATION, location)],
            problem.with("deletion_id", json!(deletion.id)),
        )
            .into_response());
    }
    let mut shown = json!(deletion);
    if let Value::Object(members) = &mut shown {
        members.insert("existing".to_owned(), json!(existing));
    }
    Ok((
        StatusCode::ACCEPTED,
        [(header::LOCATION, location)],
        Json(shown),
    )
        .into_response())
}

async fn command(api: &Api, request: DeletionRequest) -> Result<Command, Problem> {
    match (request.targets, request.plan_hash) {
        (Some(_), Some(_)) => Err(Problem::invalid(
            "give \"targets\" or \"plan_hash\", not both: the plan froze its targets",
        )),
        (None, None) => Err(Problem::invalid("\"targets\" or \"plan_hash\" is missing")),
        (Some(targets), None) => Ok(Command::Delete {
            targets: input::targets(api, targets)?,
            options: PlanOptions {
                cascade: request.cascade.unwrap_or_default(),
                on_failure: request.on_failure.unwrap_or_default(),
                drift: request.drift.unwrap_or_default(),
                release_floating_ips: request.release_floating_ips.unwrap_or_default(),
                include_public: request.include_public.unwrap_or_default(),
                with_project: request.with_project.unwrap_or_default(),
                ..PlanOptions::default()
            },
        }),
        (None, Some(plan_hash)) => {
            let asked = [
                ("cascade", request.cascade.map(|it| json!(it))),
                ("on_failure", request.on_failure.map(|it| json!(it))),
                ("drift", request.drift.map(|it| json!(it))),
                (
                    "release_floating_ips",
                    request.release_floating_ips.map(|it| json!(it)),
                ),
                ("include_public", request.include_public.map(|it| json!(it))),
                ("with_project", request.with_project.map(|it| json!(it))),
            ];
            if asked.iter().any(|(_, option)| option.is_some()) {
                let frozen = json!(api.plan(plan_hash.clone()).await?.options);
                same_options(&asked, &frozen)?;
            }
            Ok(Command::DeletePlan { plan_hash })
        }
    }
}

/// Rejects options beside a plan's hash that differ from the approved ones (P1).
fn same_options(asked: &[(&str, Option<Value>)], frozen: &Value) -> Result<(), Problem> {
    for (name, option) in asked {
        // An absent option was not set in the plan.
        let frozen = frozen.get(name).unwrap_or(&Value::Bool(false));
        match option {
            Some(option) if option != frozen => {
                return Err(Problem::invalid(format!(
                    "\"{name}\": the plan froze {frozen}, not {option}; plan again with {option}"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

fn refusal_in_words(deletion: &Deletion) -> String {
    if !deletion.note.is_empty() {
        return deletion.note.clone();
    }
    match &deletion.refused[..] {
        [] => "refused; nothing was sent".to_owned(),
        [first] => first.reason.clone(),
        [first, others @ ..] => format!("{} (and {} more)", first.reason, others.len()),
    }
}

/// `GET /deletions`: newest first.
pub(super) async fn list(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<Deletion>>, Problem> {
    let known = ["state", "site", "kind", "older_than", "cursor", "limit"];
    let params = params.only(&known)?;
    let deletions = query::Deletions {
        states: params.words("state")?,
        site: params.site(&api)?,
        kind: params.kind(),
        older_than: params.before(&api, "older_than")?,
        cursor: params.cursor(),
        limit: params.limit()?,
    };
    api.ask(deletions).await.map(List::json)
}

/// `GET /deletions/{id}`, also by the short id.
pub(super) async fn one(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Deletion>, Problem> {
    api.deletion(id).await.map(Json)
}

/// `GET /deletions/{id}/steps`.
pub(super) async fn steps(
    State(api): State<Api>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<List<Step>>, Problem> {
    let params = params.only(&["state", "site", "kind", "cursor", "limit"])?;
    // A deletion that does not exist must not look like one without steps.
    let deletion = api.deletion(id).await?;
    let steps = query::Steps {
        deletion_id: Some(deletion.id),
        states: params.words("state")?,
        site: params.site(&api)?,
        kind: params.kind(),
        cursor: params.cursor(),
        limit: params.limit()?,
        ..query::Steps::default()
    };
    api.ask(steps).await.map(List::json)
}

/// `GET /deletions/{id}/sites`: the progress at each site.
pub(super) async fn sites(
    State(api): State<Api>,
    Path(deletion_id): Path<String>,
) -> Result<Json<List<SiteProgress>>, Problem> {
    api.ask(query::Progress { deletion_id })
        .await
        .map(List::whole)
}

/// `GET /steps/{id}`.
pub(super) async fn step(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Step>, Problem> {
    api.step(step_id(&id)?).await.map(Json)
}

/// `POST /steps/{id}/retry`: 202 and the step.
pub(super) async fn retry_step(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    StrictJson(steering): StrictJson<Steering>,
) -> Result<(StatusCode, Json<Step>), Problem> {
    let step_id = step_id(&id)?;
    api.steer(Command::RetryStep { step_id }, caller, steering)
        .await?;
    Ok((StatusCode::ACCEPTED, Json(api.step(step_id).await?)))
}

/// Whether newcomers are accepted, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriftWanted {
    accept: bool,
    #[serde(default)]
    reason: String,
}

/// `POST /deletions/{id}/drift`: 202 and the deletion; 409 if nothing of it is stuck with drift.
pub(super) async fn drift(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    StrictJson(DriftWanted { accept, reason }): StrictJson<DriftWanted>,
) -> Result<(StatusCode, Json<Deletion>), Problem> {
    let deletion_id = api.deletion(id).await?.id;
    let command = Command::Drift {
        deletion_id: deletion_id.clone(),
        accept,
    };
    let envelope = caller.asks(command, reason)?;
    api.control.submit(envelope).await?;
    let deletion = api.deletion(deletion_id).await?;
    Ok((StatusCode::ACCEPTED, Json(deletion)))
}

/// The steps to retry, and whether only to count them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryWanted {
    #[serde(default)]
    filter: Box<RetryFilter>,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    reason: String,
}

/// `POST /steps:retry`: 202 with the number of steps that can be retried, and the others by reason.
pub(super) async fn retry_matching(
    State(api): State<Api>,
    caller: Caller,
    StrictJson(wanted): StrictJson<RetryWanted>,
) -> Result<(StatusCode, Json<Retried>), Problem> {
    let command = Command::RetryMatching {
        filter: wanted.filter,
        dry_run: wanted.dry_run,
    };
    let envelope = caller.asks(command, wanted.reason)?;
    let retried = api.control.submit(envelope).await?.into_retried()?;
    Ok((StatusCode::ACCEPTED, Json(retried)))
}

pub(super) fn step_id(text: &str) -> Result<i64, Problem> {
    text.parse()
        .map_err(|_| Problem::not_found(format!("no step \"{text}\": a step's id is a number")))
}

/// `POST /deletions/{id}/retry` and its like: 202 and the deletion, 409 if its state does not allow it.
pub(super) fn steer(command: fn(String) -> Command) -> MethodRouter<Api> {
    post(
        move |State(api): State<Api>,
              caller: Caller,
              Path(id): Path<String>,
              StrictJson(steering): StrictJson<Steering>| async move {
            let deletion_id = api.deletion(id).await?.id;
            api.steer(command(deletion_id.clone()), caller, steering)
                .await?;
            let deletion = api.deletion(deletion_id).await?;
            Ok::<_, Problem>((StatusCode::ACCEPTED, Json(deletion)))
        },
    )
}

impl Api {
    pub(super) async fn steer(
        &self,
        command: Command,
        caller: Caller,
        steering: Steering,
    ) -> Result<(), Problem> {
        let envelope = caller.asks(command, steering.reason)?;
        self.control.submit(envelope).await?;
        Ok(())
    }

    pub(super) async fn deletion(&self, id: String) -> Result<Deletion, Problem> {
        self.ask(query::Deletion { id }).await.map(|row| *row)
    }

    pub(super) async fn step(&self, id: i64) -> Result<Step, Problem> {
        self.ask(query::Step { id }).await.map(|row| *row)
    }
}
