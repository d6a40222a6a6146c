//! One region: its services behind one function, and how fast they answer.
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::Caller;
use super::glance::{self, Glance};
use super::neutron::{self, Neutron};
use super::octavia::{self, Octavia};
use super::pace::Pace;
use super::wire::{Answer, Call, Refusal};

/// A service of a region. Keystone is not among them: all regions share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Service {
    #[default]
    Network,
    LoadBalancer,
    Image,
}

impl Service {
    pub(super) const ALL: [Self; 3] = [Self::Network, Self::LoadBalancer, Self::Image];

    /// Returns its type in the catalog, which is also its path below the region's.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::LoadBalancer => "load-balancer",
            Self::Image => "image",
        }
    }

    /// Returns the path at which its API begins.
    pub(super) fn root(self) -> &'static str {
        match self {
            Self::Network => "/v2.0",
            Self::LoadBalancer => "/v2.0/lbaas",
            Self::Image => "/v2",
        }
    }

    /// Returns its name in the catalog.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Network => "neutron",
            Self::LoadBalancer => "octavia",
            Self::Image => "glance",
        }
    }

    /// Puts a refusal into the service's own shape.
    pub(super) fn refuse(self, refusal: Refusal, call: &Call<'_>) -> Answer {
        match self {
            Self::Network => refusal.neutron(),
            Self::LoadBalancer => refusal.octavia(),
            Self::Image => glance::refuse(refusal, call),
        }
    }
}

pub(super) struct Region {
    pub(super) name: String,
    pub(super) neutron: Neutron,
    pub(super) octavia: Octavia,
    pub(super) glance: Glance,
    pub(super) pace: Pace,
}

/// The changes that a call made, so that a fault can roll them back or revive what the call deleted. A
/// balancer changes its network service too: its VIP's port.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) network: neutron::Changes,
    pub(super) load_balancer: octavia::Changes,
    pub(super) image: glance::Changes,
}

pub(super) struct Outcome {
    pub(super) answer: Answer,
    pub(super) changes: Changes,
}

impl Region {
    pub(super) fn new(name: &str, neutron: Neutron, octavia: Octavia, glance: Glance) -> Self {
        Self {
            name: name.to_owned(),
            neutron,
            octavia,
            glance,
            pace: Pace::default(),
        }
    }

    /// Completes everything that was due by `now` and needs no call.
    pub(super) fn settle(&mut self, now: DateTime<Utc>) {
        self.octavia.settle(&mut self.neutron, now);
    }

    /// `caller` is `None` for a missing or bad token.
    pub(super) fn handle(
        &mut self,
        service: Service,
        call: &Call<'_>,
        caller: Option<&Caller>,
        now: DateTime<Utc>,
    ) -> Outcome {
        match service {
            Service::Network => self.neutron.handle(call, caller, now),
            Service::LoadBalancer => self.octavia.handle(call, caller, &mut self.neutron, now),
            Service::Image => self.glance.handle(call, caller, now),
        }
    }

    pub(super) fn roll_back(&mut self, changes: Changes) {
        self.neutron.roll_back(changes.network);
        self.octavia.roll_back(changes.load_balancer);
        self.glance.roll_back(changes.image);
    }

    /// Revives the resources that `changes` deleted, under new ids if `as_new`.
    pub(super) fn revive(&mut self, changes: Changes, as_new: bool) {
        self.neutron.revive(changes.network, as_new);
        self.octavia
            .revive(changes.load_balancer, as_new, &mut self.neutron);
        self.glance.revive(changes.image, as_new);
    }
}
