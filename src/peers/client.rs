//! Calls to other deployments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::tls::{TlsError, client_config};
use super::token::Token;
use super::{Hint, PROTOCOL, PROTOCOL_HEADER, Peer, PeerFailure, Peers, Spoken};
use crate::domain::peers::{Answers, DeletionNotices, Deployment, PeerScope, Question, Watch};
use crate::domain::text::escape;
use crate::system::config::PeerSettings;

/// A host that does not answer a SYN within this time counts as down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept: shorter than a listener keeps it, and longer than the time between two polls of
/// an owner, 30 s by default.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of characters that are shown of a peer's text, such as its reason for a refusal.
const DETAIL_CHARS_MAX: usize = 300;
/// Maximum number of bytes of the answer to a refused call; a larger answer is an error.
const PROBLEM_BYTES_MAX: usize = 64 << 10;

/// Limits on the wait for an answer, and on its size.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for an answer, in addition to the time for which a watch waits for notices.
    pub answer: Duration,
    /// Maximum size of one answer. A thousand resources, each with twenty referrers that wait in cycles, take a tenth
    /// of this.
    pub bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(10),
            bytes_max: 64 << 20,
        }
    }
}

/// The configured peers, called over HTTP/1.1; connections are kept for later calls.
pub struct HttpPeers {
    remotes: BTreeMap<Peer, Remote>,
    limits: Limits,
}

struct Remote {
    /// The URL, without a trailing `/`.
    url: String,
    client: reqwest::Client,
    token: Option<Token>,
    scope: PeerScope,
}

/// Why a peer cannot be called with its settings.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("deployment.peers[{position}].{source}")]
    Tls { position: usize, source: TlsError },
    #[error("deployment.peers[{position}]: the HTTP client for this peer cannot be created: {why}")]
    Client { position: usize, why: String },
}

impl HttpPeers {
    /// Prepares the clients. Calls nobody yet.
    ///
    /// # Errors
    /// A file of authorities, a certificate or a key cannot be read or used, or a client cannot be built.
    pub fn new(peers: &[PeerSettings], limits: Limits) -> Result<Self, SetupError> {
        let mut clients = Clients::default();
        let mut remotes = BTreeMap::new();
        for (position, settings) in peers.iter().enumerate() {
            let remote = Remote {
                url: settings.url.trim_end_matches('/').to_owned(),
                client: clients.of(position, settings)?,
                token: settings.token_file.clone().map(Token::in_file),
                scope: PeerScope {
                    name: settings.name.clone(),
                    sites: settings.sites.clone(),
                },
            };
            remotes.insert(Peer::from(settings), remote);
        }
        Ok(Self { remotes, limits })
    }

    /// Checks, without a token, that the peer is reachable and speaks this protocol.
    ///
    /// # Errors
    /// The peer is not configured, cannot be reached, does not answer as a deployment of gone, or speaks another
    /// protocol.
    pub async fn probe(&self, peer: &Peer) -> Result<(), PeerFailure> {
        let call = Call {
            method: Method::GET,
            path: "",
            body: Vec::new(),
            wait: Duration::ZERO,
        };
        let Spoken { protocol } = self.remote(peer)?.answer(call, None, self.limits).await?;
        match protocol {
            PROTOCOL => Ok(()),
            other => Err(PeerFailure::new(format!(
                "{peer} uses protocol {other}, but this version of gone uses {PROTOCOL}; update \
                 the older one"
            ))),
        }
    }

    fn remote(&self, peer: &Peer) -> Result<&Remote, PeerFailure> {
        self.remotes.get(peer).ok_or_else(|| {
            let why = format!("{peer} is not one of the peers in [deployment] of the settings");
            PeerFailure::new(why)
        })
    }

    async fn post<A: DeserializeOwned>(
        &self,
        peer: &Peer,
        path: &'static str,
        message: &(impl Serialize + Sync),
        wait: Duration,
    ) -> Result<A, PeerFailure> {
        let call = Call::post(path, message, wait)?;
        let remote = self.remote(peer)?;
        let token = remote.token().await?;
        remote.answer(call, token, self.limits).await
    }
}

#[async_trait]
impl Peers for HttpPeers {
    fn known(&self) -> Vec<Peer> {
        self.remotes.keys().cloned().collect()
    }

    fn scope(&self, peer: &Peer) -> PeerScope {
        let remote = self.remotes.get(peer);
        remote
            .map(|remote| remote.scope.clone())
            .unwrap_or_default()
    }

    async fn watch(&self, peer: &Peer, watch: Watch) -> Result<DeletionNotices, PeerFailure> {
        let wait = Duration::from_millis(watch.wait_ms);
        self.post(peer, "/watch", &watch, wait).await
    }

    async fn ask(&self, peer: &Peer, question: Question) -> Result<Answers, PeerFailure> {
        self.post(peer, "/points-at", &question, Duration::ZERO)
            .await
    }

    async fn hint(&self, peer: &Peer, from: Deployment) -> Result<(), PeerFailure> {
        let call = Call::post("/hint", &Hint { from }, Duration::ZERO)?;
        let remote = self.remote(peer)?;
        let token = remote.token().await?;
        let attempted = remote.attempted(&call);
        let answer = remote.exchange(&call, token, self.limits).await;
        answer
            .and_then(|answer| answer.expect(StatusCode::NO_CONTENT))
            .map(drop)
            .map_err(|why| PeerFailure::new(format!("{attempted}: {why}")))
    }
}

/// Shares a client between peers with the same files, because each client keeps in memory all the authorities that it
/// trusts.
#[derive(Default)]
struct Clients(BTreeMap<Files, reqwest::Client>);

/// Whether the peer is on this machine; the files of authorities, certificate and key.
type Files = (bool, Option<PathBuf>, Option<PathBuf>, Option<PathBuf>);

impl Clients {
    fn of(
        &mut self,
        position: usize,
        settings: &PeerSettings,
    ) -> Result<reqwest::Client, SetupError> {
        let files = (
            settings.is_local(),
            settings.ca_file.clone(),
            settings.certificate_file.clone(),
            settings.key_file.clone(),
        );
        if let Some(client) = self.0.get(&files) {
            return Ok(client.clone());
        }
        let tls = client_config(settings).map_err(|source| SetupError::Tls { position, source })?;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("gone/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            // A token must not be sent to another host, and a redirected POST becomes a GET.
            .redirect(reqwest::redirect::Policy::none())
            .https_only(!settings.is_local())
            .tls_backend_preconfigured(tls);
        if settings.is_local() {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| SetupError::Client {
            position,
            why: innermost(&error),
        })?;
        self.0.insert(files, client.clone());
        Ok(client)
    }
}

struct Call {
    method: Method,
    /// The path below `/peer/v1`.
    path: &'static str,
    body: Vec<u8>,
    /// How long the peer may wait for notices before it answers.
    wait: Duration,
}

impl Call {
    fn post(
        path: &'static str,
        message: &impl Serialize,
        wait: Duration,
    ) -> Result<Self, PeerFailure> {
        let body = serde_json::to_vec(message).map_err(|error| {
            PeerFailure::new(format!("a message for {path} cannot be written: {error}"))
        })?;
        Ok(Self {
            method: Method::POST,
            path,
            body,
            wait,
        })
    }
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// The token that was sent with the call. It must not be shown if the peer repeats it.
    token: Option<SecretString>,
}

impl Remote {
    async fn token(&self) -> Result<Option<SecretString>, PeerFailure> {
        match &self.token {
            None => Ok(None),
            Some(token) => token.current().await.map(Some).map_err(PeerFailure::new),
        }
    }

    fn attempted(&self, call: &Call) -> String {
        format!("{} {}/peer/v1{}", call.method, self.url, call.path)
    }

    async fn answer<A: DeserializeOwned>(
        &self,
        call: Call,
        token: Option<SecretString>,
        limits: Limits,
    ) -> Result<A, PeerFailure> {
        let answer = self.exchange(&call, token, limits).await;
        answer
            .and_then(|answer| answer.expect(StatusCode::OK)?.json())
            .map_err(|why| PeerFailure::new(format!("{}: {why}", self.attempted(&call))))
    }

    /// Sends the call. Sends it once more if the token was refused and the token's file has another one now, because
    /// the token may have been replaced.
    async fn exchange(
        &self,
        call: &Call,
        token: Option<SecretString>,
        limits: Limits,
    ) -> Result<Answer, String> {
        let answer = self.in_time(call, token.as_ref(), limits).await?;
        let (Some(file), Some(sent)) = (&self.token, token) else {
            return Ok(answer);
        };
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let renewed = file.renewed().await?;
        match renewed.expose_secret() == sent.expose_secret() {
            true => Ok(answer),
            false => self.in_time(call, Some(&renewed), limits).await,
        }
    }

    async fn in_time(
        &self,
        call: &Call,
        token: Option<&SecretString>,
        limits: Limits,
    ) -> Result<Answer, String> {
        let timeout = call.wait + limits.answer;
        let answer = tokio::time::timeout(timeout, self.send(call, token, limits.bytes_max));
        answer
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", timeout.as_secs_f32())))
    }

    async fn send(
        &self,
        call: &Call,
        token: Option<&SecretString>,
        bytes_max: usize,
    ) -> Result<Answer, String> {
        let url = format!("{}/peer/v1{}", self.url, call.path);
        let mut request = self
            .client
            .request(call.method.clone(), url)
            .header(PROTOCOL_HEADER, PROTOCOL)
            .header(header::CONTENT_TYPE, "application/json")
            .body(call.body.clone());
        if let Some(token) = token {
            let bearer = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
            let mut bearer = bearer.map_err(|_| {
                "the token has characters that an HTTP header cannot have".to_owned()
            })?;
            bearer.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, bearer);
        }
        let mut answer = request.send().await.map_err(|error| innermost(&error))?;
        let status = answer.status();
        let bytes_max = match status.is_success() {
            true => bytes_max,
            false => PROBLEM_BYTES_MAX.min(bytes_max),
        };
        let mut body = Vec::new();
        while let Some(chunk) = next_chunk(&mut answer, status).await? {
            if body.len() + chunk.len() > bytes_max {
                return Err(format!(
                    "{status}: the answer is larger than {bytes_max} bytes"
                ));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer {
            status,
            headers: std::mem::take(answer.headers_mut()),
            body,
            token: token.cloned(),
        })
    }
}

async fn next_chunk(
    answer: &mut reqwest::Response,
    status: StatusCode,
) -> Result<Option<bytes::Bytes>, String> {
    let chunk = answer.chunk().await;
    chunk.map_err(|error| format!("{status}: the answer was cut off: {}", innermost(&error)))
}

impl Answer {
    fn expect(self, expected: StatusCode) -> Result<Self, String> {
        let status = self.status;
        let spoken = self.headers.get(PROTOCOL_HEADER);
        let is_ours = spoken.is_some_and(|spoken| *spoken == *PROTOCOL.to_string());
        match status {
            _ if status.is_redirection() => Err(format!(
                "{status}: redirects are not followed: set url to the redirect's address"
            )),
            _ if !is_ours => Err(format!(
                "{status}: the answer has no header {PROTOCOL_HEADER}: {PROTOCOL}; check that \
                 url is the address of a deployment of gone"
            )),
            _ if status == expected => Ok(self),
            _ if status.is_success() => Err(format!("unexpected status {status}")),
            _ => Err(match self.detail() {
                Some(detail) => format!("{status}: {detail}"),
                None => status.to_string(),
            }),
        }
    }

    fn json<A: DeserializeOwned>(&self) -> Result<A, String> {
        let content = self.headers.get(header::CONTENT_TYPE);
        let content = content.and_then(|content| content.to_str().ok());
        let content = content.unwrap_or_default();
        if content.split(';').next().map(str::trim) != Some("application/json") {
            return Err(format!(
                "{}: the answer is not JSON; check that url is the address of a deployment of gone: {}",
                self.status,
                self.shown(content)
            ));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            let why = error.to_string();
            format!(
                "{}: the answer cannot be read: {}",
                self.status,
                self.shown(&why)
            )
        })
    }

    /// Returns the peer's reason for a refusal; none if the answer is no problem document.
    fn detail(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Problem {
            detail: String,
        }
        let problem: Problem = serde_json::from_slice(&self.body).ok()?;
        Some(self.shown(&problem.detail))
    }

    /// Returns the text of a peer as it may be shown: at most [`DETAIL_CHARS_MAX`] characters, escaped, and without the
    /// token.
    fn shown(&self, text: &str) -> String {
        let text = match &self.token {
            Some(token) => text.replace(token.expose_secret(), "…"),
            None => text.to_owned(),
        };
        let cut = match text.char_indices().nth(DETAIL_CHARS_MAX) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        };
        escape(&cut).into_owned()
    }
}

/// Returns the innermost cause of an error as text, because the outer causes repeat the address.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    escape(&cause.to_string()).into_owned()
}
