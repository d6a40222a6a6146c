//! TLS: which servers are trusted, and which certificate the client presents.
use std::path::Path;
use std::sync::Arc;

use gone::cloud::openstack::{AuthError, CloudConfig, HttpTransport, Session, TransportError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::aws_lc_rs};

use crate::support::{cloud_of, token_body, wall_clock, write};

/// A certificate authority. Its certificate, and the certificate and key of a client, are files in a folder.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "gone test");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("ca.pem"), &issuer.pem());
        let (certificate, key) = leaf(&issuer, "client");
        write(&folder.path().join("client.pem"), &certificate.pem());
        write(&folder.path().join("client.key"), &key.serialize_pem());
        Self { issuer, folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

fn leaf(issuer: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    (params.signed_by(&key, issuer).unwrap(), key)
}

/// Starts a Keystone with TLS and a certificate for `name`. With `clients`, it accepts only clients with a certificate
/// of that authority. Returns its URL.
async fn keystone(authority: &Authority, name: &str, clients: Option<&Authority>) -> String {
    let (certificate, key) = leaf(&authority.issuer, name);
    keystone_showing(certificate.der().to_vec(), &key, clients).await
}

/// Starts a Keystone with TLS that presents this certificate. Returns its URL.
async fn keystone_showing(
    certificate: Vec<u8>,
    key: &KeyPair,
    clients: Option<&Authority>,
) -> String {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(clients.issuer.der().clone()).unwrap();
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = builder.with_single_cert(vec![certificate.into()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let body = token_body("http://n").to_string();
        let answer = format!(
            "HTTP/1.1 201 Created\r\nx-subject-token: t\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut buffer = [0; 4096];
            if stream.read(&mut buffer).await.unwrap_or(0) > 0 {
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    format!("https://localhost:{port}")
}

fn cloud(url: &str, settings: &str) -> CloudConfig {
    cloud_of(&format!(
        "clouds: {{c: {{{settings} auth: {{auth_url: '{url}', user_id: u, password: p}}}}}}"
    ))
}

async fn login(url: &str, settings: &str) -> Result<(), AuthError> {
    let cloud = cloud(url, settings);
    let transport = Arc::new(HttpTransport::new(&cloud).unwrap());
    let session = Session::new(cloud, transport, wall_clock());
    session.identity().await.map(|_| ())
}

fn assert_untrusted(result: Result<(), AuthError>) {
    let error = result.unwrap_err();
    let AuthError::Transport { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        matches!(source, TransportError::Untrusted { .. }),
        "{error:?}"
    );
    assert!(source.nothing_sent());
    assert!(
        error.to_string().contains("set `cacert` in clouds.yaml"),
        "{error}"
    );
}

/// Makes a self-signed certificate for these names, and its key. Like a certificate of `openssl req -x509`, it says
/// that it belongs to an authority.
fn self_signed(names: &[&str]) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.self_signed(&key).unwrap(), key)
}

#[tokio::test]
async fn a_servers_own_certificate_as_cacert_is_trusted_for_its_name_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cacert = |name: &str, certificate: &rcgen::Certificate| {
        let path = folder.path().join(name);
        write(&path, &certificate.pem());
        format!("cacert: {},", path.display())
    };
    let (certificate, key) = self_signed(&["localhost"]);
    let named = cacert("server.pem", &certificate);
    let url = keystone_showing(certificate.der().to_vec(), &key, None).await;
    assert_untrusted(login(&url, "").await);
    login(&url, &named).await.unwrap();

    // Another server presents a different certificate for the same name.
    let (other, other_key) = self_signed(&["localhost"]);
    let impostor = keystone_showing(other.der().to_vec(), &other_key, None).await;
    assert_untrusted(login(&impostor, &named).await);

    // The certificate is trusted for its own name only.
    let (elsewhere, key) = self_signed(&["keystone.example"]);
    let named = cacert("elsewhere.pem", &elsewhere);
    let url = keystone_showing(elsewhere.der().to_vec(), &key, None).await;
    assert_untrusted(login(&url, &named).await);
}

#[tokio::test]
async fn a_servers_own_certificate_as_cacert_is_not_trusted_after_its_end() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.pem");
    write(&path, &certificate.pem());
    let url = keystone_showing(certificate.der().to_vec(), &key, None).await;
    assert_untrusted(login(&url, &format!("cacert: {},", path.display())).await);
}

#[tokio::test]
async fn an_unknown_authority_is_distrusted_unless_cacert_names_it() {
    let authority = Authority::new();
    let url = keystone(&authority, "localhost", None).await;
    assert_untrusted(login(&url, "").await);
    let ca = format!("cacert: {},", authority.path("ca.pem"));
    login(&url, &ca).await.unwrap();
    login(&url, "verify: false,").await.unwrap();
    login(&url, "insecure: true,").await.unwrap();
    // A `cacert` file that does not exist is an error. Only the authority in the file is trusted.
    let other = format!("cacert: {},", Authority::new().path("ca.pem"));
    assert!(
        HttpTransport::new(&cloud(&url, &other)).is_err(),
        "a cacert file that does not exist was accepted"
    );
    let other = Authority::new();
    assert_untrusted(login(&url, &format!("cacert: {},", other.path("ca.pem"))).await);
}

#[tokio::test]
async fn a_certificate_for_another_host_is_distrusted() {
    let authority = Authority::new();
    let url = keystone(&authority, "elsewhere.example", None).await;
    assert_untrusted(login(&url, &format!("cacert: {},", authority.path("ca.pem"))).await);
}

#[tokio::test]
async fn a_client_certificate_is_presented() {
    let authority = Authority::new();
    let url = keystone(&authority, "localhost", Some(&authority)).await;
    let ca = format!("cacert: {},", authority.path("ca.pem"));
    assert_untrusted(login(&url, &ca).await);
    let (cert, key) = (authority.path("client.pem"), authority.path("client.key"));
    login(&url, &format!("{ca} cert: {cert}, key: {key},"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_without_tls_is_a_connection_error() {
    let (server, _) = crate::support::stub_cloud().await;
    let url = format!("https://127.0.0.1:{}", server.address().port());
    let error = login(&url, "verify: false,").await.unwrap_err();
    let AuthError::Transport { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        matches!(source, TransportError::Connect { .. }),
        "{error:?}"
    );
}

#[test]
fn a_file_that_is_not_a_certificate_is_reported_with_its_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pem");
    write(&path, "geheim");
    let error_of = |settings: &str| {
        let cloud = cloud("https://h", settings);
        let error = HttpTransport::new(&cloud).unwrap_err().to_string();
        let (_, message) = error.split_once("clouds.yaml: ").unwrap();
        message.replace(&shown(&path), "x.pem")
    };
    let field = |field: &str| format!("{field}: {},", shown(&path));
    assert_eq!(
        error_of(&field("cacert")),
        "cloud \"c\": cacert: x.pem holds no PEM certificate"
    );
    assert_eq!(
        error_of(&field("cert")),
        "cloud \"c\": cert: x.pem (with `key`, if set) must hold a PEM certificate and its private key"
    );
    assert_eq!(
        error_of("cacert: /nowhere/x,"),
        "cloud \"c\": cacert: /nowhere/x: No such file or directory (os error 2)"
    );
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
