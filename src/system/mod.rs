//! Time and randomness, settings, logs, private files, listeners: the base of every module outside
//! `domain`.

pub mod clock;
pub mod config;
pub mod files;
pub mod listener;
pub mod machine;
pub mod private;
pub mod telemetry;
