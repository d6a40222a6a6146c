//! The port to other deployments, and their protocol over HTTP (`/peer/v1`).
//!
//! Three calls, all idempotent: an importer keeps a watch (and by it hears of what is being deleted), an
//! owner asks what points at it, and an importer hints that asking is worth it. Whatever is lost, late,
//! doubled or out of order costs time and nothing else: both sides ask for what they do not know, and
//! an answer counts only for what it says it is about ([`Answers::check`](crate::domain::peers::Answers)).
//!
//! # The protocol
//!
//! | call | body | answer |
//! |---|---|---|
//! | `GET /peer/v1` | | 200 `{"protocol": 1}`; the only one without authentication |
//! | `POST /peer/v1/watch` | [`Watch`] | 200 [`News`], after `wait_ms` (at most a minute) if nothing is new |
//! | `POST /peer/v1/points-at` | [`Question`] | 200 [`Answers`] |
//! | `POST /peer/v1/hint` | `{"from": `[`Deployment`]`}` | 204 |
//!
//! Bodies are JSON. Fields that are not known are ignored, so that a later version may add some; one that
//! is missing is an error. Requests weigh at most 8 MiB, answers 64 MiB.
//!
//! **Version.** Requests and answers, refusals too, carry `gone-protocol: 1`. What does not is a proxy's or
//! somebody else's, and means nothing. A protocol that cannot be understood so gets another path
//! (`/peer/v2`), beside this one as long as there are deployments that know no other.
//!
//! **Who calls.** Each message says in `from` which deployment sends it; its service and region name an
//! entry of `[deployment] peers`. Where that has a `token_file`, `Authorization: Bearer` must hold the same
//! token: one secret for two deployments, in both directions. Where it has none, the certificate that the
//! caller has shown must be for the host of the entry's URL, and of the authority in `client_ca_file`. With
//! that, nobody else gets as far as a request.
//!
//! **What a message may say** is bounded by whom it is from (P13). A peer has one name: the one that its
//! entry in the settings says, or else the one that it says itself and that no other has. As an importer
//! it keeps that name until an admin releases it. It speaks of, and asks about, resources of its own only: those that it keeps
//! (`@NAME`), and those of its service in regions of clouds that are called as its own or that its entry
//! lists in `sites`. It answers with resources that it keeps. A message that says more is refused whole.
//!
//! **Refusals** are RFC 9457 problem documents.
//!
//! | why | status |
//! |---|---|
//! | no `gone-protocol: 1`, or no JSON | 400 |
//! | unknown peer, wrong token, or another's name: always the same words | 401 |
//! | no such path, no such method | 404, 405 |
//! | the body did not come within 10 s, or is too large | 408, 413 |
//! | a field is missing or of the wrong shape, and which; not what a deployment can do | 422 |
//! | in conflict with what is on record (a name that another deployment has) | 409 |
//! | the engine failed, or ends just now | 500, 503 |
//!
//! **Transport.** HTTP/1.1, over TLS but on loopback. Redirects are not followed.

mod admission;
mod calls;
mod client;
mod listen;
mod problem;
mod tls;
mod token;

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::domain::peers::{Answers, Deployment, News, PeerScope, Question, Watch};
use crate::system::config::PeerSettings;
pub use client::{HttpPeers, Limits, SetupError};
pub use listen::{ListenError, ListenHandle, listen};
pub use tls::TlsError;

/// Said by every request and answer.
pub const PROTOCOL_HEADER: &str = "gone-protocol";
pub const PROTOCOL: u32 = 1;

/// The answer to `GET /peer/v1`.
#[derive(Debug, Serialize, Deserialize)]
struct Spoken {
    protocol: u32,
}

/// "Asking me again is worth it."
#[derive(Debug, Serialize, Deserialize)]
struct Hint {
    from: Deployment,
}

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

impl From<&PeerSettings> for Peer {
    fn from(settings: &PeerSettings) -> Self {
        Self {
            service: settings.service.clone(),
            region: settings.region.clone(),
        }
    }
}

/// Other deployments. None of these calls is ever taken for an answer when it fails.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Those that are configured, in a fixed order.
    fn known(&self) -> Vec<Peer>;

    /// What the settings say that a peer may call itself, and speak of.
    fn scope(&self, _peer: &Peer) -> PeerScope {
        PeerScope::default()
    }

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
