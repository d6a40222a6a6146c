//! Passes requests to the upstream, and its answers back.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Body as _;
use serde_json::Value;

use super::budget::{Read, SMALL_BYTES_MAX, Share};
use super::refusal::{Refusal, Result};
use super::{Gate, Head, Out, Response, budget, threads};

/// Largest answer that the gate reads: some 50,000 ports.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const TOO_LONG: &str = "it is longer than 64 MiB";

/// Headers that concern one connection only (RFC 9110, 7.6.1). hyper has answered `Expect` already.
static HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::EXPECT,
];

/// An answer that was read completely.
pub(super) struct Whole {
    pub(super) head: http::response::Parts,
    pub(super) body: Bytes,
    /// The answer's share of the memory that all answers have together; None for an answer that the gate makes.
    share: Option<Share>,
}

impl Whole {
    pub(super) async fn json(&self) -> Option<Value> {
        let (body, bytes) = (self.body.clone(), self.body.len());
        threads::offload_if_large(bytes, async move { serde_json::from_slice(&body).ok() }).await
    }

    /// Returns an answer that the gate itself makes.
    pub(super) fn json_of(body: &Value) -> Self {
        let mut response = http::Response::new(());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        Self {
            head: response.into_parts().0,
            body: Bytes::from(body.to_string()),
            share: None,
        }
    }

    pub(super) fn relay(self) -> Response {
        let mut response = Response::from_parts(self.head, Either::Right(Full::new(self.body)));
        if let Some(share) = self.share {
            response.extensions_mut().insert(Arc::new(share));
        }
        response
    }

    /// Returns the same answer with another body of about the same length.
    pub(super) async fn with_json(self, body: Value) -> Response {
        let bytes = self.body.len();
        let text = threads::offload_if_large(bytes, async move { body.to_string() });
        self.with_text(text.await.into())
    }

    /// Returns the same answer with another text.
    pub(super) fn with_text(mut self, body: Bytes) -> Response {
        self.head.headers.remove(header::CONTENT_LENGTH);
        self.head.headers.remove(header::ETAG);
        self.body = body;
        if let Some(share) = &mut self.share {
            budget::shrink(share, self.body.len());
        }
        self.relay()
    }
}

impl Gate {
    /// Passes a request and its answer, unchanged but for the headers that concern one connection only.
    pub(super) async fn pass(&self, head: Head, body: Out) -> Result {
        let limit = self.parts.settings.limits.answer_timeout;
        self.pass_within(head, body, limit).await
    }

    /// Passes a write that a write guard waits for: an upstream that hangs must not delay a deletion for long.
    pub(super) async fn pass_soon(&self, head: Head, body: Out) -> Result {
        // The body may have arrived slowly, and the ledger may have been lost since the tombstones were checked.
        self.knows_tombstones()?;
        self.pass_within(head, body, self.parts.call_timeout).await
    }

    async fn pass_within(&self, mut head: Head, body: Out, timeout: Duration) -> Result {
        // HTTP/2 and absolute targets name the host in the URI; services make links from the header.
        let host = head.uri.authority().map(|it| it.as_str().parse());
        if let Some(Ok(host)) = host {
            head.headers.insert(header::HOST, host);
        }
        head.uri = self.upstream_uri(&head.uri).await?;
        head.version = http::Version::HTTP_11;
        for_the_next_connection(&mut head.headers);
        let request = Request::from_parts(head, body);
        let answered = tokio::time::timeout(timeout, self.client.request(request)).await;
        let answered = answered.map_err(|_| {
            let name = self.name();
            let message = format!("{name} did not answer in time; send the request again later");
            Refusal::of(StatusCode::GATEWAY_TIMEOUT, message)
        });
        let mut response = answered?.map_err(|error| self.no_answer(&error))?;
        for_the_next_connection(response.headers_mut());
        Ok(response.map(|body| Either::Left(body.into())))
    }

    /// Sends a request without a body, and asks for an answer that is not compressed.
    pub(super) async fn send(&self, mut head: Head) -> Result {
        let identity = HeaderValue::from_static("identity");
        head.headers.insert(header::ACCEPT_ENCODING, identity);
        head.headers.remove(header::IF_NONE_MATCH);
        head.headers.remove(header::CONTENT_LENGTH);
        self.pass(head, Either::Right(Full::default())).await
    }

    /// Reads the body of an answer, once there is memory for it. The connection's thread reads a large body too: to
    /// wake another thread for each piece would cost more than the piece.
    pub(super) async fn read_whole(&self, response: Response, read: Read) -> Result<Whole> {
        let announced = response.body().size_hint().exact();
        let announced = announced.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if announced > Some(ANSWER_BYTES_MAX) {
            return Err(self.not_read(TOO_LONG));
        }
        // An answer of unknown length counts as small until it exceeds `SMALL_BYTES_MAX`.
        let mut reserved = announced.unwrap_or(SMALL_BYTES_MAX);
        let mut share = self.reserve(reserved, read).await?;
        let (head, mut body) = response.into_parts();
        // Allocated in its full length: growing would briefly take twice the memory.
        let mut text = BytesMut::with_capacity(announced.unwrap_or_default());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.not_read(&error.to_string()))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if text.len() + data.len() > ANSWER_BYTES_MAX {
                return Err(self.not_read(TOO_LONG));
            }
            if text.len() + data.len() > reserved {
                // The answer's length was not announced, and the answer is not small.
                reserved = ANSWER_BYTES_MAX;
                share = self.reserve(reserved, read).await?;
            }
            text.extend_from_slice(&data);
            // Other connections run in between, even if the whole body has arrived already.
            tokio::task::yield_now().await;
        }
        Ok(Whole {
            head,
            body: text.freeze(),
            share: Some(share),
        })
    }

    /// Reserves memory for an answer of this length.
    async fn reserve(&self, bytes: usize, read: Read) -> Result<Share> {
        // The gate waits for memory at most as long as it waits for an answer.
        let within = self.parts.settings.limits.answer_timeout;
        let share = self.parts.budget.answer(bytes, read, within).await;
        share.ok_or_else(too_many)
    }

    fn not_read(&self, why: &str) -> Refusal {
        let message = format!(
            "the answer of {} was not read: {why}; send the request again, or with a limit",
            self.name()
        );
        Refusal::of(StatusCode::BAD_GATEWAY, message)
    }

    /// Sends a GET of another path of the service, with the headers of the caller's request.
    pub(super) async fn send_to(&self, head: &Head, path_and_query: &str) -> Result {
        let mut asked = head.clone();
        asked.method = Method::GET;
        let uri = path_and_query.parse();
        asked.uri =
            uri.map_err(|_| Refusal::bad_request("the path of the request is not valid in a URI"))?;
        asked.headers.remove(header::CONTENT_TYPE);
        self.send(asked).await
    }

    fn no_answer(&self, error: &hyper_util::client::legacy::Error) -> Refusal {
        let mut innermost: &dyn std::error::Error = error;
        // If the body from the client failed, its error is among the causes of this error.
        let mut is_clients = false;
        while let Some(cause) = innermost.source() {
            is_clients |= innermost
                .downcast_ref::<hyper::Error>()
                .is_some_and(hyper::Error::is_user);
            innermost = cause;
        }
        if is_clients {
            let message = format!("the body of the request was not read: {innermost}");
            return Refusal::bad_request(message);
        }
        tracing::warn!(gate = %self.address, upstream = self.name(), error = %innermost, "the upstream gave no answer");
        let message = format!("{} gave no answer: {innermost}", self.name());
        Refusal::of(StatusCode::BAD_GATEWAY, message)
    }

    pub(super) fn name(&self) -> String {
        format!("{} at {}", self.service, self.site)
    }

    /// Returns the same path and query at the upstream.
    async fn upstream_uri(&self, uri: &Uri) -> Result<Uri> {
        let mut parts = self.upstream().await?.base.clone().into_parts();
        parts.path_and_query = uri.path_and_query().cloned().or(parts.path_and_query);
        Uri::from_parts(parts)
            .map_err(|_| Refusal::bad_request("the path of the request is not valid in a URI"))
    }
}

pub(super) fn too_many() -> Refusal {
    Refusal::unavailable(
        "the gate is reading too many large answers; send the request again, or with a limit",
    )
}

/// Removes the headers that concern this connection only, and those that `Connection` names.
fn for_the_next_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}
