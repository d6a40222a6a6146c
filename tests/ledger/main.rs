//! The tests of the ledger on SQLite and in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod commands;
mod durability;
mod gantt;
mod invariants;
mod left_steps;
mod membership;
#[allow(dead_code)] // The simulation uses more of this module.
#[path = "../memory/mod.rs"]
mod memory;
mod migrate;
mod outline;
mod peers;
mod prune;
mod purge;
mod reads;
mod registry;
mod rewind;
mod seal;
#[allow(dead_code, unused_imports, unused_macros)] // The seeds of this target are few enough for one test.
#[path = "../engine/seed_selection.rs"]
mod seed_selection;
mod steps;
mod stores;
mod support;
#[allow(dead_code)] // This target does not use all of this module.
#[path = "../testkit/mod.rs"]
mod testkit;
mod tombstones;
mod transitions;
mod working_set;
