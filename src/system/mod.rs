//! Time and randomness, settings, logs, private files, listeners, and the facts of the machine. Other modules
//! share these to work with the host.

pub mod clock;
pub mod config;
pub mod files;
pub mod listener;
pub mod machine;
pub mod private;
pub mod telemetry;
