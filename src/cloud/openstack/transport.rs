//! The connection to a cloud, as a port: over the network, or to a cloud in the same process.
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

/// The `User-Agent` of each request.
pub(super) const USER_AGENT: &str = concat!("gone/", env!("CARGO_PKG_VERSION"));

/// Sends one request and reads the whole answer.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends the request. Any status is an answer; redirects are not followed.
    ///
    /// # Errors
    /// See [`TransportError`]. Each error says whether the request may have had its effect.
    async fn send(
        &self,
        request: http::Request<Bytes>,
        deadline: Duration,
    ) -> Result<http::Response<Bytes>, TransportError>;
}

/// Why there is no answer, or only a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No connection was made, so nothing was sent.
    #[error("could not connect: {reason}")]
    Connect { reason: String },
    /// Nothing was sent to the cloud: a proxy of the environment is not reachable, or refuses the request.
    #[error(
        "the proxy {proxy} of the variable {variable} did not pass the request on: {reason}; nothing was \
         sent to the cloud. Check the proxy and {variable}; hosts in NO_PROXY are reached without it"
    )]
    Proxy {
        /// The proxy's URL, without user and password.
        proxy: String,
        variable: &'static str,
        reason: String,
    },
    /// Nothing was sent: one side does not trust the other's certificate.
    #[error(
        "TLS: {reason}; if this is the cloud's own certificate authority, set `cacert` in \
         clouds.yaml to its PEM file (`verify: false` trusts anyone)"
    )]
    Untrusted { reason: String },
    /// The request is not valid; nothing was sent.
    #[error("the request is not valid HTTP: {reason}")]
    BadRequest { reason: String },
    /// No answer came within the deadline. The request may have been carried out.
    #[error("no answer within {} s; whether the request was carried out is unknown", deadline.as_secs_f32())]
    TimedOut { deadline: Duration },
    /// The connection was lost before the answer. The request may have been carried out.
    #[error(
        "connection lost before the answer; whether the request was carried out is unknown: {reason}"
    )]
    Lost { reason: String },
    /// The status was received, but not the whole body.
    #[error("the body of the answer (status {status}) was cut off: {reason}")]
    Truncated { status: u16, reason: String },
    #[error("the body of the answer (status {status}) is larger than {body_bytes_max} bytes")]
    TooLarge { status: u16, body_bytes_max: usize },
}

impl TransportError {
    /// Whether the cloud has certainly not received the request.
    pub fn nothing_sent(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. }
                | Self::Proxy { .. }
                | Self::Untrusted { .. }
                | Self::BadRequest { .. }
        )
    }
}
