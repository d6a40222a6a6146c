//! The calls that control a deletion, a step or a site that exists already; the purge ladder of stuck deletions and
//! steps (P3), and the orphans that its rungs leave behind.

use axum::Json;
use axum::extract::Path;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::Sent;
use super::deletions::{ByDeletion, ByStep};
use super::input::{Limit, Query, page_params};
use super::problem::Problem;
use super::{Answer, Api, List, Taken, taken};
use crate::control::{Command, Purged, Retried, RetryFilter, query};
use crate::domain::ladder::{Ladder, PurgeScope, Rung};
use crate::domain::model::{Deletion, Orphan, Step};

/// The body of the calls that control a deletion, a step or a site; it may be left out.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Steering {
    /// The reason, for the audit.
    #[serde(default)]
    reason: String,
}

impl Sent<Steering> {
    /// Submits the command, and returns the [`Api`] with which the handler reads its answer.
    pub(super) async fn submit(self, command: Command) -> Result<Api, Problem> {
        let Self(api, Steering { reason }) = self;
        api.submit(command, reason).await?;
        Ok(api)
    }
}

impl Api {
    /// Submits a command about a deletion, and answers with the deletion after the command.
    async fn steer(
        &self,
        id: String,
        reason: String,
        command: impl FnOnce(String) -> Command,
    ) -> Taken<Deletion> {
        let id = self.deletion(id).await?.id;
        self.submit(command(id.clone()), reason).await?;
        taken(self.deletion(id).await?)
    }

    async fn ladder(&self, what: PurgeScope) -> Answer<Ladder> {
        let ladder = self.ask(query::Ladder { what }).await?;
        Ok(Json(*ladder))
    }

    async fn purge(&self, what: PurgeScope, request: PurgeRequest) -> Result<Purged, Problem> {
        let command = Command::Purge {
            what,
            rung: request.rung,
            confirm: request.confirm,
        };
        let receipt = self.submit(command, request.reason).await?;
        Ok(receipt.into_purged()?)
    }
}

/// Retry a step now.
#[utoipa::path(post, path = "/steps/{id}/retry", operation_id = "retryStep", tag = "steps", params(ByStep),
    request_body = Option<Steering>, responses((status = 202, body = Step)))]
pub(super) async fn retry_step(Path(step): Path<ByStep>, sent: Sent<Steering>) -> Taken<Step> {
    let step_id = step.id()?;
    let api = sent.submit(Command::RetryStep { step_id }).await?;
    taken(api.step(step_id).await?)
}

/// Whether newcomers are accepted, and the reason.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DriftRequest {
    /// True: the newcomers are deleted too. False: they stay, and the deletion ends.
    accept: bool,
    /// The reason, for the audit.
    #[serde(default)]
    reason: String,
}

/// Accept the resources that appeared after the plan, or refuse them (P11).
///
/// Refused resources stay, and the deletion ends. 409 if no step of the deletion is stuck with drift.
#[utoipa::path(post, path = "/deletions/{id}/drift", operation_id = "answerDrift", tag = "deletions",
    params(ByDeletion), request_body = DriftRequest, responses((status = 202, body = Deletion)))]
pub(super) async fn drift(Path(it): Path<ByDeletion>, sent: Sent<DriftRequest>) -> Taken<Deletion> {
    let Sent(api, DriftRequest { accept, reason }) = sent;
    let command = |deletion_id| Command::Drift {
        deletion_id,
        accept,
    };
    api.steer(it.id, reason, command).await
}

/// The steps to retry, and whether only to count them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryRequest {
    #[serde(default)]
    filter: Box<RetryFilter>,
    /// Whether only to count the steps that would be retried.
    #[serde(default)]
    dry_run: bool,
    /// The reason, for the audit.
    #[serde(default)]
    reason: String,
}

/// Retry all steps that match, now.
///
/// The answer has the number of steps that can be retried, and for each reason the number of steps that cannot.
#[utoipa::path(post, path = "/steps:retry", operation_id = "retrySteps", tag = "steps",
    request_body = Option<RetryRequest>, responses((status = 202, body = Retried)))]
pub(super) async fn retry_matching(Sent(api, body): Sent<RetryRequest>) -> Taken<Retried> {
    let (filter, dry_run) = (body.filter, body.dry_run);
    let command = Command::RetryMatching { filter, dry_run };
    let receipt = api.submit(command, body.reason).await?;
    taken(receipt.into_retried()?)
}

/// Declares calls that control a deletion, and that are answered with the deletion after the command.
macro_rules! deletion_calls {
    ($($(#[$words:meta])* $name:ident, $path:literal => $command:ident;)*) => {$(
        $(#[$words])*
        #[utoipa::path(post, path = $path, tag = "deletions", params(ByDeletion),
            request_body = Option<Steering>, responses((status = 202, body = Deletion)))]
        pub(super) async fn $name(
            Path(it): Path<ByDeletion>,
            sent: Sent<Steering>,
        ) -> Taken<Deletion> {
            let Sent(api, Steering { reason }) = sent;
            api.steer(it.id, reason, |deletion_id| Command::$command { deletion_id }).await
        }
    )*};
}

deletion_calls! {
    /// Retry now the blocked and stuck steps of a deletion.
    retry, "/deletions/{id}/retry" => Retry;
    /// Send nothing more; calls that were sent run to their end (P8).
    cancel, "/deletions/{id}/cancel" => Cancel;
    /// Send nothing until the deletion is resumed.
    pause, "/deletions/{id}/pause" => Pause;
    /// Resume a paused deletion.
    resume, "/deletions/{id}/resume" => Resume;
}

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
/// The answer says what each rung does, and why other rungs are not offered.
#[utoipa::path(get, path = "/deletions/{id}/purge", operation_id = "getLadder", tag = "purge", params(ByDeletion),
    responses((status = 200, body = Ladder)))]
pub(super) async fn ladder(api: Api, Path(it): Path<ByDeletion>) -> Answer<Ladder> {
    api.ladder(PurgeScope::Deletion(it.id)).await
}

/// The rungs that are offered for a step (P3).
#[utoipa::path(get, path = "/steps/{id}/purge", operation_id = "getStepLadder", tag = "purge", params(ByStep),
    responses((status = 200, body = Ladder)))]
pub(super) async fn step_ladder(api: Api, Path(step): Path<ByStep>) -> Answer<Ladder> {
    api.ladder(PurgeScope::Step(step.id()?)).await
}

/// Take a rung for all stuck steps of a deletion; 409, with the reason, if the rung is not offered.
#[utoipa::path(post, path = "/deletions/{id}/purge", operation_id = "purge", tag = "purge", params(ByDeletion),
    request_body = PurgeRequest, responses((status = 202, body = PurgedDeletion)))]
pub(super) async fn purge(
    Path(it): Path<ByDeletion>,
    Sent(api, body): Sent<PurgeRequest>,
) -> Taken<PurgedDeletion> {
    let id = api.deletion(it.id).await?.id;
    let what = PurgeScope::Deletion(id.clone());
    let purge = api.purge(what, body).await?;
    let deletion = api.deletion(id).await?;
    taken(PurgedDeletion { deletion, purge })
}

/// Take a rung for a step; 409, with the reason, if the rung is not offered.
#[utoipa::path(post, path = "/steps/{id}/purge", operation_id = "purgeStep", tag = "purge", params(ByStep),
    request_body = PurgeRequest, responses((status = 202, body = PurgedStep)))]
pub(super) async fn purge_step(
    Path(step): Path<ByStep>,
    Sent(api, body): Sent<PurgeRequest>,
) -> Taken<PurgedStep> {
    let id = step.id()?;
    let purge = api.purge(PurgeScope::Step(id), body).await?;
    let step = api.step(id).await?;
    taken(PurgedStep { step, purge })
}

page_params! { PageParams {} }

/// The resources that abandoned steps left behind; each is read from its cloud now.
#[utoipa::path(get, path = "/orphans", operation_id = "listOrphans", tag = "views", params(PageParams),
    responses((status = 200, body = List<Orphan>)))]
pub(super) async fn orphans(api: Api, Query(params): Query<PageParams>) -> Answer<List<Orphan>> {
    let orphans = query::Orphans {
        cursor: params.cursor,
        limit: params.limit.0,
    };
    api.ask(orphans).await.map(List::json)
}
