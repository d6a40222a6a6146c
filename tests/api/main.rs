//! The HTTP API on its Unix socket, and the remote control that attaches through it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod bench;
mod events;
mod fake;
mod openapi;
mod problems;
mod remote;
mod routes;
mod samples;
mod socket;
mod target;
#[allow(dead_code)] // No test module uses all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
mod tree_and_report;
