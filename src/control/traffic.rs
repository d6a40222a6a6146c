//! Counters of the requests that pass through the gates. The gates count, and front ends read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::model::Site;

/// One gate, with the counts of its requests since it opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GateStatus {
    /// The address on which the gate listens: `127.0.0.1:9696`.
    pub listen: String,
    /// Which clients use the gate: `user`, `local` or `central`.
    pub source: String,
    /// The site of the service to which the gate forwards requests.
    pub site: Site,
    pub service: String,
    #[serde(flatten)]
    pub traffic: GateTraffic,
}

/// Number of all requests, and numbers of the requests that the gate did not simply pass on, by the gate's treatment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GateTraffic {
    pub requests: u64,
    /// Number of requests in whose answer a resource was left out of a list, or hidden from the client.
    pub hidden: u64,
    /// Number of requests in whose answer a resource was shown as being deleted.
    pub deleting: u64,
    /// Number of requests that the gate refused, for example by a guard or because the client lacks the right.
    pub refused: u64,
    /// Number of requests for deletions that were accepted or are under way.
    pub accepted: u64,
    /// Number of requests that failed, for example because the upstream, Keystone or the engine could not be reached.
    pub failed: u64,
}

/// The way in which a gate treated a request that it did not simply pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    Hidden,
    Deleting,
    Refused,
    Accepted,
    Failed,
}

/// The counters of one gate.
#[derive(Debug)]
pub struct Counter {
    /// The gate. Its `traffic` is not used; the counters below have the numbers.
    gate: GateStatus,
    requests: AtomicU64,
    treatments: [AtomicU64; 5],
}

impl Counter {
    /// Counts a request that has arrived.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts how a request was treated.
    pub fn count_treatment(&self, treatment: Treatment) {
        self.treatments[treatment as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn status(&self) -> GateStatus {
        let count =
            |treatment: Treatment| self.treatments[treatment as usize].load(Ordering::Relaxed);
        GateStatus {
            traffic: GateTraffic {
                requests: self.requests.load(Ordering::Relaxed),
                hidden: count(Treatment::Hidden),
                deleting: count(Treatment::Deleting),
                refused: count(Treatment::Refused),
                accepted: count(Treatment::Accepted),
                failed: count(Treatment::Failed),
            },
            ..self.gate.clone()
        }
    }
}

/// The counters of all gates of an engine.
#[derive(Debug, Default)]
pub struct Counters(Mutex<Vec<Arc<Counter>>>);

impl Counters {
    /// Registers a gate that has opened, and returns its counters.
    pub fn open(&self, gate: GateStatus) -> Arc<Counter> {
        let counter = Arc::new(Counter {
            gate,
            requests: AtomicU64::default(),
            treatments: Default::default(),
        });
        self.all().push(counter.clone());
        counter
    }

    /// Returns the status of each gate, in the order in which they opened.
    pub fn statuses(&self) -> Vec<GateStatus> {
        self.all().iter().map(|counter| counter.status()).collect()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Counter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
