//! The activity of the reconcilers: each records its runs, and front ends list the status of all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use super::lock;
use crate::domain::activity::{Reconciler, ReconcilerError, ReconcilerStatus, SUBJECTS_MAX};
use crate::system::clock::Clock;

/// The activities of an engine's reconcilers.
pub(super) struct Activities {
    clock: Clock,
    activities: Mutex<BTreeMap<Reconciler, Arc<Activity>>>,
}

impl Activities {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            activities: Mutex::default(),
        }
    }

    /// Adds the activity of a reconciler.
    pub(super) fn add(&self, name: Reconciler) -> Arc<Activity> {
        let activity = Arc::new(Activity::new(name, self.clock.clone()));
        lock(&self.activities).insert(name, activity.clone());
        activity
    }

    pub(super) fn statuses(&self) -> Vec<ReconcilerStatus> {
        let activities = lock(&self.activities);
        activities.values().map(|it| it.status()).collect()
    }
}

/// The activity of one reconciler: its runs under way, and its last run, last failure and next run.
pub(super) struct Activity {
    clock: Clock,
    name: Reconciler,
    state: Mutex<State>,
}

struct State {
    /// The subject of each run under way, by the run's number.
    runs: BTreeMap<u64, String>,
    /// Number of runs that have begun so far.
    begun: u64,
    /// Since when the reconciler has been running, or idle.
    since: DateTime<Utc>,
    last_run: Option<(DateTime<Utc>, Duration)>,
    last_error: Option<ReconcilerError>,
    next_run: Option<DateTime<Utc>>,
}

impl Activity {
    fn new(name: Reconciler, clock: Clock) -> Self {
        let state = State {
            runs: BTreeMap::new(),
            begun: 0,
            since: clock.now(),
            last_run: None,
            last_error: None,
            next_run: None,
        };
        Self {
            clock,
            name,
            state: Mutex::new(state),
        }
    }

    /// Begins a run, which ends when the returned value is dropped. `subject` says what the run works on.
    pub(super) fn begin(self: &Arc<Self>, subject: impl Into<String>) -> Run {
        let mut state = lock(&self.state);
        if state.runs.is_empty() {
            state.since = self.clock.now();
        }
        let number = state.begun;
        state.begun += 1;
        state.runs.insert(number, subject.into());
        Run {
            activity: self.clone(),
            number,
            began: Instant::now(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        !lock(&self.state).runs.is_empty()
    }

    /// Number of runs that have begun so far.
    pub(super) fn begun(&self) -> u64 {
        lock(&self.state).begun
    }

    /// Returns the time at which the next run is due. If no time was set, sets it to `after` from now.
    pub(super) fn next_run_or(&self, after: Duration) -> DateTime<Utc> {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        *state.next_run.get_or_insert_with(|| later(now, after))
    }

    /// Sets the time until the next run. [`Duration::MAX`] means that no run is due until something happens.
    pub(super) fn runs_in(&self, wait: Duration) {
        let next = (wait < Duration::MAX).then(|| later(self.clock.now(), wait));
        self.runs_at(next);
    }

    pub(super) fn runs_at(&self, next: Option<DateTime<Utc>>) {
        lock(&self.state).next_run = next;
    }

    /// Records a failure of the reconciler, which front ends show.
    pub(super) fn failed(&self, message: impl ToString) {
        let at = self.clock.now();
        let message = message.to_string();
        lock(&self.state).last_error = Some(ReconcilerError { message, at });
    }

    fn status(&self) -> ReconcilerStatus {
        let state = lock(&self.state);
        let subjects = state.runs.values().filter(|it| !it.is_empty());
        let took = state.last_run.map(|(_, took)| took.as_millis());
        ReconcilerStatus {
            name: self.name,
            running: state.runs.len() as u64,
            subjects: subjects.take(SUBJECTS_MAX).cloned().collect(),
            since: state.since,
            last_run_at: state.last_run.map(|(at, _)| at),
            last_run_ms: took.map(|took| u64::try_from(took).unwrap_or(u64::MAX)),
            last_error: state.last_error.clone(),
            next_run_at: state.next_run,
        }
    }
}

fn later(now: DateTime<Utc>, wait: Duration) -> DateTime<Utc> {
    let wait = TimeDelta::from_std(wait).unwrap_or(TimeDelta::MAX);
    now.checked_add_signed(wait)
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// A run of a reconciler. Dropping it ends the run, also when its task is dropped.
pub(super) struct Run {
    activity: Arc<Activity>,
    number: u64,
    began: Instant,
}

impl Run {
    /// Records a failure of the reconciler, which front ends show. The run continues.
    pub(super) fn failed(&self, message: impl ToString) {
        self.activity.failed(message);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let now = self.activity.clock.now();
        let mut state = lock(&self.activity.state);
        state.runs.remove(&self.number);
        state.last_run = Some((now, self.began.elapsed()));
        if state.runs.is_empty() {
            state.since = now;
        }
    }
}
