//! The program as its users run it: processes, files, sockets, against the practice cloud.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod alive;
mod blocked;
mod cascade;
mod comes_back;
mod dead_balancer;
mod dead_projects;
mod deployments;
mod drops;
mod engine;
mod first_look;
mod hostile;
mod image;
mod late_ports;
mod morning;
mod newcomer;
mod nightly;
mod outage;
mod plain;
mod replay;
mod reports;
mod seat;
mod sizes;
mod small;
mod stage;
mod telling;
mod tenant;
#[allow(dead_code)] // No theme needs all of it.
#[path = "../testkit/terminal.rs"]
mod terminal;
mod tour;
mod truth;
mod verbs;
mod world;
mod wrong_keys;
