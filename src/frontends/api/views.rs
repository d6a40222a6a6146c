//! The lists of the console's panes: stuck deletions, the retry queue, sites, gates, deployments, the audit,
//! tombstones.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::Value;

use super::input::{self, Params};
use super::problem::Problem;
use super::{Api, List};
use crate::control::{DeploymentStatus, GateStatus, SiteStatus, query};
use crate::domain::attention::CauseGroup;
use crate::domain::model::{
    Deletion, DeletionState, KindName, ResourceKey, Step, StepState, Tombstone,
};

/// Default minimum age of `GET /stuck`: somebody may still be working on younger deletions (T10).
const STUCK_SINCE: chrono::Duration = chrono::Duration::hours(24);

/// `GET /stuck`: deletions that wait for a person, requested longer ago than `older_than`; `0s` for
/// all (T10).
pub(super) async fn stuck(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<Deletion>>, Problem> {
    let known = ["older_than", "site", "kind", "cursor", "limit"];
    let params = params.only(&known)?;
    let older_than = match params.before(&api, "older_than")? {
        Some(time) => time,
        None => api.clock.now() - STUCK_SINCE,
    };
    let deletions = query::Deletions {
        states: vec![DeletionState::Stuck],
        site: params.site(&api)?,
        kind: params.kind(),
        older_than: Some(older_than),
        cursor: params.cursor(),
        limit: params.limit()?,
    };
    api.ask(deletions).await.map(List::json)
}

/// `GET /causes`: all on one page, the largest first.
pub(super) async fn causes(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<CauseGroup>>, Problem> {
    params.only(&[])?;
    api.ask(query::Causes::default()).await.map(List::whole)
}

/// `GET /gc`: blocked steps, with their attempts, blockers and next attempt (I2).
pub(super) async fn collector(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<Step>>, Problem> {
    let known = ["site", "kind", "older_than", "cursor", "limit"];
    let params = params.only(&known)?;
    let steps = query::Steps {
        states: vec![StepState::Blocked],
        site: params.site(&api)?,
        kind: params.kind(),
        older_than: params.before(&api, "older_than")?,
        cursor: params.cursor(),
        limit: params.limit()?,
        ..query::Steps::default()
    };
    api.ask(steps).await.map(List::json)
}

/// `GET /sites`: all of them on one page.
pub(super) async fn sites(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<SiteStatus>>, Problem> {
    params.only(&[])?;
    api.ask(query::Sites {}).await.map(List::whole)
}

/// `GET /gates`: all of them on one page.
pub(super) async fn gates(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<GateStatus>>, Problem> {
    params.only(&[])?;
    api.ask(query::Gates {}).await.map(List::whole)
}

/// `GET /deployments`: all of them on one page; none where this engine is not a deployment.
pub(super) async fn deployments(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<DeploymentStatus>>, Problem> {
    params.only(&[])?;
    api.ask(query::Deployments {}).await.map(List::whole)
}

/// `GET /audit`: oldest first. `next` is null only on an empty page.
pub(super) async fn audit(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<Value>>, Problem> {
    let params = params.only(&["cursor"])?;
    let after = params.number("cursor")?.unwrap_or_default();
    let items = api.ask(query::Audit { after }).await?;
    let next = items.last().and_then(|row| row["seq"].as_i64());
    let next = next.map(|seq| seq.to_string());
    Ok(Json(List { items, next }))
}

/// `GET /tombstones`: for other engines' filters (I8).
pub(super) async fn tombstones(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<Tombstone>>, Problem> {
    let known = ["site", "kind", "phase", "id", "cursor", "limit"];
    let params = params.only(&known)?;
    let tombstones = query::Tombstones {
        site: params.site(&api)?,
        kind: params.kind(),
        phases: params.words("phase")?,
        id: params.text("id").map(str::to_owned),
        cursor: params.cursor(),
        limit: params.limit()?,
    };
    api.ask(tombstones).await.map(List::json)
}

/// `GET /tombstones/{site}/{kind}/{id}`, each part percent-encoded (`prod%2FRegionOne`).
pub(super) async fn tombstone(
    State(api): State<Api>,
    Path((site, kind, id)): Path<(String, String, String)>,
) -> Result<Json<Tombstone>, Problem> {
    let key = ResourceKey {
        site: input::site(&api, &site)?,
        kind: KindName::new(&kind),
        id: id.clone(),
    };
    let found = api.ask(query::Tombstones::of(key)).await?;
    found
        .rows
        .into_iter()
        .next()
        .map(Json)
        .ok_or_else(|| Problem::not_found(format!("no tombstone of {kind}/{id}@{site}")))
}
