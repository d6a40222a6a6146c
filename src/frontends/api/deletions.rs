//! Plans and requests deletions, and reads them and their steps.

use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};

use super::caller::Sent;
use super::input::{Age, Limit, Query, TargetInput, page_params};
use super::problem::Problem;
use super::{Answer, Api, List};
use crate::control::{
    Accepted, Command, ControlError, Envelope, NamedOptions, SiteProgress, query,
};
use crate::domain::model::{
    Deletion, DeletionState, DriftPolicy, KindName, OnFailure, Plan, PlanOptions, Site, Step,
    StepState,
};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ByDeletion {
    /// The deletion's id, or its last eight characters.
    pub(super) id: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ByStep {
    /// The step's number.
    id: String,
}

impl ByStep {
    pub(super) fn id(&self) -> Result<i64, Problem> {
        self.id.parse().map_err(|_| {
            let message = format!("no step \"{}\": a step's id is a number", self.id);
            Problem::not_found(message)
        })
    }
}

/// The targets of a plan, and its options.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanRequest {
    #[schema(min_items = 1)]
    targets: Vec<TargetInput>,
    /// Whether the resources that depend on the targets are deleted too.
    #[serde(default)]
    cascade: bool,
    #[serde(default)]
    on_failure: OnFailure,
    #[serde(default)]
    drift: DriftPolicy,
    /// Whether floating IPs of deleted ports are deleted, and not only detached.
    #[serde(default)]
    release_floating_ips: bool,
    /// Whether resources that other projects may use are deleted too: public and community images, shared networks
    /// (N19).
    #[serde(default)]
    include_public: bool,
    /// Whether the project itself is deleted too, once everything that belongs to it is gone in each region (N19).
    #[serde(default)]
    with_project: bool,
    /// Whether the servers that are plugged into deleted ports are deleted too, and not only unplugged (N4).
    #[serde(default)]
    with_servers: bool,
}

/// Plan a deletion; only reads are sent to a cloud.
///
/// The answer is the plan, even if the plan lists refusals.
#[utoipa::path(post, path = "/plans", operation_id = "plan", tag = "plans", request_body = PlanRequest,
    responses((status = 200, body = Plan, description = "The plan.")))]
pub(super) async fn create_plan(Sent(api, body): Sent<PlanRequest>) -> Answer<Arc<Plan>> {
    let command = Command::Plan {
        targets: api.targets(body.targets)?,
        options: PlanOptions {
            cascade: body.cascade,
            on_failure: body.on_failure,
            drift: body.drift,
            delete_detached: body.release_floating_ips,
            include_public: body.include_public,
            with_project: body.with_project,
            with_servers: body.with_servers,
            ..PlanOptions::default()
        },
    };
    let receipt = api.submit(command, String::new()).await?;
    Ok(Json(receipt.into_plan()?))
}

/// A plan. It is kept for 24 hours; then the answer is 410.
#[utoipa::path(get, path = "/plans/{hash}", operation_id = "getPlan", tag = "plans",
    params(("hash" = String, Path, description = "The plan's hash.")), responses((status = 200, body = Plan)))]
pub(super) async fn one_plan(api: Api, Path(hash): Path<String>) -> Answer<Arc<Plan>> {
    api.ask(query::Plan { hash }).await.map(Json)
}

/// Either targets with options, or the hash of a plan that froze both.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeletionRequest {
    #[schema(min_items = 1)]
    targets: Option<Vec<TargetInput>>,
    /// The hash of a plan, instead of targets: exactly this plan is carried out, or nothing (P1). Other options
    /// of this request must be those of the plan.
    plan_hash: Option<String>,
    /// Whether the resources that depend on the targets are deleted too.
    cascade: Option<bool>,
    on_failure: Option<OnFailure>,
    drift: Option<DriftPolicy>,
    /// Whether floating IPs of deleted ports are deleted, and not only detached.
    release_floating_ips: Option<bool>,
    /// Whether resources that other projects may use are deleted too: public and community images, shared networks
    /// (N19).
    include_public: Option<bool>,
    /// Whether the project itself is deleted too, once everything that belongs to it is gone in each region (N19).
    with_project: Option<bool>,
    /// Whether the servers that are plugged into deleted ports are deleted too, and not only unplugged (N4).
    with_servers: Option<bool>,
    /// Until when the deletion is planned again while a cloud does not answer (N16). Without it, the deletion is
    /// refused if a cloud does not answer for longer than `[engine] read_patience`.
    deadline: Option<DateTime<Utc>>,
    /// The reason, for the audit.
    #[serde(default)]
    reason: String,
}

/// The answer to the request for a deletion.
#[derive(Serialize, ToSchema)]
pub(super) struct RequestedDeletion {
    #[serde(flatten)]
    deletion: Deletion,
    /// Whether the request joined this deletion, which was already deleting the targets (T6).
    existing: bool,
}

/// Delete resources; the engine carries the deletion out.
///
/// The answer means that the request is durable; `Location` is the deletion's path. If the check refuses the
/// deletion before the answer is sent, the answer is 409 and has the blockers.
#[utoipa::path(post, path = "/deletions", operation_id = "delete", tag = "deletions", request_body = DeletionRequest,
    responses((status = 202, body = RequestedDeletion, headers(("Location", description = "The deletion's path.")))))]
pub(super) async fn create(Sent(api, body): Sent<DeletionRequest>) -> Result<Response, Problem> {
    let (reason, deadline) = (body.reason.clone(), body.deadline);
    let command = command(&api, body).await?;
    let envelope = Envelope {
        deadline,
        ..api.caller()?.authorize_command(command, reason)?
    };
    let accepted = api.control.submit(envelope).await?.into_accepted()?;
    respond(&api, accepted).await
}

/// Answers with an accepted deletion, or with its refusal if planning has already refused it.
pub(super) async fn respond(api: &Api, accepted: Accepted) -> Result<Response, Problem> {
    let existing = accepted.existing;
    let deletion = api.deletion(accepted.deletion_id).await?;
    let location = format!("/api/v1/deletions/{}", deletion.id);
    if deletion.state == DeletionState::Refused {
        // Planning has already ended (N7): the answer is the refusal.
        let mut problem = Problem::from(ControlError::Refused {
            message: deletion.note,
            refused: deletion.refused,
        });
        problem.0.deletion_id = Some(deletion.id);
        return Ok(([(header::LOCATION, location)], problem).into_response());
    }
    let shown = RequestedDeletion { deletion, existing };
    let location = [(header::LOCATION, location)];
    Ok((StatusCode::ACCEPTED, location, Json(shown)).into_response())
}

async fn command(api: &Api, request: DeletionRequest) -> Result<Command, Problem> {
    let named = NamedOptions {
        drift: request.drift,
        on_failure: request.on_failure,
    };
    let asked = [
        ("cascade", json!(request.cascade)),
        ("on_failure", json!(request.on_failure)),
        ("drift", json!(request.drift)),
        ("release_floating_ips", json!(request.release_floating_ips)),
        ("include_public", json!(request.include_public)),
        ("with_project", json!(request.with_project)),
        ("with_servers", json!(request.with_servers)),
    ];
    let asked = asked.into_iter().filter(|(_, option)| !option.is_null());
    let asked: Map<String, Value> = asked.map(|(name, it)| (name.to_owned(), it)).collect();
    match (request.targets, request.plan_hash) {
        (Some(_), Some(_)) => Err(Problem::invalid(
            "give \"targets\" or \"plan_hash\", not both: the plan froze its targets",
        )),
        (None, None) => Err(Problem::invalid("\"targets\" or \"plan_hash\" is missing")),
        (Some(targets), None) => Ok(Command::Delete {
            targets: api.targets(targets)?,
            options: serde_json::from_value(Value::Object(asked))
                .map_err(|error| ControlError::internal(error.to_string()))?,
            named,
        }),
        (None, Some(plan_hash)) => {
            if !asked.is_empty() {
                let hash = plan_hash.clone();
                let frozen = json!(api.ask(query::Plan { hash }).await?.options);
                same_options(&asked, &frozen)?;
            }
            Ok(Command::DeletePlan { plan_hash, named })
        }
    }
}

/// Rejects options that are given beside a plan's hash and differ from the approved options (P1).
fn same_options(asked: &Map<String, Value>, frozen: &Value) -> Result<(), Problem> {
    for (name, option) in asked {
        // The plan omits options that are off.
        let frozen = frozen.get(name).unwrap_or(&Value::Bool(false));
        if option != frozen {
            return Err(Problem::invalid(format!(
                "\"{name}\": the plan froze {frozen}, not {option}; plan again with {option}"
            )));
        }
    }
    Ok(())
}

page_params! {
    DeletionParams {
        /// One or several states, separated by commas.
        #[serde(default)]
        #[param(style = Form, explode = false)]
        state: Vec<DeletionState>,
        site: Option<Site>,
        kind: Option<KindName>,
        older_than: Option<Age>,
    }
}

/// Deletions, newest first.
#[utoipa::path(get, path = "/deletions", operation_id = "listDeletions", tag = "deletions", params(DeletionParams),
    responses((status = 200, body = List<Deletion>)))]
pub(super) async fn list(api: Api, Query(params): Query<DeletionParams>) -> Answer<List<Deletion>> {
    let deletions = query::Deletions {
        states: params.state,
        site: api.site(params.site)?,
        kind: api.kind(params.kind).await?,
        older_than: params.older_than.map(|age| api.before(age)),
        cursor: params.cursor,
        limit: params.limit.0,
    };
    api.ask(deletions).await.map(List::json)
}

/// One deletion, by its id or its short id.
#[utoipa::path(get, path = "/deletions/{id}", operation_id = "getDeletion", tag = "deletions", params(ByDeletion),
    responses((status = 200, body = Deletion)))]
pub(super) async fn one(api: Api, Path(it): Path<ByDeletion>) -> Answer<Deletion> {
    api.deletion(it.id).await.map(Json)
}

page_params! {
    StepParams {
        /// One or several states, separated by commas.
        #[serde(default)]
        #[param(style = Form, explode = false)]
        state: Vec<StepState>,
        site: Option<Site>,
        kind: Option<KindName>,
    }
}

/// The steps of a deletion.
#[utoipa::path(get, path = "/deletions/{id}/steps", operation_id = "listSteps", tag = "deletions",
    params(ByDeletion, StepParams), responses((status = 200, body = List<Step>)))]
pub(super) async fn steps(
    api: Api,
    Path(it): Path<ByDeletion>,
    Query(params): Query<StepParams>,
) -> Answer<List<Step>> {
    // A deletion that does not exist must not be answered like one without steps.
    let deletion = api.deletion(it.id).await?;
    let steps = query::Steps {
        states: params.state,
        site: api.site(params.site)?,
        kind: api.kind(params.kind).await?,
        cursor: params.cursor,
        limit: params.limit.0,
        ..query::Steps::of(&deletion.id)
    };
    api.ask(steps).await.map(List::json)
}

/// The progress of a deletion at each site (T19).
#[utoipa::path(get, path = "/deletions/{id}/sites", operation_id = "listProgress", tag = "deletions",
    params(ByDeletion), responses((status = 200, body = List<SiteProgress>)))]
pub(super) async fn sites(api: Api, Path(it): Path<ByDeletion>) -> Answer<List<SiteProgress>> {
    let progress = query::Progress { deletion_id: it.id };
    api.ask(progress).await.map(List::whole)
}

/// One step.
#[utoipa::path(get, path = "/steps/{id}", operation_id = "getStep", tag = "steps", params(ByStep),
    responses((status = 200, body = Step)))]
pub(super) async fn step(api: Api, Path(step): Path<ByStep>) -> Answer<Step> {
    api.step(step.id()?).await.map(Json)
}

impl Api {
    pub(super) async fn deletion(&self, id: String) -> Result<Deletion, Problem> {
        self.ask(query::Deletion { id }).await.map(|row| *row)
    }

    pub(super) async fn step(&self, id: i64) -> Result<Step, Problem> {
        self.ask(query::Step { id }).await.map(|row| *row)
    }
}
