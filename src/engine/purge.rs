//! The purge ladder (P3): says what can be done about stuck and blocked steps, and does it.
//!
//! No rung calls a cloud by itself. `retry` retries the step. `unpin` is a deletion of the edges that block the step;
//! it is planned behind its own write guard and checked like every deletion, while the step waits. `reset` and `force`
//! retry the step with another call. `runbook` and `forget` send nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PAGE_MAX;
use super::audit::{audit, keys_of, new_deletion};
use super::guards::Guards;
use super::planning::Planning;
use super::protection::protected;
use super::reads::Reads;
use super::records::{deletion, step, steps_of};
use super::schedules::Schedules;
use crate::cloud::{CloudFailure, Freshness};
use crate::control::{ControlError, Envelope, Purged, Receipt};
use crate::domain::ladder::{self, CurrentRow, Facts, Ladder, PurgeScope, Rung};
use crate::domain::model::{
    Action, Blocker, Deletion, KindName, Mapped, Plan, PlanOptions, ResourceKey, Step, StepState,
    Target,
};
use crate::domain::query::{ListFilter, Lookup};
use crate::domain::text::escape;
use crate::ledger::{Applied, Change, Ledger, NewDeletion, NewPurge, PurgeAction, Selection};
use crate::system::clock::Clock;
use crate::system::config::ProtectRule;

/// A ladder, and the data that is needed to take one of its rungs.
pub(super) struct Found {
    pub(super) ladder: Ladder,
    deletion: Deletion,
    /// The step that the ladder is for; for a whole deletion, the steps that [`Purging::roots`] returns.
    roots: Vec<Step>,
    /// The plan that removes the edges that block the step, if there is only one step and such a plan.
    unpin_plan: Option<Plan>,
}

/// Offers the rungs of the purge ladder, and takes them.
pub(super) struct Purging {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) reads: Arc<Reads>,
    pub(super) schedules: Arc<Schedules>,
    pub(super) planning: Arc<Planning>,
    pub(super) guards: Arc<Guards>,
    /// The settings' rules that protect resources (P4).
    pub(super) protect: Vec<ProtectRule>,
}

impl Purging {
    pub(super) async fn ladder(&self, what: &PurgeScope) -> Result<Found, ControlError> {
        let (deletion, only) = match what {
            PurgeScope::Deletion(id) => (deletion(&*self.ledger, id).await?, None),
            PurgeScope::Step(id) => {
                let step = step(&*self.ledger, *id).await?;
                (
                    deletion(&*self.ledger, &step.deletion_id).await?,
                    Some(step),
                )
            }
        };
        let stuck_or_blocked = [StepState::Stuck, StepState::Blocked];
        let steps = steps_of(
            &*self.ledger,
            &deletion.id,
            &stuck_or_blocked,
            PAGE_MAX,
            |_| true,
        )
        .await?;
        let is_whole = only.is_none();
        let roots = match only {
            Some(step) => vec![step],
            None => self.roots(&deletion, &steps).await?,
        };
        let guards = self.guards.guarding(&roots).await;
        let (unpin_plan, why_no_unpin_plan) = match roots.as_slice() {
            [one] => match self.unpin_plan(one).await {
                Ok(plan) => (Some(plan), String::new()),
                Err(why) => (None, why),
            },
            _ => (None, String::new()),
        };
        let shown = match roots.as_slice() {
            [one] => self.shown(one).await,
            _ => Err("the rung depends on the state of one resource: show the ladder of a single step, by the step's number".to_owned()),
        };
        let facts: Vec<Facts<'_>> = roots
            .iter()
            .map(|step| Facts {
                step,
                kind: self.reads.kinds.get(&step.resource.key.kind),
                variables: BTreeMap::from([(
                    "cascade".to_owned(),
                    deletion.options.cascade.to_string(),
                )]),
                pending_max: self.schedules.of(&step.resource.key.kind).pending_max,
                guarded: guards.get(&step.resource.key).cloned(),
                read_only: self.reads.sites.read_only(&step.resource.key.site),
                unpin_calls: match &unpin_plan {
                    Some(plan) => Ok(self.calls(plan)),
                    None => Err(why_no_unpin_plan.clone()),
                },
                shown: shown.clone(),
                waiting: waiting_for(step, &steps),
            })
            .collect();
        let now = self.clock.now();
        let ladder = match facts.first() {
            Some(one) if !is_whole => ladder::of_step(&deletion, one, now),
            _ => ladder::of_deletion(&deletion, &facts, now),
        };
        drop(facts);
        Ok(Found {
            ladder,
            deletion,
            roots,
            unpin_plan,
        })
    }

    /// Returns the blocked steps, and the stuck steps except those that are stuck only because of another stuck step.
    /// If there are none, returns the deletion's steps whose accepted delete is delayed.
    async fn roots(&self, deletion: &Deletion, steps: &[Step]) -> Result<Vec<Step>, ControlError> {
        let roots = steps.iter().filter(|step| step.held_by.is_none());
        let roots: Vec<Step> = roots.cloned().collect();
        if !roots.is_empty() {
            return Ok(roots);
        }
        let is_delayed = |step: &Step| step.blocked_since.is_some();
        let verifying = [StepState::Verifying];
        steps_of(
            &*self.ledger,
            &deletion.id,
            &verifying,
            PAGE_MAX,
            is_delayed,
        )
        .await
    }

    /// Reads the row of a step's resource, and the roles of the login there, if its kind has rungs that depend on
    /// them.
    async fn shown(&self, step: &Step) -> Result<CurrentRow, String> {
        let key = &step.resource.key;
        let kind = self.reads.kinds.get(&key.kind);
        let Some(kind) = kind.filter(|kind| !kind.spec.rungs.is_empty()) else {
            return Err(format!(
                "no rung of the kind {} depends on the state",
                key.kind
            ));
        };
        let unknown = |failure: CloudFailure| {
            format!(
                "the state of the resource is not known: {}",
                failure.message
            )
        };
        let signed_in = self.reads.identity(&key.site, Freshness::AtLogin).await;
        let roles = signed_in.map_err(unknown)?.identity.roles;
        let read = self.reads.read(&key.site, kind, &key.id).await;
        let row = read.map_err(unknown)?.row;
        let row = row.ok_or_else(|| "the resource is gone: retry the step".to_owned())?;
        Ok(CurrentRow { row, roles })
    }

    /// Returns the plan that removes the edges by which other resources block a step, or the reason why there
    /// is none.
    async fn unpin_plan(&self, step: &Step) -> Result<Plan, String> {
        let outside: Vec<&Blocker> = step
            .blockers
            .iter()
            .filter(|blocker| !blocker.in_plan)
            .collect();
        let mut targets = Vec::new();
        let mut foreign = None;
        for blocker in outside {
            let edges = self.edges_of(blocker, &step.resource.key.kind).await?;
            // An edge whose owner is unknown is not touched either.
            let ours = blocker.owner == step.project_id && !blocker.owner.is_empty();
            if !edges.is_empty() && !ours {
                foreign.get_or_insert(blocker);
                continue;
            }
            targets.extend(edges.iter().map(|key| Target::of(key, &blocker.name)));
        }
        if let (true, Some(blocker)) = (targets.is_empty(), foreign) {
            return Err(format!(
                "{} at {} belongs to project {}: have that project remove it",
                blocker.key().called(&blocker.name),
                blocker.site,
                escape(blocker.owner_shown())
            ));
        }
        if targets.is_empty() {
            return Err("gone knows no edge that blocks the step and can be removed".to_owned());
        }
        let plan = self
            .planning
            .plan_targets(&targets, PlanOptions::default())
            .await;
        let plan = plan.map_err(|failure| failure.message)?;
        if let Some(refusal) = plan.refused.first() {
            return Err(refusal.reason.clone());
        }
        let going = plan.steps.iter().chain(&plan.automatic).chain(&plan.unset);
        match going
            .into_iter()
            .find(|it| *it.project_id != *step.project_id)
        {
            Some(other) => Err(format!(
                "{} belongs to another project",
                other.key().called(&other.name)
            )),
            None => Ok(plan),
        }
    }

    /// Returns the edges by which a blocker blocks a resource of this kind: the blocker itself, or the edges that its
    /// kind names. Returns an error if the blocker cannot be read, or a rule protects it.
    async fn edges_of(
        &self,
        blocker: &Blocker,
        blocked: &KindName,
    ) -> Result<Vec<ResourceKey>, String> {
        let key = blocker.key();
        let Some(kind) = self.reads.kinds.get(&blocker.kind) else {
            return Ok(Vec::new());
        };
        if kind.action() == Action::Detach {
            return Ok(vec![key]);
        }
        let mut references = kind.spec.references.iter();
        let unpinned = references.find(|it| it.to == *blocked && it.unpinned_by.is_some());
        let Some(edge) = unpinned.and_then(|reference| reference.unpinned_by.as_ref()) else {
            return Ok(Vec::new());
        };
        let lookup = Lookup {
            site: key.site.clone(),
            kind: kind.name.clone(),
            filter: Some(ListFilter::by_ids([key.id.clone()])),
        };
        let (rows, _) = self.reads.look_up(&lookup).await.map_err(|it| it.message)?;
        let rows = rows.iter();
        let shown: Vec<_> = rows
            .flat_map(|row| self.reads.kinds.resources_in(&key.site, kind, row))
            .collect();
        let rules = &self.protect;
        let own = shown.iter().find(|resource| resource.key == key);
        if let Some(rule) =
            own.and_then(|own| protected(&self.reads.kinds, rules, own, self.clock.now()))
        {
            return Err(format!("{} is protected: {rule}", escape(&key.to_string())));
        }
        let edges = shown.into_iter().filter(|found| found.key.kind == *edge);
        Ok(edges.map(|found| found.key).collect())
    }

    fn calls(&self, plan: &Plan) -> Vec<String> {
        let lines = plan.steps.iter().map(|step| {
            let kind = self.reads.kinds.get(&step.kind);
            let line =
                kind.map(|kind| ladder::call_line(kind, step.action, &step.key(), &step.vars));
            let line = line.unwrap_or_default();
            format!("{}: {}", escape(&line), escape(&step.why))
        });
        lines.collect()
    }

    /// Takes a rung that is offered now. Earlier offers do not count.
    pub(super) async fn purge(
        &self,
        envelope: &Envelope,
        what: &PurgeScope,
        rung: Rung,
        confirm: &str,
    ) -> Result<Receipt, ControlError> {
        let found = self.ladder(what).await?;
        let Found {
            ladder, deletion, ..
        } = &found;
        if confirm.len() < ladder.confirm.len() || !deletion.id.ends_with(confirm) {
            return Err(ControlError::usage(format!(
                "\"{}\" is not the short id of the deletion, {}: nothing was done",
                escape(confirm),
                ladder.confirm
            )));
        }
        let targets: Vec<Target> = found.roots.iter().map(Step::target).collect();
        self.guards.writable(&targets)?;
        self.guards.reasoned(envelope, &targets)?;
        let offer = ladder.offer(rung);
        if let Some(why) = offer.and_then(|offer| offer.why_not.as_ref()) {
            return Err(ControlError::conflict(format!(
                "{} is not offered for {}: {why}",
                rung.as_str(),
                ladder.subject
            )));
        }
        let selection = match (what, found.roots.as_slice()) {
            (PurgeScope::Step(id), _) => Selection::Steps(vec![*id]),
            (PurgeScope::Deletion(_), [one]) if rung != Rung::Forget => {
                Selection::Steps(vec![one.id])
            }
            (PurgeScope::Deletion(_), _) => Selection::Deletion(deletion.id.clone()),
        };
        let mut audit = audit(envelope, &format!("purge {}", rung.as_str()), &deletion.id);
        audit.detail = serde_json::json!({
            "rung": rung,
            "of": ladder.subject,
            "step_id": ladder.step_id,
            "does": offer.map(|offer| &offer.does),
        });
        let now = self.clock.now();
        let mut changes = Vec::new();
        let action = match (rung, &found.unpin_plan) {
            (Rung::Retry, _) => PurgeAction::Retry,
            (Rung::Reset, _) => PurgeAction::Reset,
            (Rung::Force, _) => PurgeAction::Force,
            (Rung::Runbook, _) => PurgeAction::Runbook,
            (Rung::Forget, _) => PurgeAction::Forget,
            (Rung::Unpin, Some(plan)) => {
                let plan = Arc::new(plan.clone());
                changes.push(Change::SavePlan {
                    plan: plan.clone(),
                    now,
                });
                PurgeAction::Unpin(Box::new(self.unpinning(envelope, deletion, &plan)))
            }
            (Rung::Unpin, None) => {
                return Err(ControlError::conflict(
                    "gone no longer finds an edge that blocks the step and can be removed",
                ));
            }
        };
        changes.push(Change::Purge(Box::new(NewPurge {
            what: selection,
            action,
            audit,
            now,
        })));
        let applied = self.reads.journal.commit(changes).await?;
        let (moved, deletion_id) = match applied.into_iter().next_back() {
            Some(Applied::Moved(moved)) => (moved, None),
            Some(Applied::Accepted { deletion_id, .. }) => (1, Some(deletion_id)),
            Some(Applied::Refused(why)) => return Err(ControlError::conflict(why)),
            _ => (0, None),
        };
        let runbook = found.roots.first().filter(|_| rung == Rung::Runbook);
        let runbook = runbook.and_then(|step| {
            let kind = self.reads.kinds.get(&step.resource.key.kind)?;
            ladder::runbook(kind, step)
        });
        Ok(Receipt::Purged(Purged {
            rung,
            moved,
            deletion_id,
            runbook,
        }))
    }

    /// Returns the deletion of the edges that block a step: exactly the edges that were offered, or nothing
    /// (P1).
    fn unpinning(&self, envelope: &Envelope, deletion: &Deletion, plan: &Plan) -> NewDeletion {
        let audit = audit(envelope, "delete", &keys_of(&plan.targets));
        NewDeletion {
            copies: plan.mapping.iter().flat_map(Mapped::copies).collect(),
            plan_hash: Some(plan.hash.clone()),
            cause: Some(deletion.id.clone()),
            ..new_deletion(&self.clock, plan.targets.clone(), plan.options, audit)
        }
    }
}

/// Returns how many of these steps wait for this one.
fn waiting_for(step: &Step, steps: &[Step]) -> u64 {
    let waiting = steps.iter().filter(|other| other.held_by == Some(step.id));
    waiting.count() as u64
}
