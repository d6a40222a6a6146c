//! The engine against the sandbox's core in process, on a paused clock: deterministic from its seed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub
)]

mod blocked;
mod cascade;
mod crash;
mod fence;
mod harness;
mod looks;
mod ports;
mod seeds;
mod sites;
mod sweep;
