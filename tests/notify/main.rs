//! Notifications to people (I7): the real notifier over a real ledger, with receivers in this process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod channels;
mod delivery;
mod harness;
mod messages;
mod receivers;
#[allow(dead_code)] // No test target uses all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
