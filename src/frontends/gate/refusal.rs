//! The gate's own refusals, in the service's shape, so that existing clients understand them.

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::{Either, Full};
use serde_json::{Value, json};

use super::Response;
use crate::cloud::openstack::RestCalls;
use crate::control::ControlError;
use crate::control::traffic::Treatment;
use crate::domain::kinds::{Kind, fill};
use crate::domain::model::KindName;
use crate::domain::text::escape;

/// A result whose error is the gate's refusal of the request. Its value is the answer, if no other type is named.
pub(super) type Result<T = Response, E = Refusal> = std::result::Result<T, E>;

/// Header that names the deletion, if there is one, in answers that the gate makes or changes.
pub(super) const DELETION_HEADER: &str = "x-gone-deletion";

/// An answer of 4xx or 5xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// A type like Neutron's: `ResourceBeingDeleted`.
    pub(super) kind: String,
    pub(super) message: String,
    pub(super) deletion: Option<String>,
    /// With 405: the methods that the service accepts.
    pub(super) allow: Option<String>,
}

impl Refusal {
    pub(super) fn treatment(&self) -> Treatment {
        match self.status {
            StatusCode::NOT_FOUND => Treatment::Hidden,
            status if status.is_server_error() => Treatment::Failed,
            _ => Treatment::Refused,
        }
    }

    pub(super) fn new(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind: kind.to_owned(),
            message: message.into(),
            deletion: None,
            allow: None,
        }
    }

    /// Returns a refusal with the type that the status has in these services: `HTTPBadGateway`.
    pub(super) fn of(status: StatusCode, message: impl Into<String>) -> Self {
        let reason = status.canonical_reason().unwrap_or_default();
        Self::new(status, &format!("HTTP{}", reason.replace(' ', "")), message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::of(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// Returns the refusal of a method that the service, or the gate's own path of deletions, does not have (T22):
    /// such a method is not forwarded, whatever the upstream accepts.
    pub(super) fn method_not_allowed(method: &Method, allow: impl Into<String>) -> Self {
        let (method, allow) = (escape(method.as_str()), allow.into());
        let message = format!("the method {method} is not one of this service's: {allow}");
        Self {
            allow: Some(allow),
            ..Self::of(StatusCode::METHOD_NOT_ALLOWED, message)
        }
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "PolicyNotAuthorized", message)
    }

    /// Names the deletion because of which the request is refused.
    pub(super) fn by(self, deletion: Option<String>) -> Self {
        Self { deletion, ..self }
    }

    /// Returns a 404 in the words of the kind's own service.
    pub(super) fn not_found(kind: &Kind, id: &str) -> Self {
        let calls = kind.calls_of::<RestCalls>();
        let says = calls.and_then(|calls| calls.not_found_says.first());
        let said = says.and_then(|says| fill(says, &kind.id_variables(id)).ok());
        let message = said
            .unwrap_or_else(|| format!("{} {} could not be found.", title(&kind.name), escape(id)));
        let own = calls.and_then(|calls| calls.not_found.first());
        let own = own.map_or("HTTPNotFound", String::as_str);
        Self::new(StatusCode::NOT_FOUND, own, message)
    }

    /// Returns the refusal in the shape of the service's errors, in a form that the client accepts.
    pub(super) fn into_response(self, service: &str, accept: &str) -> Response {
        let (status, message) = (self.status, self.message);
        let json = |body: Value| ("application/json", body.to_string());
        let (content_type, body) = match service {
            "network" => json(json!({
                "NeutronError": {"type": self.kind, "message": message, "detail": ""},
            })),
            "load-balancer" => {
                let fault = match status.is_server_error() {
                    true => "Server",
                    false => "Client",
                };
                json(json!({"faultcode": fault, "faultstring": message, "debuginfo": null}))
            }
            "image" => glance(status, &message, accept),
            "compute" | "block-storage" | "shared-file-system" => json(json!({
                fault(status): {"code": status.as_u16(), "message": message},
            })),
            _ => json(json!({
                "error": {"code": status.as_u16(), "title": self.kind, "message": message},
            })),
        };
        let mut response = Response::new(Either::Right(Full::new(Bytes::from(body))));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        if let Some(Ok(allow)) = self.allow.as_deref().map(HeaderValue::from_str) {
            headers.insert(header::ALLOW, allow);
        }
        name_deletion(headers, self.deletion.as_deref());
        response
    }
}

/// Returns the name that Nova, Cinder and Manila give an error of this status.
fn fault(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "badRequest",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "itemNotFound",
        StatusCode::METHOD_NOT_ALLOWED => "badMethod",
        StatusCode::CONFLICT => "conflictingRequest",
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS => "overLimit",
        StatusCode::SERVICE_UNAVAILABLE => "serviceUnavailable",
        _ => "computeFault",
    }
}

/// Turns `security_group` into `Security Group`, as the service's own messages do.
fn title(kind: &KindName) -> String {
    let words = kind.as_str().split('_').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns Glance's form of an error: HTML or JSON as the client accepts, otherwise plain text.
fn glance(status: StatusCode, message: &str, accept: &str) -> (&'static str, String) {
    let reason = status.canonical_reason().unwrap_or_default();
    let title = format!("{} {reason}", status.as_u16());
    let message = message
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let body = format!("{message}<br /><br />\n\n\n");
    if accept.contains("json") {
        let body = json!({"message": body, "code": title, "title": reason});
        return ("application/json", body.to_string());
    }
    if accept.contains("html") {
        let page = format!(
            "<html>\n <head>\n  <title>{title}</title>\n </head>\n <body>\n  <h1>{title}</h1>\n  \
             {body}\n </body>\n</html>"
        );
        return ("text/html; charset=UTF-8", page);
    }
    let text = format!("{title}\n\n{message}\n\n   ");
    ("text/plain; charset=UTF-8", text)
}

pub(super) fn name_deletion(headers: &mut http::HeaderMap, deletion: Option<&str>) {
    if let Some(id) = deletion.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert(DELETION_HEADER, id);
    }
}

/// Turns an error of the engine into the gate's refusal.
pub(super) fn refused(error: ControlError) -> Refusal {
    let message = error.to_string();
    match error {
        ControlError::Refused { .. } | ControlError::Conflict { .. } => {
            Refusal::new(StatusCode::CONFLICT, "Conflict", message)
        }
        ControlError::NotFound { .. } => Refusal::of(StatusCode::NOT_FOUND, message),
        _ => Refusal::unavailable(message),
    }
}
