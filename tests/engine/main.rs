//! The engine against the sandbox's core in process, on a paused clock: deterministic from its seed.
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
mod drift;
mod estate;
mod fence;
mod harness;
mod invariants;
mod kept;
mod leftovers;
mod looks;
#[allow(dead_code)] // The simulation does not need all of it.
#[path = "../memory/mod.rs"]
mod memory;
mod mesh;
mod owners;
mod patience;
mod peers;
mod peers_liars;
mod peers_seeds;
mod peers_world;
mod plans;
mod planted;
mod ports;
mod projects;
mod purge;
mod registry;
mod requests;
mod seeds;
mod servers;
mod services;
mod several;
mod shared;
mod sites;
mod sweep;
mod toy;
mod which_seeds;
mod withdrawn;
