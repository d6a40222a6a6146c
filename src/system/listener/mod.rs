//! The base of all listeners (gates, the API's socket, the peers' port). No client can take a listener from other
//! clients by idle, slow or many connections (P12).
//!
//! ```text
//!  accept ──▶ table     counts connections, and ends one when a limit is reached
//!               │
//!               ▼ admitted connection
//!          connection   stream: reports a client that takes nothing of an answer
//!                       body:   reports a client that sends nothing of a request
//!                       HTTP:   limits of the protocol itself
//! ```
//!
//! **A connection gives way while it waits for its client**: the client has sent nothing, has sent only a part of a
//! head or of a body, takes nothing of an answer, or sends no next request. When a wait has lasted too long, its
//! connection ends. When the listener is full and a new connection comes, one of the waiting connections ends at once:
//! first one that never sent a request, then one of the client with the most connections, then the one that has waited
//! longest. If the new connection's client has all connections that it may have, one of its own waiting connections
//! ends instead. When file descriptors or memory run out, some waiting connections end. A connection that waits for the
//! server is never ended for another one.

mod body;
mod connection;
mod table;

use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use body::{Answering, Arriving};
pub use connection::{Http, serve};
pub use table::{AdmittedConnection, Bounds, ConnectionTable};

/// How long to wait after an accept that failed, most likely because no file descriptor was left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Time that answers in progress have when the listener stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of bytes of answers that wait unsent in the system for one connection.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 64 << 10;

/// A source of connections.
pub trait Accept: Send {
    type Stream: Send;
    /// The client by which connections are counted: an address or a uid.
    type Client: Client;

    /// Returns the next connection and its client.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, Self::Client)>> + Send;
}

/// A client by which connections are counted.
pub trait Client: Copy + Eq + Hash + Send + Sync + std::fmt::Debug + 'static {}

impl<T: Copy + Eq + Hash + Send + Sync + std::fmt::Debug + 'static> Client for T {}

impl Accept for TcpListener {
    type Stream = (TcpStream, SocketAddr);
    type Client = IpAddr;

    async fn accept(&mut self) -> io::Result<(Self::Stream, IpAddr)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // Small answers are sent at once. If the option cannot be set, they come a little later.
        let _ = stream.set_nodelay(true);
        limit_unsent(&stream);
        Ok(((stream, peer), client_of(peer.ip())))
    }
}

/// Limits the answers that wait unsent in the system for a client that reads slowly. Without a limit, these are some
/// megabytes for each connection, which are all copied before other requests run. Bytes in flight to a fast client
/// are not limited. If the option cannot be set, the answers are the same.
fn limit_unsent(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

/// Returns the client of an address. An IPv6 network of /64 counts as one client, because a machine has many
/// addresses in it.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

/// A listener that runs; it serves until [`ListenHandle::stop`].
#[derive(Debug)]
pub struct ListenHandle {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl ListenHandle {
    /// Starts a task that serves at this address until `stop`.
    pub fn start(
        address: SocketAddr,
        stop: CancellationToken,
        serving: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let task = tokio::spawn(serving);
        Self {
            address,
            stop,
            task,
        }
    }

    /// Returns the address on which the listener listens, with the actual port if any free port was asked
    /// for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests. Answers in progress have a second to finish.
    pub async fn stop(self) {
        self.stop.cancel();
        // Whether the task ended or panicked, the listener no longer serves.
        let _ = self.task.await;
    }
}

/// Accepts connections until `stop`, and passes each one that the table admits to `serve`, which spawns its task. Then
/// waits at most [`STOP_TIMEOUT`] for these tasks.
pub async fn accept_each<A: Accept>(
    mut listener: A,
    table: Arc<ConnectionTable<A::Client>>,
    stop: CancellationToken,
    mut serve: impl FnMut(&TaskTracker, A::Stream, A::Client, AdmittedConnection<A::Client>),
) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, client)) => {
                let admitted = tokio::select! {
                    admitted = table.admit(client) => admitted,
                    () = stop.cancelled() => break,
                };
                match admitted {
                    Some(admitted) => serve(&connections, stream, client, admitted),
                    None => tracing::debug!(
                        ?client,
                        "a connection was refused: its client has all connections that it may have, and all of them are being served"
                    ),
                }
            }
            Err(error) => {
                // Most likely no file descriptor is left. Connections that only wait are ended, to free theirs.
                let gave_way = table.relieve();
                tracing::warn!(%error, gave_way, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
    drop(listener);
    connections.close();
    // Connections that take longer end with the engine.
    let _ = tokio::time::timeout(STOP_TIMEOUT, connections.wait()).await;
}
