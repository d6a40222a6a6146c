//! Whom we trust, as `clouds.yaml` says: for our own calls and for those that a gate passes on.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::config::{Cloud, ConfigError, Origin, Tls};

/// The client's side of TLS for the cloud; which protocols are offered inside is the caller's choice.
///
/// # Errors
/// A certificate or key cannot be read, or is not PEM.
pub(super) fn client_config(cloud: &Cloud) -> Result<ClientConfig, ConfigError> {
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
        _ if !verify => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider))),
        Some(path) => builder.with_root_certificates(roots(cloud, path)?),
        None => builder.with_platform_verifier().map_err(unusable)?,
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

fn roots(cloud: &Cloud, path: &Path) -> Result<RootCertStore, ConfigError> {
    let pem = read(cloud, "cacert", path)?;
    let bundle: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let bundle = bundle.unwrap_or_default();
    if bundle.is_empty() {
        let problem = format!("{} holds no PEM certificate", path.display());
        return Err(bad(cloud, "cacert", problem));
    }
    let mut roots = RootCertStore::empty();
    for certificate in bundle {
        roots
            .add(certificate)
            .map_err(|error| bad(cloud, "cacert", format!("cannot be used: {error}")))?;
    }
    Ok(roots)
}

fn read(cloud: &Cloud, field: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| bad(cloud, field, format!("{}: {error}", path.display())))
}

pub(super) fn bad(cloud: &Cloud, field: &str, problem: String) -> ConfigError {
    let origin = cloud.found_in.first().cloned();
    ConfigError::BadField {
        origin: origin.unwrap_or(Origin::Environment),
        cloud: cloud.name.clone(),
        field: field.to_owned(),
        problem,
    }
}

/// `verify: false`: whoever answers. That it has the key of what it shows is still seen.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
