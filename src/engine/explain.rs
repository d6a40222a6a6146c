//! Answers `explain`: why a resource is not gone yet, or what would block its deletion (P2).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::confirm::OTHER_LOGIN;
use super::planning::Planning;
use super::resolve::Resolver;
use crate::cloud::NameLookup;
use crate::control::{ControlError, Explanation, TargetSpec};
use crate::domain::awaiting;
use crate::domain::drift::waits_for_drift_answer;
use crate::domain::filter::SearchQuery;
use crate::domain::kinds::Kinds;
use crate::domain::ladder::DEPENDENCY_STUCK;
use crate::domain::model::{
    DeletionState, ErrorClass, KindName, Phase, PlanOptions, Refusal, RefusalRule, Resource,
    ResourceKey, Step, StepError, StepResource, StepState, Target, Tombstone, short_id,
};
use crate::domain::relations::{self, Relation, RelationKind};
use crate::domain::text::{counted, escape};
use crate::ledger::{Cursor, Ledger, LedgerError, StepFilter, TombstoneFilter};

/// How long an explanation waits for the names of the resources that a resource uses. The names only help people, so a
/// service that hangs must not delay the answer.
const NAMES_WITHIN: Duration = Duration::from_secs(3);

/// Explains why a resource is not gone yet, or what would block its deletion, and what to do.
pub(super) struct Explaining {
    pub(super) kinds: Arc<Kinds>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) resolver: Arc<Resolver>,
    pub(super) planning: Arc<Planning>,
}

impl Explaining {
    pub(super) async fn explain(&self, spec: &TargetSpec) -> Result<Explanation, ControlError> {
        let found = self.resolver.look_for(spec).await?;
        let of_row = match &found {
            Some(resource) => self.related(resource).await,
            None => Vec::new(),
        };
        let (target, present) = match found {
            Some(resource) => (resource.target(), true),
            None => {
                let unknown = "no cloud that was asked has it, and the ledger does not know it";
                (self.remembered(spec, unknown).await?, false)
            }
        };
        let mut explanation = self.explain_known(target).await?;
        explanation.relations.extend(of_row);
        let settled = explanation
            .tombstone
            .as_ref()
            .is_none_or(|tombstone| tombstone.phase != Phase::Deleting);
        if present && settled {
            self.explain_plan(&mut explanation).await;
        }
        if !present {
            explanation
                .lines
                .push("the resource does not exist (any more)".to_owned());
        }
        Ok(explanation)
    }

    /// Returns the relations that a row names. A related resource has its name if this login may read it and
    /// the cloud answers in time.
    async fn related(&self, resource: &Resource) -> Vec<Relation> {
        let mut all = relations::of_row(&self.kinds, resource);
        let used = all.iter().filter(|it| it.how == RelationKind::Uses);
        let used = used.filter_map(|it| it.resource.as_ref());
        let named = self.resolver.names(used.map(|it| &it.key));
        let names = timeout(NAMES_WITHIN, named).await.unwrap_or_default();
        for target in all.iter_mut().filter_map(|it| it.resource.as_mut()) {
            if let Some(name) = names.get(&target.key) {
                target.name.clone_from(name);
            }
        }
        let owners = all.iter_mut().filter(|it| it.how == RelationKind::OwnedBy);
        for target in owners.filter_map(|it| it.resource.as_mut()) {
            let (site, ids) = (&target.key.site, BTreeSet::from([target.key.id.clone()]));
            // A login that may not read its project may still know the project's name.
            let cloud = &self.resolver.reads.cloud;
            let mut named = cloud.account_names(site, &ids, NameLookup::Listed).await;
            target.name = named.remove(&target.key.id).unwrap_or_default();
        }
        all
    }

    /// Explains a resource from the ledger alone.
    pub(super) async fn explain_remembered(
        &self,
        spec: &TargetSpec,
    ) -> Result<Explanation, ControlError> {
        let target = self.remembered(spec, "the ledger does not know it").await?;
        self.explain_known(target).await
    }

    async fn explain_known(&self, target: Target) -> Result<Explanation, ControlError> {
        let tombstones = self.ledger.tombstones_of(vec![target.key.clone()]).await?;
        let tombstone = tombstones.into_iter().next();
        let mut explanation = Explanation {
            target,
            deletion: None,
            step: None,
            tombstone: tombstone.clone(),
            lines: Vec::new(),
            blockers: Vec::new(),
            refused: Vec::new(),
            next_action: String::new(),
            relations: Vec::new(),
        };
        if let Some(tombstone) = &tombstone {
            self.explain_deletion(tombstone, &mut explanation).await?;
        }
        Ok(explanation)
    }

    /// Finds a resource in the ledger, which may still know a resource that the cloud no longer has. `unknown`: the
    /// reason in the error if the ledger does not know the resource either.
    async fn remembered(&self, spec: &TargetSpec, unknown: &str) -> Result<Target, ControlError> {
        let kind = self.resolver.kind_meant(&spec.kind, &spec.site)?;
        let filter = TombstoneFilter {
            kind: Some(kind.name.clone()),
            id: Some(spec.id_or_name.clone()),
            ..TombstoneFilter::default()
        };
        let page = self
            .ledger
            .tombstones(
                filter,
                Cursor {
                    after: None,
                    limit: 10,
                },
            )
            .await?;
        let known = page
            .rows
            .into_iter()
            .find(|tombstone| spec.site.matches(&tombstone.key.site));
        if let Some(tombstone) = known {
            return Ok(Target::of(&tombstone.key, ""));
        }
        let named = self.last_deleted(&kind.name, spec).await?;
        named.ok_or_else(|| {
            ControlError::not_found(format!(
                "no {} \"{}\": {unknown}",
                kind.name,
                escape(&spec.id_or_name)
            ))
        })
    }

    /// Finds the resource of this name that has the newest step in the ledger; none if no step has the name.
    async fn last_deleted(
        &self,
        kind: &KindName,
        spec: &TargetSpec,
    ) -> Result<Option<Target>, LedgerError> {
        let mut last = None;
        let mut after = None;
        loop {
            let filter = StepFilter {
                kind: Some(kind.clone()),
                text: SearchQuery::containing(&spec.id_or_name),
                ..StepFilter::default()
            };
            let page = Cursor { after, limit: 500 };
            let steps = self.ledger.steps(filter, page).await?;
            let of_name = steps.rows.into_iter().filter(|step| {
                step.resource.name == spec.id_or_name && spec.site.matches(&step.resource.key.site)
            });
            last = last
                .into_iter()
                .chain(of_name)
                .max_by_key(|step: &Step| step.id);
            after = steps.next;
            if after.is_none() {
                return Ok(last.map(|step| step.target()));
            }
        }
    }

    async fn explain_deletion(
        &self,
        tombstone: &Tombstone,
        explanation: &mut Explanation,
    ) -> Result<(), ControlError> {
        let deletion = self.ledger.deletion(&tombstone.deletion_id).await?;
        let Some(deletion) = deletion else {
            return Ok(());
        };
        explanation.lines.push(format!(
            "deletion {} by {}, {} UTC: {}",
            short_id(&deletion.id),
            escape(&deletion.requested_by.name),
            deletion.requested_at.format("%F %T"),
            deletion.state.as_str()
        ));
        let step = self.step_of(&deletion.id, &explanation.target.key).await?;
        if let Some(step) = &step {
            explain_step(step, explanation);
            if let Some(root) = self.root_of(step).await? {
                explain_root(&root, explanation);
            }
        }
        if tombstone.recreated > 0 {
            let times = match tombstone.recreated {
                1 => "once".to_owned(),
                n => format!("{n} times"),
            };
            let line = format!("the resource, or a copy of it, was re-created {times}");
            explanation.lines.push(line);
        }
        explanation.refused.clone_from(&deletion.refused);
        if deletion.state == DeletionState::Refused {
            explanation.lines.push(deletion.note.clone());
            explanation.next_action = format!(
                "{}; then: gone retry {}",
                remedy_of_refusal(&deletion.refused),
                short_id(&deletion.id)
            );
        } else if explanation.next_action.is_empty() && deletion.state == DeletionState::Paused {
            explanation.next_action = format!("gone resume {}", short_id(&deletion.id));
        }
        explanation.step = step;
        explanation.relations.push(Relation::deleted_by(&deletion));
        explanation.deletion = Some(deletion);
        Ok(())
    }

    async fn step_of(
        &self,
        deletion_id: &str,
        key: &ResourceKey,
    ) -> Result<Option<Step>, ControlError> {
        let mut after = None;
        loop {
            let filter = StepFilter {
                deletion_id: Some(deletion_id.to_owned()),
                site: Some(key.site.clone()),
                kind: Some(key.kind.clone()),
                ..StepFilter::default()
            };
            let page = self
                .ledger
                .steps(filter, Cursor { after, limit: 500 })
                .await?;
            if let Some(step) = page.rows.into_iter().find(|step| step.resource.key == *key) {
                return Ok(Some(step));
            }
            after = page.next;
            if after.is_none() {
                return Ok(None);
            }
        }
    }

    /// Returns the stuck step that is the only reason why this step is stuck; none if this step has an error of
    /// its own.
    async fn root_of(&self, step: &Step) -> Result<Option<Step>, ControlError> {
        let Some(root) = step.held_by.filter(|_| is_stuck_by_another(step)) else {
            return Ok(None);
        };
        Ok(self.ledger.step(root).await?)
    }

    /// Plans the deletion of the resource as it is now, and adds what the plan shows: relations, blockers and the next
    /// action.
    async fn explain_plan(&self, explanation: &mut Explanation) {
        let targets = std::slice::from_ref(&explanation.target);
        let options = PlanOptions::cascading();
        let planned = self.planning.plan_completely(targets, options).await;
        if let Ok(plan) = &planned {
            let users = relations::of_plan(&self.kinds, plan, &explanation.target.key);
            explanation.relations.extend(users);
        }
        match planned {
            Ok(plan) if plan.refused.is_empty() => {
                let steps = counted(plan.steps.len() as u64, "step");
                explanation.lines.push(format!(
                    "nothing blocks it: {steps} with the cascade; the cloud itself removes {}; \
                     references lost: {}",
                    plan.automatic.len(),
                    plan.unset.len()
                ));
                if explanation.next_action.is_empty() {
                    explanation.next_action = format!(
                        "gone plan {}/{} --cascade",
                        explanation.target.key.kind,
                        escape(&explanation.target.key.id)
                    );
                }
            }
            Ok(plan) => {
                explanation
                    .lines
                    .extend(plan.refused.iter().map(|refusal| refusal.reason.clone()));
                explanation.blockers.extend(
                    plan.refused
                        .iter()
                        .filter_map(|refusal| refusal.blocker.clone()),
                );
                explanation.refused = plan.refused;
                if explanation.next_action.is_empty() {
                    let remedy = remedy_of_refusal(&explanation.refused);
                    explanation.next_action = format!("{remedy}; then plan again");
                }
            }
            Err(failure) => explanation.lines.push(format!(
                "its deletion could not be planned: {}",
                failure.message
            )),
        }
    }
}

fn explain_step(step: &Step, explanation: &mut Explanation) {
    explanation.lines.push(format!(
        "{} of {} attempts used; the step is {}",
        step.attempts,
        step.max_attempts,
        step.state.as_str()
    ));
    let error = step.last_error.as_ref();
    explanation.lines.extend(error.map(error_line));
    explanation.blockers.extend(step.blockers.iter().cloned());
    explanation.next_action = next_action(step);
}

/// Explains the stuck step for which the explained step waits. Only the error and the blockers of that stuck step say
/// what to do.
fn explain_root(root: &Step, explanation: &mut Explanation) {
    let StepResource { key, name } = &root.resource;
    let name = match name.as_str() {
        "" => &key.id,
        name => name,
    };
    let error = root.last_error.as_ref().map(error_line);
    let error = error.map_or_else(String::new, |line| format!("; {line}"));
    explanation.lines.push(format!(
        "step {} {} {} {} is {}{error}",
        root.id,
        root.action.as_str(),
        key.kind,
        escape(name),
        root.state.as_str()
    ));
    explanation.blockers.extend(root.blockers.iter().cloned());
    explanation.next_action = next_action(root);
}

/// Returns an error in one line: `fatal: 403 PolicyNotAuthorized … (req-1)`.
fn error_line(error: &StepError) -> String {
    let status = error.status.map(|status| format!("{status} "));
    let request = match error.request_id.as_str() {
        "" => String::new(),
        id => format!(" ({id})"),
    };
    format!(
        "{}: {}{} {}{request}",
        error.class.as_str(),
        status.unwrap_or_default(),
        error.kind,
        escape(&error.message)
    )
}

/// Whether the step is stuck only because another step is stuck.
fn is_stuck_by_another(step: &Step) -> bool {
    let error = step.last_error.as_ref();
    error.is_some_and(|error| error.kind == DEPENDENCY_STUCK)
}

/// Returns the advice to a person who will retry a stuck step: how to remove the cause first.
fn remedy(step: &Step) -> &'static str {
    let Some(error) = &step.last_error else {
        return "remove the blocker";
    };
    match error.class {
        ErrorClass::Auth | ErrorClass::Fatal if matches!(error.status, Some(401 | 403)) => {
            NOT_ALLOWED
        }
        ErrorClass::Auth if error.kind == OTHER_LOGIN => {
            "sign in as the user who made the plan, or use the rung forget if the resource is certainly gone"
        }
        ErrorClass::Auth => "make the login work again (gone doctor)",
        ErrorClass::Fatal => "correct what the cloud's answer names",
        ErrorClass::Guard => "remove what protects the resource",
        ErrorClass::OutcomeUnknown | ErrorClass::Unavailable => {
            "find out why the cloud does not answer or fails (gone list sites)"
        }
        ErrorClass::Blocked | ErrorClass::Drift => "remove the blocker",
    }
}

const NOT_ALLOWED: &str = "your role may not do this: have that granted, or log in as an admin";

/// Returns the advice to a person about the first reason of a refusal.
fn remedy_of_refusal(refused: &[Refusal]) -> &'static str {
    match refused.first().map(|refusal| refusal.rule) {
        Some(RefusalRule::NotShown) => {
            "your role may not list everything that would be deleted: have that granted, or log in as an admin"
        }
        Some(RefusalRule::OtherProject) => "have the project that owns the blocker remove it",
        Some(RefusalRule::Protected) => "remove what protects the resource",
        Some(RefusalRule::Unreadable) => "find out why the target could not be read (gone doctor)",
        Some(RefusalRule::Copies) => {
            "make sure that each copy's site has exactly one resource with the name and project of the original"
        }
        Some(RefusalRule::Cycle) => "remove one of the references of the cycle",
        Some(RefusalRule::Drift) => "check what has changed since the plan",
        Some(RefusalRule::InUse) | None => "remove the blocker",
    }
}

fn next_action(step: &Step) -> String {
    if let Some(action) = awaiting::next_action(step) {
        return action;
    }
    if waits_for_drift_answer(step) {
        let id = short_id(&step.deletion_id);
        return format!(
            "delete the newcomers too: gone drift {id} --accept; or leave them and end the deletion: \
             gone drift {id} --refuse"
        );
    }
    match (step.state, step.next_attempt_at) {
        (StepState::Blocked, Some(at)) => format!(
            "the step is retried at {} UTC; to retry it now: gone retry {}",
            at.format("%F %T"),
            step.id
        ),
        (StepState::Stuck, _) => format!(
            "{}; then: gone retry {}; if that is not possible: gone purge {} shows the alternatives",
            remedy(step),
            short_id(&step.deletion_id),
            step.id
        ),
        (StepState::Purged, _) => format!(
            "its step was abandoned: delete the resource again, or keep it: gone release {}",
            escape(&step.resource.key.to_string())
        ),
        _ => String::new(),
    }
}
