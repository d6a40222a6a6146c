//! console
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod alerts;
mod breadcrumb;
mod columns;
mod copying;
mod decisions;
mod emptiness;
mod fake;
mod freshness;
mod home;
mod lists;
mod marks;
mod names;
mod pictures;
mod prompts;
mod pty;
mod quitting;
mod readme;
mod records;
mod replays;
mod reports;
mod safety;
mod scope;
mod storm;
#[allow(dead_code)] // No theme needs all of it.
#[path = "../testkit/terminal.rs"]
mod terminal;
#[allow(dead_code)] // No theme needs all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
mod trees;
