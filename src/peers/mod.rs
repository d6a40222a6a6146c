//! The port to other deployments, and their protocol over HTTP (`/peer/v1`).
//!
//! There are three calls besides the one that asks for the version of the protocol, all idempotent: an importer keeps a
//! watch, by which it is notified of deletions; an owner asks which resources refer to its own; and an importer hints
//! that the owner should ask again. A message that is lost, late, repeated or out of order costs only time: both sides
//! ask for what they do not know, and an answer counts only for the question that it repeats
//! ([`Answers::check`](crate::domain::peers::Answers)).
//!
//! # The protocol
//!
//! | call | body | answer |
//! |---|---|---|
//! | `GET /peer/v1` | | 200 `{"protocol": 1}`; the only one without authentication |
//! | `POST /peer/v1/watch` | [`Watch`] | 200 [`DeletionNotices`], after `wait_ms` (at most 60 s) if nothing is new |
//! | `POST /peer/v1/points-at` | [`Question`] | 200 [`Answers`] |
//! | `POST /peer/v1/hint` | `{"from": `[`Deployment`]`}` | 204 |
//!
//! Bodies are JSON. Unknown fields are ignored, so that a later version may add some; a missing field is an
//! error. Requests have at most 8 MiB, answers 64 MiB.
//!
//! **Version.** Requests and answers, also refusals, carry `gone-protocol: 1`. An answer without this header
//! comes from a proxy or some other server, and does not count. An incompatible protocol gets another path
//! (`/peer/v2`), in addition to this one as long as any deployment knows only this one.
//!
//! **Authentication.** Each message says in `from` which deployment sends it. The sender's service and region select an
//! entry of `[deployment] peers`. If the entry has a `token_file`, `Authorization: Bearer` must carry the same token:
//! one secret for two deployments, in both directions. If the entry has none, the caller's certificate must be for the
//! host of the entry's URL, and be issued by the authority in `client_ca_file`. If there is a `client_ca_file`, a
//! caller without a certificate of that authority cannot send any request.
//!
//! **The permitted content of a message** depends on its sender (P13). A peer has one name: the name in its
//! entry in the settings, or else the name that it gives itself and that no other peer has. As an importer it
//! keeps that name until an admin releases it. Its notices and questions name only its own resources: those
//! that it keeps (`@NAME`), and those of its service in regions of clouds that have the name of its own
//! region or that its entry lists in `sites`. In its answers, the referrers are only
//! resources that it keeps. A message that names any other resource is refused as a whole.
//!
//! **Refusals** are RFC 9457 problem documents.
//!
//! | why | status |
//! |---|---|
//! | no `gone-protocol: 1`, or the body is not JSON | 400 |
//! | unknown peer, wrong token, or the name of another peer: always the same text | 401 |
//! | no such path, or this deployment does not watch the sender; no such method | 404, 405 |
//! | the body did not come within 10 s, or is too large | 408, 413 |
//! | a field is missing or malformed (the answer says which), or the engine cannot act on the message | 422 |
//! | a conflict with the record (a name that another deployment has), or with the notices received so far | 409 |
//! | the engine failed, or is shutting down | 500, 503 |
//!
//! **Transport.** HTTP/1.1, over TLS except on loopback. Redirects are not followed.

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

use crate::domain::peers::{Answers, DeletionNotices, Deployment, PeerScope, Question, Watch};
use crate::system::config::PeerSettings;
pub use crate::system::listener::ListenHandle;
pub use client::{HttpPeers, Limits, SetupError};
pub use listen::{ListenError, listen};
pub use tls::TlsError;

/// The header that every request and answer carries.
pub const PROTOCOL_HEADER: &str = "gone-protocol";
/// The version of the protocol that this program speaks, the value of [`PROTOCOL_HEADER`].
pub const PROTOCOL: u32 = 1;

/// The answer to `GET /peer/v1`.
#[derive(Debug, Serialize, Deserialize)]
struct Spoken {
    protocol: u32,
}

/// A hint of an importer: the owner should ask it again, because its answers may have changed.
#[derive(Debug, Serialize, Deserialize)]
struct Hint {
    from: Deployment,
}

/// The address of a deployment: its service and region. No two deployments have the same one.
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

/// The port to other deployments. A call that fails never counts as an answer.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Lists the configured peers, in a fixed order.
    fn known(&self) -> Vec<Peer>;

    /// Returns the name that the settings require of a peer, and the further regions whose resources it may name.
    fn scope(&self, _peer: &Peer) -> PeerScope {
        PeerScope::default()
    }

    /// Asks an owner for notices. The owner waits for as long as the watch says.
    async fn watch(&self, peer: &Peer, watch: Watch) -> Result<DeletionNotices, PeerFailure>;

    /// Asks an importer which of its resources refer to this deployment's.
    async fn ask(&self, peer: &Peer, question: Question) -> Result<Answers, PeerFailure>;

    /// Hints to an owner that it should ask this deployment again, because the answers may have changed. If the hint is
    /// lost, the owner asks again at its next poll.
    async fn hint(&self, peer: &Peer, from: Deployment) -> Result<(), PeerFailure>;
}

/// A failed call to a peer. The message says why, and for a call that was sent also its method and URL.
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
