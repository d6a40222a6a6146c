//! The gate: a deleted resource stays deleted, for every client that comes through it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod cascade;
mod copies;
mod crowds;
mod keys;
mod pages;
mod parts;
mod passing;
mod paths;
mod scopes;
mod servers;
mod spelling;
mod support;
mod table;
