//! Over TLS: who is trusted by whom.

use gone::peers::{HttpPeers, Limits, ListenHandle, PeerFailure, Peers as _, listen};
use gone::system::config::{DeploymentSettings, PeerSettings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::fake::Fake;
use crate::support::*;

/// A certificate authority, its PEM and that of whom it vouches for in files.
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

    /// `NAME.pem` and `NAME.key`, for a host.
    fn vouches(&self, files: &Files, name: &str, host: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        files.write(&format!("{name}.pem"), &certificate.pem());
        files.write(&format!("{name}.key"), &key.serialize_pem());
    }
}

/// Files of an authority `ca` and of another, `other`; certificates for `server` and clients.
fn files() -> Files {
    let files = Files::new();
    let ca = Authority::new(&files, "ca");
    ca.vouches(&files, "server", "localhost");
    ca.vouches(&files, "d0", "d0.example");
    ca.vouches(&files, "d2", "d2.example");
    Authority::new(&files, "other").vouches(&files, "forged", "d0.example");
    files
}

/// Behind TLS, with the peers `s0` and `s2`; without a token, these are known by their certificates.
fn secured(files: &Files, token: Option<&str>, client_ca: Option<&str>) -> DeploymentSettings {
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

/// How a caller is set up that trusts an authority, and shows a certificate.
fn to(files: &Files, at: &ListenHandle, ca: &str, shows: Option<&str>) -> PeerSettings {
    let url = format!("https://localhost:{}", at.address().port());
    PeerSettings {
        ca_file: Some(files.path(ca)),
        certificate_file: shows.map(|name| files.path(&format!("{name}.pem"))),
        key_file: shows.map(|name| files.path(&format!("{name}.key"))),
        ..files.peer("s1", &url, "token")
    }
}

async fn calls(settings: PeerSettings, from: &str) -> Result<(), PeerFailure> {
    let peers = caller(settings);
    peers.watch(&peer("s1"), watch(from)).await.map(drop)
}

#[tokio::test]
async fn g01_a_token_goes_to_whom_the_authority_vouches_for() {
    let files = files();
    let listening = serve(Fake::new(), &secured(&files, Some("token"), None)).await;
    calls(to(&files, &listening, "ca.pem", None), "s0")
        .await
        .unwrap();
    let failure = calls(to(&files, &listening, "other.pem", None), "s0").await;
    let failure = failure.unwrap_err();
    assert!(failure.message.contains("certificate"), "{failure}");
    let plain = PeerSettings {
        url: format!("http://{}", listening.address()),
        ca_file: None,
        ..to(&files, &listening, "ca.pem", None)
    };
    assert!(calls(plain, "s0").await.is_err());
    let mut system = to(&files, &listening, "ca.pem", None);
    system.ca_file = None;
    assert!(calls(system, "s0").await.is_err());
    listening.stop().await;
}

#[tokio::test]
async fn g01_with_mutual_tls_only_the_vouched_for_are_heard() {
    let files = files();
    let control = Fake::new();
    let listening = serve(control.clone(), &secured(&files, None, Some("ca.pem"))).await;
    let shows = |name| PeerSettings {
        token_file: None,
        ..to(&files, &listening, "ca.pem", name)
    };
    calls(shows(Some("d0")), "s0").await.unwrap();
    calls(shows(Some("d2")), "s2").await.unwrap();
    assert_eq!(control.count(), 2);
    for (name, from) in [(None, "s0"), (Some("forged"), "s0")] {
        let failure = calls(shows(name), from).await.unwrap_err();
        assert!(!failure.message.contains("401"), "no request: {failure}");
        let probed = caller(shows(name)).probe(&peer("s1")).await;
        assert!(probed.is_err(), "nor this one");
    }
    // Vouched for, but as another; or as no peer at all.
    for (name, from) in [("d0", "s2"), ("d2", "s0"), ("server", "s0")] {
        let failure = calls(shows(Some(name)), from).await.unwrap_err();
        assert!(failure.message.contains("401 Unauthorized"), "{failure}");
    }
    assert_eq!(control.count(), 2);
    listening.stop().await;
}

#[tokio::test]
async fn g01_a_certificate_does_not_stand_for_a_token_that_is_set() {
    let files = files();
    files.write("wrong", "tok-Wrong");
    let settings = secured(&files, Some("token"), Some("ca.pem"));
    let listening = serve(Fake::new(), &settings).await;
    let shows = |token| PeerSettings {
        token_file: Some(files.path(token)),
        ..to(&files, &listening, "ca.pem", Some("d0"))
    };
    calls(shows("token"), "s0").await.unwrap();
    let failure = calls(shows("wrong"), "s0").await.unwrap_err();
    assert!(failure.message.contains("401 Unauthorized"), "{failure}");
    listening.stop().await;
}

#[tokio::test]
async fn g01_a_file_that_cannot_be_used_is_told_with_its_key() {
    let files = files();
    files.write("no.pem", "secret");
    let at = files.path("no.pem").display().to_string();
    let listening = async |change: fn(&mut DeploymentSettings, &Files)| {
        let mut settings = secured(&files, Some("token"), Some("ca.pem"));
        change(&mut settings, &files);
        let refused = listen(&settings, Fake::new()).await.unwrap_err();
        refused.to_string().replace(&at, "no.pem")
    };
    assert_eq!(
        listening(|it, files| it.certificate_file = Some(files.path("no.pem"))).await,
        "deployment.certificate_file: no.pem holds no PEM certificate"
    );
    assert_eq!(
        listening(|it, files| it.key_file = Some(files.path("no.pem"))).await,
        "deployment.key_file: no.pem holds no PEM private key"
    );
    let told = listening(|it, _| it.client_ca_file = Some("/nowhere".into())).await;
    assert!(
        told.starts_with("deployment.client_ca_file: /nowhere cannot be read"),
        "{told}"
    );
    // A key of another certificate.
    let told = listening(|it, files| it.key_file = Some(files.path("d0.key"))).await;
    assert!(told.starts_with("deployment.certificate_file: "), "{told}");
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
