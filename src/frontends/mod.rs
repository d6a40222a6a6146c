//! What people and programs touch. Each face knows [`crate::control`] and nothing of the engine.

pub mod api;
pub mod cli;
#[cfg(feature = "console")]
pub mod console;
pub mod gate;
pub mod notify;
pub mod offline;
pub mod report;
