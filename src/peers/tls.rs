//! Certificates of deployments: which ones are trusted, and which ones are shown. PEM files, TLS 1.2 and 1.3.

use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::system::config::{DeploymentSettings, PeerSettings};

/// A file that cannot be used: the key in the settings that names it, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub struct TlsError {
    /// The key below `deployment`, or below a peer, such as `key_file`.
    pub key: &'static str,
    pub why: String,
}

/// Returns the settings of TLS at the listener: the certificate that it shows, and the authority of the certificates
/// that callers must show, if there is one. None means plain HTTP, on loopback.
///
/// # Errors
/// A file cannot be read, or contains no PEM certificate or key that can be used.
pub(super) fn server_config(
    settings: &DeploymentSettings,
) -> Result<Option<Arc<ServerConfig>>, TlsError> {
    let files = settings
        .certificate_file
        .as_deref()
        .zip(settings.key_file.as_deref());
    let Some((certificate, key)) = files else {
        return Ok(None);
    };
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("certificate_file", certificate, &error))?;
    let builder = match settings.client_ca_file.as_deref() {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let roots = Arc::new(roots("client_ca_file", file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|error| unusable("client_ca_file", file, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let (chain, private_key) = identity(certificate, key)?;
    builder
        .with_single_cert(chain, private_key)
        .map(|config| Some(Arc::new(config)))
        .map_err(|error| unusable("certificate_file", certificate, &error))
}

/// Returns the settings of TLS to this peer: the authorities that are trusted, and the certificate that is shown, if
/// there is one.
///
/// # Errors
/// A file cannot be read, or contains no PEM certificate or key that can be used.
pub(super) fn client_config(peer: &PeerSettings) -> Result<ClientConfig, TlsError> {
    let shown = Path::new(&peer.url);
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("url", shown, &error))?;
    let builder = match peer.ca_file.as_deref() {
        Some(file) => builder.with_root_certificates(roots("ca_file", file)?),
        None => builder
            .with_platform_verifier()
            .map_err(|error| unusable("ca_file", Path::new("(the system's)"), &error))?,
    };
    let files = peer
        .certificate_file
        .as_deref()
        .zip(peer.key_file.as_deref());
    let Some((certificate, key)) = files else {
        return Ok(builder.with_no_client_auth());
    };
    let (chain, private_key) = identity(certificate, key)?;
    builder
        .with_client_auth_cert(chain, private_key)
        .map_err(|error| unusable("certificate_file", certificate, &error))
}

/// Whether the certificate is for this host. This distinguishes a caller from others with a certificate of
/// the same authority.
pub(super) fn is_for_host(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let name = ServerName::try_from(host.trim_matches(['[', ']']));
    let certificate = ParsedCertificate::try_from(certificate);
    name.ok()
        .zip(certificate.ok())
        .is_some_and(|(name, certificate)| verify_server_name(&certificate, &name).is_ok())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(key: &'static str, file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, file)? {
        roots
            .add(certificate)
            .map_err(|error| unusable(key, file, &error))?;
    }
    Ok(roots)
}

fn identity(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates("certificate_file", certificate)?;
    let private_key = PrivateKeyDer::from_pem_slice(&read("key_file", key)?).map_err(|_| {
        let why = format!("{} holds no PEM private key", key.display());
        TlsError {
            key: "key_file",
            why,
        }
    })?;
    Ok((chain, private_key))
}

fn certificates(key: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(key, file)?;
    let bundle: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let bundle = bundle.unwrap_or_default();
    match bundle.is_empty() {
        false => Ok(bundle),
        true => Err(TlsError {
            key,
            why: format!("{} holds no PEM certificate", file.display()),
        }),
    }
}

fn read(key: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|error| TlsError {
        key,
        why: format!("{} cannot be read: {error}", file.display()),
    })
}

fn unusable(key: &'static str, file: &Path, error: &dyn std::error::Error) -> TlsError {
    TlsError {
        key,
        why: format!("{} cannot be used: {error}", file.display()),
    }
}
