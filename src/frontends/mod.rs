//! The front ends: what people and programs use. Each of them uses [`crate::control`] and not the engine itself.

pub mod api;
pub mod cli;
#[cfg(feature = "console")]
pub mod console;
pub mod gate;
pub mod notify;
pub mod offline;
pub mod report;
