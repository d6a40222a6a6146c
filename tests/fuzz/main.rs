//! Any content of a file, or of a cloud's answer, leads to a result or to an error that names the faulty part, and
//! never to a panic, a hang or unbounded memory.
//!
//! Valid samples are mutated at random ([`mutate`]). `cargo test` runs a small number of cases,
//! always the same. To run longer, with other cases each time:
//!
//! ```text
//! GONE_FUZZ_SECONDS=600 cargo nextest run --release --profile fuzz      all parsers, each for ten minutes
//! GONE_FUZZ_SECONDS=600 GONE_SEED=17 cargo test --test fuzz clouds   one parser, from this seed on
//! ```
//! A failing case is made smaller and shown. If a case ends the process (by a stack overflow or too much memory), the
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
#[allow(dead_code)] // No test module uses all of it.
#[path = "../testkit/mod.rs"]
mod testkit;
