//! The purge ladder of stuck deletions and steps (P3), its rungs, and the orphans that they leave behind.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::{Caller, Sent};
use super::deletions::{ByDeletion, ByStep};
use super::input::{Limit, Query, page_params};
use super::problem::Problem;
use super::{Answer, Api, List, Taken, taken};
use crate::control::{Command, Purged, query};
use crate::domain::ladder::{Ladder, PurgeScope, Rung};
use crate::domain::model::{Deletion, Orphan, Step};

/// The rung to take, the short id that confirms it, and the reason.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeRequest {
    rung: Rung,
    /// The deletion's short id: the last eight characters of its id.
    confirm: String,
    /// The reason, for the audit.
    #[serde(default)]
    reason: String,
}

/// A deletion after a rung was taken.
#[derive(Serialize, ToSchema)]
pub(super) struct PurgedDeletion {
    #[serde(flatten)]
    deletion: Deletion,
    purge: Purged,
}

/// A step after a rung was taken.
#[derive(Serialize, ToSchema)]
pub(super) struct PurgedStep {
    #[serde(flatten)]
    step: Step,
    purge: Purged,
}

/// The rungs that are offered for the stuck steps of a deletion (P3).
///
/// The answer says what each rung does, and why others are not offered.
#[utoipa::path(get, path = "/deletions/{id}/purge", operation_id = "getLadder", tag = "purge", params(ByDeletion),
    responses((status = 200, body = Ladder)))]
pub(super) async fn of_deletion(
    State(api): State<Api>,
    Path(ByDeletion { id }): Path<ByDeletion>,
) -> Answer<Ladder> {
    api.ladder(PurgeScope::Deletion(id)).await
}

/// The rungs that are offered for a step (P3).
#[utoipa::path(get, path = "/steps/{id}/purge", operation_id = "getStepLadder", tag = "purge", params(ByStep),
    responses((status = 200, body = Ladder)))]
pub(super) async fn of_step(State(api): State<Api>, Path(step): Path<ByStep>) -> Answer<Ladder> {
    api.ladder(PurgeScope::Step(step.id()?)).await
}

/// Take a rung for all stuck steps of a deletion; 409, with the reason, if the rung is not offered.
#[utoipa::path(post, path = "/deletions/{id}/purge", operation_id = "purge", tag = "purge", params(ByDeletion),
    request_body = PurgeRequest, responses((status = 202, body = PurgedDeletion)))]
pub(super) async fn deletion(
    Path(ByDeletion { id }): Path<ByDeletion>,
    sent: Sent<PurgeRequest>,
) -> Taken<PurgedDeletion> {
    let Sent { api, caller, body } = sent;
    let id = api.deletion(id).await?.id;
    let what = PurgeScope::Deletion(id.clone());
    let purge = api.purge(what, caller, body).await?;
    let deletion = api.deletion(id).await?;
    taken(PurgedDeletion { deletion, purge })
}

/// Take a rung for a step; 409, with the reason, if the rung is not offered.
#[utoipa::path(post, path = "/steps/{id}/purge", operation_id = "purgeStep", tag = "purge", params(ByStep),
    request_body = PurgeRequest, responses((status = 202, body = PurgedStep)))]
pub(super) async fn step(Path(step): Path<ByStep>, sent: Sent<PurgeRequest>) -> Taken<PurgedStep> {
    let Sent { api, caller, body } = sent;
    let id = step.id()?;
    let purge = api.purge(PurgeScope::Step(id), caller, body).await?;
    let step = api.step(id).await?;
    taken(PurgedStep { step, purge })
}

page_params! { PageParams {} }

/// The resources that abandoned steps left behind; each is read from its cloud now.
#[utoipa::path(get, path = "/orphans", operation_id = "listOrphans", tag = "views", params(PageParams),
    responses((status = 200, body = List<Orphan>)))]
pub(super) async fn orphans(
    State(api): State<Api>,
    Query(params): Query<PageParams>,
) -> Answer<List<Orphan>> {
    let orphans = query::Orphans {
        cursor: params.cursor,
        limit: params.limit.0,
    };
    api.ask(orphans).await.map(List::json)
}

impl Api {
    async fn ladder(&self, what: PurgeScope) -> Answer<Ladder> {
        let ladder = self.ask(query::Ladder { what }).await?;
        Ok(Json(*ladder))
    }

    async fn purge(
        &self,
        what: PurgeScope,
        caller: Caller,
        request: PurgeRequest,
    ) -> Result<Purged, Problem> {
        let command = Command::Purge {
            what,
            rung: request.rung,
            confirm: request.confirm,
        };
        let receipt = self.submit(command, caller, request.reason).await?;
        Ok(receipt.into_purged()?)
    }
}
