//! The ledger in a schema of a PostgreSQL database.
//!
//! ```text
//! commit, claim ──▶ PostgresLedger: one writer thread with one session ─┐
//! reads ──────────▶ a few sessions, each read in one snapshot           ├─▶ PostgresRows ─▶ the schema
//! leases ─────────▶ one thread with one session: `heart` ───────────────┘
//! ```
//! Of the rows of deletions this module only loads and saves: the files `…_rows`, `row_store` and `save` for changes, the
//! files `…_reads` for questions. What they mean is decided above ([`super::store`]), and so is which engine may do what
//! ([`super::engines`]): `engines` keeps the rows of the engines, `living` reads which are alive, `heart` carries
//! renewals to the server, and a `notice` wakes the others.
//!
//! - A commit that was answered is durable: `synchronous_commit` is on in each session.
//! - Transactions that write run one after the other, whichever engine they are of (`lock`); each begins by looking
//!   whether its engine was declared lost, and by taking in what others did to tombstones (`store`).
//! - The outcomes of steps take three round trips, however many there are: their transaction begins and loads, saves,
//!   and commits (`outcome_rows`, `save`, `store`).
//! - If the connection is lost, so is the open transaction, and its requests are answered with an error. Only of one
//!   whose `COMMIT` was sent nobody knows; the writer connects again and looks it up before it answers (`store`).
//! - Behind a pooler that gives each transaction another session, nothing is left in a session (`client`).
//! - All waits are on threads that may block ([`super::threads`]), never on a tokio worker.

mod address;
mod client;
mod conditions;
mod count_reads;
mod deletion_reads;
mod deletion_rows;
mod driver;
mod due_reads;
mod engines;
mod failed;
mod heart;
mod living;
mod lock;
mod native;
mod notice;
mod outcome_rows;
mod plan_rows;
mod process;
mod prune;
mod row_store;
mod rows;
mod save;
mod schema;
mod step_reads;
mod step_rows;
mod store;
mod tables;
mod tls;
mod tombstone_reads;
mod transaction;
pub mod upkeep;

pub use address::{Address, Unusable};
pub use driver::PostgresLedger;
pub use engines::holder;
pub use failed::Failed;
pub use schema::can_write;
pub use tables::ServerTables;
pub use transaction::PostgresRows;
