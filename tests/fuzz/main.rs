//! Whatever stands in a file, or comes from a cloud: an answer or an error that names a place, and never
//! a panic, a hang, or memory without end.
//!
//! Valid samples are mutated at random ([`mutate`]). `cargo test` runs a short fixed number of cases,
//! always the same; longer, with other cases each time:
//!
//! ```text
//! GONE_FUZZ_SECONDS=600 cargo nextest run --release --profile fuzz      all, each for ten minutes
//! GONE_FUZZ_SECONDS=600 GONE_SEED=17 cargo test --test fuzz clouds   one, from this seed on
//! ```
//! What fails is made smaller and shown; of what ends the process (a stack overflow, memory), the last
//! case is in `target/tmp/fuzz-NAME`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod answers;
mod files;
mod mutate;
#[allow(dead_code)] // No theme needs all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
