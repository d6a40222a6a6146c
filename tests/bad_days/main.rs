//! Bad input, and failures of clouds, ledgers, terminals and the program itself: what the program says, its exit
//! code, and that nothing is lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod cloud;
mod crash;
#[path = "../testbed/estate.rs"]
mod estate;
mod guards;
mod hangup;
mod input;
mod inventory;
mod ledger;
mod notify;
mod other_users;
mod race;
mod reading;
mod secrets;
mod support;
#[allow(dead_code)] // No test module uses all of it.
#[path = "../testkit/terminal.rs"]
mod terminal;
mod tls;
mod upkeep;
mod waiting;
