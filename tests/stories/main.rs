//! Stories: the program as its users run it, with processes, files and sockets, against the practice cloud.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

mod blocked;
mod cascade;
mod delete_keys;
mod deleted_projects;
mod deployments;
mod engine;
mod first_screen;
mod home;
mod hostile;
mod image;
mod line_console;
mod list_freshness;
mod morning;
mod new_machine;
mod newcomers;
mod nightly;
mod outage;
mod pending_balancer;
mod practice_start;
mod recreated;
mod replay;
mod reports;
mod screen_sizes;
mod script_verbs;
mod session;
mod session_drop;
mod tenant;
#[allow(dead_code)] // This target does not use all of it.
#[path = "../testkit/terminal.rs"]
mod terminal;
mod tiny_screen;
mod tour;
mod variation;
mod world;
