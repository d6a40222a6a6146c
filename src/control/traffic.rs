//! What gates do with what comes to them: counted there, read here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::domain::model::Site;

/// One gate, and what became of its requests since it is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateStatus {
    /// Where it listens: `127.0.0.1:9696`.
    pub listen: String,
    /// Who comes this way: `user`, `local` or `central`.
    pub source: String,
    /// The upstream.
    pub site: Site,
    pub service: String,
    #[serde(flatten)]
    pub traffic: GateTraffic,
}

/// Requests, by what the gate made of them; all others passed as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateTraffic {
    pub requests: u64,
    /// Something was left out of a list, or was not there for this client.
    pub hidden: u64,
    /// Shown as being deleted.
    pub deleting: u64,
    /// A guard's, or of who may not.
    pub refused: u64,
    /// A deletion was accepted, or is under way.
    pub accepted: u64,
    /// The upstream, Keystone or the engine was not there.
    pub failed: u64,
}

/// What became of a request that did not simply pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    Hidden,
    Deleting,
    Refused,
    Accepted,
    Failed,
}

/// The counters of one gate.
#[derive(Debug)]
pub struct Counter {
    /// Its traffic is none.
    gate: GateStatus,
    requests: AtomicU64,
    met: [AtomicU64; 5],
}

impl Counter {
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub fn met(&self, what: Met) {
        self.met[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn status(&self) -> GateStatus {
        let count = |what: Met| self.met[what as usize].load(Ordering::Relaxed);
        GateStatus {
            traffic: GateTraffic {
                requests: self.requests.load(Ordering::Relaxed),
                hidden: count(Met::Hidden),
                deleting: count(Met::Deleting),
                refused: count(Met::Refused),
                accepted: count(Met::Accepted),
                failed: count(Met::Failed),
            },
            ..self.gate.clone()
        }
    }
}

/// Those of all gates of an engine.
#[derive(Debug, Default)]
pub struct Counters(Mutex<Vec<Arc<Counter>>>);

impl Counters {
    /// A gate has opened: what is counted for it.
    pub fn open(
        &self,
        listen: String,
        source: String,
        site: Site,
        service: String,
    ) -> Arc<Counter> {
        let counter = Arc::new(Counter {
            gate: GateStatus {
                listen,
                source,
                site,
                service,
                traffic: GateTraffic::default(),
            },
            requests: AtomicU64::default(),
            met: Default::default(),
        });
        self.all().push(counter.clone());
        counter
    }

    /// In the order in which they opened.
    pub fn statuses(&self) -> Vec<GateStatus> {
        self.all().iter().map(|counter| counter.status()).collect()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Counter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
