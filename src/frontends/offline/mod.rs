//! Reports that need no engine, as values that the command line renders.

pub mod doctor;
