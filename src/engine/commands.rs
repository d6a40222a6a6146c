//! Carries out commands. Most of them become a change of the ledger; the front end gets a receipt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::accept::{Accepting, DeletionIntent, targets_of};
use super::audit::audit;
use super::bulk::BulkRetry;
use super::drift::DriftAnswers;
use super::guards::Guards;
use super::journal::Journal;
use super::logins::Logins;
use super::orphans::Orphans;
use super::peers::{Federation, required};
use super::planning::Planning;
use super::prune::Pruning;
use super::purge::Purging;
use super::records::{deletion, saved_plan, step};
use super::registry::NativeResources;
use super::resolve::Resolver;
use super::sites::Sites;
use crate::control::{
    Accepted, Command, ControlError, Envelope, NamedOptions, Receipt, TargetSpec,
};
use crate::domain::model::{Plan, PlanOptions, ResourceKey, Site};
use crate::domain::plan::plan_hash;
use crate::domain::text::escape;
use crate::ledger::{Change, Ledger, RetryBy, Selection};
use crate::system::clock::Clock;

/// Carries out every command except [`Command::Seek`], which only a replay carries out.
pub(super) struct Commands {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) journal: Arc<Journal>,
    pub(super) sites: Arc<Sites>,
    pub(super) resolver: Arc<Resolver>,
    pub(super) planning: Arc<Planning>,
    pub(super) guards: Arc<Guards>,
    pub(super) accepting: Accepting,
    pub(super) bulk: BulkRetry,
    pub(super) drift: Arc<DriftAnswers>,
    pub(super) purging: Arc<Purging>,
    pub(super) orphans: Arc<Orphans>,
    pub(super) native: Arc<NativeResources>,
    pub(super) pruning: Arc<Pruning>,
    pub(super) logins: Arc<Logins>,
    /// Exchanges messages with other deployments; none for an engine without `[deployment]`.
    pub(super) federation: Option<Arc<Federation>>,
    /// Whether the reconcilers work. The first command that wants work done sets this to true (P10).
    pub(super) works: Arc<AtomicBool>,
}

impl Commands {
    pub(super) async fn carry_out(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        if envelope.command.wants_work() && !self.works.swap(true, Ordering::Relaxed) {
            self.journal.wake_loop();
        }
        let envelope = &envelope;
        match envelope.command.clone() {
            Command::Plan { targets, options } => self.plan(&targets, options).await,
            Command::Delete {
                targets,
                options,
                named,
            } => {
                let found = self.resolver.resolve(&targets).await?;
                let accepted = self.accepting.delete(envelope, &found, Vec::new(), options);
                self.accepting.join(envelope, named, accepted.await?).await
            }
            Command::DeleteResources { resources, options } => {
                let shown = resources.iter();
                let shown = shown.map(|it| (it.key.clone(), it.attributes.clone()));
                let shown = shown.collect();
                let accepted = self.accepting.delete(envelope, &resources, shown, options);
                self.accepting.wake(envelope, accepted.await?).await
            }
            Command::RepeatDelete { deletion_id } => {
                let existing = true;
                let accepted = Accepted {
                    deletion_id,
                    existing,
                };
                self.accepting.wake(envelope, accepted).await
            }
            Command::DeletePlan { plan_hash, named } => {
                let plan = saved_plan(&*self.ledger, &plan_hash, self.clock.now()).await?;
                let intent = DeletionIntent::of_plan(&plan);
                let accepted = self.accepting.accept(envelope, intent).await?;
                self.accepting.join(envelope, named, accepted).await
            }
            Command::DeletePlanFile { plan } => self.delete_plan_file(envelope, *plan).await,
            Command::Revive { keys } => self.revive(envelope, keys).await,
            Command::Create { kind, body } => self.native.create(envelope, &kind, &body).await,
            Command::Update { kind, id, body } => {
                self.native.update(envelope, &kind, &id, &body).await
            }
            Command::Retry { deletion_id } => self.retry(envelope, &deletion_id).await,
            Command::RetryStep { step_id } => self.retry_step(envelope, step_id).await,
            Command::RetryMatching { filter, dry_run } => {
                self.bulk.retry_matching(envelope, &filter, dry_run).await
            }
            Command::Drift {
                deletion_id,
                accept,
            } => {
                self.drift
                    .answer_drift(envelope, &deletion_id, accept)
                    .await
            }
            Command::Cancel { deletion_id } => self.cancel(envelope, &deletion_id).await,
            Command::Pause { deletion_id } => self.pause(envelope, &deletion_id, true).await,
            Command::Resume { deletion_id } => self.pause(envelope, &deletion_id, false).await,
            Command::MoveNotificationCursor { channel, position } => {
                self.journal
                    .commit_command(Change::MoveNotificationCursor { channel, position })
                    .await
            }
            Command::Purge {
                what,
                rung,
                confirm,
            } => self.purging.purge(envelope, &what, rung, &confirm).await,
            Command::Release { key } => self.orphans.release(envelope, key).await,
            Command::Prune { before } => self.pruning.prune_by_hand(envelope, before).await,
            Command::PauseSite { site } => {
                self.logins.pause_site_by_hand(envelope, site, true).await
            }
            Command::ResumeSite { site } => {
                self.logins.pause_site_by_hand(envelope, site, false).await
            }
            Command::PauseEngine { name } => self.drain(envelope, name, true).await,
            Command::ResumeEngine { name } => self.drain(envelope, name, false).await,
            Command::Watch { watch } => {
                let notices = self.federation()?.owner.notices_for(watch).await?;
                Ok(Receipt::Notices(Box::new(notices)))
            }
            Command::Hint { from } => {
                self.federation()?.owner.hinted(&from)?;
                Ok(Receipt::Done { moved: 0 })
            }
            Command::ReleaseImporter { name } => {
                let owner = &self.federation()?.owner;
                owner.release_importer(envelope, &name).await
            }
            Command::Seek { .. } => Err(ControlError::usage(
                "this engine shows the present; gone replay shows the ledger at another time",
            )),
        }
    }

    /// Has an engine of this ledger claim no more steps, or claim steps again.
    async fn drain(
        &self,
        envelope: &Envelope,
        name: String,
        is_drained: bool,
    ) -> Result<Receipt, ControlError> {
        let engines = self.ledger.engines().await?;
        let names: Vec<&str> = engines.iter().map(|engine| engine.name.as_str()).collect();
        let message = match names.as_slice() {
            [] => "this engine is the only one of its ledger and cannot be paused: pause deletions or \
             sites instead".to_owned(),
            names if names.contains(&name.as_str()) => {
                let action = if is_drained {
                    "pause engine"
                } else {
                    "resume engine"
                };
                let change = Change::DrainEngines {
                    audit: audit(envelope, action, &name),
                    name,
                    is_drained,
                    now: self.clock.now(),
                };
                return self.journal.commit_command(change).await;
            }
            names => format!(
                "no engine of this ledger is called {}; its engines are {}",
                escape(&name),
                names.join(", ")
            ),
        };
        Err(ControlError::not_found(message))
    }

    fn federation(&self) -> Result<&Federation, ControlError> {
        required(self.federation.as_ref())
    }

    async fn plan(
        &self,
        targets: &[TargetSpec],
        options: PlanOptions,
    ) -> Result<Receipt, ControlError> {
        let targets = targets_of(&self.resolver.resolve(targets).await?);
        let plan = self.planning.plan_completely(&targets, options).await?;
        let plan = Arc::new(plan);
        self.save(plan.clone()).await?;
        Ok(Receipt::Planned { plan })
    }

    async fn delete_plan_file(
        &self,
        envelope: &Envelope,
        plan: Plan,
    ) -> Result<Receipt, ControlError> {
        let found = plan_hash(&plan);
        if found != plan.hash {
            return Err(ControlError::usage(format!(
                "the plan says that its hash is {}, but its hash is {found}: it was changed after \
                     it was made; plan again",
                plan.hash
            )));
        }
        let wanted = DeletionIntent::of_plan(&plan);
        self.save(Arc::new(plan)).await?;
        let accepted = self.accepting.accept(envelope, wanted).await?;
        let named = NamedOptions::default();
        self.accepting.join(envelope, named, accepted).await
    }

    async fn save(&self, plan: Arc<Plan>) -> Result<(), ControlError> {
        let now = self.clock.now();
        self.journal
            .commit(vec![Change::SavePlan { plan, now }])
            .await?;
        Ok(())
    }

    async fn retry(&self, envelope: &Envelope, id: &str) -> Result<Receipt, ControlError> {
        let deletion = deletion(&*self.ledger, id).await?;
        self.guards.writable(&deletion.targets)?;
        let id = deletion.id.clone();
        let steps = self.ledger.progress(&id).await?;
        let targets = deletion.targets.into_iter().map(|it| it.key.site);
        let sites = targets.chain(steps.into_iter().map(|(site, _)| site));
        self.retry_selected(envelope, Selection::Deletion(deletion.id), &id, sites)
            .await
    }

    async fn retry_step(&self, envelope: &Envelope, id: i64) -> Result<Receipt, ControlError> {
        let step = step(&*self.ledger, id).await?;
        let target = step.target();
        let (key, site) = (target.key.to_string(), target.key.site.clone());
        self.guards.writable(&[target])?;
        self.retry_selected(envelope, Selection::Steps(vec![id]), &key, [site])
            .await
    }

    async fn retry_selected(
        &self,
        envelope: &Envelope,
        selection: Selection,
        named: &str,
        sites: impl IntoIterator<Item = Site>,
    ) -> Result<Receipt, ControlError> {
        let retry = Change::Retry {
            by: RetryBy::Person,
            selection,
            audit: audit(envelope, "retry", named),
            now: self.clock.now(),
        };
        // This retry does not repeat a refused login of another site (I15).
        for site in sites {
            self.sites.ask_site_again(&site);
        }
        self.journal.commit_command(retry).await
    }

    async fn cancel(&self, envelope: &Envelope, id: &str) -> Result<Receipt, ControlError> {
        let deletion = deletion(&*self.ledger, id).await?;
        let cancel = Change::Cancel {
            deletion_id: deletion.id.clone(),
            audit: audit(envelope, "cancel", &deletion.id),
            now: self.clock.now(),
        };
        let receipt = self.journal.commit_command(cancel).await?;
        self.sites.withdraw_calls(&deletion.id);
        Ok(receipt)
    }

    async fn revive(
        &self,
        envelope: &Envelope,
        keys: Vec<ResourceKey>,
    ) -> Result<Receipt, ControlError> {
        let now = self.clock.now();
        let moved = keys.len() as u64;
        let changes = keys.into_iter().map(|key| Change::Revive {
            audit: audit(envelope, "create anew", &key.to_string()),
            key,
            now,
        });
        self.journal.commit(changes.collect()).await?;
        Ok(Receipt::Done { moved })
    }

    async fn pause(
        &self,
        envelope: &Envelope,
        id: &str,
        paused: bool,
    ) -> Result<Receipt, ControlError> {
        let deletion = deletion(&*self.ledger, id).await?;
        let audit = audit(
            envelope,
            if paused { "pause" } else { "resume" },
            &deletion.id,
        );
        let pause = Change::Pause {
            deletion_id: deletion.id.clone(),
            paused,
            audit,
            now: self.clock.now(),
        };
        let receipt = self.journal.commit_command(pause).await?;
        if paused {
            self.sites.withdraw_calls(&deletion.id);
        }
        Ok(receipt)
    }
}
