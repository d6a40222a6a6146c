//! Glance v2 of one region.
use chrono::{DateTime, Utc};

use super::Caller;
use super::region::{self, Outcome};
use super::wire::{Call, Refusal};

/// One region's image service.
pub(super) struct Glance;

/// What a call changed.
#[derive(Default)]
pub(super) struct Changes;

impl Glance {
    pub(super) fn new(_seed: u64, _keep_ids: bool, _member_reuse: bool) -> Self {
        Self
    }

    pub(super) fn handle(
        &mut self,
        _call: &Call<'_>,
        _caller: Option<&Caller>,
        _now: DateTime<Utc>,
    ) -> Outcome {
        Outcome {
            answer: Refusal::not_found("Not Found", "Not Found").glance(),
            changes: region::Changes::default(),
        }
    }

    pub(super) fn roll_back(&mut self, _changes: Changes) {}

    pub(super) fn revive(&mut self, _changes: Changes, _as_new: bool) {}
}
