//! The engine across a unix socket: a [`Control`] for consoles and verbs that attach.
//!
//! A task follows the engine's snapshots. When the engine restarts, the task connects again, with growing
//! waits. Meanwhile the last snapshot stays, with a fault that says since when the engine cannot be reached.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::BytesMut;
use chrono::{DateTime, Utc};
use reqwest::{Client, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{Control, ControlError, Envelope, Page, Query, Receipt, Snapshot};
use crate::domain::model::Event;

/// Version of the protocol. It grows when the two sides would no longer understand each other.
pub const PROTOCOL: u32 = 2;
/// How often the engine sends a sign of life while its snapshot does not change.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// After three missed heartbeats the engine counts as hanging, and the client says so.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Deadline for requests that the engine answers from memory.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);
/// Deadline for queries: enough for two calls to a cloud, each at the default time limit.
const QUERY_DEADLINE: Duration = Duration::from_secs(120);
/// Deadline for commands. Planning a site of 100,000 resources lists all of them.
const SUBMIT_DEADLINE: Duration = Duration::from_secs(600);
/// Time that a request for events is allowed in addition to the requested wait.
const EVENTS_SLACK: Duration = Duration::from_secs(10);
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Maximum size of a snapshot. 250 rows with their blockers and errors take less than 2 MiB.
const SNAPSHOT_BYTES_MAX: usize = 32 << 20;

/// The engine's greeting to a client that connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    pub version: String,
    pub pid: u32,
}

/// The engine behind a socket. Dropping it ends the task that follows snapshots.
pub struct RemoteControl {
    engine: Engine,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    _follower: AbortOnDropHandle<()>,
}

impl RemoteControl {
    /// Attaches to the engine that serves this socket. Returns once its first snapshot has arrived.
    ///
    /// # Errors
    /// [`ControlError::Unreachable`] if nobody listens or answers in time, [`ControlError::Usage`] if the engine speaks
    /// another protocol, [`ControlError::Forbidden`] if it does not serve this user, [`ControlError::Internal`] if its
    /// answer cannot be read.
    pub async fn connect(socket: &Path) -> Result<Arc<dyn Control>, ControlError> {
        let engine = Engine::new(socket)?;
        let mut stream = engine.follow().await?;
        let (sender, snapshots) = watch::channel(Arc::new(stream.next().await?));
        let follower = tokio::spawn(follow(engine.clone(), stream, sender));
        Ok(Arc::new(Self {
            engine,
            snapshots,
            _follower: AbortOnDropHandle::new(follower),
        }))
    }
}

#[async_trait]
impl Control for RemoteControl {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        self.engine.post("submit", &envelope, SUBMIT_DEADLINE).await
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        self.engine.post("query", &query, QUERY_DEADLINE).await
    }

    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        let path = format!("events?after={after}&wait_ms={wait_ms}");
        let deadline = Duration::from_millis(wait_ms).saturating_add(EVENTS_SLACK);
        let response = self.engine.send(self.engine.get(&path).timeout(deadline));
        self.engine.read(response.await?).await
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }
}

/// Publishes the snapshots that arrive, until the [`RemoteControl`] is dropped.
async fn follow(engine: Engine, mut stream: SnapshotStream, sender: watch::Sender<Arc<Snapshot>>) {
    loop {
        let lost = loop {
            match stream.next().await {
                Ok(snapshot) => {
                    sender.send_replace(Arc::new(snapshot));
                }
                Err(error) => break error,
            }
        };
        stream = reconnect(&engine, &sender, lost).await;
    }
}

async fn reconnect(
    engine: &Engine,
    sender: &watch::Sender<Arc<Snapshot>>,
    lost: ControlError,
) -> SnapshotStream {
    let since = Utc::now();
    let mut why = lost.to_string();
    let mut backoff = BACKOFF_FIRST;
    loop {
        publish_fault(sender, since, &why);
        tokio::time::sleep(backoff).await;
        backoff = BACKOFF_MAX.min(backoff * 2);
        match engine.follow().await {
            Ok(stream) => return stream,
            Err(error) => why = error.to_string(),
        }
    }
}

/// Marks the last snapshot, which stays, as outdated.
fn publish_fault(sender: &watch::Sender<Arc<Snapshot>>, since: DateTime<Utc>, why: &str) {
    let time = since.format("%H:%M:%S UTC");
    let fault = format!(
        "engine not reachable since {time}: {why}; if it does not come up again, start gone --engine"
    );
    sender.send_if_modified(|snapshot| {
        if snapshot.engine.fault.as_deref() == Some(&fault) {
            return false;
        }
        let engine = &mut Arc::make_mut(snapshot).engine;
        engine.fault = Some(fault);
        engine.unreachable_since = Some(since);
        true
    });
}

/// Requests to the engine behind one socket.
#[derive(Clone)]
struct Engine {
    http: Client,
    socket: PathBuf,
}

impl Engine {
    fn new(socket: &Path) -> Result<Self, ControlError> {
        let http = Client::builder()
            .unix_socket(socket)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| {
                ControlError::internal(format!(
                    "cannot make a client for the engine's socket: {error}"
                ))
            })?;
        Ok(Self {
            http,
            socket: socket.to_path_buf(),
        })
    }

    /// Checks the protocol's version, and opens the stream of snapshots.
    async fn follow(&self) -> Result<SnapshotStream, ControlError> {
        let hello = self.send(self.get("hello").timeout(HELLO_DEADLINE)).await?;
        let hello: Hello = self.read(hello).await?;
        if hello.protocol != PROTOCOL {
            return Err(ControlError::usage(format!(
                "the engine (pid {}) runs version {} of gone with protocol {}, but this program is version {} with protocol {PROTOCOL}; use the same version",
                hello.pid,
                hello.version,
                hello.protocol,
                env!("CARGO_PKG_VERSION"),
            )));
        }
        // The response as a whole has no deadline, because a stream has no end. `SnapshotStream::next` has a deadline.
        let response = tokio::time::timeout(HELLO_DEADLINE, self.send(self.get("snapshots")))
            .await
            .map_err(|_| self.unreachable("it accepts connections, but does not answer"))??;
        Ok(SnapshotStream {
            engine: self.clone(),
            response,
            buffer: BytesMut::new(),
        })
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(url(path))
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        deadline: Duration,
    ) -> Result<T, ControlError> {
        let request = self.http.post(url(path)).json(body).timeout(deadline);
        let response = self.send(request).await?;
        self.read(response).await
    }

    /// Returns the response if its status means success.
    async fn send(&self, request: RequestBuilder) -> Result<Response, ControlError> {
        let response = request.send().await.map_err(|error| self.lost(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.map_err(|error| self.lost(error))?;
        // A problem document of the API itself cannot be parsed as a `ControlError`.
        Err(serde_json::from_slice(&body).unwrap_or_else(|_| self.refused(status, &body)))
    }

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T, ControlError> {
        let body = response.bytes().await.map_err(|error| self.lost(error))?;
        serde_json::from_slice(&body).map_err(|error| {
            ControlError::internal(format!(
                "cannot read the answer of the engine at {}: {error}",
                self.socket.display()
            ))
        })
    }

    /// Returns the error for a refusal by the API itself, for example of another user's process, of a request that is
    /// too large, or of a request that the API does not understand.
    fn refused(&self, status: reqwest::StatusCode, body: &[u8]) -> ControlError {
        let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("no reason given");
        let message = format!(
            "the engine at {} answered with an error: {detail} ({status})",
            self.socket.display()
        );
        match status.as_u16() {
            403 => ControlError::Forbidden { message },
            400..500 => ControlError::usage(message),
            _ => ControlError::internal(message),
        }
    }

    fn lost(&self, error: reqwest::Error) -> ControlError {
        if error.is_timeout() {
            return self
                .unreachable("no answer in time; if the request was a command, the engine may still have accepted it");
        }
        // reqwest's own text ends before the cause, which is what a person needs.
        let mut cause: &dyn std::error::Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let hint = if error.is_connect() {
            "; is it running?"
        } else {
            ""
        };
        self.unreachable(&format!("{cause}{hint}"))
    }

    fn unreachable(&self, why: &str) -> ControlError {
        ControlError::unreachable(format!(
            "cannot reach the engine at {}: {why}",
            self.socket.display()
        ))
    }
}

/// Returns a URL for the path. Its host has no meaning on a unix socket.
fn url(path: &str) -> String {
    format!("http://gone/control/v1/{path}")
}

/// The engine's snapshots as they arrive, one per line.
struct SnapshotStream {
    engine: Engine,
    response: Response,
    /// The line that is not complete yet.
    buffer: BytesMut,
}

impl SnapshotStream {
    /// Returns the next snapshot, or the reason why there is none: the engine ended or is silent, the connection was
    /// lost, or the snapshot is too large or cannot be read.
    async fn next(&mut self) -> Result<Snapshot, ControlError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                if line.len() == 1 {
                    continue;
                }
                return serde_json::from_slice(&line).map_err(|error| {
                    ControlError::internal(format!("cannot read the engine's snapshot: {error}"))
                });
            }
            if self.buffer.len() > SNAPSHOT_BYTES_MAX {
                return Err(self.engine.unreachable("its snapshot is too large"));
            }
            let chunk = tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await;
            match chunk.map_err(|_| self.engine.unreachable("it has stopped answering"))? {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                Ok(None) => return Err(self.engine.unreachable("it has ended")),
                Err(error) => return Err(self.engine.lost(error)),
            }
        }
    }
}
