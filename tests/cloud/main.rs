//! The OpenStack client: configuration, login, calls and lists, against stub services.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]
mod access_rules;
mod calls;
mod config;
mod in_process;
mod listing;
#[path = "../testkit/log.rs"]
mod log;
mod login;
mod offer;
mod paging;
mod profiles;
mod project_names;
mod proxies;
mod secrets;
mod service_lists;
mod support;

mod testbed;
mod tls;
