//! `[deployment]`: the deployment of this engine, the service that it offers, and its peers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use super::checks::{EMPTY, ZERO, is_this_machine, nonsense, wrong_url};
use super::duration;
use super::secret::exposed;
use crate::domain::model::Site;
use crate::domain::peers::{Deployment, wrong_deployment_name};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeploymentSettings {
    /// The name that other deployments use for this one, and the site of the resources in its registry.
    pub name: String,
    /// The service whose native kinds this deployment has.
    pub service: String,
    #[serde(default)]
    pub region: String,
    /// The address at which peers reach this deployment. Port 0 takes a free port.
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// How long a watch waits for a notice, and how often an owner asks its importers for clearances without a hint
    /// (G5).
    #[serde(default = "heartbeat", with = "duration")]
    pub heartbeat: Duration,
    /// PEM: the certificate chain that this deployment presents to callers, its own certificate first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// PEM: the authorities that must have signed the certificates of callers (mutual TLS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
    #[serde(default)]
    pub peers: Vec<PeerSettings>,
}

/// Another deployment. It calls this one, and this one calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerSettings {
    /// The URL before `/peer/v1`: https, or http to this machine only.
    pub url: String,
    pub service: String,
    pub region: String,
    /// The name that the peer must use, so that no other peer can take that name before this peer makes its first call.
    /// Without it, the name that the peer gives itself counts, if no other peer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Regions of clouds that the peer manages, and that it may name in addition to those with its own
    /// region's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<Site>,
    /// The file's token is sent to the peer as `Authorization: Bearer`, and the peer must send the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// PEM: the authorities that must have signed the peer's certificate; the system's if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// PEM: the certificate that this deployment presents to the peer (mutual TLS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7661))
}

fn heartbeat() -> Duration {
    Duration::from_secs(30)
}

impl DeploymentSettings {
    pub fn site(&self) -> Site {
        Site::Deployment {
            name: self.name.as_str().into(),
        }
    }

    /// Returns the settings of a deployment without peers.
    pub fn alone(deployment: &Deployment) -> Self {
        Self {
            name: deployment.name.clone(),
            service: deployment.service.clone(),
            region: deployment.region.clone(),
            listen: listen(),
            heartbeat: heartbeat(),
            certificate_file: None,
            key_file: None,
            client_ca_file: None,
            peers: Vec::new(),
        }
    }

    /// Returns the deployment as other deployments name it.
    pub fn deployment(&self) -> Deployment {
        Deployment {
            name: self.name.clone(),
            service: self.service.clone(),
            region: self.region.clone(),
        }
    }
}

impl PeerSettings {
    /// Whether the traffic to the peer stays on this machine.
    pub fn is_local(&self) -> bool {
        Url::parse(&self.url).is_ok_and(|url| url.host().is_some_and(|host| is_this_machine(&host)))
    }

    fn is_secured(&self) -> bool {
        Url::parse(&self.url).is_ok_and(|url| url.scheme() == "https")
    }
}

pub(super) fn first_nonsense(deployment: &DeploymentSettings) -> Option<(String, String)> {
    let DeploymentSettings { name, service, .. } = deployment;
    if let Some(why) = wrong_deployment_name(name) {
        return nonsense("deployment.name", &why);
    }
    if service.is_empty() {
        return nonsense("deployment.service", EMPTY);
    }
    if deployment.heartbeat.is_zero() {
        return nonsense("deployment.heartbeat", ZERO);
    }
    if let Some((key, why)) = wrong_listener(deployment) {
        return nonsense(&format!("deployment.{key}"), why);
    }
    if deployment.region.is_empty() && !deployment.peers.is_empty() {
        let message = "is missing: peers know each other by service and region";
        return nonsense("deployment.region", message);
    }
    (0..deployment.peers.len()).find_map(|position| {
        let (key, why) = wrong_peer(deployment, position)?;
        nonsense(&format!("deployment.peers[{position}].{key}"), &why)
    })
}

fn wrong_listener(deployment: &DeploymentSettings) -> Option<(&'static str, &'static str)> {
    let certificate = deployment.certificate_file.as_deref();
    let half = half_identity(certificate, deployment.key_file.as_deref());
    if half.is_some() {
        return half;
    }
    if deployment.client_ca_file.is_some() && certificate.is_none() {
        let why = "needs certificate_file and key_file: clients show a certificate only over TLS";
        return Some(("client_ca_file", why));
    }
    (certificate.is_none() && !deployment.listen.ip().is_loopback()).then_some((
        "listen",
        "must be an address of this machine alone (127.0.0.1, [::1]) unless certificate_file and \
         key_file are set: tokens must not cross a network in the clear",
    ))
}

fn wrong_peer(deployment: &DeploymentSettings, position: usize) -> Option<(&'static str, String)> {
    let peer = deployment.peers.get(position)?;
    if let Some(why) = wrong_url(&peer.url) {
        return Some(("url", why));
    }
    if peer.url.contains(['?', '#']) {
        return Some((
            "url",
            "must not contain \"?\" or \"#\", because paths are appended to it".to_owned(),
        ));
    }
    for (key, value) in [("service", &peer.service), ("region", &peer.region)] {
        if value.is_empty() {
            return Some((key, EMPTY.to_owned()));
        }
    }
    let is_peer = |service: &str, region: &str| peer.service == service && peer.region == region;
    if is_peer(&deployment.service, &deployment.region) {
        let why = "this is the service and region of this deployment itself";
        return Some(("region", why.to_owned()));
    }
    let mut before = deployment.peers.iter().take(position);
    if let Some(twin) = before.position(|it| is_peer(&it.service, &it.region)) {
        let why = format!("this is the service and region of peers[{twin}] already");
        return Some(("region", why));
    }
    if peer.sites.iter().any(|site| site.cloud().is_none()) {
        let why = "must be regions of clouds, CLOUD/REGION";
        return Some(("sites", why.to_owned()));
    }
    if let Some(name) = &peer.name {
        if let Some(why) = wrong_deployment_name(name) {
            return Some(("name", why));
        }
        let before = deployment.peers.iter().take(position);
        if *name == deployment.name || before.clone().any(|it| it.name.as_ref() == Some(name)) {
            let why = "is the name of this deployment, or of another peer";
            return Some(("name", why.to_owned()));
        }
    }
    if peer.token_file.is_none() && deployment.client_ca_file.is_none() {
        let why = "is missing: without it, or deployment.client_ca_file, anyone could claim to be \
                   this peer";
        return Some(("token_file", why.to_owned()));
    }
    let certificate = peer.certificate_file.as_deref();
    if let Some((key, why)) = half_identity(certificate, peer.key_file.as_deref()) {
        return Some((key, why.to_owned()));
    }
    let for_tls = [
        ("ca_file", &peer.ca_file),
        ("certificate_file", &peer.certificate_file),
    ];
    let unused = for_tls.into_iter().find(|(_, file)| file.is_some());
    let (key, _) = unused.filter(|_| !peer.is_secured())?;
    Some((
        key,
        "has no effect, because the url is http://: remove it, or write https:// in url".to_owned(),
    ))
}

/// Finds a certificate without its key, or a key without its certificate.
fn half_identity(
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> Option<(&'static str, &'static str)> {
    match (certificate, key) {
        (Some(_), None) => Some(("key_file", "is missing: there is a certificate_file")),
        (None, Some(_)) => Some(("certificate_file", "is missing: there is a key_file")),
        _ => None,
    }
}

/// Finds the first secret file that does not exist, or that other users can read. Returns the key of the setting that
/// names the file, and the reason.
pub(super) fn exposed_secret(deployment: &DeploymentSettings) -> Option<(String, String)> {
    let exposed_at = |key: String, file: &Option<PathBuf>| {
        let why = exposed(file.as_deref()?).err()?;
        nonsense(&format!("deployment.{key}"), &why)
    };
    let of_peers = deployment.peers.iter().enumerate().find_map(|(n, peer)| {
        exposed_at(format!("peers[{n}].token_file"), &peer.token_file)
            .or_else(|| exposed_at(format!("peers[{n}].key_file"), &peer.key_file))
    });
    exposed_at("key_file".to_owned(), &deployment.key_file).or(of_peers)
}
