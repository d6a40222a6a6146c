//! The protocol between deployments over real sockets, and two engines that speak it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod calls;
mod days;
mod engines;
mod fake;
mod lines;
mod listener;
#[path = "../engine/peers_world.rs"]
mod peers_world;
mod processes;
mod support;
mod tls;
#[allow(dead_code, unused_imports, unused_macros)] // Its seeds are few enough for one test.
#[path = "../engine/which_seeds.rs"]
mod which_seeds;
