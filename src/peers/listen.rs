//! The listener for `/peer/v1`: connections, TLS, and the end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::admission::Admission;
use super::calls::{Caller, Calls, router};
use super::tls::{TlsError, server_config};
use crate::control::Control;
use crate::system::config::DeploymentSettings;

/// 250 peers (5 services in 50 regions, G4), each with a watch, a question, a hint and one that it keeps
/// for the next. More wait until one ends.
const CONNECTIONS_MAX: usize = 1_024;
/// A connection without a request is let go after this: later than peers do, whose call would else meet a
/// connection that is being closed; and it outlives an owner's poll of 30 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Of a request's line and headers: a token and little else.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Who has not shown a certificate by then shows none.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long answers under way may take when the engine ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// After a failed accept (no file descriptor is left).
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Why the peers cannot be listened for.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "{address} is no address of this machine alone: without TLS, tokens would cross a network in the clear"
    )]
    InTheClear { address: SocketAddr },
    #[error("deployment.{0}")]
    Tls(#[from] TlsError),
}

/// Serves until [`ListenHandle::stop`].
#[derive(Debug)]
pub struct ListenHandle {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl ListenHandle {
    /// Where it listens: with a free port, which one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more calls, and ends the watches; answers under way have a moment.
    pub async fn stop(self) {
        self.stop.cancel();
        // Ended or panicked: it serves no more.
        let _ = self.task.await;
    }
}

/// Binds and serves.
///
/// # Errors
/// The address is taken, a certificate or key cannot be used, or there is none for an address that
/// others reach.
pub async fn listen(
    settings: &DeploymentSettings,
    control: Arc<dyn Control>,
) -> Result<ListenHandle, ListenError> {
    let tls = server_config(settings)?;
    let wanted = settings.listen;
    if tls.is_none() && !wanted.ip().is_loopback() {
        return Err(ListenError::InTheClear { address: wanted });
    }
    let failed = |source| ListenError::Listen {
        address: wanted,
        source,
    };
    let listener = TcpListener::bind(wanted).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let stop = CancellationToken::new();
    let calls = Calls {
        control,
        admission: Admission::of(&settings.peers),
        stop: stop.clone(),
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let peers = settings.peers.len();
    tracing::info!(%address, scheme, peers, "listening for other deployments");
    let server = Server {
        router: router(Arc::new(calls)),
        tls: tls.map(TlsAcceptor::from),
        stop: stop.clone(),
    };
    let task = tokio::spawn(server.run(listener));
    Ok(ListenHandle {
        address,
        stop,
        task,
    })
}

#[derive(Clone)]
struct Server {
    router: Router,
    /// None: plain HTTP.
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
}

impl Server {
    async fn run(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let next = async || {
            // Never closed.
            let place = places.clone().acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        loop {
            let (place, accepted) = tokio::select! {
                next = next() => next,
                Some(_) = connections.join_next() => continue,
                () = self.stop.cancelled() => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    let connection = self.clone().connection(stream, address);
                    connections.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        // Those that take longer are cut off.
        let _ = tokio::time::timeout(STOP_TIMEOUT, all).await;
    }

    async fn connection(self, stream: TcpStream, address: SocketAddr) {
        // Small answers go at once; if that cannot be set, they come a little later.
        let _ = stream.set_nodelay(true);
        let ended = match &self.tls {
            None => {
                let certificate = None;
                self.serve(
                    stream,
                    Caller {
                        address,
                        certificate,
                    },
                )
                .await
            }
            Some(acceptor) => match shaken(acceptor, stream).await {
                Ok((stream, certificate)) => {
                    self.serve(
                        stream,
                        Caller {
                            address,
                            certificate,
                        },
                    )
                    .await
                }
                Err(error) => {
                    tracing::debug!(%address, %error, "no TLS");
                    return;
                }
            },
        };
        if let Err(error) = ended {
            tracing::debug!(%address, %error, "a connection ended");
        }
    }

    async fn serve<S>(&self, stream: S, caller: Caller) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = self.router.clone().layer(Extension(caller));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    }
}

type Shaken = (
    tokio_rustls::server::TlsStream<TcpStream>,
    Option<rustls::pki_types::CertificateDer<'static>>,
);

/// Where certificates are asked for, only who has shown one comes through.
async fn shaken(acceptor: &TlsAcceptor, stream: TcpStream) -> io::Result<Shaken> {
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await??;
    let (_, session) = stream.get_ref();
    let chain = session.peer_certificates().unwrap_or_default();
    let own = chain.first().map(|shown| shown.clone().into_owned());
    Ok((stream, own))
}
