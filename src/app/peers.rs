//! The other deployments of the settings: the client that calls them, and the listener for their calls.

use std::sync::Arc;

use crate::control::Control;
use crate::domain::kinds::Source;
use crate::engine::Neighbours;
use crate::frontends::cli::Failure;
use crate::frontends::offline::doctor::PeerFacts;
use crate::peers::{HttpPeers, Limits, ListenError, ListenHandle, Peer, listen as listen_for};
use crate::system::config::{DeploymentSettings, PeerSettings};

/// The part of this process's engine in a practice scenario with deployments: the engine's settings, its kinds in
/// addition to those of clouds, and its client for the other deployments.
pub(super) type ScenePart = (DeploymentSettings, Vec<Source>, Neighbours);

/// Returns the engine's view of the other deployments; a deployment without peers may still refer to its own
/// resources.
pub(super) fn neighbours(
    deployment: Option<&DeploymentSettings>,
) -> Result<Option<Neighbours>, Failure> {
    let Some(deployment) = deployment else {
        return Ok(None);
    };
    let advice = "Correct the settings, or the file that they name; `gone doctor` says more.";
    let peers = HttpPeers::new(&deployment.peers, Limits::default())
        .map_err(Failure::usage_of("prepare to call the peers", advice))?;
    Ok(Some(Neighbours {
        home: deployment.deployment(),
        peers: Arc::new(peers),
        heartbeat: deployment.heartbeat,
    }))
}

/// Listens for peers; without peers it opens no port.
pub(super) async fn listen(
    deployment: &DeploymentSettings,
    control: &Arc<dyn Control>,
) -> Result<Option<ListenHandle>, Failure> {
    if deployment.peers.is_empty() {
        return Ok(None);
    }
    let listening = listen_for(deployment, control.clone()).await;
    listening.map(Some).map_err(|error| {
        let advice = match error {
            ListenError::Listen { .. } => {
                "Stop the program that listens there, or give [deployment] listen another address."
            }
            ListenError::InTheClear { .. } | ListenError::Tls(_) => {
                "Correct [deployment] in the settings, or the file that it names."
            }
        };
        Failure::usage("listen for the peers", error.to_string(), advice)
    })
}

/// Returns the facts for `gone doctor`: asks all peers at once.
pub(super) async fn facts(deployment: &DeploymentSettings) -> Vec<PeerFacts> {
    let peers = HttpPeers::new(&deployment.peers, Limits::default());
    let peers = peers.map_err(|error| error.to_string());
    let facts = deployment.peers.iter().map(async |settings| {
        let peer = Peer::from(settings);
        let answer = match &peers {
            Ok(peers) => peers.probe(&peer).await.map_err(|failure| failure.message),
            Err(why) => Err(why.clone()),
        };
        PeerFacts {
            peer: peer.to_string(),
            url: settings.url.clone(),
            known_by: known_by(settings),
            answer,
        }
    });
    futures_util::future::join_all(facts).await
}

fn known_by(settings: &PeerSettings) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(file) = &settings.token_file else {
        return "its certificate".to_owned();
    };
    let shown = file.display();
    match std::fs::metadata(file) {
        Ok(found) => format!("{shown} (mode {:03o})", found.permissions().mode() & 0o777),
        Err(error) => format!("{shown} ({error})"),
    }
}
