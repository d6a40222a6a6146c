//! The changes that a ledger makes durable, and its answers to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::{Fence, LedgerError};
use crate::domain::ladder::Rung;
use crate::domain::model::{
    Actor, Answer, DriftPolicy, EventKind, KindName, OnFailure, Plan, PlanOptions, Refusal,
    ResourceKey, Site, Target,
};
use crate::domain::native::NativeReference;
use crate::domain::notification::CursorPosition;
use crate::domain::peers::{ClearanceAnswer, DeletionNotices, Deployment};
use crate::domain::policy::Decision;

/// Makes changes durable.
#[async_trait]
pub trait Commit: Send + Sync {
    /// Applies the changes in order, in one durable transaction, and returns the answers in the same order.
    async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Applied>, LedgerError>;
}

/// One change to make durable.
#[derive(Clone, Debug)]
pub enum Change {
    /// Saves a plan for 24 h, under its hash.
    SavePlan { plan: Arc<Plan>, now: DateTime<Utc> },
    /// Keeps for 24 h the answer to a request that had an idempotency key and asked for no deletion.
    KeepAnswer {
        request: KeyedRequest,
        answer: Value,
        now: DateTime<Utc>,
    },
    /// Accepts a deletion: writes its row as `planning`, and the write guard `checking` over its targets and
    /// their copies (T3). If one deletion already has all the targets, the answer is that deletion, with the
    /// later of both deadlines (T6). A request with the id or idempotency key of an earlier one is answered with the
    /// deletion of that one. Refused without a target, or if another deletion deletes a copy of a target: an original
    /// is deleted after its copies.
    Accept(Box<NewDeletion>),
    /// Starts a plan: writes every step, edge and tombstone `deleting` in one transaction (T3). Steps that
    /// another live deletion already has are left to it (I9) and share the fate of its steps (P9).
    Start {
        deletion_id: String,
        plan: Arc<Plan>,
        /// Length of the longest path from each step to the end of the deletion, by position, counted in plain deletes.
        ranks: Vec<u32>,
        /// Maximum number of attempts of each step, by position; it depends on the kind (I3).
        max_attempts: Vec<u32>,
        now: DateTime<Utc>,
    },
    /// Refuses a plan: the deletion becomes `refused`, and its tombstones in phase `checking` are `released`.
    Refuse {
        deletion_id: String,
        refused: Vec<Refusal>,
        note: String,
        now: DateTime<Utc>,
    },
    /// A cloud did not answer, but the deadline has not passed (N16): the deletion stays `planning`, and its
    /// note says why.
    StillPlanning {
        deletion_id: String,
        note: String,
        now: DateTime<Utc>,
    },
    /// Records the outcome of a step. Stale unless state, claim and epoch still match. In a cancelled
    /// deletion, a step that would be retried (blocked, stuck, ready) is skipped and released (P8).
    Step(Box<StepChange>),
    /// Makes blocked steps whose next attempt is due `ready`, a bounded number at a time.
    WakeDue { now: DateTime<Utc> },
    /// Retries stuck and blocked steps that are neither left to another deletion nor stuck because of another step, or
    /// plans a refused deletion again. For a person, stuck steps begin with new attempts. A repeated DELETE (T6)
    /// retries the steps of a deletion at most once a minute, and keeps their attempts; it does not retry steps whose
    /// error is fatal, drift or a guard, nor paused and refused deletions. A retry that is refused may still have saved
    /// that a step is stuck because of another step.
    Retry {
        selection: Selection,
        by: RetryBy,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// Applies a person's answer to drift, with its event and audit row, all or nothing (P11). Either a new
    /// deletion takes the newcomers and the stuck steps are retried, or the deletion is cancelled and its
    /// note says which resources stay.
    AnswerDrift(Box<NewDriftAnswer>),
    /// Changes options of an accepted deletion, and its reason if the audit entry has one; then retries the given
    /// steps. Refused once the deletion has ended, while it awaits approval, while its approved plan is compared with
    /// the cloud, and, if `on_failure` changes, while steps are stuck.
    SetOptions(Box<NewOptions>),
    /// Cancels a deletion: no further call is sent. Steps whose call was not sent are `skipped` and their
    /// tombstones `released`; calls that were sent run to their end, and are observed (P8).
    Cancel {
        deletion_id: String,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    Pause {
        deletion_id: String,
        paused: bool,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// Takes a rung of the purge ladder (P3), and audits the rung. The answer is `Moved` for `retry`, `reset`, `force`
    /// and `forget`, `Done` for `runbook`, and `Accepted` with the deletion of the blocking edges for `unpin`.
    Purge(Box<NewPurge>),
    /// Releases the tombstone of a resource that exists after its deletion ended. Refused if the resource has no
    /// tombstone in phase `gone` or `purged`.
    Release {
        key: ResourceKey,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// A resource under a natural key was re-created after its deletion ended: its record is now that of the
    /// next incarnation (M1). Nothing changes if the resource has no tombstone in phase `gone` or `purged`.
    Revive {
        key: ResourceKey,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// Pauses or resumes a site for a person. The pause outlives the engine, and only a person ends it.
    PauseSite {
        site: Site,
        paused: bool,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// Makes the engines of this name claim nothing more and only finish the calls in flight, or work again. Refused if
    /// no engine has the name.
    DrainEngines {
        name: String,
        is_drained: bool,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// A resource that was gone was re-created (T14); its tombstone counts the re-creation. If `stuck` says why a
    /// person must decide about the resource, the step that deleted it becomes stuck with that reason, and its
    /// tombstone is `deleting` again. If no step has deleted the resource yet, if that step was pruned, or if one of
    /// its dependents has not ended, the re-creation is only counted. Refused if the resource is not gone, or if a
    /// deletion that is being planned will delete the resource (or copy) that was re-created.
    ///
    /// With `copy`, the resource itself does not exist again, but a new copy of it at another site does. Such a copy
    /// also counts while the resource is still being deleted.
    Recreated {
        key: ResourceKey,
        copy: Option<ResourceKey>,
        stuck: Option<RecreationReason>,
        now: DateTime<Utc>,
    },
    /// Writes an event. An event about a site's state is written only if the state changed, and the new state is saved
    /// with it. Nothing else changes.
    Note { event: NewEvent, now: DateTime<Utc> },
    /// Moves the cursor up to which a channel has been notified (I7). None: removes the cursor, because the
    /// channel no longer exists.
    MoveNotificationCursor {
        channel: String,
        position: Option<CursorPosition>,
    },
    /// Adds a registry resource. Refused if it exists or is being deleted (M2), or if it refers to a resource
    /// that does not exist or is being deleted (G10).
    Add(Box<NewNative>),
    /// Updates a registry resource. Stale if it does not exist, or was written since it was read. Refused if it
    /// is being deleted, or if a new reference would be refused by [`Self::Add`].
    Amend {
        new: Box<NewNative>,
        read_at: DateTime<Utc>,
    },
    /// Deletes this incarnation of a registry resource. Stale if it does not exist; refused while a resource
    /// refers to it from one of the fields in `unless`.
    DeleteNative {
        key: ResourceKey,
        incarnation: u32,
        unless: Arc<[(KindName, String)]>,
        now: DateTime<Utc>,
    },
    /// Removes these references of a registry resource, each from its field. Stale if the resource does not
    /// exist.
    Unset {
        key: ResourceKey,
        references: Vec<(String, ResourceKey)>,
        now: DateTime<Utc>,
    },
    /// Removes a batch of events from before this time or, once none is left, of ended deletions; also old notices of
    /// other deployments, and rows that no tombstone needs any more. The answer is `Moved` with the number of
    /// events, steps or deletions; 0 when none are left. Deletions with stuck or abandoned steps stay, and so do the
    /// newest deletion, the audit and the records of natural keys.
    Prune {
        before: DateTime<Utc>,
        /// The kinds whose ids are never used again, so that their records may be removed (M1).
        unique_id_kinds: Arc<[KindName]>,
        /// If a person asked for the removal: its audit entry, with the first batch only.
        audit: Option<AuditEntry>,
        now: DateTime<Utc>,
    },
    /// Puts a deployment that watches deletions of these kinds on record as an importer, or changes its kinds (G12).
    RecordImporter {
        importer: Deployment,
        kinds: BTreeSet<KindName>,
        now: DateTime<Utc>,
    },
    /// Records the notices that the watch on the deployment of this service and region received.
    AdvanceWatch {
        service: String,
        region: String,
        notices: DeletionNotices,
        now: DateTime<Utc>,
    },
    /// Marks resources that another deployment deletes as handled by this deletion, which has them as targets
    /// and handles the resources here that refer to them. Without a deletion: no resource here refers to them.
    MarkHandled {
        keys: Vec<ResourceKey>,
        deletion: Option<Box<NewDeletion>>,
    },
    /// Records an importer's answers about the resources that these steps delete (G7).
    RecordAnswers {
        importer: String,
        answers: Vec<(i64, ClearanceAnswer)>,
        now: DateTime<Utc>,
    },
    /// Releases an importer that no longer exists: no step waits for its clearance any more (G12).
    ReleaseImporter {
        name: String,
        audit: AuditEntry,
        now: DateTime<Utc>,
    },
    /// At the engine's start: steps whose calls were in flight when an earlier engine ended are observed before
    /// anything is sent for them again. Also shortens waits that are too long because a clock was set back.
    Recover { now: DateTime<Utc> },
    /// Like [`Self::Recover`], for an engine that ended while this one runs. This engine's own calls in flight
    /// continue.
    TakeOver { now: DateTime<Utc> },
}

impl Change {
    /// Whether the change may raise the write guard or tombstone of a resource that gates do not refuse yet. Gates must
    /// apply the guard or tombstone before the change is answered (T3).
    pub fn raises_tombstones(&self) -> bool {
        matches!(
            self,
            Self::Accept(_)
                | Self::Retry { .. }
                | Self::Start { .. }
                | Self::AnswerDrift(_)
                | Self::Purge(_)
                | Self::MarkHandled { .. }
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    Done,
    /// The deletion that answers the request; `existing` if it was accepted before.
    Accepted {
        deletion_id: String,
        existing: bool,
    },
    /// Number of steps that were retried, woken, abandoned or taken over; of refused deletions that are planned again;
    /// of answers that changed something; or of events, steps or deletions that were removed. 0 for a change that did
    /// none of this.
    Moved(u64),
    /// The step was removed or its fence no longer matches, the registry resource does not exist or was written
    /// since it was read, or the deletion was accepted before ([`Change::MarkHandled`]); nothing was written.
    Stale,
    /// The change is not allowed, or the ledger cannot store it, for this reason; nothing was written, except by a
    /// [`Change::Retry`] as described there.
    Refused(String),
    /// The idempotency key was used for another request, which the text names; nothing was written.
    KeyReused(String),
}

#[derive(Clone, Debug)]
pub struct NewDeletion {
    pub id: String,
    pub targets: Vec<Target>,
    /// The copies of the targets at other sites, which the write guard covers too.
    pub copies: Vec<ResourceKey>,
    /// The targets as a gate read them from their cloud; empty if the request did not come through a gate. Gates show
    /// a target in this form once the cloud no longer shows it (T7).
    pub shown: Vec<(ResourceKey, Value)>,
    pub options: PlanOptions,
    /// Hash of the approved plan, with which the engine compares what it finds (P1); none if no plan was approved.
    pub plan_hash: Option<String>,
    pub actor: Actor,
    pub reason: String,
    pub cause: Option<String>,
    /// The client's request, if it has an idempotency key.
    pub request: Option<KeyedRequest>,
    /// Until this time, the deletion is planned again if a cloud does not answer (N16).
    pub deadline: Option<DateTime<Utc>>,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

/// A request with an idempotency key (`Idempotency-Key`). Each actor has keys of its own. The same key with another
/// body is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRequest {
    pub actor: Actor,
    pub key: String,
    /// Hash of the request that the client made.
    pub body: String,
}

/// A registry resource to add or update.
#[derive(Clone, Debug)]
pub struct NewNative {
    pub key: ResourceKey,
    pub fields: Map<String, Value>,
    /// The references in the resource's fields.
    pub references: Vec<NativeReference>,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

/// A rung of the purge ladder that a person took.
#[derive(Clone, Debug)]
pub struct NewPurge {
    pub what: Selection,
    pub action: PurgeAction,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

#[derive(Clone, Debug)]
pub enum PurgeAction {
    Retry,
    /// This deletion removes the blocking edges, and the step is retried: both, or neither.
    Unpin(Box<NewDeletion>),
    /// The steps are retried with their kinds' reset, and then with the delete.
    Reset,
    /// The steps are retried with their kinds' forced delete, in place of the delete.
    Force,
    /// Only the audit and an event say that a person follows the runbook.
    Runbook,
    /// Abandons the steps: they end `purged`, and the steps that waited for them are stuck until a person
    /// retries them.
    Forget,
}

impl PurgeAction {
    pub fn rung(&self) -> Rung {
        match self {
            Self::Retry => Rung::Retry,
            Self::Unpin(_) => Rung::Unpin,
            Self::Reset => Rung::Reset,
            Self::Force => Rung::Force,
            Self::Runbook => Rung::Runbook,
            Self::Forget => Rung::Forget,
        }
    }
}

/// A person's answer to drift.
#[derive(Clone, Debug)]
pub struct NewDriftAnswer {
    pub deletion_id: String,
    /// The stuck steps to which the answer applies.
    pub steps: Vec<i64>,
    pub answer: DriftAnswer,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

#[derive(Clone, Debug)]
pub enum DriftAnswer {
    /// The deletion of the newcomers; none if none of them is left.
    Accept { newcomers: Option<Box<NewDeletion>> },
    /// `note`: which resources stay, and why.
    Refuse { note: String },
}

/// Options that change after a deletion was accepted.
#[derive(Clone, Debug)]
pub struct NewOptions {
    pub deletion_id: String,
    pub drift: Option<DriftPolicy>,
    pub on_failure: Option<OnFailure>,
    /// Stuck steps to retry, because the new options allow them to continue.
    pub retry: Vec<i64>,
    pub audit: AuditEntry,
    pub now: DateTime<Utc>,
}

/// The outcome of a step's call or observation, with the fence under which it counts.
#[derive(Clone, Debug)]
pub struct StepChange {
    pub step_id: i64,
    pub fence: Fence,
    pub decision: Decision,
    /// One line of the step's timeline: `DELETE 409 NetworkInUse`. An observation that leaves the state as it
    /// was and has no error writes no line.
    pub message: String,
    /// The answer to the call, for the event's data; none if there was no call, or if the error has it.
    pub answer: Option<Answer>,
    pub now: DateTime<Utc>,
}

/// Who asked for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryBy {
    /// Retries steps whatever their error, and counts the attempts of stuck steps from 0.
    Person,
    /// A DELETE of a resource that is already being deleted (T6).
    Repeat,
}

#[derive(Clone, Debug)]
pub enum Selection {
    Deletion(String),
    Steps(Vec<i64>),
}

/// Why a person must decide about a resource that exists again (T14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecreationReason {
    /// The resource or its copies were re-created more often than allowed.
    TooOften,
    /// A resource has the name and project of the original. That does not prove that it is a copy, so the engine does
    /// not delete it.
    NameAlone,
}

#[derive(Clone, Debug)]
pub struct AuditEntry {
    pub actor: Actor,
    /// `delete`, `retry`, `cancel`, …
    pub action: String,
    pub target: String,
    pub reason: String,
    pub detail: Value,
}

#[derive(Clone, Debug)]
pub struct NewEvent {
    pub deletion_id: Option<String>,
    pub step_id: Option<i64>,
    pub kind: EventKind,
    pub message: String,
    pub data: Value,
}
