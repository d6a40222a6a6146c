//! Accepts deletions: writes the intent, and joins a repeated request to the deletion that is under way.

use std::sync::Arc;

use super::audit::{audit, keys_of, new_deletion};
use super::copies::CopySearch;
use super::drift::DriftAnswers;
use super::guards::Guards;
use super::journal::Journal;
use super::records::deletion;
use super::requests::keyed;
use crate::control::{Accepted, ControlError, Envelope, NamedOptions, Receipt};
use crate::domain::model::{
    DeletionState, DriftPolicy, Mapped, Plan, PlanOptions, Resource, ResourceKey, Target,
};
use crate::ledger::{Applied, Change, Ledger, NewDeletion, RetryBy, Selection};
use crate::system::clock::Clock;

/// Accepts the deletions that the guards allow.
pub(super) struct Accepting {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) journal: Arc<Journal>,
    pub(super) copies: Arc<CopySearch>,
    pub(super) guards: Arc<Guards>,
    pub(super) drift: Arc<DriftAnswers>,
}

impl Accepting {
    /// Accepts a deletion of these resources and their copies. `shown` has the rows of these resources as a gate read
    /// them; it is empty for other callers.
    pub(super) async fn delete(
        &self,
        envelope: &Envelope,
        found: &[Resource],
        shown: Vec<(ResourceKey, serde_json::Value)>,
        options: PlanOptions,
    ) -> Result<Accepted, ControlError> {
        let copies = self.copies.copies_of(found).await?;
        let wanted = DeletionIntent {
            targets: targets_of(found),
            copies: copies.keys(),
            shown,
            options,
            plan_hash: None,
        };
        self.accept(envelope, wanted).await
    }

    /// Accepts a deletion: its intent is durable before the function returns. If one deletion is already deleting all
    /// targets, the answer is that deletion.
    pub(super) async fn accept(
        &self,
        envelope: &Envelope,
        wanted: DeletionIntent,
    ) -> Result<Accepted, ControlError> {
        let DeletionIntent {
            targets,
            copies,
            shown,
            options,
            plan_hash,
        } = wanted;
        let copied = copies.iter().map(|copy| Target::of(copy, ""));
        let touched: Vec<Target> = targets.iter().cloned().chain(copied).collect();
        self.guards.writable(&touched)?;
        self.guards.reasoned(envelope, &touched)?;
        let mut audit = audit(envelope, "delete", &keys_of(&targets));
        audit.detail = serde_json::json!({ "options": options, "plan_hash": plan_hash });
        let wanted = targets.clone();
        let new = NewDeletion {
            copies,
            shown,
            plan_hash,
            request: keyed(envelope),
            deadline: envelope.deadline,
            ..new_deletion(&self.clock, targets, options, audit)
        };
        match self
            .journal
            .commit_one(Change::Accept(Box::new(new)))
            .await?
        {
            Some(Applied::Accepted {
                deletion_id,
                existing,
            }) => {
                if !existing && options.drift == DriftPolicy::Absorb {
                    self.drift
                        .absorb_in_earlier(envelope, &wanted, &deletion_id)
                        .await?;
                }
                Ok(Accepted {
                    deletion_id,
                    existing,
                })
            }
            Some(Applied::Refused(why)) => Err(ControlError::conflict(why)),
            Some(Applied::KeyReused(why)) => Err(ControlError::usage(why)),
            _ => Err(ControlError::internal(
                "the ledger did not answer the command",
            )),
        }
    }

    /// If the request joined a deletion, gives that deletion the request's reason and options, and wakes its steps. If
    /// that deletion cannot take the reason or the options, the request is refused and wakes nothing.
    pub(super) async fn join(
        &self,
        envelope: &Envelope,
        named: NamedOptions,
        accepted: Accepted,
    ) -> Result<Receipt, ControlError> {
        let says_more = !named.is_empty() || !envelope.reason.is_empty();
        if accepted.existing && says_more {
            let id = &accepted.deletion_id;
            self.drift.set_options(envelope, id, named).await?;
        }
        self.wake(envelope, accepted).await
    }

    /// Wakes the blocked and stuck steps of a deletion that is requested again, if it is running or stuck, and starts
    /// nothing new (T6).
    pub(super) async fn wake(
        &self,
        envelope: &Envelope,
        accepted: Accepted,
    ) -> Result<Receipt, ControlError> {
        let id = &accepted.deletion_id;
        let is_woken = accepted.existing && {
            let state = deletion(&*self.ledger, id).await?.state;
            matches!(state, DeletionState::Running | DeletionState::Stuck)
        };
        if is_woken {
            let wake = Change::Retry {
                by: RetryBy::Repeat,
                audit: audit(envelope, "delete again", id),
                selection: Selection::Deletion(id.clone()),
                now: self.clock.now(),
            };
            self.journal.commit(vec![wake]).await?;
        }
        Ok(Receipt::Accepted(accepted))
    }
}

/// The deletion to accept: its targets, the copies that are deleted with them, the targets' rows as a gate read them,
/// the options, and the hash of the approved plan.
pub(super) struct DeletionIntent {
    targets: Vec<Target>,
    copies: Vec<ResourceKey>,
    shown: Vec<(ResourceKey, serde_json::Value)>,
    options: PlanOptions,
    plan_hash: Option<String>,
}

impl DeletionIntent {
    pub(super) fn of_plan(plan: &Plan) -> Self {
        Self {
            targets: plan.targets.clone(),
            copies: plan.mapping.iter().flat_map(Mapped::copies).collect(),
            shown: Vec::new(),
            options: plan.options,
            plan_hash: Some(plan.hash.clone()),
        }
    }
}

pub(super) fn targets_of(resources: &[Resource]) -> Vec<Target> {
    resources.iter().map(Resource::target).collect()
}
