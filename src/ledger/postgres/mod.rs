//! The ledger in a schema of a PostgreSQL database.
//!
//! ```text
//! commit, claim ──▶ PostgresLedger: one writer thread with one session ─┐
//! reads ──────────▶ a few sessions, each read in one snapshot           ├─▶ PostgresRows ─▶ the schema
//! leases ─────────▶ one thread with one session: `lease_thread` ────────┘
//! ```
//! Most statements are the same in every SQL store ([`super::store::sql`]); `row_store`, `save` and `outcome_rows` have
//! those that differ in this store. The statements decide nothing: see [`super::store`]. [`super::engines`] decides
//! what an engine may do: here `engines` keeps the rows of the engines, `living` reads which engines are alive,
//! `lease_thread` carries renewals to the server, and a `notice` wakes the other engines.
//!
//! - A commit that was answered is durable: `synchronous_commit` is on in each session.
//! - Transactions that write more than the engine's own row run one after the other, even those of different engines
//!   (`lock`). Each begins by reading whether other engines have ended its engine's lease, and what they have changed
//!   in the tombstones (`store`).
//! - The outcomes of steps take three round trips, however many there are: their transaction begins and loads, saves,
//!   and commits (`outcome_rows`, `save`, `store`).
//! - If the connection is lost, so is the open transaction, and its requests are answered with an error. If its
//!   `COMMIT` was sent, the writer connects again and finds out whether the transaction was committed before it answers
//!   (`store`).
//! - Behind a pooler that gives each transaction another session, nothing is left in a session (`client`).
//! - All waits are on threads that may block ([`super::threads`]), never on a tokio worker.

mod address;
mod arrays;
mod client;
mod driver;
mod engines;
mod failed;
mod lease_thread;
mod living;
mod lock;
mod notice;
mod outcome_rows;
mod process;
mod row_store;
mod save;
mod schema;
mod store;
mod tables;
mod tls;
mod transaction;
pub mod upkeep;

pub use address::{Address, AddressError};
pub use driver::PostgresLedger;
pub use engines::holder;
pub use failed::Failed;
pub use schema::can_write;
pub use tables::ServerTables;
pub use transaction::PostgresRows;
