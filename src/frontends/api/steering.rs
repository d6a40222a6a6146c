//! The calls that control a deletion, a step or a site that exists already.

use axum::extract::{FromRequest, FromRequestParts as _, Path, Request, State};
use serde::Deserialize;
use utoipa::ToSchema;

use super::caller::Caller;
use super::deletions::{ByDeletion, ByStep};
use super::input::StrictJson;
use super::problem::Problem;
use super::{Api, Taken, taken};
use crate::control::{Command, Retried, RetryFilter};
use crate::domain::model::{Deletion, Step};

/// The body of the calls that control a deletion, a step or a site; it may be left out.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Steering {
    /// For the audit.
    #[serde(default)]
    reason: String,
}

/// A call that controls something: who makes it, and why.
pub(super) struct Steer {
    pub(super) api: Api,
    caller: Caller,
    reason: String,
}

impl FromRequest<Api> for Steer {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, api).await?;
        let request = Request::from_parts(parts, body);
        let StrictJson(Steering { reason }) = StrictJson::from_request(request, api).await?;
        Ok(Self {
            api: api.clone(),
            caller,
            reason,
        })
    }
}

impl Steer {
    /// Submits the command; the engine is returned for the answer.
    pub(super) async fn submit(self, command: Command) -> Result<Api, Problem> {
        self.api.submit(command, self.caller, self.reason).await?;
        Ok(self.api)
    }

    /// Submits a command about a deletion, and answers with the deletion as it is then.
    async fn deletion(self, id: String, command: fn(String) -> Command) -> Taken<Deletion> {
        let id = self.api.deletion(id).await?.id;
        let api = self.submit(command(id.clone())).await?;
        taken(api.deletion(id).await?)
    }
}

/// Retry a step now.
#[utoipa::path(post, path = "/steps/{id}/retry", operation_id = "retryStep", tag = "steps", params(ByStep),
    request_body = Option<Steering>, responses((status = 202, body = Step)))]
pub(super) async fn retry_step(Path(step): Path<ByStep>, steer: Steer) -> Taken<Step> {
    let step_id = step.id()?;
    let api = steer.submit(Command::RetryStep { step_id }).await?;
    taken(api.step(step_id).await?)
}

/// Whether newcomers are accepted, and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DriftRequest {
    /// True: the newcomers are deleted too. False: they stay, and the deletion ends.
    accept: bool,
    /// For the audit.
    #[serde(default)]
    reason: String,
}

/// Accept the resources that appeared after the plan, or refuse them (P11).
///
/// Refused resources stay, and the deletion ends. 409 if nothing of the deletion is stuck with drift.
#[utoipa::path(post, path = "/deletions/{id}/drift", operation_id = "answerDrift", tag = "deletions",
    params(ByDeletion), request_body = DriftRequest, responses((status = 202, body = Deletion)))]
pub(super) async fn drift(
    State(api): State<Api>,
    caller: Caller,
    Path(ByDeletion { id }): Path<ByDeletion>,
    StrictJson(DriftRequest { accept, reason }): StrictJson<DriftRequest>,
) -> Taken<Deletion> {
    let deletion_id = api.deletion(id).await?.id;
    let command = Command::Drift {
        deletion_id: deletion_id.clone(),
        accept,
    };
    api.submit(command, caller, reason).await?;
    taken(api.deletion(deletion_id).await?)
}

/// The steps to retry, and whether only to count them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryRequest {
    #[serde(default)]
    filter: Box<RetryFilter>,
    /// Only says how many steps would be retried.
    #[serde(default)]
    dry_run: bool,
    /// For the audit.
    #[serde(default)]
    reason: String,
}

/// Retry all steps that match, now.
///
/// The answer has the number of steps that can be retried, and the others by reason.
#[utoipa::path(post, path = "/steps:retry", operation_id = "retrySteps", tag = "steps",
    request_body = Option<RetryRequest>, responses((status = 202, body = Retried)))]
pub(super) async fn retry_matching(
    State(api): State<Api>,
    caller: Caller,
    StrictJson(wanted): StrictJson<RetryRequest>,
) -> Taken<Retried> {
    let command = Command::RetryMatching {
        filter: wanted.filter,
        dry_run: wanted.dry_run,
    };
    let receipt = api.submit(command, caller, wanted.reason).await?;
    taken(receipt.into_retried()?)
}

/// Retry now what is blocked or stuck in a deletion.
#[utoipa::path(post, path = "/deletions/{id}/retry", operation_id = "retry", tag = "deletions", params(ByDeletion),
    request_body = Option<Steering>, responses((status = 202, body = Deletion)))]
pub(super) async fn retry(Path(it): Path<ByDeletion>, steer: Steer) -> Taken<Deletion> {
    steer
        .deletion(it.id, |deletion_id| Command::Retry { deletion_id })
        .await
}

/// Send nothing more; calls that were sent run to their end (P8).
#[utoipa::path(post, path = "/deletions/{id}/cancel", operation_id = "cancel", tag = "deletions", params(ByDeletion),
    request_body = Option<Steering>, responses((status = 202, body = Deletion)))]
pub(super) async fn cancel(Path(it): Path<ByDeletion>, steer: Steer) -> Taken<Deletion> {
    steer
        .deletion(it.id, |deletion_id| Command::Cancel { deletion_id })
        .await
}

/// Send nothing until the deletion is resumed.
#[utoipa::path(post, path = "/deletions/{id}/pause", operation_id = "pause", tag = "deletions", params(ByDeletion),
    request_body = Option<Steering>, responses((status = 202, body = Deletion)))]
pub(super) async fn pause(Path(it): Path<ByDeletion>, steer: Steer) -> Taken<Deletion> {
    steer
        .deletion(it.id, |deletion_id| Command::Pause { deletion_id })
        .await
}

/// Continue a paused deletion.
#[utoipa::path(post, path = "/deletions/{id}/resume", operation_id = "resume", tag = "deletions", params(ByDeletion),
    request_body = Option<Steering>, responses((status = 202, body = Deletion)))]
pub(super) async fn resume(Path(it): Path<ByDeletion>, steer: Steer) -> Taken<Deletion> {
    steer
        .deletion(it.id, |deletion_id| Command::Resume { deletion_id })
        .await
}
