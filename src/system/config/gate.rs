//! `[[gate]]`: a reverse proxy in front of one service of one site.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::checks::{EMPTY, ZERO, first_wrong};
use super::duration;
use crate::domain::model::Site;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSettings {
    /// The address at which clients reach the gate. Port 0 takes a free port.
    pub listen: SocketAddr,
    pub upstream: Upstream,
    /// The kind of clients whose requests come through the gate (T4).
    #[serde(default)]
    pub source: GateSource,
    /// A header by which a `user` gate recognizes requests of a local site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Roles that may cascade into resources of the caller's own project (P7).
    #[serde(default = "cascade_roles")]
    pub cascade_roles: Vec<String>,
    /// Roles that may cascade into any resource, with a token of the scope that `admin_domains` describes.
    #[serde(default = "admin_roles")]
    pub admin_roles: Vec<String>,
    /// Ids of domains: tokens for their projects may have an admin role at this gate. Tokens for the system, and for
    /// projects in the domain of the engine's own login, always may (P13).
    #[serde(default)]
    pub admin_domains: Vec<String>,
    /// How long the answer to a plain DELETE of a resource with copies waits for the end of the deletion.
    #[serde(default = "plain_wait", with = "duration")]
    pub plain_wait: Duration,
    #[serde(default)]
    pub limits: GateLimits,
}

/// Limits for the requests of a gate's clients, and for the gate's wait for its upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GateLimits {
    /// Maximum number of connections, at most half of them for one client. When all are taken, a connection that
    /// waits for its client gives way to a new one. Each connection may have another one to the upstream.
    pub connections: usize,
    /// Maximum size of a request's line and headers, in bytes. A scoped token alone has one or two thousand.
    pub head_bytes: usize,
    /// A client's connection ends if for this long the client sends no complete head, nothing more of a body
    /// or no next request, or takes nothing of an answer.
    #[serde(with = "duration")]
    pub head_timeout: Duration,
    /// How long the upstream may take to begin an answer. An import or a large list takes minutes.
    #[serde(with = "duration")]
    pub answer_timeout: Duration,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            head_bytes: 64 << 10,
            head_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(300),
        }
    }
}

/// The smallest buffer for heads that hyper allows.
const HEAD_BYTES_MIN: usize = 8 << 10;
const HEAD_BYTES_MAX: usize = 1 << 20;

/// The service that a gate protects, as its cloud's catalog names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// A name in `clouds.yaml`.
    pub cloud: String,
    pub region: String,
    /// The service's type: `network`, `image`, `load-balancer`.
    pub service: String,
}

impl Upstream {
    pub fn site(&self) -> Site {
        Site::region(&self.cloud, &self.region)
    }
}

/// The kind of clients that read and write through a gate.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GateSource {
    #[default]
    User,
    /// A site that copies the resources that it reads.
    Local,
    /// The services of the site itself, and other clients that must see everything.
    Central,
}

impl GateSource {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A header by which requests at a `user` gate count as those of a `local` site. It has no other effect (T18).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// The header whose value must be `local`.
    pub header: String,
    /// The only networks from which the header counts.
    pub from: Vec<IpNet>,
}

fn cascade_roles() -> Vec<String> {
    vec!["member".to_owned()]
}

fn admin_roles() -> Vec<String> {
    vec!["admin".to_owned()]
}

fn plain_wait() -> Duration {
    Duration::from_secs(30)
}

pub(super) fn first_nonsense(gates: &[GateSettings]) -> Option<(String, String)> {
    gates.iter().enumerate().find_map(|(position, gate)| {
        let taken = |other: &GateSettings| other.listen == gate.listen && gate.listen.port() != 0;
        let (upstream, limits) = (&gate.upstream, &gate.limits);
        let has_no_network = gate.trust.as_ref().is_some_and(|it| it.from.is_empty());
        let settings = [
            (
                gates.iter().take(position).any(taken),
                "listen",
                "is another gate's address already",
            ),
            (upstream.cloud.is_empty(), "upstream.cloud", EMPTY),
            (upstream.region.is_empty(), "upstream.region", EMPTY),
            (upstream.service.is_empty(), "upstream.service", EMPTY),
            (
                limits.connections == 0,
                "limits.connections",
                "must be at least 1",
            ),
            (
                !(HEAD_BYTES_MIN..=HEAD_BYTES_MAX).contains(&limits.head_bytes),
                "limits.head_bytes",
                "must be from 8192 to 1048576",
            ),
            (limits.head_timeout.is_zero(), "limits.head_timeout", ZERO),
            (
                limits.answer_timeout.is_zero(),
                "limits.answer_timeout",
                ZERO,
            ),
            (
                gate.trust.is_some() && gate.source != GateSource::User,
                "trust",
                "has an effect only if source is \"user\": remove it, or change source",
            ),
            (
                has_no_network,
                "trust.from",
                "needs at least one network, such as 10.0.0.0/8",
            ),
        ];
        first_wrong(&format!("gate[{position}]."), settings)
    })
}
