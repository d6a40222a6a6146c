//! Telling people (I7): the real face over a real ledger, to receivers that listen here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod bench;
mod channels;
mod once;
mod receivers;
#[allow(dead_code)] // No theme needs all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
mod words;
