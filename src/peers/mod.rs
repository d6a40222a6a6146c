//! The port to other deployments, and their protocol over HTTP (`/peer/v1`).
//!
//! Three calls, all idempotent: an importer keeps a watch (and by it hears of what is being deleted), an
//! owner asks what points at it, and an importer hints that asking is worth it. Whatever is lost, late,
//! doubled or out of order costs time and nothing else: both sides ask for what they do not know, and
//! an answer counts only for what it says it is about ([`Answers::check`](crate::domain::peers::Answers)).

use std::fmt;

use async_trait::async_trait;

use crate::domain::peers::{Answers, Deployment, News, Question, Watch};

/// How another deployment is found: of these there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    pub service: String,
    pub region: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.region)
    }
}

impl From<&Deployment> for Peer {
    fn from(deployment: &Deployment) -> Self {
        Self {
            service: deployment.service.clone(),
            region: deployment.region.clone(),
        }
    }
}

/// Other deployments. None of these calls is ever taken for an answer when it fails.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Those that are configured, in a fixed order.
    fn known(&self) -> Vec<Peer>;

    /// What is new at an owner; waits there for as long as the watch says.
    async fn watch(&self, peer: &Peer, watch: Watch) -> Result<News, PeerFailure>;

    /// What at an importer points at resources of ours.
    async fn ask(&self, peer: &Peer, question: Question) -> Result<Answers, PeerFailure>;

    /// Tells an owner that asking again is worth it. If it is lost, the owner's poll finds out.
    async fn hint(&self, peer: &Peer, from: Deployment) -> Result<(), PeerFailure>;
}

/// What was tried, on what, and why it failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PeerFailure {
    pub message: String,
}

impl PeerFailure {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}
