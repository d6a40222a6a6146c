//! The tests of ledgers on a real PostgreSQL server: those that every store must pass (`tests/ledger`), and tests of
//! several engines, of poolers, and of servers that are killed.
//!
//! They are a target of their own, because they need PostgreSQL 14 or newer:
//! `apt-get install --no-install-recommends postgresql pgbouncer`, or `GONE_POSTGRES_BIN=FOLDER` with `initdb` and
//! `postgres`.
//! Without PostgreSQL, the tests that use a server fail. `cargo test --test postgres` runs them, and so does `.ci/run`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "../ledger/commands.rs"]
mod commands;
mod connection;
mod engines;
mod faults;
#[path = "../ledger/gantt.rs"]
mod gantt;
mod kill;
#[path = "../ledger/left_steps.rs"]
mod left_steps;
#[path = "../ledger/membership.rs"]
mod membership;
#[path = "../ledger/migrate.rs"]
mod migrate;
#[path = "../ledger/outline.rs"]
mod outline;
#[path = "../ledger/peers.rs"]
mod peers;
mod pooler;
#[path = "../ledger/prune.rs"]
mod prune;
#[path = "../ledger/purge.rs"]
mod purge;
#[path = "../ledger/reads.rs"]
mod reads;
#[path = "../ledger/registry.rs"]
mod registry;
#[allow(dead_code)] // The bench of the ledger uses this module, too.
mod server;
#[allow(dead_code)] // This target does not use all of this module.
#[path = "../bad_days/support.rs"]
mod stage;
#[path = "../ledger/steps.rs"]
mod steps;
mod stores;
mod story_20;
#[path = "../ledger/support.rs"]
mod support;
#[allow(dead_code)] // This target does not use all of this module.
#[path = "../testkit/mod.rs"]
mod testkit;
#[path = "../ledger/tombstones.rs"]
mod tombstones;
mod upkeep;
