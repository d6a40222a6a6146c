//! The engine against the sandbox in the same process, on a paused clock. A simulation depends on its seed alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod activity;
mod blocked;
mod cascade;
mod client;
mod copies;
mod counts;
mod crash;
mod dishonest_peers;
mod drift;
mod estate;
mod harness;
mod invariants;
mod ledger_storage;
#[allow(dead_code)] // These tests do not use everything in it.
#[path = "../memory/mod.rs"]
mod memory;
mod mesh;
mod observations;
mod owner_names;
mod patience;
mod peers;
mod peers_seeds;
mod peers_world;
mod plans;
mod planted_faults;
mod ports;
mod project_coverage;
mod projects;
mod purge;
mod registry;
mod requests;
mod seed_selection;
mod seeds;
mod servers;
mod services;
mod several_engines;
mod shared_ledger;
mod sites;
mod sweep;
mod tombstones;
mod toy;
mod withdrawn;
