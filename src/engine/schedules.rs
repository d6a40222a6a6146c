//! The settings by which the steps of each kind are retried and verified.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::kinds::Kinds;
use crate::domain::model::KindName;
use crate::domain::policy::{Repeats, Schedule};
use crate::system::config::GcSettings;

pub(super) struct Schedules {
    pub(super) kinds: Arc<Kinds>,
    pub(super) gc: GcSettings,
    pub(super) verify_max: Duration,
}

impl Schedules {
    /// Returns the number of attempts after which a step of this kind is stuck.
    pub(super) fn max_attempts(&self, kind: &KindName) -> u32 {
        let gc = &self.gc;
        let own = gc.kind.get(kind.as_str());
        own.and_then(|own| own.max_attempts)
            .unwrap_or(gc.max_attempts)
    }

    /// Returns the settings by which the steps of a kind are retried and verified.
    pub(super) fn of(&self, kind: &KindName) -> Schedule {
        let gc = &self.gc;
        let own = gc.kind.get(kind.as_str());
        let settles = self
            .kinds
            .get(kind)
            .and_then(|kind| kind.spec.settles.as_ref());
        let usual = settles.map_or(gc.pending_max, |it| {
            Duration::from_secs(60 * it.minutes_max)
        });
        Schedule {
            waits: own
                .and_then(|own| own.schedule.clone())
                .unwrap_or_else(|| gc.schedule.clone()),
            jitter: gc.jitter,
            pending_max: own.and_then(|own| own.pending_max).unwrap_or(usual),
            verify_max: self.verify_max,
            settles: settles.is_some(),
            repeats: settles.and_then(|it| {
                Some(Repeats {
                    every: Duration::from_secs(60 * it.minutes_again?),
                    pending: it.pending.clone(),
                })
            }),
        }
    }
}
