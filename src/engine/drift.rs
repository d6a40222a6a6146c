//! Answers a deletion that is stuck because newcomers appeared after its plan (P11): accepts the newcomers,
//! or refuses them and leaves them in the cloud.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::PAGE_MAX;
use super::audit::{audit, keys_of, new_deletion};
use super::diagnose::steps_before;
use super::guards::Guards;
use super::journal::Journal;
use super::planning::Planning;
use super::records::{deletion, steps_of};
use super::sites::Sites;
use crate::cloud::CloudFailure;
use crate::control::{ControlError, Envelope, NamedOptions, Receipt};
use crate::domain::drift::{newcomers, refusal_note, waits_for_drift_answer};
use crate::domain::kinds::Kinds;
use crate::domain::model::{
    Deletion, DeletionState, DriftPolicy, PlanOptions, ResourceKey, Step, StepState, Target,
};
use crate::domain::text::and_more;
use crate::ledger::{
    Change, Cursor, DeletionFilter, DriftAnswer, Ledger, NewDeletion, NewDriftAnswer, NewOptions,
};
use crate::system::clock::Clock;

/// Maximum number of stuck steps of one deletion that one answer, or one change of the options, covers. Each step names
/// newcomers of its own. More steps than this come from a steady writer and not from a race.
const ANSWERED_MAX: usize = 100;

/// Answers drift, and sets the options of deletions that are under way.
pub(super) struct DriftAnswers {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) sites: Arc<Sites>,
    pub(super) journal: Arc<Journal>,
    pub(super) guards: Arc<Guards>,
    pub(super) planning: Arc<Planning>,
}

impl DriftAnswers {
    /// Accepts the newcomers that the stuck steps of a deletion name, or refuses them.
    ///
    /// If a person accepts, the named newcomers that still exist become targets of a deletion of their own,
    /// under the guards of every deletion and in that person's name, and the stuck steps are retried. If none
    /// is left to delete, the steps are only retried. Resources that appear after that are drift again. If a
    /// person refuses, the deletion is cancelled, and its note says what stays.
    ///
    /// # Errors
    /// `NotFound` if there is no such deletion. `Conflict` if no step of the deletion is stuck with drift, if the
    /// newcomers cannot be deleted without resources that no step names, or if the ledger refuses the answer. Also any
    /// refusal by a guard, and any failure of a read.
    pub(super) async fn answer_drift(
        &self,
        envelope: &Envelope,
        deletion_id: &str,
        accept: bool,
    ) -> Result<Receipt, ControlError> {
        let deletion = deletion(&*self.ledger, deletion_id).await?;
        let stuck = self.stuck_with_drift(&deletion).await?;
        if stuck.is_empty() {
            return Err(ControlError::conflict(format!(
                "no step of deletion {} is stuck with drift: there is nothing to accept or refuse",
                deletion.id
            )));
        }
        let answer = match accept {
            true => self.accepted(envelope, &deletion, &stuck).await?,
            false => DriftAnswer::Refuse {
                note: refusal_note(&stuck),
            },
        };
        let verb = if accept {
            "accept drift"
        } else {
            "refuse drift"
        };
        let mut audit = audit(envelope, verb, &deletion.id);
        audit.detail = json!({
            "newcomers": stuck.iter().flat_map(newcomers).map(|it| it.key().to_string()).collect::<Vec<_>>(),
            "steps": stuck.iter().map(|step| step.id).collect::<Vec<_>>(),
        });
        let refused = matches!(answer, DriftAnswer::Refuse { .. });
        let receipt = self
            .journal
            .commit_command(Change::AnswerDrift(Box::new(NewDriftAnswer {
                deletion_id: deletion.id.clone(),
                steps: stuck.iter().map(|step| step.id).collect(),
                answer,
                audit,
                now: self.clock.now(),
            })))
            .await?;
        if refused {
            self.sites.withdraw_calls(&deletion.id);
        }
        Ok(receipt)
    }

    async fn stuck_with_drift(&self, deletion: &Deletion) -> Result<Vec<Step>, ControlError> {
        let (ledger, stuck) = (&*self.ledger, [StepState::Stuck]);
        steps_of(
            ledger,
            &deletion.id,
            &stuck,
            ANSWERED_MAX,
            waits_for_drift_answer,
        )
        .await
    }

    /// Accepts the newcomers that are named, that the cascade would still delete, and that no other deletion
    /// deletes.
    async fn accepted(
        &self,
        envelope: &Envelope,
        deletion: &Deletion,
        stuck: &[Step],
    ) -> Result<DriftAnswer, ControlError> {
        let mut targets: BTreeMap<ResourceKey, String> = BTreeMap::new();
        for step in stuck {
            let now_there = self
                .cascade_of_one(&step.resource.key, &step.resource.name)
                .await?;
            for named in newcomers(step) {
                let key = named.key();
                if now_there.contains(&key) {
                    targets.insert(key, named.name.clone());
                }
            }
        }
        self.remove_being_deleted(&mut targets).await?;
        let targets: Vec<Target> = targets
            .into_iter()
            .map(|(key, name)| Target { key, name })
            .collect();
        let own: Vec<Target> = stuck.iter().map(Step::target).collect();
        let touched: Vec<Target> = targets.iter().chain(&own).cloned().collect();
        self.guards.writable(&touched)?;
        self.guards.reasoned(envelope, &touched)?;
        if targets.is_empty() {
            // The newcomers are gone, or another deletion deletes them, so only a retry remains to be done.
            return Ok(DriftAnswer::Accept { newcomers: None });
        }
        self.refuse_unnamed(&targets, &own).await?;
        let mut approval = audit(envelope, "delete", &keys_of(&targets));
        if approval.reason.is_empty() {
            approval.reason = format!("newcomers accepted into deletion {}", deletion.id);
        }
        let options = PlanOptions {
            drift: deletion.options.drift,
            ..PlanOptions::cascading()
        };
        Ok(DriftAnswer::Accept {
            newcomers: Some(Box::new(NewDeletion {
                cause: Some(deletion.id.clone()),
                ..new_deletion(&self.clock, targets, options, approval)
            })),
        })
    }

    /// Removes the resources that are being deleted, or whose deletion is being planned.
    async fn remove_being_deleted<T>(
        &self,
        keys: &mut BTreeMap<ResourceKey, T>,
    ) -> Result<(), ControlError> {
        let all = keys.keys().cloned().collect();
        let tombstones = self.ledger.tombstones_of(all).await?;
        for tombstone in tombstones.iter().filter(|it| it.phase.is_live()) {
            keys.remove(&tombstone.key);
        }
        Ok(())
    }

    /// Refuses newcomers whose cascade would also delete resources that no step names, because those were
    /// attached later (P1).
    async fn refuse_unnamed(&self, targets: &[Target], own: &[Target]) -> Result<(), ControlError> {
        let options = PlanOptions::cascading();
        let plan = self.planning.plan_targets(targets, options).await?;
        let is_named = |key: &ResourceKey| targets.iter().chain(own).any(|it| it.key == *key);
        let steps = plan.steps.iter().filter(|step| step.action.takes_away());
        let mut unnamed: BTreeMap<ResourceKey, String> = steps
            .map(|step| (step.key(), step.key().called(&step.name)))
            .filter(|(key, _)| !is_named(key))
            .collect();
        self.remove_being_deleted(&mut unnamed).await?;
        let count = unnamed.len();
        let Some(first) = unnamed.into_values().next() else {
            return Ok(());
        };
        let others = and_more(count - 1);
        Err(ControlError::conflict(format!(
            "{first}{others} would be deleted too, but no step names it, because it was attached later; \
                 retry the deletion, so that its steps name every newcomer"
        )))
    }

    /// Returns the resources that a cascade from this one resource would delete before it, in the cloud's
    /// present state.
    async fn cascade_of_one(
        &self,
        key: &ResourceKey,
        name: &str,
    ) -> Result<Vec<ResourceKey>, CloudFailure> {
        let target = Target::of(key, name);
        let options = PlanOptions::cascading();
        let plan = self.planning.plan_targets(&[target], options).await?;
        Ok(steps_before(&plan, key)
            .into_iter()
            .map(|it| it.key())
            .collect())
    }

    /// Lets earlier deletions of the same projects absorb newcomers too. Otherwise their steps would be stuck
    /// with the newcomers that were just approved (P11). A project stays, so it has no tombstone by which a
    /// request for it would join the deletion that is under way. The request gets a deletion of its own, which
    /// leaves to the earlier one the resources that the earlier one deletes.
    pub(super) async fn absorb_in_earlier(
        &self,
        envelope: &Envelope,
        targets: &[Target],
        latest: &str,
    ) -> Result<(), ControlError> {
        let stays = |target: &&Target| {
            let kind = self.kinds.get(&target.key.kind);
            kind.is_some_and(|kind| kind.spec.stays.is_some())
        };
        let projects: Vec<&Target> = targets.iter().filter(stays).collect();
        if projects.is_empty() {
            return Ok(());
        }
        let filter = DeletionFilter {
            states: vec![
                DeletionState::Running,
                DeletionState::Paused,
                DeletionState::Stuck,
            ],
            ..DeletionFilter::default()
        };
        let mut after = None;
        loop {
            let limit = PAGE_MAX;
            let page = Cursor { after, limit };
            let page = self.ledger.deletions(filter.clone(), page).await?;
            for earlier in page.rows {
                let repeated = earlier
                    .targets
                    .iter()
                    .any(|target| projects.iter().any(|project| project.key == target.key));
                if !repeated || earlier.id == latest {
                    continue;
                }
                let absorbs = NamedOptions {
                    drift: Some(DriftPolicy::Absorb),
                    on_failure: None,
                };
                match self.set_options(envelope, &earlier.id, absorbs).await {
                    // The earlier deletion has ended, so it has nothing left to absorb.
                    Ok(_) | Err(ControlError::Conflict { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Sets the options that a repeated request gives for the deletion that it joins, or for an earlier deletion of the
    /// same projects. If the deletion absorbs newcomers from now on, its steps that are stuck with drift are retried.
    ///
    /// # Errors
    /// `NotFound` if there is no such deletion. `Conflict` if the deletion has ended or waits for approval, if its
    /// approved plan is being compared with the cloud, if the request changes `on_failure` while steps are stuck, or if
    /// the retry is refused. Also a refusal by a guard.
    pub(super) async fn set_options(
        &self,
        envelope: &Envelope,
        deletion_id: &str,
        named: NamedOptions,
    ) -> Result<Receipt, ControlError> {
        let deletion = deletion(&*self.ledger, deletion_id).await?;
        self.guards.writable(&deletion.targets)?;
        let absorbs = named.drift == Some(DriftPolicy::Absorb);
        let stuck = match absorbs {
            true => self.stuck_with_drift(&deletion).await?,
            false => Vec::new(),
        };
        let mut audit = audit(envelope, "set options", &deletion.id);
        audit.detail = json!(named);
        let change = Change::SetOptions(Box::new(NewOptions {
            deletion_id: deletion.id,
            drift: named.drift,
            on_failure: named.on_failure,
            retry: stuck.iter().map(|step| step.id).collect(),
            audit,
            now: self.clock.now(),
        }));
        self.journal.commit_command(change).await
    }
}
