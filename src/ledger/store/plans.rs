//! Rows that are written with a request or a plan, and rarely change afterwards.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::{Fallible, Stored};
use crate::domain::model::{
    Actor, Plan, PlanOptions, PlanStep, Refusal, ResourceKey, Site, StepError, StepState, Target,
};
use crate::domain::outline::Branch;
use crate::ledger::{KeyedRequest, NewDeletion};

/// How long plans and idempotency keys are kept.
pub const KEPT: TimeDelta = TimeDelta::hours(24);

/// The request for a deletion, with all its columns that a later change reads or writes.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRequest {
    pub targets: Vec<Target>,
    pub copies: Vec<ResourceKey>,
    pub options: PlanOptions,
    /// Hash of the approved plan; after the start, of the plan that started.
    pub plan_hash: Option<String>,
    pub reason: String,
    /// The deletion of another deployment that is the root cause (G13); none if the deletion counts as its own root.
    pub root: Option<String>,
    /// Until this time, the deletion is planned again if a cloud does not answer (N16).
    pub deadline: Option<DateTime<Utc>>,
    pub actor: Actor,
    pub cause: Option<String>,
    /// Why the deletion's plan was refused; empty if it was not.
    pub refused: Vec<Refusal>,
    pub requested_at: DateTime<Utc>,
}

/// A step to insert.
#[derive(Clone, Debug)]
pub struct NewStep<'a> {
    pub id: i64,
    /// Number of the step's deletion.
    pub deletion: i64,
    pub planned: &'a PlanStep,
    /// The step's position in the plan, from 0.
    pub position: usize,
    pub state: StepState,
    pub since: DateTime<Utc>,
    /// Number of the step's dependencies.
    pub waits: usize,
    /// Length of the longest path from the step to the end of the deletion, counted in plain deletes.
    pub rank: u32,
    pub max_attempts: u32,
    pub branch: i64,
    /// Record of the step's tombstone; none if the resource stays, or another deletion deletes it.
    pub record: Option<i64>,
    /// The step of another deletion that deletes the same resource (P9).
    pub left_to: Option<i64>,
    pub error: Option<StepError>,
}

/// The sites where copies of an original may be re-created, and the data that identifies the copies.
#[derive(Clone, Debug)]
pub struct OriginalCopies {
    pub original: ResourceKey,
    pub sites: BTreeSet<Site>,
    /// The resources that the cloud removes with the original. They have no tombstone of their own (T20).
    pub parts: BTreeSet<ResourceKey>,
    /// The original's name and project, if nothing else identifies its copies.
    pub name: Option<(String, String)>,
}

/// The rows of requests and plans.
pub trait PlanRows: Fallible {
    /// Saves a plan under its hash, and removes the plans that are older than [`KEPT`].
    fn save_plan(&self, plan: &Plan, now: DateTime<Utc>) -> Stored<Self>;

    /// Keeps a request, and removes the requests that are older than [`KEPT`]. `deletion`: the id of the deletion
    /// that answers the request, or empty.
    fn keep_request(
        &self,
        request: &KeyedRequest,
        deletion: &str,
        answer: Option<&Value>,
        now: DateTime<Utc>,
    ) -> Stored<Self>;

    /// Saves the options, the reason and the deadline; nothing else changes.
    fn save_request(&self, num: i64, request: &StoredRequest) -> Stored<Self>;

    /// Saves why the plan of a deletion was refused.
    fn save_refusals(&self, num: i64, refused: &[Refusal]) -> Stored<Self>;

    /// Saves the header of the plan that has started (the plan without its steps), and its hash.
    fn save_frozen(&self, num: i64, header: &Plan) -> Stored<Self>;

    /// Keeps the resource of a tombstone, given by the tombstone's record, as its cloud showed it (T7).
    fn save_snapshot(&self, record: i64, shown: &Value) -> Stored<Self>;

    /// The first id that no step has.
    fn first_free_step(&self) -> Stored<Self, i64>;

    /// Inserts a deletion in the state `planning`, and returns its number.
    fn insert_deletion(&self, wanted: &NewDeletion, root: Option<&str>) -> Stored<Self, i64>;

    /// Inserts the branches of a plan whose steps have ids from `first_step` on ([`crate::domain::outline`]).
    /// Returns the id of the first branch; the others follow.
    fn insert_branches(
        &self,
        deletion: i64,
        first_step: i64,
        branches: &[Branch],
    ) -> Stored<Self, i64>;

    fn insert_steps(&self, new: &[NewStep<'_>]) -> Stored<Self>;

    /// Inserts edges, as (dependency, dependent).
    fn insert_edges(&self, edges: &[(i64, i64)]) -> Stored<Self>;

    /// Saves where copies of these originals may be re-created (T14). Leaves out originals whose tombstones this
    /// deletion did not raise.
    fn remember_copies(&self, deletion: i64, copies: &[OriginalCopies]) -> Stored<Self>;
}
