//! The ledger in one SQLite file.
//!
//! ```text
//! commit, claim ──▶ SqliteLedger: one writer thread ─┬─▶ Store ─▶ WorkingSet: one transaction; a change
//! simulation ─────▶ InlineLedger: same code, inline ─┘            that cannot be applied is refused alone
//! reads ──────────▶ SqliteLedger: a few read-only connections, each read in one snapshot
//! ```
//! Most statements are the same in every SQL store ([`super::store::sql`]); `row_store` has those that differ in this
//! store. The statements decide nothing: see [`super::store`].
//!
//! WAL with `synchronous=FULL`: when a commit has returned, its changes survive a loss of power. SQLite does not check
//! foreign keys: only pruning removes rows to which other rows refer, and it removes the other rows too; and each of
//! 100,000 steps would pay for the checks.
//!
//! **Architecture invariant:** SQLite never runs on a tokio worker, except in a simulation.

mod connection;
mod driver;
mod lock;
mod mirror;
mod outline;
pub mod rewind;
mod row_store;
mod schema;
mod seal;
mod sql;
mod store;
mod tables;
mod transaction;
pub mod upkeep;

use std::path::PathBuf;
use std::sync::Arc;

pub use driver::{InlineLedger, SqliteLedger};
pub use lock::holder;
pub(super) use lock::remove_if_unused;
pub use seal::key_path as seal_key;
pub use store::Store;
pub use tables::FileTables;

use super::tombstones::Tombstones;

/// Options that a deployment, a test or a benchmark may set.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Maximum size of the file in pages of 4 KiB; beyond it, commits fail as on a full disk. None: as large
    /// as the disk allows.
    pub pages_max: Option<u32>,
    /// The tombstones in memory that the ledger keeps equal to the table of tombstones, for gates; none if there is no
    /// gate.
    pub tombstones: Option<Arc<Tombstones>>,
    /// Other files that may hold the key of the audit's seal: a backup was sealed with the key of the ledger
    /// of which it is a copy.
    pub seal_keys: Vec<PathBuf>,
}
