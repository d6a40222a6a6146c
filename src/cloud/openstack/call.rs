//! The result of one call: the answer, or what was attempted and why it failed.
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use memchr::memmem;
use serde_json::Value;

use super::catalog::CatalogError;
use super::identity::Identity;
use super::keystone::AuthError;
use super::remote::{RemoteError, shown};
use super::transport::TransportError;

/// A 2xx that the service itself sent.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The body as JSON; null if the body is empty.
    pub json: Value,
    pub request_id: Option<String>,
    pub retry_after: Option<Duration>,
    /// The identity under which the call was made.
    pub identity: Arc<Identity>,
}

/// The call that was attempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub method: Method,
    /// The URL without user and password. While the endpoint is unknown: the service, and the path if there is one; or
    /// `catalog`.
    pub url: String,
    /// `cloud/region`, or `cloud` if no region is configured.
    pub site: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.site, self.method, shown(&self.url))
    }
}

/// A call without a usable answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{attempt}: {reason}")]
pub struct CallError {
    pub attempt: Box<Attempt>,
    pub reason: Reason,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The service, or a proxy before it, answered with another status than 2xx.
    #[error("{0}")]
    Refused(Box<RemoteError>),
    /// The service answered 401, also after a new login.
    #[error("{0}; the service refused the call again after a new login")]
    Unauthorized(Box<RemoteError>),
    /// 401, though Keystone says that the token is good: an application credential's access rules do not
    /// allow the call.
    #[error(
        "the access rules of the application credential {:?} do not allow {call} of the {service} service \
         ({answer}); use a credential with a rule for this call, or one without access rules. If it has \
         that rule, the cloud's operator must set service_type in [keystone_authtoken] of that service",
        shown(credential)
    )]
    AccessRules {
        /// The name of the credential.
        credential: String,
        /// Method and path: `GET /v2.0/ports`.
        call: String,
        service: String,
        answer: Box<RemoteError>,
    },
    #[error("{0}")]
    Login(Box<AuthError>),
    #[error("{0}")]
    Catalog(Box<CatalogError>),
    #[error("{0}")]
    Transport(TransportError),
    /// A 2xx that the service did not send, such as a page of a proxy or a portal.
    #[error(
        "status {status}, but {problem}; the answer may come from a proxy{}",
        with_id(request_id)
    )]
    NotTheService {
        status: u16,
        problem: String,
        request_id: Option<String>,
    },
    /// The JSON ends in the middle, although the connection ended as if the body were complete.
    #[error("status {status}, but the body is cut off{}", with_id(request_id))]
    CutOff {
        status: u16,
        request_id: Option<String>,
    },
    #[error("the page has no list {items_key:?}{}", with_id(request_id))]
    NoItems {
        items_key: String,
        request_id: Option<String>,
    },
    /// The link to the next page leads to another list, or to the first page again.
    #[error(
        "the cloud names {} as the next page, which is not a page of the list {path}",
        shown(link)
    )]
    ForeignLink { link: String, path: String },
    /// The list has more pages, which gone cannot request, so the pages that were read are not the whole list.
    #[error(
        "the list has more pages, in a form that gone does not know: {said}; none of its rows are \
         used"
    )]
    UnknownPaging { said: String },
    #[error("the list does not end: page {page} leads back to a page that was read")]
    EndlessList { page: usize },
    #[error("the list does not end: {pages} pages were read")]
    TooManyPages { pages: usize },
    /// Rows were created or deleted between the requests for two pages, so the second page does not continue the first.
    #[error("the list was read {lists} times, and changed each time while it was read")]
    RowsMove { lists: u32 },
    #[error("a row of the list has no {field:?}, which the request for the next page needs")]
    NoRowId { field: String },
    /// Pages that were read under different identities do not form one list (rule I13).
    #[error("the user's project or roles changed while the list was read")]
    IdentityChanged,
}

fn with_id(request_id: &Option<String>) -> String {
    let shown = request_id.as_ref().map(|id| format!(" ({})", shown(id)));
    shown.unwrap_or_default()
}

impl CallError {
    /// Returns the answer by which the service, Keystone or a proxy refused the call, if there was one, with the
    /// status, type and message by which to classify it.
    pub fn remote(&self) -> Option<&RemoteError> {
        match &self.reason {
            Reason::Refused(remote) | Reason::Unauthorized(remote) => Some(remote),
            Reason::AccessRules { answer, .. } => Some(answer),
            Reason::Login(login) => login.answer(),
            _ => None,
        }
    }

    /// Returns the HTTP status of an answer that refused the call, is not the service's own, or has JSON that is cut
    /// off; none for other failures.
    pub fn status(&self) -> Option<u16> {
        match &self.reason {
            Reason::NotTheService { status, .. } | Reason::CutOff { status, .. } => Some(*status),
            _ => self.remote().map(|remote| remote.status),
        }
    }

    /// Returns the request id that an answer had, if the error keeps one.
    pub fn request_id(&self) -> Option<&str> {
        match &self.reason {
            Reason::NotTheService { request_id, .. }
            | Reason::CutOff { request_id, .. }
            | Reason::NoItems { request_id, .. } => request_id.as_deref(),
            _ => self.remote().and_then(|r| r.request_id.as_deref()),
        }
    }

    /// Whether the login was refused, or the service refused the token of a new login too.
    pub fn is_auth(&self) -> bool {
        match &self.reason {
            Reason::Unauthorized(_) => true,
            Reason::Login(login) => login.rejected(),
            _ => false,
        }
    }

    /// Whether the service has certainly not received the call.
    pub fn nothing_sent(&self) -> bool {
        match &self.reason {
            Reason::Login(_) | Reason::Catalog(_) => true,
            Reason::Transport(transport) => transport.nothing_sent(),
            _ => false,
        }
    }

    /// Whether a write may or may not have taken effect, so that it must be observed before the call is
    /// repeated.
    pub fn outcome_unknown(&self) -> bool {
        match &self.reason {
            Reason::Transport(transport) => !transport.nothing_sent(),
            // A worker of the service died while it worked on the call, or a proxy no longer waited for the worker.
            Reason::Refused(remote) => matches!(remote.status, 500 | 502 | 504),
            Reason::NotTheService { .. } | Reason::CutOff { .. } => true,
            _ => false,
        }
    }
}

/// Parses the body as JSON; an empty body is null.
///
/// # Errors
/// The body is cut off, or it is not JSON, which means that the service did not write it.
pub(super) fn parse(
    status: u16,
    body: &[u8],
    request_id: Option<&String>,
) -> Result<Value, Reason> {
    let text = body.trim_ascii();
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let parsed = serde_json::from_slice(text).map_err(|error| {
        let request_id = request_id.cloned();
        if error.is_eof() {
            return Reason::CutOff { status, request_id };
        }
        let problem = if text.starts_with(b"<") {
            "the body is a web page"
        } else {
            "the body is not JSON"
        };
        Reason::NotTheService {
            status,
            problem: problem.to_owned(),
            request_id,
        }
    });
    match memmem::find(text, br"\u0000") {
        Some(_) => parsed.map(without_zeros),
        None => parsed,
    }
}

/// Replaces null characters, which people can write into names: no text column of PostgreSQL takes them.
fn without_zeros(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace('\0', "\u{fffd}")),
        Value::Array(values) => values.into_iter().map(without_zeros).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| (name, without_zeros(value)));
            Value::Object(fields.collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_characters_in_a_response_are_replaced() {
        let body = br#"{"ports": [{"name": "a\u0000b", "tags": ["\u0000"], "slash": "\\u0000", "mtu": 1}]}"#;
        let row = json!({"name": "a\u{fffd}b", "tags": ["\u{fffd}"], "slash": "\\u0000", "mtu": 1});
        assert_eq!(parse(200, body, None).ok(), Some(json!({ "ports": [row] })));
    }
}
