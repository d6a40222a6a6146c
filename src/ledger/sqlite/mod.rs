//! The ledger in one SQLite file.
//!
//! ```text
//! commit, claim ──▶ SqliteLedger: one writer thread ─┐
//! reads ──────────▶ a few read-only connections      ├─▶ Store ─▶ Batch: one transaction,
//! simulation ─────▶ InlineLedger: same code, inline ─┘            what cannot be taken is left out
//! ```
//!
//! WAL with `synchronous=FULL`: when a commit has returned, its changes survive a loss of power.
//! Foreign keys are not checked by SQLite: nothing deletes the rows that are referred to, and the
//! checks would be paid on each of 100,000 steps.
//!
//! **Architecture invariant:** SQLite never runs on a worker of tokio's, but in a simulation.

mod batch;
mod claims;
mod commands;
mod drift;
mod driver;
mod gantt;
mod intents;
mod left_to;
mod lock;
mod mirror;
mod native;
mod notification_cursor;
mod outcomes;
mod outline;
mod pages;
mod peers;
mod prune;
mod purge;
mod reads;
mod requests;
pub mod rewind;
mod rows;
mod schema;
mod seal;
mod start;
mod store;
mod stuck;
pub mod upkeep;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use driver::{InlineLedger, SqliteLedger};
pub use lock::{Owner, is_held, owner};
pub use seal::{Head, key_path as seal_key};
pub use store::{Job, Outcome, Store};

use super::tombstones::Tombstones;

/// What a deployment, a test or a benchmark may set.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The file grows to this many pages of 4 KiB and no further; beyond it, commits fail as on a
    /// full disk. None: as large as the disk lets it.
    pub pages_max: Option<u32>,
    /// Added to each commit, to see the effect of a slow disk on one that is not.
    pub commit_delay: Duration,
    /// Kept as the table is, for gates; none where there is no gate.
    pub tombstones: Option<Arc<Tombstones>>,
    /// Where the key of the audit's seal may be, if it is not beside the file: a backup that is opened
    /// was sealed by the key of the ledger that it is a copy of.
    pub seal_keys: Vec<PathBuf>,
}
