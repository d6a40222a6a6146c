//! Errors as RFC 9457 problem documents.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::control::ControlError;
use crate::domain::model::{Blocker, Refusal, RefusalRule, Target};

/// Longest text of a rejection that is passed on; a longer one is dropped, and our own texts are short.
const DETAIL_BYTES_MAX: usize = 4096;

/// An error, as an RFC 9457 problem document; `type` begins with `urn:gone:problem:`.
///
/// | error | status | type | members of its own |
/// |---|---|---|---|
/// | malformed body, unknown field or parameter | 400 | `invalid-request` | |
/// | the caller lacks the scope, by `[api] uids` | 403 | `forbidden` | |
/// | a guard refuses (read-only, protected) | 403 | `guarded` | `refused`, `blockers` |
/// | nothing has this path, id or name | 404 | `not-found` | |
/// | the path does not take this method | 405 | `method-not-allowed` | |
/// | several resources match | 409 | `ambiguous` | `candidates` |
/// | a blocker prevents the deletion | 409 | `blocked` | `refused`, `blockers` |
/// | the cloud differs from the plan | 409 | `drifted` | `changes` |
/// | impossible in the present state | 409 | `conflict` | |
/// | plan or events no longer kept | 410 | `expired` | `oldest` |
/// | the body, or the tree of a deletion, is too large | 413, 422 | `too-large` | |
/// | well-formed, but the engine cannot act on it (unknown kind, key used for another body) | 422 | `unprocessable` | |
/// | the engine failed | 500 | `internal` | |
/// | a cloud refused the engine's credentials | 502 | `cloud-auth` | |
/// | a cloud does not answer | 503 | `unreachable` | |
/// | the engine takes no work yet | 503 | `not-ready` | |
///
/// A cloud's refusal of the *engine* is neither 401 nor 403: the caller's own rights are sufficient.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct ProblemDocument {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    #[schema(minimum = 400)]
    status: u16,
    /// What happened and what to do next, for a person.
    detail: String,
    /// The resources that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    candidates: Option<Vec<Target>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    refused: Option<Vec<Refusal>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    blockers: Option<Vec<Blocker>>,
    /// The differences from the approved plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    changes: Option<Vec<String>>,
    /// The oldest event that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    oldest: Option<i64>,
    /// The id of the accepted deletion that its check refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) deletion_id: Option<String>,
}

#[derive(Debug)]
pub(super) struct Problem(pub(super) Box<ProblemDocument>);

impl Problem {
    pub(super) fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(ProblemDocument {
            kind: format!("urn:gone:problem:{kind}"),
            title: kind.replace('-', " "),
            status: status.as_u16(),
            detail: detail.into(),
            ..ProblemDocument::default()
        }))
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-request", detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// Turns the error of a query into a problem. A usage error concerns a parameter of the request, so its status is
    /// 400.
    pub(super) fn of_query(error: ControlError) -> Self {
        match error {
            ControlError::Usage { message } => Self::invalid(message),
            other => other.into(),
        }
    }

    pub(super) fn document(&self) -> Value {
        json!(self.0)
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let (status, kind) = status_and_type(&error);
        let mut problem = Self::new(status, kind, error.to_string());
        let members = &mut problem.0;
        match error {
            ControlError::Ambiguous { candidates, .. } => members.candidates = Some(candidates),
            ControlError::Refused { refused, .. } => {
                let blockers = refused.iter().filter_map(|refused| refused.blocker.clone());
                members.blockers = Some(blockers.collect());
                members.refused = Some(refused);
            }
            ControlError::Drifted { changes, .. } => members.changes = Some(changes),
            // A plan that is no longer kept has no sequence number.
            ControlError::Expired { oldest, .. } => {
                members.oldest = Some(oldest).filter(|it| *it != 0)
            }
            _ => {}
        }
        problem
    }
}

/// Returns the status of an engine's error, and the last part of its problem type.
pub(super) fn status_and_type(error: &ControlError) -> (StatusCode, &'static str) {
    match error {
        ControlError::Usage { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable"),
        ControlError::NotFound { .. } => (StatusCode::NOT_FOUND, "not-found"),
        ControlError::Ambiguous { .. } => (StatusCode::CONFLICT, "ambiguous"),
        ControlError::Drifted { .. } => (StatusCode::CONFLICT, "drifted"),
        ControlError::Conflict { .. } => (StatusCode::CONFLICT, "conflict"),
        ControlError::Auth { .. } => (StatusCode::BAD_GATEWAY, "cloud-auth"),
        ControlError::Forbidden { .. } => (StatusCode::FORBIDDEN, "forbidden"),
        ControlError::Unreachable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "unreachable"),
        // Only a guard refuses: it refuses everything (read-only), or every refused resource is protected. If a
        // resource is in use as well, lifting the guard would not help.
        ControlError::Refused { refused, .. }
            if (refused.iter()).all(|it| it.rule == RefusalRule::Protected) =>
        {
            (StatusCode::FORBIDDEN, "guarded")
        }
        ControlError::Refused { .. } => (StatusCode::CONFLICT, "blocked"),
        ControlError::Expired { .. } => (StatusCode::GONE, "expired"),
        ControlError::Internal { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = [(header::CONTENT_TYPE, "application/problem+json")];
        (status, json, self.document().to_string()).into_response()
    }
}

/// Gives the refusals of the router and its extractors (such as an unknown path or method, or a body that is too
/// large) the same shape as every other error.
pub(super) async fn for_every_error(request: Request, next: Next) -> Response {
    let asked = format!("{} {}", request.method(), request.uri().path());
    let response = next.run(request).await;
    let status = response.status();
    let is_ours = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|content| content.as_bytes().ends_with(b"json"));
    if !(status.is_client_error() || status.is_server_error()) || is_ours {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let said = axum::body::to_bytes(response.into_body(), DETAIL_BYTES_MAX)
        .await
        .unwrap_or_default();
    let (kind, detail) = match status {
        StatusCode::NOT_FOUND => (
            "not-found",
            format!("there is no path for {asked}; GET /openapi.json lists the paths"),
        ),
        StatusCode::METHOD_NOT_ALLOWED => (
            "method-not-allowed",
            format!("{asked} is not supported; the header Allow lists the methods of this path"),
        ),
        StatusCode::PAYLOAD_TOO_LARGE => ("too-large", format!("the body of {asked} is too large")),
        _ => (
            "invalid-request",
            String::from_utf8_lossy(&said).into_owned(),
        ),
    };
    let mut refusal = Problem::new(status, kind, detail).into_response();
    if let Some(allow) = allow {
        refusal.headers_mut().insert(header::ALLOW, allow);
    }
    refusal
}
