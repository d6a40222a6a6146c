//! The calls that control a deletion, a step or a site that exists already.

use axum::extract::Path;
use serde::Deserialize;
use utoipa::ToSchema;

use super::caller::{Caller, Sent};
use super::deletions::{ByDeletion, ByStep};
use super::problem::Problem;
use super::{Api, Taken, taken};
use crate::control::{Command, Retried, RetryFilter};
use crate::domain::model::{Deletion, Step};

/// The body of the calls that control a deletion, a step or a site; it may be left out.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Steering {
    /// The reason, for the audit.
    #[serde(default)]
    reason: String,
}

impl Sent<Steering> {
    /// Submits the command, and returns the state with which the caller reads its answer.
    pub(super) async fn submit(self, command: Command) -> Result<Api, Problem> {
        let Steering { reason } = self.body;
        self.api.submit(command, self.caller, reason).await?;
        Ok(self.api)
    }
}

impl Api {
    /// Submits a command about a deletion, and answers with the deletion after the command.
    async fn steer(
        &self,
        id: String,
        caller: Caller,
        reason: String,
        command: impl FnOnce(String) -> Command,
    ) -> Taken<Deletion> {
        let id = self.deletion(id).await?.id;
        self.submit(command(id.clone()), caller, reason).await?;
        taken(self.deletion(id).await?)
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
    let DriftRequest { accept, reason } = sent.body;
    let command = |deletion_id| Command::Drift {
        deletion_id,
        accept,
    };
    sent.api.steer(it.id, sent.caller, reason, command).await
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
/// The answer has the number of steps that can be retried, and of the others by the reason why they cannot.
#[utoipa::path(post, path = "/steps:retry", operation_id = "retrySteps", tag = "steps",
    request_body = Option<RetryRequest>, responses((status = 202, body = Retried)))]
pub(super) async fn retry_matching(sent: Sent<RetryRequest>) -> Taken<Retried> {
    let RetryRequest {
        filter,
        dry_run,
        reason,
    } = sent.body;
    let command = Command::RetryMatching { filter, dry_run };
    let receipt = sent.api.submit(command, sent.caller, reason).await?;
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
            let command = |deletion_id| Command::$command { deletion_id };
            sent.api.steer(it.id, sent.caller, sent.body.reason, command).await
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
    /// Continue a paused deletion.
    resume, "/deletions/{id}/resume" => Resume;
}
