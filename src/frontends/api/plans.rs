//! Plans: the frozen and hashed steps of a deletion.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use std::sync::Arc;

use super::Api;
use super::caller::Caller;
use super::input::{self, StrictJson, TargetInput};
use super::problem::Problem;
use crate::control::{Command, Request, query};
use crate::domain::model::{DriftPolicy, OnFailure, Plan, PlanOptions};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanRequest {
    targets: Vec<TargetInput>,
    #[serde(default)]
    cascade: bool,
    #[serde(default)]
    on_failure: OnFailure,
    #[serde(default)]
    drift: DriftPolicy,
    #[serde(default)]
    release_floating_ips: bool,
    #[serde(default)]
    include_public: bool,
    #[serde(default)]
    with_project: bool,
}

/// `POST /plans`: 200 and the plan, also where it lists refusals.
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    StrictJson(request): StrictJson<PlanRequest>,
) -> Result<Json<Arc<Plan>>, Problem> {
    let command = Command::Plan {
        targets: input::targets(&api, request.targets)?,
        options: PlanOptions {
            cascade: request.cascade,
            on_failure: request.on_failure,
            drift: request.drift,
            release_floating_ips: request.release_floating_ips,
            include_public: request.include_public,
            with_project: request.with_project,
            ..PlanOptions::default()
        },
    };
    let envelope = caller.asks(command, String::new())?;
    let plan = api.control.submit(envelope).await?.into_plan()?;
    Ok(Json(plan))
}

/// `GET /plans/{hash}`: for 24 h, then 410.
pub(super) async fn one(
    State(api): State<Api>,
    Path(hash): Path<String>,
) -> Result<Json<Arc<Plan>>, Problem> {
    api.plan(hash).await.map(Json)
}

impl Api {
    pub(super) async fn plan(&self, hash: String) -> Result<Arc<Plan>, Problem> {
        self.ask(query::Plan { hash }).await
    }

    pub(super) async fn ask<R: Request>(&self, request: R) -> Result<R::Answer, Problem> {
        self.control.ask(request).await.map_err(Problem::of_query)
    }
}
