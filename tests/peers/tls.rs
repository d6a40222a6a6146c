//! TLS: which servers a caller trusts, and which callers a listener trusts.

use gone::peers::{HttpPeers, Limits, ListenHandle, PeerFailure, Peers as _, listen};
use gone::system::config::{DeploymentSettings, PeerSettings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::fake::FakeEngine;
use crate::support::*;

/// A certificate authority. Its certificate, and the certificates and keys that it signs, are in files.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(files: &Files, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        files.write(&format!("{name}.pem"), &issuer.pem());
        Self(issuer)
    }

    /// Writes a certificate for a host to `NAME.pem`, and its key to `NAME.key`.
    fn sign(&self, files: &Files, name: &str, host: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        files.write(&format!("{name}.pem"), &certificate.pem());
        files.write(&format!("{name}.key"), &key.serialize_pem());
    }
}

/// Files with the authorities `ca` and `other`. `ca` has signed the certificates of `server` and of the clients `d0`
/// and `d2`; `other` has signed `forged`.
fn files() -> Files {
    let files = Files::new();
    let ca = Authority::new(&files, "ca");
    ca.sign(&files, "server", "localhost");
    ca.sign(&files, "d0", "d0.example");
    ca.sign(&files, "d2", "d2.example");
    Authority::new(&files, "other").sign(&files, "forged", "d0.example");
    files
}

/// Settings of a listener with TLS and the peers `s0` and `s2`. Without a token, the listener knows the peers by their
/// certificates.
fn tls_settings(files: &Files, token: Option<&str>, client_ca: Option<&str>) -> DeploymentSettings {
    let peers = ["s0", "s2"].map(|service| {
        let url = format!("https://{}.example:7661", service.replace('s', "d"));
        PeerSettings {
            token_file: token.map(|token| files.path(token)),
            ..files.peer(service, &url, "token")
        }
    });
    DeploymentSettings {
        certificate_file: Some(files.path("server.pem")),
        key_file: Some(files.path("server.key")),
        client_ca_file: client_ca.map(|name| files.path(name)),
        ..settings(peers.into())
    }
}

/// Settings of a caller that trusts this authority and presents this certificate.
fn caller_settings(
    files: &Files,
    at: &ListenHandle,
    ca: &str,
    shows: Option<&str>,
) -> PeerSettings {
    let url = format!("https://localhost:{}", at.address().port());
    PeerSettings {
        ca_file: Some(files.path(ca)),
        certificate_file: shows.map(|name| files.path(&format!("{name}.pem"))),
        key_file: shows.map(|name| files.path(&format!("{name}.key"))),
        ..files.peer("s1", &url, "token")
    }
}

async fn call_watch(settings: PeerSettings, from: &str) -> Result<(), PeerFailure> {
    let peers = caller(settings);
    peers.watch(&peer("s1"), watch(from)).await.map(drop)
}

#[tokio::test]
async fn g01_a_token_is_sent_only_to_a_server_with_a_trusted_certificate() {
    let files = files();
    let listening = serve(
        FakeEngine::new(),
        &tls_settings(&files, Some("token"), None),
    )
    .await;
    call_watch(caller_settings(&files, &listening, "ca.pem", None), "s0")
        .await
        .unwrap();
    let failure = call_watch(caller_settings(&files, &listening, "other.pem", None), "s0").await;
    let failure = failure.unwrap_err();
    assert!(failure.message.contains("certificate"), "{failure}");
    let plain = PeerSettings {
        url: format!("http://{}", listening.address()),
        ca_file: None,
        ..caller_settings(&files, &listening, "ca.pem", None)
    };
    assert!(call_watch(plain, "s0").await.is_err());
    let mut system = caller_settings(&files, &listening, "ca.pem", None);
    system.ca_file = None;
    assert!(call_watch(system, "s0").await.is_err());
    listening.stop().await;
}

#[tokio::test]
async fn g01_with_mutual_tls_only_peers_with_a_trusted_certificate_are_served() {
    let files = files();
    let control = FakeEngine::new();
    let listening = serve(control.clone(), &tls_settings(&files, None, Some("ca.pem"))).await;
    let shows = |name| PeerSettings {
        token_file: None,
        ..caller_settings(&files, &listening, "ca.pem", name)
    };
    call_watch(shows(Some("d0")), "s0").await.unwrap();
    call_watch(shows(Some("d2")), "s2").await.unwrap();
    assert_eq!(control.count(), 2);
    for (name, from) in [(None, "s0"), (Some("forged"), "s0")] {
        let failure = call_watch(shows(name), from).await.unwrap_err();
        assert!(
            !failure.message.contains("401"),
            "the TLS handshake must fail: {failure}"
        );
        let probed = caller(shows(name)).probe(&peer("s1")).await;
        assert!(probed.is_err(), "a probe was served without a certificate");
    }
    // The certificates are trusted, but are those of another peer, or of no peer.
    for (name, from) in [("d0", "s2"), ("d2", "s0"), ("server", "s0")] {
        let failure = call_watch(shows(Some(name)), from).await.unwrap_err();
        assert!(failure.message.contains("401 Unauthorized"), "{failure}");
    }
    assert_eq!(control.count(), 2);
    listening.stop().await;
}

#[tokio::test]
async fn g01_a_certificate_does_not_replace_a_configured_token() {
    let files = files();
    files.write("wrong", "tok-Wrong");
    let settings = tls_settings(&files, Some("token"), Some("ca.pem"));
    let listening = serve(FakeEngine::new(), &settings).await;
    let shows = |token| PeerSettings {
        token_file: Some(files.path(token)),
        ..caller_settings(&files, &listening, "ca.pem", Some("d0"))
    };
    call_watch(shows("token"), "s0").await.unwrap();
    let failure = call_watch(shows("wrong"), "s0").await.unwrap_err();
    assert!(failure.message.contains("401 Unauthorized"), "{failure}");
    listening.stop().await;
}

#[tokio::test]
async fn g01_an_unusable_file_is_reported_with_its_configuration_key() {
    let files = files();
    files.write("no.pem", "secret");
    let at = files.path("no.pem").display().to_string();
    let listen_error = async |change: fn(&mut DeploymentSettings, &Files)| {
        let mut settings = tls_settings(&files, Some("token"), Some("ca.pem"));
        change(&mut settings, &files);
        let refused = listen(&settings, FakeEngine::new()).await.unwrap_err();
        refused.to_string().replace(&at, "no.pem")
    };
    assert_eq!(
        listen_error(|it, files| it.certificate_file = Some(files.path("no.pem"))).await,
        "deployment.certificate_file: no.pem holds no PEM certificate"
    );
    assert_eq!(
        listen_error(|it, files| it.key_file = Some(files.path("no.pem"))).await,
        "deployment.key_file: no.pem holds no PEM private key"
    );
    let message = listen_error(|it, _| it.client_ca_file = Some("/nowhere".into())).await;
    assert!(
        message.starts_with("deployment.client_ca_file: /nowhere cannot be read"),
        "{message}"
    );
    // The key belongs to another certificate.
    let message = listen_error(|it, files| it.key_file = Some(files.path("d0.key"))).await;
    assert!(
        message.starts_with("deployment.certificate_file: "),
        "{message}"
    );
    let one = PeerSettings {
        ca_file: Some(files.path("no.pem")),
        ..files.peer("s1", "https://localhost:1", "token")
    };
    let refused = HttpPeers::new(&[one], Limits::default()).err().unwrap();
    assert_eq!(
        refused.to_string().replace(&at, "no.pem"),
        "deployment.peers[0].ca_file: no.pem holds no PEM certificate"
    );
}
