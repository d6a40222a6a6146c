//! Refusals to callers, as RFC 9457 problem documents.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::control::ControlError;

#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    kind: &'static str,
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            detail: detail.into(),
        }
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-request", detail)
    }

    /// Refuses a caller that is not admitted. The text is the same whether the peer is unknown, its token is
    /// wrong or it uses another peer's name, so that a stranger learns nothing from the text.
    pub(super) fn stranger() -> Self {
        let detail = "unknown peer, or wrong token: name each peer by service and region in \
                      [deployment] peers, with the token_file that both sides share";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    pub(super) fn too_large(bytes_max: usize) -> Self {
        let detail = format!("the body is larger than {bytes_max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }
}

/// The statuses are those of the HTTP API, except that a refusal by a guard is a conflict (409).
impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let (status, kind) = match &error {
            ControlError::Usage { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable"),
            ControlError::NotFound { .. } => (StatusCode::NOT_FOUND, "not-found"),
            ControlError::Ambiguous { .. }
            | ControlError::Refused { .. }
            | ControlError::Drifted { .. }
            | ControlError::Conflict { .. } => (StatusCode::CONFLICT, "conflict"),
            ControlError::Auth { .. } => (StatusCode::BAD_GATEWAY, "cloud-auth"),
            ControlError::Forbidden { .. } => (StatusCode::FORBIDDEN, "forbidden"),
            ControlError::Unreachable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "unreachable"),
            ControlError::Expired { .. } => (StatusCode::GONE, "expired"),
            ControlError::Internal { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, kind, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = json!({
            "type": format!("urn:gone:problem:{}", self.kind),
            "title": self.kind.replace('-', " "),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = (self.status, document.to_string()).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}
