//! The ledger: the durable record of tombstones, deletions, steps and the audit. The intent of each step's call is
//! durable before the call is sent, and its outcome after.
//!
//! A [`Ledger`] has all of these traits, each in a file with its data types:
//!
//! | trait | what its callers do |
//! |---|---|
//! | [`Commit`] | make changes durable |
//! | [`WorkQueue`] | claim steps, find the steps to observe and the resources that may be re-created |
//! | [`Views`] | read pages, counts and single rows |
//! | [`NativeResources`] | read the resources that this deployment keeps itself |
//! | [`Federation`] | exchange notices and clearances with other deployments |
//! | [`Engines`] | learn what this engine may do among the engines of its ledger |
//!
//! [`open()`] opens a ledger by its [`Location`], and [`holder`] finds a process that has it open as its engine.
//!
//! Callers claim steps, and write all else by batches of [`Change`]s. The store applies a batch in one transaction,
//! each change whole or not at all, and answers each separately. A change whose fence no longer matches fails alone
//! as [`Applied::Stale`]. When `commit` returns `Ok`, every change that was applied is durable.
//!
//! **Architecture invariant:** readiness, counts, deletion states, tombstone phases, events and the
//! audit are maintained inside the transaction that changes a step; nothing derives them afterwards.
//!
//! Only [`transitions`] decides which state follows which, only [`events`] builds events (except that of a
//! [`Change::Note`], which its caller builds), and only [`reads`] decides how rows answer a query. A store loads and
//! saves rows ([`store`]); the rows that a transaction changes are kept in a [`working_set`]. Every type with [`Drive`]
//! and [`Engines`] is a ledger.

pub mod audit;
mod changes;
mod derived;
mod drive;
pub mod engines;
mod error;
pub mod events;
mod federation;
pub mod invariants;
mod location;
pub mod migrate;
mod native_resources;
mod open;
mod ports;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod reads;
pub mod sqlite;
pub mod store;
mod threads;
pub mod tombstones;
pub mod transitions;
pub mod upkeep;
mod views;
mod work_queue;
pub mod working_set;

pub use changes::{
    Applied, AuditEntry, Change, Commit, DriftAnswer, KeyedRequest, NewDeletion, NewDriftAnswer,
    NewEvent, NewNative, NewOptions, NewPurge, PurgeAction, RecreationReason, RetryBy, Selection,
    StepChange,
};
pub use drive::{Drive, Outcome, WriteRequest, answer, fails_alone, steps_of_outcomes};
pub use engines::{EngineTerms, Engines, Membership};
pub use error::LedgerError;
pub use federation::{Federation, Importer, LiveStep, UnhandledDeletion, WatchCursor};
pub use location::{Hold, Holder, Location, NoLocation};
pub use native_resources::{NativeBy, NativeFilter, NativeResources, Referrer, Referrers};
pub use open::{Opened, can_write_at_server, holder, open, open_reader, remove_if_unused};
pub use views::{
    AbandonedStep, AuditRow, Cursor, DeletionFilter, EventFilter, EventPage, KeptRequest,
    StepFilter, Summary, TombstoneFilter, Views,
};
pub use work_queue::{
    Capacity, ClaimedStep, Due, Fence, ObservationsDue, Original, OriginalName, WorkQueue,
};

/// All traits of a ledger together, for code that uses several of them.
pub trait Ledger: Commit + WorkQueue + Views + NativeResources + Federation + Engines {}

impl<L: Commit + WorkQueue + Views + NativeResources + Federation + Engines + ?Sized> Ledger for L {}
