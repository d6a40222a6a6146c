//! The network between deployments: for each pair and direction a line of its own, which can be cut, be
//! slow or say nothing for a while.

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

/// What a line does to those who call over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    Fair,
    /// Whatever comes takes this much longer.
    Slow(Duration),
    /// Connections stay, and nothing comes over them until that changes.
    Silent,
    /// Connections are closed, and new ones refused.
    Cut,
}

/// From one deployment to another.
pub struct Line {
    pub address: String,
    weather: watch::Sender<Weather>,
}

impl Line {
    pub fn to(there: &str, runtime: &Runtime) -> Self {
        let address = address();
        let (weather, seen) = watch::channel(Weather::Fair);
        let here = address.parse().unwrap();
        runtime.spawn(carry_all(here, there.parse().unwrap(), seen));
        Self { address, weather }
    }

    pub fn has(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

type Seen = watch::Receiver<Weather>;

async fn carry_all(here: SocketAddr, there: SocketAddr, mut weather: Seen) {
    while weather.wait_for(|now| *now != Weather::Cut).await.is_ok() {
        let listener = listening(here).await;
        let seen = weather.clone();
        // All are cut when this is dropped.
        let mut carried = JoinSet::new();
        loop {
            tokio::select! {
                _ = weather.wait_for(|now| *now == Weather::Cut) => break,
                Some(_) = carried.join_next() => {}
                accepted = listener.accept() => {
                    carried.spawn(carry(accepted.unwrap().0, there, seen.clone()));
                }
            }
        }
    }
}

/// A process that is just being started holds all that was open here, for the moment until it runs its own
/// program: so long the address of a line that was cut is taken.
async fn listening(here: SocketAddr) -> TcpListener {
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

/// Until either side closes, or cannot be reached at all.
async fn carry(mut near: TcpStream, there: SocketAddr, weather: Seen) {
    let Ok(mut far) = TcpStream::connect(there).await else {
        return;
    };
    let ((from_near, to_near), (from_far, to_far)) = (near.split(), far.split());
    tokio::select! {
        () = pump(from_near, to_far, weather.clone()) => {}
        () = pump(from_far, to_near, weather.clone()) => {}
    }
}

async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut weather: Seen) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let now = *weather.borrow();
        if let Weather::Slow(by) = now {
            tokio::time::sleep(by).await;
        }
        let ended = weather
            .wait_for(|now| *now != Weather::Silent)
            .await
            .is_err();
        if ended || to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
