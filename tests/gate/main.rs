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
mod fairness;
mod forwarding;
mod natural_keys;
mod nova_and_cinder;
mod pages;
mod parts;
mod paths;
mod scopes;
mod spelling;
mod support;
mod table;
