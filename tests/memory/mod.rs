//! A ledger in memory, for tests and for the simulation. It obeys the rules of a store, without SQL.
//!
//! `tests/ledger` shows that it behaves like the other stores. `tests/engine` runs half of the seeds with one engine on
//! it, and all seeds with several engines.
//!
//! It is written to be obviously right, so most reads go through whole tables, and each transaction begins with a copy
//! of all tables.

mod natives;
mod peers;
mod plans;
mod reads;
mod rows;
mod step_reads;
mod tables;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use gone::ledger::store::{Fallible, Stored};
use gone::ledger::transitions::Rotation;
use gone::ledger::working_set::WorkingSet;
use gone::ledger::{
    Drive, Engines, LedgerError, Membership, Outcome, WriteRequest, answer, fails_alone,
};

#[allow(unused_imports)] // Not every target builds rows of its own.
pub use tables::{EngineRow, Tables, deletion, step};

type Answer<T = ()> = Result<T, String>;

/// The rows of a ledger. Clones share the same rows.
#[derive(Clone)]
pub struct MemoryRows {
    epoch: i64,
    tables: Arc<Mutex<Tables>>,
    savepoints: Arc<Mutex<Vec<Tables>>>,
    loads: Arc<AtomicUsize>,
    steps_saved: Arc<AtomicUsize>,
}

impl Fallible for MemoryRows {
    type Error = String;
}

/// The rows of a ledger that an engine has opened.
impl Default for MemoryRows {
    fn default() -> Self {
        let mut rows = Self {
            epoch: 0,
            tables: Arc::default(),
            savepoints: Arc::default(),
            loads: Arc::default(),
            steps_saved: Arc::default(),
        };
        rows.begin();
        rows
    }
}

impl MemoryRows {
    /// Begins a new epoch.
    fn begin(&mut self) {
        self.epoch = self.tables.lock().unwrap().next_epoch();
    }

    /// The same rows, as the engine with this epoch uses them.
    pub fn of_epoch(&self, epoch: i64) -> Self {
        Self {
            epoch,
            ..self.clone()
        }
    }

    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap()
    }

    /// Answers a request in a transaction of its own.
    pub fn transact(&self, rotation: &mut Rotation, request: WriteRequest) -> Answer<Outcome> {
        let before = self.tables().clone();
        let requests = [request];
        let mut attempt = |apart| {
            let mut set = WorkingSet::new(self.clone());
            let answered = answer(&mut set, &requests, rotation, apart);
            if answered.is_err() {
                *self.tables() = before.clone();
            }
            answered
        };
        let answered = match attempt(false) {
            Err(stop) if fails_alone::<Self>(&stop) => attempt(true),
            answered => answered,
        };
        let mut outcomes = answered.map_err(|stop| stop.to_string())?;
        outcomes.pop().ok_or_else(|| "no answer".to_owned())
    }

    /// How often steps or edges were loaded for a change.
    pub fn loads(&self) -> usize {
        self.loads.load(Ordering::Relaxed)
    }

    pub fn steps_saved(&self) -> usize {
        self.steps_saved.load(Ordering::Relaxed)
    }
}

/// The ledger: answers each request in a transaction of its own.
#[derive(Default)]
pub struct MemoryLedger {
    rows: MemoryRows,
    rotation: Mutex<Rotation>,
}

impl MemoryLedger {
    /// Opens the ledger with these rows, as the next engine after a crash does.
    pub fn open(rows: &MemoryRows) -> Self {
        let mut rows = rows.clone();
        rows.begin();
        Self {
            rows,
            rotation: Mutex::default(),
        }
    }

    /// The epoch that began when this ledger was opened.
    pub fn epoch(&self) -> i64 {
        self.rows.epoch
    }
}

fn failed(detail: String) -> LedgerError {
    LedgerError::Io {
        name: "memory".to_owned(),
        detail,
    }
}

impl Engines for MemoryLedger {
    fn membership(&self) -> Membership {
        Membership::alone(self.epoch())
    }
}

#[async_trait]
impl Drive for MemoryLedger {
    type Reader = MemoryRows;

    async fn write(&self, request: WriteRequest) -> Result<Outcome, LedgerError> {
        let rotation = &mut *self.rotation.lock().unwrap();
        self.rows.transact(rotation, request).map_err(failed)
    }

    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&MemoryRows) -> Stored<MemoryRows, T> + Send + 'static,
    {
        read(&self.rows).map_err(failed)
    }
}
