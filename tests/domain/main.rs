//! Tests of the pure module `domain`: kinds, plans, decisions. They also check the import table of `src/lib.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub
)]

mod attention;
mod awaiting;
mod check_kinds;
mod coverage;
mod drift;
mod edges;
mod estimate;
mod imports;
mod kinds;
mod ladder;
mod lookups;
mod nesting;
mod notification;
mod outline;
mod peers;
mod plan;
mod policy;
mod relations;
mod secrets;
mod servers;
mod services;
mod shares;
mod stacks;
#[allow(dead_code)] // Not every test uses all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
mod topology;
