//! The practice cloud (`gone sandbox`): its services, its control calls, its faults and its scenarios.
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
mod faults_and_limits;
mod identity;
mod images;
mod over_http;
mod refusals;
mod scenarios;
mod servers;
