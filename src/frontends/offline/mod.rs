//! What needs no engine: reports as values, which the command line and the console render.

pub mod doctor;
pub mod ledger;
