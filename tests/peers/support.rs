//! Deployments of the services `s0`, `s1`, …, with tokens in files, and peers that send a fixed answer.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gone::control::Control;
use gone::domain::model::{KindName, ResourceKey, Site};
use gone::domain::peers::{ClearanceRequest, Deployment, Question, Watch};
use gone::peers::{HttpPeers, Limits, ListenHandle, Peer, listen};
use gone::system::config::{DeploymentSettings, PeerSettings, parse};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The token of the tests; no other text contains it.
pub const TOKEN: &str = "tok-Wb5Qz8Kd2";
/// Limit for everything that a test waits for. Even a busy machine needs less.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub fn deployment(service: &str) -> Deployment {
    Deployment {
        name: service.replace('s', "d"),
        service: service.to_owned(),
        region: "r".to_owned(),
    }
}

pub fn peer(service: &str) -> Peer {
    Peer::from(&deployment(service))
}

/// A folder for tokens, certificates and keys.
pub struct Files(TempDir);

impl Files {
    pub fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("token", TOKEN);
        files
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that only its owner can read.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        write_private(&path, text);
        path
    }

    /// The settings of a peer whose token is in the file `token`.
    pub fn peer(&self, service: &str, url: &str, token: &str) -> PeerSettings {
        PeerSettings {
            url: url.to_owned(),
            service: service.to_owned(),
            region: "r".to_owned(),
            name: None,
            sites: Vec::new(),
            token_file: Some(self.path(token)),
            ca_file: None,
            certificate_file: None,
            key_file: None,
        }
    }
}

pub fn write_private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, private).unwrap();
}

/// The settings of the deployment `d1`, which listens on a free port.
pub fn settings(peers: Vec<PeerSettings>) -> DeploymentSettings {
    let text = "[deployment]\nname = 'd1'\nservice = 's1'\nregion = 'r'\nlisten = '127.0.0.1:0'";
    let settings = parse(text, Path::new("c.toml")).unwrap();
    DeploymentSettings {
        peers,
        ..settings.deployment.unwrap()
    }
}

pub async fn serve(control: Arc<dyn Control>, settings: &DeploymentSettings) -> ListenHandle {
    listen(settings, control).await.unwrap()
}

/// A caller with one peer, `s1`.
pub fn caller(settings: PeerSettings) -> HttpPeers {
    HttpPeers::new(&[settings], Limits::default()).unwrap()
}

pub fn watch(from: &str) -> Watch {
    Watch {
        from: deployment(from),
        kinds: [KindName::new("rx")].into(),
        ledger: "l1".to_owned(),
        after: 7,
        wait_ms: 0,
    }
}

pub fn question(from: &str) -> Question {
    Question {
        from: deployment(from),
        ledger: "l0".to_owned(),
        seq: 3,
        about: vec![clearance_request("rx-1")],
    }
}

pub fn clearance_request(id: &str) -> ClearanceRequest {
    ClearanceRequest {
        key: ResourceKey {
            site: Site::Deployment { name: "d0".into() },
            kind: KindName::new("rx"),
            id: id.to_owned(),
        },
        deletion: Some("del-1".to_owned()),
        incarnation: 1,
        root: "d0/del-1".to_owned(),
    }
}

/// Starts a peer that sends these bytes as the answer to every request, and then closes the connection. Returns its
/// URL.
pub async fn stub(answer: impl Into<Vec<u8>>) -> String {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            if read_request(&mut stream).await {
                // The caller may hang up before it has read everything.
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    url
}

/// Reads one request with a small body. Returns whether it is complete.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(n @ 1..) => request.extend_from_slice(&buffer[..n]),
            _ => return false,
        }
        if request.ends_with(b"}") || request.starts_with(b"GET") {
            return true;
        }
    }
}

/// The bytes of an answer with this protocol's headers.
pub fn answer(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ngone-protocol: 1\r\ncontent-type: application/json\r\n{headers}\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
