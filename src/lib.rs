//! gone: deletes that finish, and stay finished.
//!
//! # Rooms
//! What stands in one room knows of the others what its row allows. A row names a folder or file of
//! `src`; an entry may be a part of a room (`ledger/tombstones`). A test (`tests/domain/rooms.rs`)
//! resolves every path and `use` below `src`, through re-exports too, and fails on what is not here.
//!
//! | room | may import |
//! |---|---|
//! | `domain` | nothing |
//! | `system` | `domain` |
//! | `ledger` | `domain`, `system` |
//! | `cloud` | `domain`, `system` |
//! | `control` | `domain` |
//! | `engine` | `domain`, `system`, `ledger`, `cloud`, `control` |
//! | `faces` | nothing |
//! | `faces/api` | `domain`, `system`, `control` |
//! | `faces/cli` | `domain`, `system`, `control`, `faces/offline` |
//! | `faces/console` | `domain`, `system`, `control` |
//! | `faces/offline` | `domain`, `system`, `control`, `ledger`, `cloud` |
//! | `sandbox` | nothing |
//! | `app` | all |
//! | `main` | `app` |
//! | `lib` | nothing |
//!
//! `domain` also waits for nothing, does no I/O and reads no clock. `sandbox` knows nothing of our
//! model, or it would agree with our mistakes.
pub mod app;
pub mod cloud;
pub mod control;
pub mod domain;
pub mod engine;
pub mod faces;
pub mod ledger;
pub mod sandbox;
pub mod system;
