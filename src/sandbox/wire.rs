//! Messages on the wire: a parsed call, an answer, a refusal, and the shape that each service gives them.
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};

/// One call, as a service receives it.
pub(super) struct Call<'a> {
    pub(super) method: &'a Method,
    /// The path below the service's endpoint, percent-decoded, without `.json` and a trailing `/`.
    pub(super) path: String,
    /// Decoded, in the order sent.
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    /// Scheme, host and full path of the request; links repeat it.
    pub(super) url: String,
}

impl Call<'_> {
    /// The first value of a query parameter.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as JSON; an empty or malformed body is `null`.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(self.body).unwrap_or(Value::Null)
    }

    /// Path segments, without empty ones.
    pub(super) fn segments(&self) -> Vec<&str> {
        self.path
            .split('/')
            .filter(|part| !part.is_empty())
            .collect()
    }
}

/// A service's answer before it is turned into bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Body,
    pub(super) headers: Vec<(HeaderName, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    Empty,
    Json(Value),
    Html(String),
    /// A file.
    Octets(Bytes),
}

impl Answer {
    pub(super) fn json(status: StatusCode, body: Value) -> Self {
        Self {
            status,
            body: Body::Json(body),
            headers: Vec::new(),
        }
    }

    pub(super) fn ok(body: Value) -> Self {
        Self::json(StatusCode::OK, body)
    }

    pub(super) fn created(body: Value) -> Self {
        Self::json(StatusCode::CREATED, body)
    }

    pub(super) fn no_content() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: Body::Empty,
            headers: Vec::new(),
        }
    }

    /// Returns the HTML error page of a proxy in front of a service.
    pub(super) fn html(status: StatusCode) -> Self {
        let title = title(status);
        let code = status.as_u16();
        Self {
            status,
            body: Body::Html(format!(
                "<html>\n<head><title>{code} {title}</title></head>\n<body>\n<center><h1>{code} {title}</h1></center>\n<hr><center>nginx</center>\n</body>\n</html>\n"
            )),
            headers: Vec::new(),
        }
    }

    pub(super) fn with(mut self, name: HeaderName, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn is_success(&self) -> bool {
        self.status.is_success()
    }

    pub(super) fn into_response(self) -> http::Response<Bytes> {
        let (kind, bytes) = match self.body {
            Body::Empty => (None, Bytes::new()),
            Body::Json(value) => (Some("application/json"), Bytes::from(value.to_string())),
            Body::Html(page) => (Some("text/html; charset=UTF-8"), Bytes::from(page)),
            Body::Octets(bytes) => (Some("application/octet-stream"), bytes),
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

/// A refusal in the terms of the service that gives it: Neutron's `type`, Keystone's title.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{status}: {kind}: {message}")]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) kind: String,
    pub(super) message: String,
}

pub(super) type Result<T, E = Refusal> = std::result::Result<T, E>;

/// An answer of a rule that handles some calls; `None` for the others.
pub(super) type Handled = Option<Result<Answer>>;

impl Refusal {
    pub(super) fn new(status: u16, kind: &str, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status);
        Self {
            status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            kind: kind.to_owned(),
            message: message.into(),
        }
    }

    /// Returns the refusal of a missing or invalid token. keystonemiddleware and Keystone itself answer
    /// alike.
    pub(super) fn unauthorized() -> Self {
        let message = "The request you have made requires authentication.";
        Self::new(401, "Unauthorized", message)
    }

    pub(super) fn keystone(self) -> Answer {
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

/// Returns the reason phrase of a status.
pub(super) fn title(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Error")
}

/// Decodes a query string into pairs, in order.
pub(super) fn query_pairs(query: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}
