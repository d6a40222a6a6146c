//! Time and randomness, both replaceable by a seed.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use tokio::time::Instant;

/// What time it is, and the dice. Cheap to clone; clones share both.
///
/// In a simulation the time follows tokio's (paused) clock from a fixed start, so that sleeping and
/// the wall clock agree, and the dice are seeded.
#[derive(Clone, Debug)]
pub struct Clock {
    time: Time,
    dice: Arc<Mutex<fastrand::Rng>>,
}

#[derive(Clone, Debug)]
enum Time {
    System,
    Simulated(DateTime<Utc>, Instant),
    Standing(Arc<Mutex<DateTime<Utc>>>),
}

impl Clock {
    pub fn system() -> Self {
        Self {
            time: Time::System,
            dice: Arc::new(Mutex::new(fastrand::Rng::new())),
        }
    }

    /// Must be called within a tokio runtime, whose clock it follows.
    pub fn simulated(start: DateTime<Utc>, seed: u64) -> Self {
        Self {
            time: Time::Simulated(start, Instant::now()),
            dice: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
        }
    }

    /// Stands still, at the time to which it is set.
    pub fn standing(at: DateTime<Utc>) -> Self {
        Self {
            time: Time::Standing(Arc::new(Mutex::new(at))),
            dice: Arc::new(Mutex::new(fastrand::Rng::new())),
        }
    }

    /// Sets a clock that stands, and its clones; any other goes by itself.
    pub fn set(&self, to: DateTime<Utc>) {
        if let Time::Standing(at) = &self.time {
            *at.lock().unwrap_or_else(PoisonError::into_inner) = to;
        }
    }

    pub fn now(&self) -> DateTime<Utc> {
        match &self.time {
            Time::System => Utc::now(),
            Time::Simulated(start, origin) => *start + origin.elapsed(),
            Time::Standing(at) => *at.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// A number in `0.0..1.0`, for jitter.
    pub fn chance(&self) -> f64 {
        self.dice
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .f64()
    }

    /// A new id that sorts by time (UUID version 7), reproducible in a simulation.
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
