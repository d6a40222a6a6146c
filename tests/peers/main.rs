//! The protocol between deployments: over real sockets with a fake engine, and between engines in processes of their
//! own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod calls;
mod engines;
mod fake;
mod links;
mod listener;
#[path = "../testkit/log.rs"]
mod log;
#[path = "../engine/peers_world.rs"]
mod peers_world;
mod processes;
mod random_runs;
#[allow(dead_code, unused_imports, unused_macros)] // Its seeds are few enough for one test.
#[path = "../engine/seed_selection.rs"]
mod seed_selection;
mod support;
mod tls;
