//! TLS to the server: its certificate is always verified.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::Address;
use super::failed::{Failed, Sql};

/// The settings of TLS; none if connections use no TLS.
#[derive(Clone)]
pub(super) struct Tls(Option<Arc<ClientConfig>>);

impl Tls {
    /// Reads the trusted authorities of an address.
    ///
    /// # Errors
    /// The trusted authorities cannot be read, or their file has no certificate or one that is not valid.
    pub(super) fn of(address: &Address) -> Sql<Self> {
        if !address.use_tls {
            return Ok(Self(None));
        }
        let refused = |error: &dyn std::error::Error| Failed::Impossible(format!("TLS: {error}"));
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&error))?;
        let builder = match &address.roots {
            None => builder
                .with_platform_verifier()
                .map_err(|error| refused(&error))?,
            Some(file) => {
                let unusable =
                    |why: String| Failed::Impossible(format!("{}: {why}", file.display()));
                let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(&pem) {
                    let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                    let added = roots.add(certificate);
                    added.map_err(|error| unusable(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(unusable("it holds no PEM certificate".to_owned()));
                }
                builder.with_root_certificates(roots)
            }
        };
        Ok(Self(Some(Arc::new(builder.with_no_client_auth()))))
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A handshake with one host.
pub(super) struct Handshake {
    config: Option<Arc<ClientConfig>>,
    host: String,
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = Failure;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Failure> {
        Ok(Handshake {
            config: self.0.clone(),
            host: host.to_owned(),
        })
    }
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted<S>, Failure>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let config = self.config.ok_or("TLS is disabled")?;
            let host = ServerName::try_from(self.host)?;
            let stream = TlsConnector::from(config).connect(host, stream).await?;
            Ok(Encrypted(Box::new(stream)))
        })
    }
}

/// A stream to a server whose certificate was verified.
pub(super) struct Encrypted<S>(Box<TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
