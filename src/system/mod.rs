//! Time and randomness, settings, logs, private files: what every room outside `domain` stands on.

pub mod clock;
pub mod config;
pub mod files;
pub mod listener;
pub mod private;
pub mod telemetry;
