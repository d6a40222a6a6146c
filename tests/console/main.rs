//! Tests of the console: its panes, keys and questions, and its behaviour on a terminal.
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
mod empty_panes;
mod fake;
mod freshness;
mod home;
mod hostile_input;
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
#[allow(dead_code)] // Not every test uses all of it.
#[path = "../testkit/terminal.rs"]
mod terminal;
#[allow(dead_code)] // Not every test uses all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
mod tombstones_and_drift;
mod trees;
