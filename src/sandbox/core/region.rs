//! One region: the rows of its services, and how fast it answers.
//!
//! A call takes effect the moment it arrives; only its answer is slow. `parallel` workers serve calls in the order of
//! arrival, a call takes `latency_ms` and the delay of a fault, and at most `per_second` calls begin in a second. So an
//! answer leaves `delay` after the arrival, and the delay depends only on this call and the calls before: the server
//! sleeps for that time, a simulation advances its paused clock.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::options::WorldOptions;
use super::resource::{self, Api};
use super::row::Course;
use super::session::{Rules, Session};
use super::store::{Store, Undo};
use super::wire::{Answer, Call, Caller, Refusal, Result, refuse_if};

pub(crate) struct Region {
    pub(crate) name: String,
    pub(crate) store: Store,
    rules: Rules,
    options: WorldOptions,
    pub(crate) pace: Pace,
}

impl Region {
    pub(crate) fn new(
        name: &str,
        seed: u64,
        options: WorldOptions,
        services: &[&'static Api],
    ) -> Self {
        let kinds = services.iter().flat_map(|api| &api.tables.kinds);
        let rules = services.iter().flat_map(|api| api.hooks);
        Self {
            name: name.to_owned(),
            store: Store::new(kinds, seed),
            rules: rules.map(|(kind, hooks)| (*kind, hooks)).collect(),
            options,
            pace: Pace::default(),
        }
    }

    pub(crate) fn session(&mut self, caller: Caller, now: DateTime<Utc>) -> Session<'_> {
        Session {
            store: &mut self.store,
            rules: &self.rules,
            options: &self.options,
            caller,
            now,
            if_match: None,
            course: None,
            committed: Vec::new(),
            with_contents: false,
        }
    }

    /// Ends the pending changes that are due by `now`.
    pub(crate) fn settle(&mut self, now: DateTime<Utc>) {
        while let Some((at, kind, id)) = self.store.first_due(now) {
            self.session(Caller::admin_of(""), at).settle(kind, id);
        }
    }

    /// Returns the answer to a call, and the changes that it made, so that a fault can roll them back or revive
    /// the rows that the call deleted. `caller` is `None` for a missing or bad token. `course` is the course of the
    /// changes that the call begins.
    pub(crate) fn handle(
        &mut self,
        api: &'static Api,
        call: &Call<'_>,
        caller: Option<Caller>,
        course: Option<Course>,
        now: DateTime<Utc>,
    ) -> (Answer, Vec<Undo>) {
        if let Some(answer) = api.versions(call) {
            return (answer, Vec::new());
        }
        let Some(caller) = caller else {
            return ((api.refuse)(Refusal::unauthorized(), call), Vec::new());
        };
        let work = |session: &mut Session<'_>| {
            session.course = course;
            resource::route(session, api, call)
        };
        let (result, changes) = self.transact(caller, now, work);
        let answer = result.unwrap_or_else(|refusal| (api.refuse)(refusal, call));
        (answer, changes)
    }

    /// Runs `work`, and returns its result and its changes. If `work` fails, its changes are rolled back, except for
    /// those that it has committed.
    pub(crate) fn transact<T, E>(
        &mut self,
        caller: Caller,
        now: DateTime<Utc>,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, E>,
    ) -> (Result<T, E>, Vec<Undo>) {
        self.store.record();
        let mut session = self.session(caller, now);
        let result = work(&mut session);
        let mut changes = session.committed;
        let recorded = self.store.recorded();
        if result.is_ok() {
            changes.extend(recorded);
        } else {
            self.store.roll_back(recorded);
        }
        (result, changes)
    }
}

/// The body of `PUT /sandbox/v1/limits`. A missing or zero value means no limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// The region that is limited; all regions when missing.
    pub(crate) region: Option<String>,
    latency_ms: u32,
    parallel: u32,
    per_second: f64,
}

impl Limits {
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_wrong = self.per_second < 0.0 || !self.per_second.is_finite();
        refuse_if(is_wrong, || "per_second: must be 0 or more".to_owned())
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

    /// Returns the delay of the answer to a call that arrives at `now`. `extra` lengthens the time that the call takes.
    pub(crate) fn admit(&mut self, now: DateTime<Utc>, extra: Duration) -> Duration {
        let extra = TimeDelta::from_std(extra).unwrap_or(TimeDelta::MAX);
        let mut start = self.next.map_or(now, |next| next.max(now));
        let parallel = self.limits.parallel as usize;
        while parallel > 0
            && self.busy.len() >= parallel
            && let Some(Reverse(free)) = self.busy.pop()
        {
            start = start.max(free);
        }
        if self.limits.per_second > 0.0 {
            let apart = TimeDelta::nanoseconds((1e9 / self.limits.per_second) as i64);
            self.next = start.checked_add_signed(apart);
        }
        let work = TimeDelta::milliseconds(self.limits.latency_ms.into());
        let work = work.checked_add(&extra).unwrap_or(TimeDelta::MAX);
        let end = start.checked_add_signed(work).unwrap_or(start);
        if parallel > 0 {
            self.busy.push(Reverse(end));
        }
        (end - now).to_std().unwrap_or_default()
    }
}
