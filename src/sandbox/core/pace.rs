//! How fast a region answers.
//!
//! A call takes effect the moment it arrives; only its answer is slow. `parallel` workers serve calls in the
//! order of arrival, each for `latency_ms`, and at most `per_second` calls begin in a second. So an answer
//! leaves `delay` after the arrival, and the delay depends only on the calls before: the server sleeps for
//! it, a simulation advances its paused clock.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

/// The body of `PUT /sandbox/v1/limits`. A missing or zero value means no limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// All regions when missing.
    pub(crate) region: Option<String>,
    latency_ms: u32,
    parallel: u32,
    per_second: f64,
}

impl Limits {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.per_second < 0.0 || !self.per_second.is_finite() {
            return Err("per_second: must be 0 or more".to_owned());
        }
        Ok(())
    }
}

#[derive(Default)]
pub(crate) struct Pace {
    limits: Limits,
    /// The time at which each busy worker becomes free.
    busy: BinaryHeap<Reverse<DateTime<Utc>>>,
    /// The earliest time at which the next call may begin.
    next: Option<DateTime<Utc>>,
}

impl Pace {
    pub(crate) fn set(&mut self, limits: Limits) {
        *self = Self {
            limits,
            ..Self::default()
        };
    }

    /// Returns the delay of the answer to a call that arrives at `now`. `extra` lengthens its work.
    pub(crate) fn admit(&mut self, now: DateTime<Utc>, extra: Duration) -> Duration {
        let extra = TimeDelta::from_std(extra).unwrap_or(TimeDelta::MAX);
        let mut start = now;
        if let Some(next) = self.next {
            start = start.max(next);
        }
        if self.limits.parallel > 0 {
            while self.busy.len() >= self.limits.parallel as usize {
                if let Some(Reverse(free)) = self.busy.pop() {
                    start = start.max(free);
                }
            }
        }
        if self.limits.per_second > 0.0 {
            let apart = TimeDelta::nanoseconds((1e9 / self.limits.per_second) as i64);
            self.next = start.checked_add_signed(apart);
        }
        let work = TimeDelta::milliseconds(self.limits.latency_ms.into());
        let end = start
            .checked_add_signed(work)
            .and_then(|end| end.checked_add_signed(extra))
            .unwrap_or(start);
        if self.limits.parallel > 0 {
            self.busy.push(Reverse(end));
        }
        (end - now).to_std().unwrap_or_default()
    }
}
