//! Time and randomness. A simulation replaces both: the time by tokio's clock, and the randomness by a seeded
//! generator.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

/// The time of day and a random generator. A clock is cheap to clone, and clones share both.
///
/// The host's clock may be set while the engine runs. Due times are stored as times of day, so if the clock
/// were set back, everything would stop until the clock had caught up, and if it were set forward, everything
/// would be due at once. This clock therefore never goes back: it waits at half speed for a host's clock that
/// is behind, and catches up with one that is ahead at `SPEED_MAX` times the speed.
///
/// In a simulation the time follows tokio's (paused) clock from a fixed start, so that sleeping and the wall
/// clock agree, and the random generator is seeded.
#[derive(Clone, Debug)]
pub struct Clock {
    time: Time,
    dice: Arc<Mutex<fastrand::Rng>>,
}

/// The function that returns the host's time.
type Host = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// At this speed, the clock needs about a minute to catch up with a host's clock that was set forward by an hour.
const SPEED_MAX: i32 = 60;
/// The clock follows a host's clock at once up to this difference, because clocks drift by no more than this.
const FOLLOWED: TimeDelta = TimeDelta::seconds(1);

#[derive(Clone)]
enum Time {
    /// The host's clock, the time that was last returned, and the instant at which it was returned.
    Host(Host, Arc<Mutex<(DateTime<Utc>, Instant)>>),
    Simulated(DateTime<Utc>, Instant),
    Stopped(Arc<Mutex<DateTime<Utc>>>),
}

impl std::fmt::Debug for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Host(..) => "Host",
            Self::Simulated(..) => "Simulated",
            Self::Stopped(_) => "Stopped",
        })
    }
}

/// Returns the time, computed from the host's clock and from the duration since the last call.
fn steady(last: DateTime<Utc>, passed: Duration, host: DateTime<Utc>) -> DateTime<Utc> {
    let passed = TimeDelta::from_std(passed).unwrap_or(TimeDelta::MAX);
    let Some(expected) = last.checked_add_signed(passed) else {
        return last;
    };
    if (host - expected).abs() <= FOLLOWED {
        return host.max(last);
    }
    match host < expected {
        true => host.max(last + passed / 2),
        false => host.min(last.checked_add_signed(passed * SPEED_MAX).unwrap_or(host)),
    }
}

impl Clock {
    fn new(time: Time, dice: fastrand::Rng) -> Self {
        let dice = Arc::new(Mutex::new(dice));
        Self { time, dice }
    }

    pub fn system() -> Self {
        Self::following(Arc::new(Utc::now))
    }

    /// Makes a clock that follows a host's clock.
    pub fn following(host: Host) -> Self {
        let last = Arc::new(Mutex::new((host(), Instant::now())));
        Self::new(Time::Host(host, last), fastrand::Rng::new())
    }

    /// Makes a clock that follows the clock of the tokio runtime in which this function is called.
    pub fn simulated(start: DateTime<Utc>, seed: u64) -> Self {
        let time = Time::Simulated(start, Instant::now());
        Self::new(time, fastrand::Rng::with_seed(seed))
    }

    /// Makes a clock that stays at this time until it is set.
    pub fn stopped_at(at: DateTime<Utc>) -> Self {
        let time = Time::Stopped(Arc::new(Mutex::new(at)));
        Self::new(time, fastrand::Rng::new())
    }

    /// Sets a stopped clock and its clones. Clocks that are not stopped do not change.
    pub fn set(&self, to: DateTime<Utc>) {
        if let Time::Stopped(at) = &self.time {
            *at.lock().unwrap_or_else(PoisonError::into_inner) = to;
        }
    }

    pub fn now(&self) -> DateTime<Utc> {
        match &self.time {
            Time::Host(host, last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                let instant = Instant::now();
                let now = steady(last.0, instant - last.1, host());
                *last = (now, instant);
                now
            }
            Time::Simulated(start, origin) => *start + origin.elapsed(),
            Time::Stopped(at) => *at.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Returns a number in `0.0..1.0`, for jitter.
    pub fn chance(&self) -> f64 {
        self.dice
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .f64()
    }

    /// Returns a new id that sorts by time (UUID version 7), reproducible in a simulation.
    pub fn new_id(&self) -> String {
        let mut random = [0u8; 10];
        self.dice
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill(&mut random);
        let millis = u64::try_from(self.now().timestamp_millis()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &random)
            .into_uuid()
            .to_string()
    }
}
