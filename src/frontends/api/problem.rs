//! Errors as RFC 9457 problem documents.
//!
//! | why | status | type | beside type, title, status, detail |
//! |---|---|---|---|
//! | malformed body, unknown field or parameter | 400 | `invalid-request` | |
//! | well-formed, but the engine cannot act on it (unknown kind, key used for another body) | 422 | `unprocessable` | |
//! | nothing of that name | 404 | `not-found` | |
//! | several resources fit | 409 | `ambiguous` | `candidates` |
//! | a blocker refuses | 409 | `blocked` | `refused`, `blockers` |
//! | the caller may not, by `[api] uids` | 403 | `forbidden` | |
//! | a guard refuses (read-only, protected) | 403 | `guarded` | `refused`, `blockers` |
//! | the cloud is no longer as the plan froze it | 409 | `drifted` | `changes` |
//! | not in this state | 409 | `conflict` | |
//! | plan or events no longer kept | 410 | `expired` | `oldest` |
//! | a cloud refused the engine's credentials | 502 | `cloud-auth` | |
//! | a cloud does not answer | 503 | `unreachable` | |
//! | the engine failed | 500 | `internal` | |
//!
//! A cloud's refusal of the *engine* is neither 401 nor 403: the caller's own rights are sufficient.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::control::ControlError;
use crate::domain::model::{Refusal, RefusalRule};

/// Longest text of a rejection that is kept; our own texts are short.
const DETAIL_BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Problem(Box<Parts>);

#[derive(Debug)]
struct Parts {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    extra: Map<String, Value>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            status,
            kind,
            detail: detail.into(),
            extra: Map::new(),
        }))
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-request", detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    pub(super) fn with(mut self, member: &str, value: Value) -> Self {
        self.0.extra.insert(member.to_owned(), value);
        self
    }

    /// Makes a problem of a failed query: what the engine cannot use is a parameter, so the status is 400.
    pub(super) fn of_query(error: ControlError) -> Self {
        match error {
            ControlError::Usage { message } => Self::invalid(message),
            other => other.into(),
        }
    }

    pub(super) fn document(&self) -> Value {
        let Parts {
            status,
            kind,
            detail,
            extra,
        } = &*self.0;
        let mut document = json!({
            "type": format!("urn:gone:problem:{kind}"),
            "title": kind.replace('-', " "),
            "status": status.as_u16(),
            "detail": detail,
        });
        if let Value::Object(members) = &mut document {
            members.extend(extra.clone());
        }
        document
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let status = status_of(&error);
        let problem = |kind, message| Self::new(status, kind, message);
        match error {
            ControlError::Usage { message } => problem("unprocessable", message),
            ControlError::NotFound { message } => problem("not-found", message),
            ControlError::Ambiguous {
                message,
                candidates,
            } => problem("ambiguous", message).with("candidates", json!(candidates)),
            ControlError::Auth { message } => problem("cloud-auth", message),
            ControlError::Forbidden { message } => problem("forbidden", message),
            ControlError::Unreachable { message } => problem("unreachable", message),
            ControlError::Refused { message, refused } => {
                let guarded = status == StatusCode::FORBIDDEN;
                let blockers: Vec<_> = refused.iter().filter_map(|r| r.blocker.as_ref()).collect();
                problem(if guarded { "guarded" } else { "blocked" }, message)
                    .with("blockers", json!(blockers))
                    .with("refused", json!(refused))
            }
            ControlError::Drifted { message, changes } => {
                problem("drifted", message).with("changes", json!(changes))
            }
            ControlError::Conflict { message } => problem("conflict", message),
            ControlError::Expired { message, oldest } => match oldest {
                // A plan that is no longer kept has no sequence.
                0 => problem("expired", message),
                oldest => problem("expired", message).with("oldest", json!(oldest)),
            },
            ControlError::Internal { message } => problem("internal", message),
        }
    }
}

/// The status of each error of the control.
pub(super) fn status_of(error: &ControlError) -> StatusCode {
    match error {
        ControlError::Usage { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        ControlError::NotFound { .. } => StatusCode::NOT_FOUND,
        ControlError::Ambiguous { .. }
        | ControlError::Drifted { .. }
        | ControlError::Conflict { .. } => StatusCode::CONFLICT,
        ControlError::Auth { .. } => StatusCode::BAD_GATEWAY,
        ControlError::Forbidden { .. } => StatusCode::FORBIDDEN,
        ControlError::Unreachable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        ControlError::Refused { refused, .. } if is_guard(refused) => StatusCode::FORBIDDEN,
        ControlError::Refused { .. } => StatusCode::CONFLICT,
        ControlError::Expired { .. } => StatusCode::GONE,
        ControlError::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A guard refuses the whole (read-only) or names protected resources only; where something is in
/// use as well, lifting the guard would not help.
fn is_guard(refused: &[Refusal]) -> bool {
    refused
        .iter()
        .all(|refusal| refusal.rule == RefusalRule::Protected)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.0.status, self.document().to_string()).into_response();
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        response
    }
}

/// Gives what the router and its extractors refuse by themselves (unknown path or method, a body too
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
    let said = String::from_utf8_lossy(&said);
    let mut refusal = match status {
        StatusCode::NOT_FOUND => Problem::not_found(format!("nothing answers {asked}")),
        StatusCode::METHOD_NOT_ALLOWED => {
            Problem::new(status, "method-not-allowed", format!("no {asked}"))
        }
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
            status,
            "too-large",
            format!("the body of {asked} is larger than it may be"),
        ),
        _ => Problem::new(status, "invalid-request", said),
    }
    .into_response();
    if let Some(allow) = allow {
        refusal.headers_mut().insert(header::ALLOW, allow);
    }
    refusal
}
