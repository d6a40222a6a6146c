//! The purge ladder of stuck deletions and steps (P3), its rungs, and the orphans that they leave behind.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{MethodRouter, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::caller::Caller;
use super::deletions::{Steering, step_id};
use super::input::{self, Params, StrictJson};
use super::problem::Problem;
use super::{Api, List};
use crate::control::{Command, SiteStatus, query};
use crate::domain::ladder::{Ladder, PurgeScope, Rung};
use crate::domain::model::{KindName, Orphan, ResourceKey, Site, Tombstone};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeRequest {
    rung: Rung,
    /// The short id of the deletion.
    confirm: String,
    #[serde(default)]
    reason: String,
}

/// `GET /deletions/{id}/purge`: what is offered, what each rung does, and why others are not offered.
pub(super) async fn of_deletion(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Ladder>, Problem> {
    api.ladder(PurgeScope::Deletion(id)).await
}

/// `GET /steps/{id}/purge`: the same of one step.
pub(super) async fn of_step(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Ladder>, Problem> {
    api.ladder(PurgeScope::Step(step_id(&id)?)).await
}

/// `POST /deletions/{id}/purge` `{rung, confirm, reason}`: 202 and the deletion, with `purge`; 409 if
/// the rung is not offered, and why.
pub(super) async fn deletion(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    StrictJson(request): StrictJson<PurgeRequest>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let id = api.deletion(id).await?.id;
    let purge = api
        .purge(PurgeScope::Deletion(id.clone()), caller, request)
        .await?;
    let deletion = api.deletion(id).await?;
    Ok((StatusCode::ACCEPTED, with(json!(deletion), purge)))
}

/// `POST /steps/{id}/purge`: the same of one step.
pub(super) async fn step(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    StrictJson(request): StrictJson<PurgeRequest>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let id = step_id(&id)?;
    let purge = api.purge(PurgeScope::Step(id), caller, request).await?;
    let step = api.step(id).await?;
    Ok((StatusCode::ACCEPTED, with(json!(step), purge)))
}

fn with(mut shown: Value, purge: Value) -> Json<Value> {
    if let Value::Object(members) = &mut shown {
        members.insert("purge".to_owned(), purge);
    }
    Json(shown)
}

/// `GET /orphans`: the resources of abandoned steps, each read from its cloud now.
pub(super) async fn orphans(
    State(api): State<Api>,
    params: Params,
) -> Result<Json<List<Orphan>>, Problem> {
    let params = params.only(&["cursor", "limit"])?;
    let orphans = query::Orphans {
        cursor: params.cursor(),
        limit: params.limit()?,
    };
    api.ask(orphans).await.map(List::json)
}

/// `POST /tombstones/{site}/{kind}/{id}/release`: 202 and the tombstone; 409 if the resource is not
/// confirmed to exist, or a deletion works on it.
pub(super) async fn release(
    State(api): State<Api>,
    caller: Caller,
    Path((site, kind, id)): Path<(String, String, String)>,
    StrictJson(steering): StrictJson<Steering>,
) -> Result<(StatusCode, Json<Tombstone>), Problem> {
    let key = ResourceKey {
        site: input::site(&api, &site)?,
        kind: KindName::new(&kind),
        id,
    };
    let tombstone = query::Tombstones::of(key.clone());
    let command = Command::Release { key: key.clone() };
    api.steer(command, caller, steering).await?;
    let released = api.ask(tombstone).await?.rows.into_iter().next();
    released
        .map(|row| (StatusCode::ACCEPTED, Json(row)))
        .ok_or_else(|| Problem::not_found(format!("no tombstone of {key}")))
}

/// `POST /deployments/{name}/release`: 202 and its name; 409 if none of this name is on record.
pub(super) async fn release_importer(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    StrictJson(steering): StrictJson<Steering>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let command = Command::ReleaseImporter { name: name.clone() };
    api.steer(command, caller, steering).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({"released": name}))))
}

/// `POST /sites/{site}/pause` and `/resume`: 202 and the site; 409 if it is so already.
pub(super) fn steer_site(command: fn(Site) -> Command) -> MethodRouter<Api> {
    post(
        move |State(api): State<Api>,
              caller: Caller,
              Path(site): Path<String>,
              StrictJson(steering): StrictJson<Steering>| async move {
            let site = input::site(&api, &site)?;
            api.steer(command(site.clone()), caller, steering).await?;
            let sites = api.ask(query::Sites {}).await?;
            let found: Option<SiteStatus> = sites.into_iter().find(|row| row.site == site);
            found
                .map(|row| (StatusCode::ACCEPTED, Json(row)))
                .ok_or_else(|| Problem::not_found(format!("no site {site}")))
        },
    )
}

impl Api {
    async fn ladder(&self, what: PurgeScope) -> Result<Json<Ladder>, Problem> {
        let ladder = self.ask(query::Ladder { what }).await?;
        Ok(Json(*ladder))
    }

    async fn purge(
        &self,
        what: PurgeScope,
        caller: Caller,
        request: PurgeRequest,
    ) -> Result<Value, Problem> {
        let command = Command::Purge {
            what,
            rung: request.rung,
            confirm: request.confirm,
        };
        let envelope = caller.asks(command, request.reason)?;
        let purged = self.control.submit(envelope).await?.into_purged()?;
        Ok(json!({
            "rung": purged.rung, "moved": purged.moved, "unpinned_by": purged.deletion_id,
            "runbook": purged.runbook,
        }))
    }
}
