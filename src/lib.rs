//! gone: deletes that finish, and stay finished.
pub mod app;
pub mod cloud;
pub mod control;
pub mod domain;
pub mod engine;
pub mod faces;
pub mod ledger;
pub mod sandbox;
pub mod system;
