//! Tests against a real OpenStack: the conformance scenes of the practice cloud, and the program.
//!
//! `GONE_TESTBED_CLOUDS` is the path of the test bed's `clouds.yaml` (see `README.md` in this folder). `cargo test`
//! ignores these tests. The nextest profile `testbed` runs them; they fail without a test bed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

// Only the tests of the sandbox check the rows of BEHAVIOUR.md.
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
mod gate_answers;
mod limits;
mod natural_keys;
mod newcomers;
mod objects;
mod proxy;
mod refusals;
mod registry;
mod servers;
mod service_faults;
mod session;
mod shares;
mod stacks;
#[allow(dead_code)] // This target does not use all of it.
#[path = "../testkit/terminal.rs"]
mod terminal;
mod users;
mod whole_project;
