//! The ledger in a schema of a PostgreSQL database.
//!
//! ```text
//! commit, claim ──▶ PostgresLedger: one writer thread with one session ─┐
//! reads ──────────▶ a few sessions, each read in one snapshot           ├─▶ PostgresRows ─▶ the schema
//! ```
//! This module only loads and saves rows: the files `…_rows`, `row_store` and `save` for changes, the files
//! `…_reads` for questions. What they mean is decided above ([`super::store`]).
//!
//! - A commit that was answered is durable: `synchronous_commit` is on in each session.
//! - The writer's session holds an advisory lock of the schema for as long as it lives: there is one engine. Each
//!   transaction runs in the session that holds the lock, so an engine that has lost it cannot write.
//! - If the connection is lost, so is the open transaction, and its requests are answered with an error. Only of one
//!   whose `COMMIT` was sent nobody knows; the writer connects again and looks it up before it answers (`store`).
//! - All waits are on threads that may block ([`super::threads`]), never on a tokio worker.

mod address;
mod client;
mod conditions;
mod count_reads;
mod deletion_reads;
mod deletion_rows;
mod driver;
mod due_reads;
mod failed;
mod lock;
mod log_reads;
mod native;
mod peer_reads;
mod peer_rows;
mod plan_rows;
mod prune;
mod row_store;
mod rows;
mod save;
mod schema;
mod step_reads;
mod step_rows;
mod store;
mod tls;
mod tombstone_reads;
mod transaction;

pub use address::{Address, Unusable};
pub use driver::PostgresLedger;
pub use failed::Failed;
pub use lock::holder;
pub use schema::can_write;
pub use transaction::PostgresRows;
