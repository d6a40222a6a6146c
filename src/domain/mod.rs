//! The domain, all of it pure: the data model, kinds as data, the planner and the decisions.
//!
//! **Architecture invariant:** nothing here reads a clock, draws a random number, waits, or does
//! I/O; whatever a decision depends on is an argument. So tables and property tests can show the
//! rules of `assets/promises.md` that are decided here.

pub mod activity;
pub mod attention;
pub mod awaiting;
pub mod canonical;
pub mod check;
pub mod drift;
pub mod duration;
pub mod engines;
pub mod estimate;
pub mod filter;
pub mod gantt;
pub mod kinds;
pub mod ladder;
pub mod last_day;
pub mod last_hour;
pub mod mapping;
pub mod model;
pub mod moment;
pub mod native;
pub mod natural;
pub mod nesting;
pub mod notification;
pub mod outline;
pub mod peers;
pub mod plan;
pub mod policy;
pub mod query;
pub mod relations;
pub mod report;
pub mod text;
