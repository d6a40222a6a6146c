//! Octavia v2 of one region.
use chrono::{DateTime, Utc};

use super::Caller;
use super::neutron::Neutron;
use super::region::{self, Outcome};
use super::wire::{Call, Refusal};

/// One region's load-balancer service.
pub(super) struct Octavia;

/// What a call changed.
#[derive(Default)]
pub(super) struct Changes;

impl Octavia {
    pub(super) fn new(_seed: u64) -> Self {
        Self
    }

    /// Ends what was pending until `now`.
    pub(super) fn settle(&mut self, _neutron: &mut Neutron, _now: DateTime<Utc>) {}

    pub(super) fn handle(
        &mut self,
        _call: &Call<'_>,
        _caller: Option<&Caller>,
        _neutron: &mut Neutron,
        _now: DateTime<Utc>,
    ) -> Outcome {
        Outcome {
            answer: Refusal::not_found("Not Found", "Not Found").octavia(),
            changes: region::Changes::default(),
        }
    }

    pub(super) fn roll_back(&mut self, _changes: Changes) {}

    pub(super) fn revive(&mut self, _changes: Changes, _as_new: bool) {}
}
