//! The owner's side: refuses a deletion that a resource elsewhere blocks, and sends no delete before each
//! importer has given its clearance (G2, G7).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::referrers::{BackReferences, blocker_message};
use super::{Deployments, Importing, peer_failure};
use crate::control::{ControlError, Envelope, Receipt};
use crate::domain::kinds::Kinds;
use crate::domain::model::{
    Answer, ErrorClass, KindName, Plan, PlanStep, Refusal, RefusalRule, StepError,
};
use crate::domain::peers::{
    AWAITED, Answers, ClearanceAnswer, ClearanceRequest, DeletionNotices, Deployment,
    NamedReferrer, Question, RESOURCES_PER_QUESTION_MAX, Watch, awaiting,
};
use crate::domain::policy::{Failure, Outcome, Retry, after_call};
use crate::domain::text::escape;
use crate::engine::activity::{Activity, Run};
use crate::engine::audit::audit;
use crate::engine::journal::Journal;
use crate::engine::outcomes::{facts, outcome_change};
use crate::engine::schedules::Schedules;
use crate::ledger::{Applied, Change, ClaimedStep, Ledger, LedgerError};
use crate::peers::{Peer, PeerFailure};
use crate::system::clock::Clock;

/// Maximum number of tombstone changes in one answer to a watch.
const NOTICES_MAX: usize = 1_000;
/// How long a watch gathers further changes after a commit, since thousands may follow.
const GATHER: Duration = Duration::from_millis(20);
/// The longest wait of a watch, even if the importer asks for a longer one.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Maximum number of non-blocking referrers that a plan's warning names.
const NAMED_MAX: usize = 5;
/// Number of refusals after which an importer is asked nothing more about a plan.
const REFUSALS_MAX: usize = 100;

/// Notifies importers of deletions here, and waits for their clearances.
pub(in crate::engine) struct OwnerSide {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) journal: Arc<Journal>,
    pub(super) schedules: Arc<Schedules>,
    pub(super) deployments: Arc<Deployments>,
    pub(super) references: Arc<BackReferences>,
    pub(super) asking: Arc<Activity>,
}

impl OwnerSide {
    /// Whether any importer is on record.
    pub(in crate::engine) fn any_importer(&self) -> bool {
        !self.deployments.importing().is_empty()
    }

    /// Makes all importers due to be asked, because something new may wait for their clearances.
    pub(in crate::engine) fn ask_again(&self) {
        for importing in self.deployments.importing().values_mut() {
            importing.hinted = true;
        }
    }

    /// Loads the importers on record, and also records this deployment itself if its own references are asynchronous.
    pub(in crate::engine) async fn recall_importers(&self) -> Result<(), LedgerError> {
        let deployments = &self.deployments;
        // This deployment's own references are on record before anything is accepted.
        let own = deployments
            .imported(&self.kinds)
            .remove(&deployments.home_peer());
        if let Some(kinds) = own {
            let watched = Change::RecordImporter {
                importer: deployments.home.clone(),
                kinds,
                now: self.clock.now(),
            };
            self.journal.commit_until_done(vec![watched]).await?;
        }
        let importers = self.ledger.importers().await?;
        let importing = importers.into_iter().map(|importer| {
            let name = importer.deployment.name.clone();
            (name, Importing::of(importer.deployment, importer.kinds))
        });
        deployments.importing().extend(importing);
        Ok(())
    }

    /// Answers an importer's watch. The importer is put on record before it receives anything (G12).
    pub(in crate::engine) async fn notices_for(
        &self,
        watch: Watch,
    ) -> Result<DeletionNotices, ControlError> {
        let deployments = &self.deployments;
        deployments
            .check_sender(&watch.from)
            .map_err(ControlError::usage)?;
        // A kind that is unknown here has no resources here, and its name would only fill the ledger.
        let mut watch = watch;
        watch.kinds.retain(|kind| self.kinds.get(kind).is_some());
        self.record_importer(&watch).await?;
        let since = (watch.ledger.clone(), watch.after);
        let wait = Duration::from_millis(watch.wait_ms).min(WAIT_MAX);
        let deadline = tokio::time::Instant::now() + wait;
        let mut committed = self.journal.follow();
        loop {
            committed.mark_unchanged();
            let from = deployments.home.clone();
            let notices =
                self.ledger
                    .notices(from, since.clone(), watch.kinds.clone(), NOTICES_MAX);
            let notices = notices.await?;
            // An answer without changes counts too: its sequence number is higher, so the importer's view of this
            // owner is newer.
            if notices.ledger != watch.ledger || notices.seq != watch.after {
                return Ok(notices);
            }
            if tokio::time::timeout_at(deadline, committed.changed())
                .await
                .is_err()
            {
                return Ok(notices);
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    async fn record_importer(&self, watch: &Watch) -> Result<(), ControlError> {
        let deployments = &self.deployments;
        let name = &watch.from.name;
        let as_recorded = deployments
            .importing()
            .get(name)
            .is_some_and(|it| it.deployment == watch.from && it.kinds == watch.kinds);
        if !as_recorded {
            let watched = Change::RecordImporter {
                importer: watch.from.clone(),
                kinds: watch.kinds.clone(),
                now: self.clock.now(),
            };
            if let Some(Applied::Refused(message)) = self.journal.commit_one(watched).await? {
                return Err(ControlError::conflict(message));
            }
        }
        let mut importing = deployments.importing();
        let recorded = || Importing::of(watch.from.clone(), watch.kinds.clone());
        let seen = importing.entry(name.clone()).or_insert_with(recorded);
        seen.kinds.clone_from(&watch.kinds);
        seen.last_contact_at = Some(self.clock.now());
        // Notices that the importer has received since it was last asked may change its answer.
        let begins = watch.ledger.is_empty() || watch.wait_ms == 0;
        seen.hinted |= seen.seq != watch.after || begins;
        seen.seq = watch.after;
        self.journal.wake_loop();
        Ok(())
    }

    pub(in crate::engine) fn hinted(&self, from: &Deployment) -> Result<(), ControlError> {
        let deployments = &self.deployments;
        let mut importing = deployments.importing();
        let known = importing.get_mut(&from.name);
        if let Some(importing) = known.filter(|it| it.deployment == *from) {
            importing.hinted = true;
        }
        drop(importing);
        self.journal.wake_loop();
        Ok(())
    }

    /// Adds the blockers in other deployments (G2) to a plan, and warns of other referrers there. If an importer does
    /// not answer, the plan is refused. The plan of a chained deletion stays as it is.
    pub(in crate::engine) async fn ask_elsewhere(&self, plan: &mut Plan) {
        if plan.options.chained || !self.any_importer() {
            return;
        }
        let importers = self.deployments.importers_of(plan);
        let asked = importers
            .iter()
            .map(|(importer, kinds)| self.ask_about_plan(importer, kinds, plan));
        for (refused, goes_first) in join_all(asked).await {
            plan.refused.extend(refused);
            plan.warnings.extend(goes_first);
        }
    }

    async fn ask_about_plan(
        &self,
        importer: &Deployment,
        kinds: &BTreeSet<KindName>,
        plan: &Plan,
    ) -> (Vec<Refusal>, Option<String>) {
        let steps: Vec<&PlanStep> = plan
            .steps
            .iter()
            .filter(|step| kinds.contains(&step.kind) && step.action.takes_away())
            .collect();
        let mut refused = Vec::new();
        let mut named = Vec::new();
        let mut references = 0;
        for steps in steps.chunks(RESOURCES_PER_QUESTION_MAX) {
            match self.ask_about_steps(importer, steps).await {
                Ok(answers) => {
                    for (step, answered) in steps.iter().zip(answers) {
                        refused.extend(blocking(step, &answered));
                        let blocking = answered.blocking().count() as u64;
                        references += answered.count.saturating_sub(blocking);
                        let others = answered
                            .referrers
                            .iter()
                            .filter(|referrer| !referrer.blocks);
                        let others = others.take(NAMED_MAX - named.len());
                        let others = others.map(|referrer| referrer.key.called(&referrer.name));
                        named.extend(others);
                    }
                }
                Err(why) => return (not_clear(plan, &why, &importer.name), None),
            }
            if refused.len() > REFUSALS_MAX {
                break;
            }
        }
        (refused, goes_first(&importer.name, references, named))
    }

    async fn ask_about_steps(
        &self,
        importer: &Deployment,
        steps: &[&PlanStep],
    ) -> Result<Vec<ClearanceAnswer>, String> {
        let cursor = self.ledger.importers_cursor().await;
        let (ledger, seq) = cursor.map_err(|error| error.to_string())?;
        let about = steps.iter().map(|step| ClearanceRequest {
            key: step.key(),
            deletion: None,
            incarnation: 0,
            root: String::new(),
        });
        self.answers(importer, (ledger, seq), about.collect()).await
    }

    async fn ask(&self, peer: &Peer, question: Question) -> Result<Answers, PeerFailure> {
        match self.deployments.is_home(peer) {
            true => {
                let answers = self.references.points_at(question).await;
                answers.map_err(peer_failure)
            }
            false => self.deployments.peers.ask(peer, question).await,
        }
    }

    /// Returns the complete answer to a question, or the reason why there is none.
    async fn answers(
        &self,
        importer: &Deployment,
        (ledger, seq): (String, i64),
        about: Vec<ClearanceRequest>,
    ) -> Result<Vec<ClearanceAnswer>, String> {
        let name = &importer.name;
        let question = Question {
            from: self.deployments.home.clone(),
            ledger,
            seq,
            about,
        };
        let peer = Peer::from(importer);
        let answers = self.ask(&peer, question.clone()).await;
        let answers =
            answers.map_err(|failure| format!("deployment {name} does not answer: {failure}"))?;
        if answers.from != *importer {
            return Err(format!(
                "the url of deployment {name} is answered by deployment {}: correct the url in [deployment] peers",
                escape(&answers.from.name)
            ));
        }
        answers
            .check(&question)
            .map_err(|why| format!("the answer of deployment {name} is not accepted: {why}"))?;
        Ok(answers.about)
    }

    /// Returns the outcome for a step that waits for importers' clearances. None means that the step may be
    /// sent.
    pub(in crate::engine) async fn awaits_clearance(&self, step: &ClaimedStep) -> Option<Change> {
        if !self.any_importer() || !step.action.takes_away() {
            return None;
        }
        let awaited = match self.ledger.pending_clearances(step.id).await {
            Ok(awaited) if awaited.is_empty() => return None,
            Ok(awaited) => awaited,
            // If the pending clearances are unknown, the step waits.
            Err(error) => {
                tracing::error!(%error, step = step.id, "the pending clearances of a step could \
                                                         not be read from the ledger");
                Vec::new()
            }
        };
        let (mut message, mut blockers) = match awaited.as_slice() {
            [] => (
                "the pending clearances of this step cannot be read from the ledger".to_owned(),
                Vec::new(),
            ),
            awaited => awaiting(awaited),
        };
        // Blockers that stay are named as soon as the step waits, and not only when it is due (G11).
        let stays = self.references.referrers_that_stay(&step.key).await;
        for referrer in stays.iter().flatten() {
            message = format!("{}; {message}", blocker_message(&referrer.blocker()));
            blockers.insert(0, referrer.blocker());
        }
        let failure = Failure {
            retry: Retry::AwaitsClearance,
            error: StepError::own(
                ErrorClass::Blocked,
                AWAITED,
                message.clone(),
                self.clock.now(),
            ),
            blockers,
            retry_after: None,
        };
        let decision = after_call(
            facts(step),
            Outcome::Failed(failure),
            self.clock.now(),
            &self.schedules.of(&step.key.kind),
            self.clock.chance(),
        );
        let line = format!("not sent: {message}");
        Some(outcome_change(
            step,
            decision,
            line,
            Some(Answer::default()),
            self.clock.now(),
        ))
    }

    /// Asks the importers whose clearances are needed: those that gave a hint or have something new to clear,
    /// and each importer at every heartbeat (G5). Returns the time until the next importer is due.
    pub(in crate::engine) fn ask_importers(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> Duration {
        let deployments = &self.deployments;
        let now = self.clock.now();
        let heartbeat = TimeDelta::from_std(deployments.heartbeat).unwrap_or(TimeDelta::MAX);
        let mut next = Duration::MAX;
        for importing in deployments.importing().values_mut() {
            if importing.asking {
                continue;
            }
            let due = importing.asked_at.map(|at| at + heartbeat);
            let is_due = due.is_none_or(|due| due <= now);
            if !importing.hinted && !is_due {
                let left = due.and_then(|due| (due - now).to_std().ok());
                next = next.min(left.unwrap_or_default());
                continue;
            }
            importing.asking = true;
            importing.hinted = false;
            importing.asked_at = Some(now);
            next = next.min(deployments.heartbeat);
            let (owner, importer) = (self.clone(), importing.deployment.clone());
            let run = self.asking.begin(format!("deployment {}", importer.name));
            tasks.spawn(async move { owner.ask_importer(&importer, run).await });
        }
        self.asking.runs_in(next);
        next
    }

    async fn ask_importer(&self, importer: &Deployment, run: Run) {
        let asked = self.ask_all(importer).await;
        if let Err(why) = &asked {
            run.failed(why);
        }
        if let Some(importing) = self.deployments.importing().get_mut(&importer.name) {
            importing.asking = false;
            importing.reason = asked.err().unwrap_or_default();
        }
    }

    async fn ask_all(&self, importer: &Deployment) -> Result<(), String> {
        let home = self.deployments.home.site();
        let said = |error: LedgerError| error.to_string();
        let name = &importer.name;
        let (ledger, _) = self.ledger.importers_cursor().await.map_err(said)?;
        let mut after = 0;
        loop {
            let page = self.ledger.steps_awaiting_clearance(
                home.clone(),
                name,
                after,
                RESOURCES_PER_QUESTION_MAX,
            );
            let (steps, seq) = page.await.map_err(said)?;
            let Some((last, _)) = steps.last() else {
                return Ok(());
            };
            after = *last;
            let (ids, about): (Vec<i64>, Vec<ClearanceRequest>) = steps.into_iter().unzip();
            let answers = self.answers(importer, (ledger.clone(), seq), about).await?;
            let answered = Change::RecordAnswers {
                importer: name.clone(),
                answers: ids.into_iter().zip(answers).collect(),
                now: self.clock.now(),
            };
            let applied = self.ledger.commit(vec![answered]).await.map_err(said)?;
            // Only an answer that changes something wakes the loop and the readers of events.
            if applied.iter().any(|it| *it != Applied::Moved(0)) {
                self.journal.wake_followers();
            }
        }
    }

    /// Releases an importer that, as a person says, no longer exists (G12).
    pub(in crate::engine) async fn release_importer(
        &self,
        envelope: &Envelope,
        name: &str,
    ) -> Result<Receipt, ControlError> {
        let deployments = &self.deployments;
        if !deployments.importing().contains_key(name) {
            return Err(ControlError::not_found(format!(
                "no importer {} is on record; `gone list deployments` shows the importers",
                escape(name)
            )));
        }
        let release = Change::ReleaseImporter {
            name: name.to_owned(),
            audit: audit(envelope, "release", &format!("deployment {name}")),
            now: self.clock.now(),
        };
        let receipt = self.journal.commit_command(release).await?;
        deployments.importing().remove(name);
        Ok(receipt)
    }
}

impl Deployments {
    /// Returns the importers on record whose kinds refer to resources that this plan deletes. This deployment
    /// is left out, because the plan contains its own references.
    fn importers_of(&self, plan: &Plan) -> Vec<(Deployment, BTreeSet<KindName>)> {
        let planned: BTreeSet<&KindName> = plan.steps.iter().map(|step| &step.kind).collect();
        let importing = self.importing();
        let refers = importing.values().filter(|it| {
            it.deployment != self.home && it.kinds.iter().any(|kind| planned.contains(kind))
        });
        refers
            .map(|it| (it.deployment.clone(), it.kinds.clone()))
            .collect()
    }
}

fn not_clear(plan: &Plan, why: &str, name: &str) -> Vec<Refusal> {
    let reason = format!(
        "{why}; gone cannot tell whether a resource of that deployment blocks this deletion. If that deployment no longer exists: gone release {}",
        escape(name)
    );
    let first = plan.targets.iter().take(1);
    first
        .map(|target| Refusal::new(target, RefusalRule::Unreadable, reason.clone()))
        .collect()
}

/// Returns a warning that names referrers which do not block the plan; none if there are none.
fn goes_first(importer: &str, references: u64, mut named: Vec<String>) -> Option<String> {
    let more = references.saturating_sub(named.len() as u64);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    (references > 0).then(|| {
        format!(
            "resources of deployment {importer} refer to resources of this plan: {}; deployment {importer} first deletes its resources, or clears the references",
            named.join(", ")
        )
    })
}

fn blocking(step: &PlanStep, answered: &ClearanceAnswer) -> Vec<Refusal> {
    let refusal = |referrer: &NamedReferrer| {
        let reason = format!(
            "{} is in use: {} of deployment {} refers to it, and must be deleted separately",
            step.key().called(&step.name),
            referrer.key.called(&referrer.name),
            referrer.key.site,
        );
        Refusal {
            blocker: Some(referrer.blocker()),
            ..Refusal::new(&step.target(), RefusalRule::InUse, reason)
        }
    };
    answered.blocking().map(refusal).collect()
}
