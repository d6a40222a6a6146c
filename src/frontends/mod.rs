//! The front ends: what people and programs use. They reach the engine through [`crate::control`], and do not use it
//! directly.

pub mod api;
pub mod cli;
#[cfg(feature = "console")]
pub mod console;
pub mod gate;
pub mod notify;
pub mod offline;
pub mod report;
