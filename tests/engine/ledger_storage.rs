//! The storage of a ledger, which outlives the engines of a test: a file, or memory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gone::ledger::Ledger;
use gone::ledger::sqlite::{InlineLedger, Options, Store};

use super::memory::{MemoryLedger, MemoryRows, Tables};

/// The storage of a ledger. Clones share it.
#[derive(Clone)]
pub enum LedgerStorage {
    /// A SQLite file.
    File(PathBuf),
    /// The rows in memory and, for [`super::ports::PlantedFault::CommitsLate`], earlier copies of them.
    Memory {
        rows: MemoryRows,
        copies: Arc<Mutex<Copies>>,
    },
}

/// Copies of the rows from before the last write, and from before the write that is under way.
#[derive(Default)]
pub struct Copies {
    last: Tables,
    next: Tables,
}

impl LedgerStorage {
    pub fn in_memory() -> Self {
        Self::Memory {
            rows: MemoryRows::default(),
            copies: Arc::default(),
        }
    }

    /// Returns the rows of a ledger in memory.
    pub fn rows(&self) -> &MemoryRows {
        match self {
            Self::Memory { rows, .. } => rows,
            Self::File(path) => panic!(
                "the ledger is not in memory, but in the file {}",
                path.display()
            ),
        }
    }

    /// Opens the ledger as an engine does. Returns the ledger and the epoch that begins.
    pub fn open(&self) -> (Box<dyn Ledger>, i64) {
        match self {
            Self::File(path) => {
                let ledger = InlineLedger::new(Store::open(path, Options::default()).unwrap());
                let epoch = ledger.epoch();
                (Box::new(ledger), epoch)
            }
            Self::Memory { rows, .. } => {
                let ledger = MemoryLedger::open(rows);
                let epoch = ledger.epoch();
                (Box::new(ledger), epoch)
            }
        }
    }

    /// Copies the ledger before a write.
    pub fn keep_copy(&self) {
        match self {
            Self::File(path) => copy_ledger(path, &path.with_extension("next")),
            Self::Memory { rows, copies } => copies.lock().unwrap().next = rows.tables().clone(),
        }
    }

    /// Confirms the copy that [`Self::keep_copy`] made before a write, once the write has succeeded.
    /// [`Self::undo_last_write`] then restores that copy.
    pub fn confirm_copy(&self) {
        match self {
            Self::File(path) => {
                copy_ledger(&path.with_extension("next"), &path.with_extension("copy"));
            }
            Self::Memory { copies, .. } => {
                let copies = &mut *copies.lock().unwrap();
                copies.last = copies.next.clone();
            }
        }
    }

    /// Undoes the last write, as a crash does to a ledger whose commits are not durable at once.
    pub fn undo_last_write(&self) {
        match self {
            Self::File(path) => copy_ledger(&path.with_extension("copy"), path),
            Self::Memory { rows, copies } => *rows.tables() = copies.lock().unwrap().last.clone(),
        }
    }
}

/// Copies a SQLite file with its write-ahead log, while nothing is being written.
fn copy_ledger(from: &Path, to: &Path) {
    for ending in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{ending}", path.display()));
        let _ = std::fs::remove_file(name(to));
        if name(from).exists() {
            std::fs::copy(name(from), name(to)).unwrap();
        }
    }
    let _ = std::fs::remove_file(format!("{}-shm", to.display()));
}
