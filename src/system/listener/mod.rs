//! What all listeners share: gates, the API's socket and the peers' port serve everybody or nobody (P12).
//!
//! ```text
//!  accept ──▶ crowd     who is held, whose turn it is, who gives way
//!               │
//!               ▼ guest
//!          connection   stream: a client that takes nothing of an answer is waited for
//!                       body:   so is one that sends nothing of a request
//!                       HTTP:   limits of the protocol itself
//! ```
//!
//! **A connection gives way while it is its client's turn**: no byte has come, half a head, half a body, an
//! answer is not taken, nothing is asked. The longest waiting one ends when its time is over, and at once when
//! the listener is full and somebody new comes. A connection whose answer is the server's turn is never cut
//! for another.

mod body;
mod connection;
mod crowd;

use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub use body::{Answering, Arriving};
pub use connection::{Http, serve};
pub use crowd::{Bounds, Crowd, Guest};

/// After a failed accept (no file descriptor is left).
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Where connections come from.
pub trait Accept: Send {
    type Stream: Send;
    /// For whom connections are counted together: an address, a uid.
    type Client: Client;

    /// The next connection and its client.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, Self::Client)>> + Send;
}

/// For whom connections are counted together.
pub trait Client: Copy + Eq + Hash + Send + Sync + std::fmt::Debug + 'static {}

impl<T: Copy + Eq + Hash + Send + Sync + std::fmt::Debug + 'static> Client for T {}

impl Accept for TcpListener {
    type Stream = (TcpStream, SocketAddr);
    type Client = IpAddr;

    async fn accept(&mut self) -> io::Result<(Self::Stream, IpAddr)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // Small answers go at once; if that cannot be set, they come a little later.
        let _ = stream.set_nodelay(true);
        Ok(((stream, peer), client_of(peer.ip())))
    }
}

/// A machine has many addresses of version 6: all of one /64.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

/// Accepts until `stop`, and hands each connection on with its place in the crowd.
pub async fn accept_each<A: Accept>(
    mut listener: A,
    crowd: Arc<Crowd<A::Client>>,
    stop: CancellationToken,
    mut serve: impl FnMut(A::Stream, A::Client, Guest<A::Client>),
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, client)) => {
                let admitted = tokio::select! {
                    admitted = crowd.admit(client) => admitted,
                    () = stop.cancelled() => return,
                };
                match admitted {
                    Some(guest) => serve(stream, client, guest),
                    None => tracing::debug!(?client, "a client has too many connections at work"),
                }
            }
            Err(error) => {
                // Out of file descriptors, most likely: those who only wait give theirs back.
                let gave_way = crowd.relieve();
                tracing::warn!(%error, gave_way, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}
