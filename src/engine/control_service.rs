//! The engine as a [`Control`]: commands become changes, queries become pages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::audit::audit;
use super::errors::{control_error, ledger_error};
use super::records::{deletion, saved_plan};
use super::{PAGE_MAX, Shared, requests};
use crate::control::{
    Accepted, Command, Control, ControlError, Envelope, Page, Query, Receipt, Snapshot,
};
use crate::domain::model::{
    DeletionState, DriftPolicy, Event, Mapped, Plan, PlanOptions, Resource, ResourceKey, Target,
};
use crate::domain::plan::plan_hash;
use crate::ledger::{Applied, Change, EventFilter, NewDeletion, RetryBy, Selection};

pub(super) struct ControlService {
    pub(super) shared: Arc<Shared>,
}

#[async_trait]
impl Control for ControlService {
    async fn submit(&self, envelope: Envelope) -> Result<Receipt, ControlError> {
        match requests::keyed(&envelope) {
            Some(request) => self.shared.submit_once(request, envelope).await,
            None => self.shared.carry_out(envelope).await,
        }
    }

    async fn query(&self, query: Query) -> Result<Page, ControlError> {
        self.shared.answer(query).await
    }

    async fn events(&self, after: i64, wait_ms: u64) -> Result<Vec<Event>, ControlError> {
        let shared = &self.shared;
        let mut committed = shared.journal.follow();
        let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
        loop {
            committed.mark_unchanged();
            let page = shared
                .ledger
                .events(after, EventFilter::default(), PAGE_MAX)
                .await
                .map_err(ledger_error)?;
            if after + 1 < page.oldest {
                return Err(ControlError::Expired {
                    message: format!("events up to {} are no longer kept", page.oldest - 1),
                    oldest: page.oldest,
                });
            }
            if !page.events.is_empty()
                || tokio::time::timeout_at(deadline, committed.changed())
                    .await
                    .is_err()
            {
                return Ok(page.events);
            }
        }
    }

    fn snapshot(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shared.publishing.follow()
    }
}

impl Shared {
    pub(super) async fn carry_out(
        self: &Arc<Self>,
        envelope: Envelope,
    ) -> Result<Receipt, ControlError> {
        let shared = self;
        if envelope.command.wants_work() && !shared.works.swap(true, Ordering::Relaxed) {
            shared.journal.wake_loop();
        }
        match envelope.command.clone() {
            Command::Plan { targets, options } => {
                let targets = shared.resolver.resolve(&targets).await?;
                let plan = Arc::new(
                    shared
                        .plan_shown(&named(&targets), options)
                        .await
                        .map_err(control_error)?,
                );
                let now = shared.clock.now();
                shared
                    .journal
                    .commit(vec![Change::SavePlan {
                        plan: plan.clone(),
                        now,
                    }])
                    .await
                    .map_err(ledger_error)?;
                Ok(Receipt::Planned { plan })
            }
            Command::Delete { targets, options } => {
                let found = shared.resolver.resolve(&targets).await?;
                shared.delete(&envelope, &found, Vec::new(), options).await
            }
            Command::DeleteSeen { resources, options } => {
                let shown = resources.iter();
                let shown = shown.map(|it| (it.key.clone(), it.attributes.clone()));
                let shown = shown.collect();
                shared.delete(&envelope, &resources, shown, options).await
            }
            Command::RepeatDelete { deletion_id } => {
                shared.repeat_delete(&envelope, deletion_id).await
            }
            Command::Revive { keys } => shared.revive(&envelope, keys).await,
            Command::Create { kind, body } => shared.create(&envelope, &kind, &body).await,
            Command::Update { kind, id, body } => shared.update(&envelope, &kind, &id, &body).await,
            Command::DeletePlan { plan_hash } => {
                let plan = saved_plan(&*shared.ledger, &plan_hash, shared.clock.now()).await?;
                shared.accept(&envelope, Wanted::by(&plan)).await
            }
            Command::DeletePlanFile { plan } => {
                let found = plan_hash(&plan);
                if found != plan.hash {
                    return Err(ControlError::Usage {
                        message: format!(
                            "the plan says its hash is {}, but it is {found}: it was changed after it was made",
                            plan.hash
                        ),
                    });
                }
                let now = shared.clock.now();
                let saved = Change::SavePlan {
                    plan: Arc::new((*plan).clone()),
                    now,
                };
                shared
                    .journal
                    .commit(vec![saved])
                    .await
                    .map_err(ledger_error)?;
                shared.accept(&envelope, Wanted::by(&plan)).await
            }
            Command::Retry { deletion_id } => {
                let deletion = deletion(&*shared.ledger, &deletion_id).await?;
                shared.guards.writable(&deletion.targets)?;
                let audit = audit(&envelope, "retry", &deletion.id);
                shared.sites.ask_again();
                shared
                    .journal
                    .commit_command(Change::Retry {
                        by: RetryBy::Person,
                        selection: Selection::Deletion(deletion.id),
                        audit,
                        now: shared.clock.now(),
                    })
                    .await
            }
            Command::RetryStep { step_id } => {
                let step = shared.ledger.step(step_id).await.map_err(ledger_error)?;
                let step = step.ok_or_else(|| ControlError::NotFound {
                    message: format!("no step {step_id}"),
                })?;
                shared.guards.writable(&[Target {
                    key: step.resource.key.clone(),
                    name: step.resource.name,
                }])?;
                let audit = audit(&envelope, "retry", &step.resource.key.to_string());
                shared.sites.ask_again();
                shared
                    .journal
                    .commit_command(Change::Retry {
                        by: RetryBy::Person,
                        selection: Selection::Steps(vec![step_id]),
                        audit,
                        now: shared.clock.now(),
                    })
                    .await
            }
            Command::RetryMatching { filter, dry_run } => {
                shared
                    .bulk
                    .retry_matching(&envelope, &filter, dry_run)
                    .await
            }
            Command::Drift {
                deletion_id,
                accept,
            } => {
                shared
                    .drift
                    .answer_drift(&envelope, &deletion_id, accept)
                    .await
            }
            Command::SetOptions {
                deletion_id,
                drift,
                on_failure,
            } => {
                shared
                    .drift
                    .set_options(&envelope, &deletion_id, drift, on_failure)
                    .await
            }
            Command::Cancel { deletion_id } => {
                let deletion = deletion(&*shared.ledger, &deletion_id).await?;
                let cancel = Change::Cancel {
                    deletion_id: deletion.id.clone(),
                    audit: audit(&envelope, "cancel", &deletion.id),
                    now: shared.clock.now(),
                };
                let receipt = shared.journal.commit_command(cancel).await?;
                shared.sites.take_back(&deletion.id);
                Ok(receipt)
            }
            Command::Pause { deletion_id } => shared.pause(&envelope, &deletion_id, true).await,
            Command::Resume { deletion_id } => shared.pause(&envelope, &deletion_id, false).await,
            Command::MoveNotificationCursor { channel, mark } => {
                shared
                    .journal
                    .commit_command(Change::MoveNotificationCursor { channel, mark })
                    .await
            }
            Command::Purge {
                what,
                rung,
                confirm,
            } => shared.purging.purge(&envelope, &what, rung, &confirm).await,
            Command::Release { key } => shared.orphans.release(&envelope, key).await,
            Command::Prune { before } => shared.pruning.prune_by_hand(&envelope, before).await,
            Command::PauseSite { site } => {
                shared
                    .logins
                    .pause_site_by_hand(&envelope, site, true)
                    .await
            }
            Command::ResumeSite { site } => {
                shared
                    .logins
                    .pause_site_by_hand(&envelope, site, false)
                    .await
            }
            Command::Watch { watch } => {
                let news = shared.news_for(watch).await?;
                Ok(Receipt::News(Box::new(news)))
            }
            Command::Hint { from } => {
                shared.hinted(&from)?;
                Ok(Receipt::Done { moved: 0 })
            }
            Command::ReleaseImporter { name } => shared.release_importer(&envelope, &name).await,
            Command::Seek { .. } => Err(ControlError::Usage {
                message: "this is the present: only a replay shows other times".into(),
            }),
        }
    }

    async fn delete(
        &self,
        envelope: &Envelope,
        found: &[Resource],
        shown: Vec<(ResourceKey, serde_json::Value)>,
        options: PlanOptions,
    ) -> Result<Receipt, ControlError> {
        let copies = self.copies.copies_of(found).await.map_err(control_error)?;
        let wanted = Wanted {
            targets: named(found),
            copies: copies.keys(),
            shown,
            options,
            plan_hash: None,
        };
        self.accept(envelope, wanted).await
    }

    /// Wakes what is blocked when a delete is requested again, and starts nothing new (T6).
    async fn repeat_delete(
        &self,
        envelope: &Envelope,
        deletion_id: String,
    ) -> Result<Receipt, ControlError> {
        let state = deletion(&*self.ledger, &deletion_id).await?.state;
        if matches!(state, DeletionState::Running | DeletionState::Stuck) {
            let wake = Change::Retry {
                by: RetryBy::Repeat,
                audit: audit(envelope, "delete again", &deletion_id),
                selection: Selection::Deletion(deletion_id.clone()),
                now: self.clock.now(),
            };
            self.journal
                .commit(vec![wake])
                .await
                .map_err(ledger_error)?;
        }
        Ok(Receipt::Accepted(Accepted {
            deletion_id,
            existing: true,
        }))
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
        let committed = self.journal.commit(changes.collect()).await;
        committed.map_err(ledger_error)?;
        Ok(Receipt::Done { moved })
    }

    async fn accept(&self, envelope: &Envelope, wanted: Wanted) -> Result<Receipt, ControlError> {
        let Wanted {
            targets,
            copies,
            shown,
            options,
            plan_hash,
        } = wanted;
        let copied = copies.iter().map(|copy| Target {
            key: copy.clone(),
            name: String::new(),
        });
        let touched: Vec<Target> = targets.iter().cloned().chain(copied).collect();
        self.guards.writable(&touched)?;
        self.guards.reasoned(envelope, &touched)?;
        let names: Vec<String> = targets
            .iter()
            .map(|target| target.key.to_string())
            .collect();
        let mut audit = audit(envelope, "delete", &names.join(" "));
        audit.detail = serde_json::json!({ "options": options, "plan_hash": plan_hash });
        let wanted = targets.clone();
        let new = NewDeletion {
            id: self.clock.new_id(),
            targets,
            copies,
            shown,
            options,
            plan_hash,
            actor: envelope.actor.clone(),
            reason: envelope.reason.clone(),
            cause: None,
            idempotency_key: envelope.idempotency_key.clone(),
            deadline: envelope.deadline,
            audit,
            now: self.clock.now(),
        };
        let applied = self
            .journal
            .commit(vec![Change::Accept(Box::new(new))])
            .await
            .map_err(ledger_error)?;
        match applied.into_iter().next() {
            Some(Applied::Accepted {
                deletion_id,
                existing,
            }) => {
                if existing {
                    return self.repeat_delete(envelope, deletion_id).await;
                }
                if options.drift == DriftPolicy::Absorb {
                    self.drift
                        .absorb_in_earlier(envelope, &wanted, &deletion_id)
                        .await?;
                }
                Ok(Receipt::Accepted(Accepted {
                    deletion_id,
                    existing,
                }))
            }
            Some(Applied::Refused(why)) => Err(ControlError::Conflict { message: why }),
            Some(Applied::KeyReused(why)) => Err(ControlError::Usage { message: why }),
            _ => Err(ControlError::Internal {
                message: "the ledger did not answer the command".into(),
            }),
        }
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
            self.sites.take_back(&deletion.id);
        }
        Ok(receipt)
    }
}

/// The deletion to accept.
struct Wanted {
    targets: Vec<Target>,
    copies: Vec<ResourceKey>,
    shown: Vec<(ResourceKey, serde_json::Value)>,
    options: PlanOptions,
    plan_hash: Option<String>,
}

impl Wanted {
    fn by(plan: &Plan) -> Self {
        Self {
            targets: plan.targets.clone(),
            copies: plan.mapping.iter().flat_map(Mapped::copies).collect(),
            shown: Vec::new(),
            options: plan.options,
            plan_hash: Some(plan.hash.clone()),
        }
    }
}

fn named(resources: &[Resource]) -> Vec<Target> {
    let resources = resources.iter();
    let target = |resource: &Resource| Target {
        key: resource.key.clone(),
        name: resource.name.clone(),
    };
    resources.map(target).collect()
}
