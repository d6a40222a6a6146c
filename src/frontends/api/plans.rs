//! Plans: the frozen and hashed steps of a deletion.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::caller::Sent;
use super::input::TargetInput;
use super::problem::Problem;
use super::{Answer, Api};
use crate::control::{Command, query};
use crate::domain::model::{DriftPolicy, OnFailure, Plan, PlanOptions};

/// The targets of a plan, and its options.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanRequest {
    #[schema(min_items = 1)]
    targets: Vec<TargetInput>,
    /// Whether the resources that depend on the targets go too.
    #[serde(default)]
    cascade: bool,
    #[serde(default)]
    on_failure: OnFailure,
    #[serde(default)]
    drift: DriftPolicy,
    /// Whether floating IPs of ports that go are deleted, and not only detached.
    #[serde(default)]
    release_floating_ips: bool,
    /// Whether resources that other projects may use go too: public and community images, shared networks
    /// (N19).
    #[serde(default)]
    include_public: bool,
    /// Whether the project itself goes too, once everything that belongs to it is gone in each region (N19).
    #[serde(default)]
    with_project: bool,
    /// Whether the servers that are plugged into ports that go are deleted too, and not only unplugged (N4).
    #[serde(default)]
    with_servers: bool,
}

/// Plan a deletion; only reads are sent to a cloud.
///
/// The answer is the plan, even if the plan lists refusals.
#[utoipa::path(post, path = "/plans", operation_id = "plan", tag = "plans", request_body = PlanRequest,
    responses((status = 200, body = Plan, description = "The plan.")))]
pub(super) async fn create(sent: Sent<PlanRequest>) -> Answer<Arc<Plan>> {
    let Sent { api, caller, body } = sent;
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
    let receipt = api.submit(command, caller, String::new()).await?;
    Ok(Json(receipt.into_plan()?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ByHash {
    /// The plan's hash.
    hash: String,
}

/// A plan. It is kept for 24 hours; then the answer is 410.
#[utoipa::path(get, path = "/plans/{hash}", operation_id = "getPlan", tag = "plans", params(ByHash),
    responses((status = 200, body = Plan)))]
pub(super) async fn one(
    State(api): State<Api>,
    Path(ByHash { hash }): Path<ByHash>,
) -> Answer<Arc<Plan>> {
    api.plan(hash).await.map(Json)
}

impl Api {
    pub(super) async fn plan(&self, hash: String) -> Result<Arc<Plan>, Problem> {
        self.ask(query::Plan { hash }).await
    }
}
