//! Bad input and bad days, through the program itself: what it says, with which code it ends, and
//! that nothing is lost.
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
#[allow(dead_code)] // No theme needs all of it.
#[path = "../testkit/terminal.rs"]
mod terminal;
mod tls;
mod upkeep;
mod waiting;
