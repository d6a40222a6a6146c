//! sandbox
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod balancers;
mod cloud;
mod conformance;
mod conforms;
mod control;
mod identity;
mod images;
mod refusals;
mod rules;
mod scenarios;
mod served;
mod servers;
