//! Against a real OpenStack: the conformance table, and the program itself.
//!
//! `GONE_TESTBED_CLOUDS` is the path of its `clouds.yaml` (see `README.md` beside this). `cargo test` ignores the
//! tests here; the profile `testbed` runs them, and without a test bed they fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

// The rows of BEHAVIOUR.md are checked by the sandbox's tests.
#[allow(dead_code)]
#[path = "../sandbox/conformance/mod.rs"]
mod conformance;

mod api;
mod bed;
mod cascade;
mod clients;
mod conforms;
mod copies;
mod crash;
mod edges;
mod estate;
mod gate;
mod keys;
mod limits;
mod newcomers;
mod objects;
mod people;
mod proxy;
mod refusals;
mod registry;
mod seat;
mod servers;
mod shares;
mod stacks;
mod table;
#[allow(dead_code)] // No theme needs all of it.
#[path = "../testkit/terminal.rs"]
mod terminal;
mod whole_project;
mod wrongs;
