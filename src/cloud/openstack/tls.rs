//! Decides which certificates are trusted, as `clouds.yaml` says, for gone's own calls and for those that a
//! gate passes on.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::config::{CloudConfig, ConfigError, Origin, Tls};

/// Makes the client's TLS settings for the cloud. The caller chooses which protocols are offered over TLS.
///
/// # Errors
/// A certificate or key cannot be read, is not PEM, or cannot be used, or the system's authorities cannot be read.
pub(super) fn client_config(cloud: &CloudConfig) -> Result<ClientConfig, ConfigError> {
    let Tls {
        verify,
        cacert,
        cert,
        key,
    } = &cloud.tls;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let unusable = |error: rustls::Error| bad(cloud, "verify", error.to_string());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match cacert {
        None if *verify => builder.with_platform_verifier().map_err(unusable)?,
        path => {
            let path = path.as_ref().filter(|_| *verify);
            let named = path.map(|path| named(cloud, path, provider.clone()));
            let named = named.transpose()?;
            let verifier = Arc::new(Verifier { named, provider });
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        }
    };
    let Some(path) = cert else {
        return Ok(builder.with_no_client_auth());
    };
    let mut pem = read(cloud, "cert", path)?;
    if let Some(key) = key {
        pem.push(b'\n');
        pem.extend(read(cloud, "key", key)?);
    }
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let identity = chain.ok().zip(PrivateKeyDer::from_pem_slice(&pem).ok());
    let Some((chain, key)) = identity.filter(|(chain, _)| !chain.is_empty()) else {
        let problem = format!(
            "{} (with `key`, if set) must hold a PEM certificate and its private key",
            path.display()
        );
        return Err(bad(cloud, "cert", problem));
    };
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| bad(cloud, "cert", format!("cannot be used: {error}")))
}

/// Reads the certificates of `cacert`. gone then trusts only servers whose certificate one of them signed, and a server
/// that presents one of them itself.
fn named(
    cloud: &CloudConfig,
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Named, ConfigError> {
    let pem = read(cloud, "cacert", path)?;
    let bundle: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let bundle = bundle.unwrap_or_default();
    if bundle.is_empty() {
        let problem = format!("{} holds no PEM certificate", path.display());
        return Err(bad(cloud, "cacert", problem));
    }
    let unusable = |error: String| bad(cloud, "cacert", format!("cannot be used: {error}"));
    let mut roots = RootCertStore::empty();
    for certificate in bundle.iter().cloned() {
        roots
            .add(certificate)
            .map_err(|e| unusable(e.to_string()))?;
    }
    let by_authority = WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
        .build()
        .map_err(|e| unusable(e.to_string()))?;
    Ok(Named {
        by_authority,
        bundle,
    })
}

fn read(cloud: &CloudConfig, field: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| bad(cloud, field, format!("{}: {error}", path.display())))
}

pub(super) fn bad(cloud: &CloudConfig, field: &str, problem: String) -> ConfigError {
    let origin = cloud.found_in.first().cloned();
    ConfigError::BadField {
        origin: origin.unwrap_or(Origin::Environment),
        cloud: cloud.name.clone(),
        field: field.to_owned(),
        problem,
    }
}

/// Trusts the certificates of `cacert`. Like OpenSSL, and so like every other client of these clouds, it
/// accepts each of them as a server's own certificate too, for its names and its validity period.
#[derive(Debug)]
struct Named {
    by_authority: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
}

/// Whether the only fault is that a server presents an authority's certificate as its own.
fn is_for_its_kind(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => matches!(
            other.0.downcast_ref::<webpki::Error>(),
            Some(webpki::Error::CaUsedAsEndEntity)
        ),
        _ => false,
    }
}

/// Checks that the server has the key of its certificate, and that the certificate is trusted.
#[derive(Debug)]
struct Verifier {
    /// None for `verify: false`, which trusts any server.
    named: Option<Named>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(named) = &self.named else {
            return Ok(ServerCertVerified::assertion());
        };
        let authority = &named.by_authority;
        let verified = authority.verify_server_cert(shown, intermediates, name, ocsp, now);
        let Err(error) = verified else {
            return verified;
        };
        // webpki has checked the validity period before it refused an authority as a server, and the handshake
        // checks the signature.
        if !is_for_its_kind(&error) || !named.bundle.iter().any(|it| it.as_ref() == shown.as_ref())
        {
            return Err(error);
        }
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
