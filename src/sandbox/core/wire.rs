//! Messages on the wire: a parsed call, the rights of its caller, an answer, a refusal, and the shapes of refusals that
//! several services share.
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};

/// One call, as a service receives it.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a Method,
    /// The path below the service's endpoint, percent-decoded, without `.json` and a trailing `/`.
    pub(crate) path: String,
    /// The parameters of the query, decoded, in the order sent.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
    /// Scheme, host and full path of the request; links repeat it.
    pub(crate) url: String,
}

impl Call<'_> {
    /// Returns the first value of a query parameter.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the body as JSON; an empty or malformed body is `null`.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(self.body).unwrap_or(Value::Null)
    }

    /// Returns the URL of the call with another query.
    pub(crate) fn link(&self, query: impl Iterator<Item = (String, String)>) -> String {
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        format!("{}?{}", self.url, text.extend_pairs(query).finish())
    }

    /// Returns the segments of the path, without empty ones.
    pub(crate) fn segments(&self) -> Vec<&str> {
        let segments = self.path.split('/');
        segments.filter(|part| !part.is_empty()).collect()
    }
}

/// A service's answer before it is turned into bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content: Content,
    pub(crate) headers: Vec<(HeaderName, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Empty,
    Json(Value),
    Html(String),
    File(Bytes),
}

impl Answer {
    pub(crate) fn new(status: StatusCode, content: Content) -> Self {
        Self {
            status,
            content,
            headers: Vec::new(),
        }
    }

    pub(crate) fn json(status: StatusCode, body: Value) -> Self {
        Self::new(status, Content::Json(body))
    }

    pub(crate) fn ok(body: Value) -> Self {
        Self::json(StatusCode::OK, body)
    }

    pub(crate) fn created(body: Value) -> Self {
        Self::json(StatusCode::CREATED, body)
    }

    pub(crate) fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT, Content::Empty)
    }

    pub(crate) fn empty(code: u16) -> Self {
        Self::new(status(code), Content::Empty)
    }

    /// Returns the HTML error page of a proxy in front of a service.
    pub(crate) fn html(status: StatusCode) -> Self {
        let title = format!("{} {}", status.as_u16(), title(status));
        let page = format!(
            "<html>\n<head><title>{title}</title></head>\n<body>\n<center><h1>{title}</h1></center>\n<hr><center>nginx</center>\n</body>\n</html>\n"
        );
        Self::new(status, Content::Html(page))
    }

    pub(crate) fn with(mut self, name: HeaderName, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn into_response(self) -> http::Response<Bytes> {
        let (kind, bytes) = match self.content {
            Content::Empty => (None, Bytes::new()),
            Content::Json(value) => (Some("application/json"), Bytes::from(value.to_string())),
            Content::Html(page) => (Some("text/html; charset=UTF-8"), Bytes::from(page)),
            Content::File(bytes) => (Some("application/octet-stream"), bytes),
        };
        let length = bytes.len();
        let mut response = http::Response::new(bytes);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if let Some(kind) = kind {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// A refusal, before its service gives it a shape. Neutron's body shows the type; Octavia, Nova and Cinder choose the
/// shape of some refusals by it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{status}: {kind}: {message}")]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) kind: String,
    pub(crate) message: String,
}

pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Returns the refusal as an error if `is_wrong`.
pub(crate) fn refuse_if<E>(is_wrong: bool, refusal: impl FnOnce() -> E) -> Result<(), E> {
    match is_wrong {
        true => Err(refusal()),
        false => Ok(()),
    }
}

/// The answer of a rule that handles some calls; `None` for other calls.
pub(crate) type Handled = Result<Option<Answer>>;

impl Refusal {
    pub(crate) fn new(status: u16, kind: &str, message: impl Into<String>) -> Self {
        Self {
            status: self::status(status),
            kind: kind.to_owned(),
            message: message.into(),
        }
    }

    /// Returns the refusal of a missing or invalid token. keystonemiddleware and Keystone itself answer
    /// alike.
    pub(crate) fn unauthorized() -> Self {
        let message = "The request you have made requires authentication.";
        Self::new(401, "Unauthorized", message)
    }

    /// Returns a refusal as Nova and Cinder send it. A refusal of the type `page` comes from the layer before the
    /// API's own functions and has the shape of Glance's; a 401 comes from keystonemiddleware.
    pub(crate) fn fault(self) -> Answer {
        let (status, message) = (self.status, self.message);
        let code = status.as_u16();
        if self.kind == "page" {
            let title = title(status);
            let message = format!("{message}<br /><br />\n\n\n");
            let body =
                json!({"message": message, "code": format!("{code} {title}"), "title": title});
            return Answer::json(status, body);
        }
        let name = match code {
            400 => "badRequest",
            401 => return Self::unauthorized().keystone(),
            403 => "forbidden",
            404 => "itemNotFound",
            409 => "conflictingRequest",
            413 | 429 => "overLimit",
            503 => "serviceUnavailable",
            _ => "computeFault",
        };
        Answer::json(status, json!({name: {"code": code, "message": message}}))
    }

    pub(crate) fn keystone(self) -> Answer {
        Answer::json(
            self.status,
            json!({"error": {
                "code": self.status.as_u16(),
                "title": title(self.status),
                "message": self.message,
            }}),
        )
    }
}

/// Returns the status with a code; 500 if the code is no status.
pub(crate) fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Returns the reason phrase of a status.
pub(crate) fn title(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Error")
}

/// The rights of a token.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Empty for an unscoped token.
    pub(crate) project: Arc<str>,
    /// The user's id; empty for the sandbox itself.
    pub(crate) user: Arc<str>,
    pub(crate) is_admin: bool,
    pub(crate) is_member: bool,
}

impl Caller {
    /// Returns an admin of a project, for changes that the sandbox makes by itself.
    pub(crate) fn admin_of(project: &str) -> Self {
        Self {
            project: project.into(),
            user: "".into(),
            is_admin: true,
            is_member: true,
        }
    }

    /// Whether the caller owns the resources of a project. An admin owns everything.
    pub(crate) fn owns(&self, project: &str) -> bool {
        self.is_admin || *self.project == *project
    }

    /// Whether the caller may change resources at all. A mere reader may not.
    pub(crate) fn writes(&self) -> bool {
        self.is_admin || self.is_member
    }
}
