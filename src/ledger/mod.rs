//! The ledger: the only truth. Intent is durable before effect, outcome after.
//!
//! A [`Ledger`] is the sum of what its callers need, each in a file of its own with its data:
//!
//! | trait | what its callers do |
//! |---|---|
//! | [`Commit`] | make changes durable |
//! | [`WorkQueue`] | claim steps, find those to observe |
//! | [`Views`] | page, count, look up |
//! | [`NativeResources`] | read the resources that this deployment keeps itself |
//! | [`Federation`] | exchange notices and clearances with other deployments |
//! | [`Engines`] | learn what this engine may do among the engines of its ledger |
//!
//! [`open()`] opens one by its [`Location`], and [`holder`] finds the process that has it open.
//!
//! Writing is batch-shaped: callers hand over [`Change`]s. The store applies them in one transaction, each
//! whole or not at all, and answers each separately. A change whose fence no longer matches fails alone as
//! [`Applied::Stale`]. When `commit` returns `Ok`, every change that was applied is durable.
//!
//! **Architecture invariant:** readiness, counts, deletion states, tombstone phases, events and the
//! audit are maintained inside the transaction that changes a step; nobody derives them afterwards.
//!
//! [`transitions`] alone knows which state follows which, [`events`] alone what an event says, and [`reads`]
//! alone what a question means. A store loads and saves rows ([`store`]): those that a change touches are kept in
//! a [`working_set`]. Whatever can be asked like a store ([`Drive`]) is a ledger.

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
    NewEvent, NewNative, NewOptions, NewPurge, PurgeAction, RetryBy, Selection, StepChange,
    StuckAgain,
};
pub use drive::{Drive, Job, Outcome, answer, fails_alone, steps_of_outcomes};
pub use engines::{EngineTerms, Engines, Membership};
pub use error::LedgerError;
pub use federation::{Federation, Importer, LiveStep, UnhandledDeletion, WatchCursor};
pub use location::{Hold, Holder, Location, NoLocation};
pub use native_resources::{NativeBy, NativeFilter, NativeResources, Referrer, Referrers};
pub use open::{Opened, can_write_at_server, holder, open, open_reader, remove_unless_held};
pub use views::{
    AbandonedStep, AuditRow, Cursor, DeletionFilter, EventFilter, EventPage, KeptRequest,
    StepFilter, Summary, TombstoneFilter, Views,
};
pub use work_queue::{
    Capacity, ClaimedStep, Due, Fence, ObservationsDue, Original, OriginalName, WorkQueue,
};

/// The whole ledger, for those who assemble an engine; others name the traits that they use.
pub trait Ledger: Commit + WorkQueue + Views + NativeResources + Federation + Engines {}

impl<L: Commit + WorkQueue + Views + NativeResources + Federation + Engines + ?Sized> Ledger for L {}
