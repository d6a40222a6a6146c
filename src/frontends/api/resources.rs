//! The resources that this deployment keeps itself, by kind.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, RawQuery};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;
use utoipa::{IntoParams, ToSchema};

use super::caller::Sent;
use super::deletions::{RequestedDeletion, respond};
use super::input;
use super::problem::Problem;
use super::steering::PageParams;
use super::{Answer, Api, List};
use crate::control::{Command, NamedOptions, SiteSpec, TargetSpec, query};
use crate::domain::model::PlanOptions;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ByKind {
    /// A kind whose resources this deployment keeps.
    kind: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ByResource {
    /// A kind whose resources this deployment keeps.
    kind: String,
    /// The resource's id.
    id: String,
}

/// A resource that this deployment keeps, with the fields of its kind.
#[derive(ToSchema)]
#[expect(dead_code)]
struct Native {
    id: String,
    /// Grows when the resource is created again under the same id (M1).
    incarnation: i64,
    /// `ACTIVE` or `DELETING`.
    status: String,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    #[schema(required = false)]
    name: String,
    #[schema(required = false)]
    project_id: String,
    #[schema(required = false)]
    tags: Vec<String>,
    #[serde(flatten)]
    fields: BTreeMap<String, Value>,
}

/// Names of the parameters that are not fields.
const PAGE_PARAMS: [&str; 2] = ["cursor", "limit"];

/// This deployment's own resources of a kind, or those with a value in a field.
#[utoipa::path(get, path = "/resources/{kind}", operation_id = "listResources", tag = "resources",
    params(ByKind, PageParams, ("fields" = Option<BTreeMap<String, String>>, Query, style = Form, explode,
        description = "A field and its value, as `network=ID@prod/RegionOne`; also `id` and `name`.")),
    responses((status = 200, body = List<Native>)))]
pub(super) async fn list(
    api: Api,
    Path(ByKind { kind }): Path<ByKind>,
    RawQuery(query): RawQuery,
) -> Answer<List<Value>> {
    let query = query.unwrap_or_default();
    let pairs = form_urlencoded::parse(query.as_bytes());
    let (page, fields): (Vec<_>, Vec<_>) =
        pairs.partition(|(name, _)| PAGE_PARAMS.contains(&&**name));
    let page: PageParams = input::parameters(page.into_iter())?;
    let fields = fields.into_iter();
    let by = fields.map(|(name, value)| (name.into_owned(), value.into_owned()));
    let resources = query::Native {
        kind,
        by: by.collect(),
        cursor: page.cursor,
        limit: page.limit.0,
    };
    api.ask(resources).await.map(List::json)
}

/// One resource.
#[utoipa::path(get, path = "/resources/{kind}/{id}", operation_id = "getResource", tag = "resources",
    params(ByResource), responses((status = 200, body = Native)))]
pub(super) async fn one(api: Api, Path(it): Path<ByResource>) -> Answer<Value> {
    let ByResource { kind, id } = it;
    let resource = query::Native {
        kind: kind.clone(),
        by: vec![("id".to_owned(), id.clone())],
        limit: 1,
        ..query::Native::default()
    };
    let found = api.ask(resource).await?.rows.into_iter().next();
    let missing = || Problem::not_found(format!("there is no {kind} {id}"));
    found.map(Json).ok_or_else(missing)
}

const BODY: &str = "`id`, `name`, `project_id`, `tags` and the fields of its kind. A reference is an id, or `ID@SITE`.";

/// Create a resource that this deployment keeps.
///
/// 409 if the id is taken or being deleted (M2), or if the body refers to a resource that is being deleted or
/// does not exist (G10).
#[utoipa::path(post, path = "/resources/{kind}", operation_id = "createResource", tag = "resources",
    params(ByKind), request_body(content = Object, description = BODY),
    responses((status = 201, body = Native, description = "Created.")))]
pub(super) async fn create(
    Path(ByKind { kind }): Path<ByKind>,
    Sent(api, body): Sent<Value>,
) -> Result<Response, Problem> {
    let command = Command::Create {
        kind: kind.clone(),
        body,
    };
    let receipt = api.submit(command, String::new()).await?;
    let row = receipt.into_resource()?;
    let id = row.get("id").and_then(Value::as_str).unwrap_or_default();
    let location = [(header::LOCATION, format!("/api/v1/resources/{kind}/{id}"))];
    Ok((StatusCode::CREATED, location, Json(row)).into_response())
}

/// Change the fields that the body names; null removes a field.
#[utoipa::path(patch, path = "/resources/{kind}/{id}", operation_id = "updateResource", tag = "resources",
    params(ByResource), request_body(content = Object, description = BODY),
    responses((status = 200, body = Native)))]
pub(super) async fn update(Path(it): Path<ByResource>, sent: Sent<Value>) -> Answer<Value> {
    let Sent(api, body) = sent;
    let ByResource { kind, id } = it;
    let command = Command::Update { kind, id, body };
    let receipt = api.submit(command, String::new()).await?;
    Ok(Json(receipt.into_resource()?))
}

/// Delete a resource; the kinds say what happens to the resources that refer to it.
///
/// The answer means that the request is durable; `Location` is the deletion's path. If the check refuses the
/// deletion before the answer is sent, the answer is 409 and has the blockers.
#[utoipa::path(delete, path = "/resources/{kind}/{id}", operation_id = "deleteResource", tag = "resources",
    params(ByResource), responses((status = 202, body = RequestedDeletion,
        headers(("Location", description = "The deletion's path.")))))]
pub(super) async fn delete(api: Api, Path(it): Path<ByResource>) -> Result<Response, Problem> {
    let target = TargetSpec {
        kind: it.kind,
        id_or_name: it.id,
        site: SiteSpec::All,
    };
    let command = Command::Delete {
        targets: vec![target],
        options: PlanOptions::cascading(),
        named: NamedOptions::default(),
    };
    let receipt = api.submit(command, String::new()).await?;
    respond(&api, receipt.into_accepted()?).await
}
