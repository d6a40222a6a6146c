//! The resources that this deployment keeps itself, by kind.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::caller::Caller;
use super::deletions::accepted;
use super::input::{Params, StrictJson};
use super::problem::Problem;
use super::{Api, List};
use crate::control::{Command, SiteSpec, TargetSpec, query};
use crate::domain::model::PlanOptions;

/// `GET /resources/{kind}`: a page of them, or those with a value in a field (`?network=ID@CLOUD/REGION`).
pub(super) async fn list(
    State(api): State<Api>,
    Path(kind): Path<String>,
    params: Params,
) -> Result<Json<List<Value>>, Problem> {
    let resources = query::Native {
        kind,
        by: params.others(&["cursor", "limit"]),
        cursor: params.cursor(),
        limit: params.limit()?,
    };
    api.ask(resources).await.map(List::json)
}

/// `GET /resources/{kind}/{id}`.
pub(super) async fn one(
    State(api): State<Api>,
    Path((kind, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let resource = query::Native {
        kind: kind.clone(),
        by: vec![("id".to_owned(), id.clone())],
        limit: 1,
        ..query::Native::default()
    };
    let found = api.ask(resource).await?.rows;
    found
        .into_iter()
        .next()
        .map(Json)
        .ok_or_else(|| Problem::not_found(format!("there is no {kind} {id}")))
}

/// `POST /resources/{kind}`: 201 and the resource; 409 if its id is taken or being deleted, or a
/// resource that it refers to is being deleted or does not exist.
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Path(kind): Path<String>,
    StrictJson(body): StrictJson<Value>,
) -> Result<Response, Problem> {
    let command = Command::Create {
        kind: kind.clone(),
        body,
    };
    let row = api.write_own(command, caller).await?;
    let id = row.get("id").and_then(Value::as_str).unwrap_or_default();
    let location = format!("/api/v1/resources/{kind}/{id}");
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        Json(row),
    )
        .into_response())
}

/// `PATCH /resources/{kind}/{id}`: the fields that the body names; null takes one away.
pub(super) async fn update(
    State(api): State<Api>,
    caller: Caller,
    Path((kind, id)): Path<(String, String)>,
    StrictJson(body): StrictJson<Value>,
) -> Result<Json<Value>, Problem> {
    let command = Command::Update { kind, id, body };
    api.write_own(command, caller).await.map(Json)
}

/// `DELETE /resources/{kind}/{id}`: 202 and the deletion, which handles referrers as the kinds say;
/// 409 with its blockers.
pub(super) async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Path((kind, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let command = Command::Delete {
        targets: vec![TargetSpec {
            kind,
            id_or_name: id,
            site: SiteSpec::All,
        }],
        options: PlanOptions {
            cascade: true,
            ..PlanOptions::default()
        },
    };
    let envelope = caller.asks(command, String::new())?;
    accepted(&api, envelope).await
}

impl Api {
    async fn write_own(&self, command: Command, caller: Caller) -> Result<Value, Problem> {
        let envelope = caller.asks(command, String::new())?;
        Ok(self.control.submit(envelope).await?.into_resource()?)
    }
}
