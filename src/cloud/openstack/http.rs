//! The transport over the network.
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use hyper::body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::config::{CloudConfig, ConfigError, Proxies, Proxy};
use super::tls;
use super::transport::{Transport, TransportError};

/// Maximum size of an answer. A page of 500 ports has about 0.6 MB, so this is about 50,000 ports in one answer, from a
/// server that ignores `limit`. An answer is in memory up to three times (bytes, values, rows).
const BODY_BYTES_MAX: usize = 64 << 20;
/// How long an idle connection is kept: shorter than Apache's 5 s, because the outcome of a call is unknown if the
/// server closes its connection meanwhile.
const IDLE_SECONDS_MAX: u64 = 4;
/// Number of bytes that a streaming client reads at a time, and so the maximum length of an answer's head.
/// Connections that share a thread take turns after this number.
const STREAMED_BYTES_MAX: usize = 64 << 10;
/// Maximum time for connecting, whatever the deadline of a call: a host that takes longer counts as down.
const CONNECT_SECONDS_MAX: u64 = 10;

/// The reason in the error for a proxy's answer 407.
const WANTS_A_LOGIN: &str = "it requires a user and a password, or rejected those that it was \
                             given (407)";

/// HTTP/1.1 and HTTP/2 with kept connections, through the cloud's proxies. Each cloud has a transport of its
/// own, with the cloud's TLS settings.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    client: reqwest::Client,
    proxies: Arc<Proxies>,
    body_bytes_max: usize,
}

impl HttpTransport {
    /// Makes a transport with the TLS settings of `cloud`.
    ///
    /// # Errors
    /// A certificate or key cannot be read, is not PEM, or cannot be used; the system's authorities cannot be read; or
    /// no HTTP client can be made.
    pub fn new(cloud: &CloudConfig) -> Result<Self, ConfigError> {
        let mut tls = tls::client_config(cloud)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut builder = reqwest::Client::builder().no_proxy();
        for proxy in cloud.proxies.each() {
            builder = builder.proxy(through(proxy.clone(), cloud.proxies.clone()));
        }
        let client = builder
            .connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX))
            .pool_idle_timeout(Duration::from_secs(IDLE_SECONDS_MAX))
            // A redirected DELETE becomes a GET, and a token must not go to another host.
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|error| {
                let problem = format!("no HTTP client can be made: {}", innermost(&error));
                tls::bad(cloud, "verify", problem)
            })?;
        Ok(Self {
            client,
            proxies: cloud.proxies.clone(),
            body_bytes_max: BODY_BYTES_MAX,
        })
    }

    /// Sets another limit on the size of an answer, in bytes.
    #[must_use]
    pub fn body_bytes_max(mut self, body_bytes_max: usize) -> Self {
        self.body_bytes_max = body_bytes_max;
        self
    }

    async fn exchange(
        &self,
        request: reqwest::Request,
    ) -> Result<http::Response<Bytes>, TransportError> {
        let proxy = self.proxies.of_url(request.url()).cloned();
        let sent = self.client.execute(request).await;
        let mut answer = sent.map_err(|error| unsent(&error, proxy.as_ref()))?;
        let status = answer.status();
        if let (StatusCode::PROXY_AUTHENTICATION_REQUIRED, Some(proxy)) = (status, &proxy) {
            return Err(not_passed_on(proxy, WANTS_A_LOGIN.to_owned()));
        }
        let mut body = BytesMut::new();
        loop {
            match answer.chunk().await {
                Ok(None) => break,
                Ok(Some(chunk)) if body.len() + chunk.len() > self.body_bytes_max => {
                    return Err(TransportError::TooLarge {
                        status: status.as_u16(),
                        body_bytes_max: self.body_bytes_max,
                    });
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Err(error) => {
                    return Err(TransportError::Truncated {
                        status: status.as_u16(),
                        reason: innermost(&error),
                    });
                }
            }
        }
        let mut response = http::Response::new(body.freeze());
        *response.status_mut() = status;
        *response.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(response)
    }
}

/// A client for a gate: it passes requests and their bodies on as they arrive.
pub type StreamingClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// Makes a client with the TLS settings of `cloud`. It follows no redirects, has no time-out except for
/// connecting, and keeps paths as they are written.
///
/// # Errors
/// A certificate or key cannot be read, is not PEM, or cannot be used, or the system's authorities cannot be read.
pub fn streaming_client<B>(cloud: &CloudConfig) -> Result<StreamingClient<B>, ConfigError>
where
    B: Body + Send,
    B::Data: Send,
{
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_secs(CONNECT_SECONDS_MAX)));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls::client_config(cloud)?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(Duration::from_secs(IDLE_SECONDS_MAX))
        .pool_timer(TokioTimer::new())
        .http1_max_buf_size(STREAMED_BYTES_MAX)
        .build(connector))
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(
        &self,
        request: http::Request<Bytes>,
        deadline: Duration,
    ) -> Result<http::Response<Bytes>, TransportError> {
        let request =
            reqwest::Request::try_from(request).map_err(|error| TransportError::BadRequest {
                reason: innermost(&error),
            })?;
        tokio::time::timeout(deadline, self.exchange(request))
            .await
            .unwrap_or(Err(TransportError::TimedOut { deadline }))
    }
}

/// Makes reqwest's setting for one proxy, for the URLs that are reached through it.
fn through(proxy: Proxy, proxies: Arc<Proxies>) -> reqwest::Proxy {
    let (variable, authorization) = (proxy.variable, proxy.authorization);
    let way = reqwest::Proxy::custom(move |url| {
        let found = proxies.of_url(url);
        found
            .filter(|found| found.variable == variable)
            .map(|found| found.url.clone())
    });
    match authorization {
        Some(authorization) => way.custom_http_auth(authorization),
        None => way,
    }
}

/// Returns the error of a request for which no status was received.
fn unsent(error: &reqwest::Error, proxy: Option<&Proxy>) -> TransportError {
    let reason = innermost(error);
    match proxy {
        Some(proxy) if error.is_connect() => {
            if let Some(reason) = no_tunnel(error) {
                return not_passed_on(proxy, reason);
            }
            let is_cloud = error.url().is_some_and(|url| url.scheme() == "https");
            if !(is_cloud && mistrust(error)) {
                return not_passed_on(proxy, format!("no connection: {reason}"));
            }
        }
        _ => {}
    }
    if mistrust(error) {
        TransportError::Untrusted { reason }
    } else if error.is_connect() {
        TransportError::Connect { reason }
    } else if error.is_builder() {
        TransportError::BadRequest { reason }
    } else {
        TransportError::Lost { reason }
    }
}

fn not_passed_on(proxy: &Proxy, reason: String) -> TransportError {
    TransportError::Proxy {
        proxy: proxy.url.to_string(),
        variable: proxy.variable,
        reason,
    }
}

/// Says why a proxy made no tunnel to the cloud, if that was the failure.
fn no_tunnel(error: &reqwest::Error) -> Option<String> {
    let mut cause = error.source();
    while let Some(error) = cause {
        // hyper-util does not export the type.
        let said = error.to_string();
        if let Some(said) = said.strip_prefix("tunnel error: ") {
            return Some(match said {
                "proxy authorization required" => WANTS_A_LOGIN.to_owned(),
                "unsuccessful" => "it refuses to connect to the cloud's host and port".to_owned(),
                _ => format!("no connection: {}", innermost(error)),
            });
        }
        cause = error.source();
    }
    None
}

/// Whether a certificate caused the error, and not the network.
fn mistrust(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return match tls {
                rustls::Error::InvalidCertificate(_) => true,
                // Other alerts may come at any time, also after the request.
                rustls::Error::AlertReceived(alert) => is_about_certificates(*alert),
                _ => false,
            };
        }
        // The source of an io::Error is its content's source, so the content itself would be skipped.
        let content = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        cause = match content {
            Some(content) => Some(content),
            None => error.source(),
        };
    }
    false
}

/// Whether the server refuses gone's certificate, or refuses because there is none. The server then did not end the
/// handshake, so it read no request.
fn is_about_certificates(alert: rustls::AlertDescription) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(
        alert,
        Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied
    )
}

/// Returns the cause at the end of the chain, because the outer causes only repeat the URL.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}
