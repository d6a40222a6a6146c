//! The pure room: kinds, plans, decisions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub
)]

mod attention;
mod awaiting;
mod check_kinds;
mod coverage;
mod edges;
mod estimate;
mod kinds;
mod ladder;
mod lookups;
mod nesting;
mod news;
mod outline;
mod peers;
mod plan;
mod policy;
mod relations;
mod rooms;
mod secrets;
mod servers;
mod services;
mod shares;
mod stacks;
#[allow(dead_code)] // No theme needs all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
mod topology;
