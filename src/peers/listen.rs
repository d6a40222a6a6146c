//! The listener for `/peer/v1`: connections, TLS, and the shutdown.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission::Admission;
use super::calls::{Caller, Calls, router};
use super::tls::{TlsError, server_config};
use crate::control::Control;
use crate::system::config::DeploymentSettings;
use crate::system::listener::{
    self, AdmittedConnection, Bounds, ConnectionTable, Http, ListenHandle, accept_each,
};

const BOUNDS: Bounds = Bounds {
    // 250 peers (5 services in 50 regions, G4), each with a watch, a question, a hint and an idle connection
    // for the next call.
    all: 1_024,
    // The peers of one region may share an address.
    each: 512,
    // How long a connection waits for its client. It is longer than peers keep idle connections, so that no call meets
    // a connection that is being closed, and longer than the time between two polls of an owner, 30 s by default.
    wait: Duration::from_secs(75),
};
const HTTP: Http = Http {
    // Size of a request's line and headers: a token and little else.
    head_bytes: 16 << 10,
    http2: false,
};
/// Time for the TLS handshake, in which a caller shows its certificate.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the listener for peers cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "{address} is not a loopback address: without TLS, tokens would cross a network in the \
         clear; set certificate_file and key_file"
    )]
    InTheClear { address: SocketAddr },
    #[error("deployment.{0}")]
    Tls(#[from] TlsError),
}

/// Binds the address of the settings, and serves calls of peers there until [`ListenHandle::stop`].
///
/// # Errors
/// The address is taken, a certificate or key cannot be used, or the address can be reached from other
/// machines and there is no certificate.
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
    Ok(ListenHandle::start(address, stop, server.run(listener)))
}

#[derive(Clone)]
struct Server {
    router: Router,
    /// None means plain HTTP.
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
}

impl Server {
    async fn run(self, listener: TcpListener) {
        let table = ConnectionTable::new(BOUNDS);
        let stop = self.stop.clone();
        let serve = |connections: &TaskTracker, (stream, address), _, admitted| {
            connections.spawn(self.clone().connection(stream, address, admitted));
        };
        accept_each(listener, table, stop, serve).await;
    }

    async fn connection(
        self,
        stream: TcpStream,
        address: SocketAddr,
        admitted: AdmittedConnection<IpAddr>,
    ) {
        let ended = match &self.tls {
            None => {
                let certificate = None;
                let caller = Caller {
                    address,
                    certificate,
                };
                self.serve(stream, caller, &admitted).await
            }
            Some(acceptor) => {
                let handshake = tokio::select! {
                    handshake = handshake(acceptor, stream) => handshake,
                    () = admitted.gives_way() => return,
                };
                match handshake {
                    Ok((stream, certificate)) => {
                        let caller = Caller {
                            address,
                            certificate,
                        };
                        self.serve(stream, caller, &admitted).await
                    }
                    Err(error) => {
                        tracing::debug!(%address, %error, "a TLS handshake failed");
                        return;
                    }
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%address, %error, "a connection ended");
        }
    }

    async fn serve<S>(
        &self,
        stream: S,
        caller: Caller,
        admitted: &AdmittedConnection<IpAddr>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = self.router.clone().layer(Extension(caller));
        let service = TowerToHyperService::new(service);
        listener::serve(stream, admitted, HTTP, service, &self.stop).await
    }
}

type Handshake = (
    tokio_rustls::server::TlsStream<TcpStream>,
    Option<rustls::pki_types::CertificateDer<'static>>,
);

/// Performs the TLS handshake, and returns the caller's own certificate, if the caller has shown one. The handshake
/// fails if client certificates are required and the caller has shown none.
async fn handshake(acceptor: &TlsAcceptor, stream: TcpStream) -> io::Result<Handshake> {
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await??;
    let (_, session) = stream.get_ref();
    let chain = session.peer_certificates().unwrap_or_default();
    let own = chain.first().map(|shown| shown.clone().into_owned());
    Ok((stream, own))
}
