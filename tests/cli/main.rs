//! The command line: settings, output, exit codes, and the verbs with a scripted control.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod check;
mod config;
mod deleting;
mod exit;
mod fake;
mod modes;
mod output;
mod purging;
mod reporting;
mod telemetry;
#[allow(dead_code)] // No test module uses all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
