//! The network between deployments: one link for each pair and direction, which can be cut, slow or silent.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::processes::address;

/// The effect of a link on the connections over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    Normal,
    /// Data arrives this much later.
    Slow(Duration),
    /// Connections stay open, and no data arrives until the state changes.
    Silent,
    /// Connections are closed, and new ones refused.
    Cut,
}

/// The link from one deployment to another.
pub struct Link {
    /// The address at which the first deployment reaches the other.
    pub address: String,
    state: watch::Sender<LinkState>,
}

impl Link {
    pub fn to(there: &str, runtime: &Runtime) -> Self {
        let address = address();
        let (state, receiver) = watch::channel(LinkState::Normal);
        let here = address.parse().unwrap();
        runtime.spawn(serve_link(here, there.parse().unwrap(), receiver));
        Self { address, state }
    }

    pub fn set_state(&self, state: LinkState) {
        self.state.send_replace(state);
    }
}

type StateReceiver = watch::Receiver<LinkState>;

async fn serve_link(here: SocketAddr, there: SocketAddr, mut state: StateReceiver) {
    while state.wait_for(|now| *now != LinkState::Cut).await.is_ok() {
        let listener = bind_when_free(here).await;
        let receiver = state.clone();
        // Dropping the set cuts all connections.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                _ = state.wait_for(|now| *now == LinkState::Cut) => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => {
                    connections.spawn(forward(accepted.unwrap().0, there, receiver.clone()));
                }
            }
        }
    }
}

/// Binds the address, and waits while it is in use: a child process inherits the listener until it runs its own
/// program, so the address of a link that was cut may be in use for a moment.
async fn bind_when_free(here: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(here).await {
            Ok(listener) => return listener,
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => panic!("{here}: {error}"),
        }
    }
}

/// Forwards a connection until either side closes it; ends at once if the other side cannot be reached.
async fn forward(mut near: TcpStream, there: SocketAddr, state: StateReceiver) {
    let Ok(mut far) = TcpStream::connect(there).await else {
        return;
    };
    let ((from_near, to_near), (from_far, to_far)) = (near.split(), far.split());
    tokio::select! {
        () = pump(from_near, to_far, state.clone()) => {}
        () = pump(from_far, to_near, state.clone()) => {}
    }
}

async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut state: StateReceiver) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let now = *state.borrow();
        if let LinkState::Slow(by) = now {
            tokio::time::sleep(by).await;
        }
        let ended = state
            .wait_for(|now| *now != LinkState::Silent)
            .await
            .is_err();
        if ended || to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
