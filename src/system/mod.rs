//! Time and randomness, settings, logs: what every room outside `domain` stands on.

pub mod clock;
pub mod config;
pub mod telemetry;
