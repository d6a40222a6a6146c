//! Turns ready steps into calls, and calls into outcomes.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::activity::Activity;
use super::diagnose::Diagnosis;
use super::logins::Logins;
use super::observe::{parent_id, shows};
use super::outcomes::{facts, outcome_change};
use super::peers::OwnerSide;
use super::reads::Reads;
use super::schedules::Schedules;
use super::sites::Claim;
use crate::cloud::{Acted, Call, CloudFailure};
use crate::domain::kinds::Kind;
use crate::domain::model::{Action, Answer, ErrorClass, StepError};
use crate::domain::policy::{Failure, Outcome, Retry, after_call, not_sent};
use crate::ledger::{ClaimedStep, Ledger, LedgerError};
use crate::system::clock::Clock;

/// Why the call of a claimed step was withdrawn.
const WITHDRAWN: &str = "its deletion or its site was paused, or its deletion was cancelled";

/// Claims ready steps, makes their calls, and records the outcomes.
pub(super) struct Dispatching {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) reads: Arc<Reads>,
    pub(super) schedules: Arc<Schedules>,
    pub(super) logins: Arc<Logins>,
    pub(super) diagnosis: Arc<Diagnosis>,
    pub(super) call_timeout: Duration,
    /// Knows the pending clearances; none for an engine without `[deployment]`.
    pub(super) owner: Option<Arc<OwnerSide>>,
    pub(super) activity: Arc<Activity>,
}

impl Dispatching {
    /// Claims as many steps as the sites have capacity for. The claim is durable before any call is sent.
    pub(super) async fn start(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), LedgerError> {
        let capacities = self.reads.sites.capacities();
        if capacities.is_empty() {
            return Ok(());
        }
        let claim = self.reads.sites.begin_claim();
        let began = Instant::now();
        let claimed = self.ledger.claim(capacities, self.clock.now()).await?;
        self.reads.sites.note_claim(began.elapsed());
        claim.note_deletions(&claimed);
        let owner = self.owner.as_ref().filter(|owner| owner.any_importer());
        for step in claimed {
            let (dispatching, claim) = (self.clone(), claim.clone());
            if let Some(owner) = owner.cloned() {
                tasks.spawn(async move {
                    let reads = &dispatching.reads;
                    match owner.awaits_clearance(&step).await {
                        Some(waits) => reads.journal.commit_outcomes(vec![waits]).await,
                        None => {
                            let permit = dispatching.queue(&step, &claim);
                            dispatching.act_with_permit(step, claim, permit).await;
                        }
                    }
                });
                continue;
            }
            let permit = self.queue(&step, &claim);
            tasks.spawn(async move {
                dispatching.act_with_permit(step, claim, permit).await;
            });
        }
        Ok(())
    }

    fn queue(
        &self,
        step: &ClaimedStep,
        claim: &Claim,
    ) -> impl Future<Output = Option<Instant>> + use<> {
        let sites = &self.reads.sites;
        sites.call_permit(&step.key.site, &step.deletion_id, claim)
    }

    async fn act_with_permit(
        &self,
        step: ClaimedStep,
        claim: Arc<Claim>,
        permit: impl Future<Output = Option<Instant>>,
    ) {
        let Some(sent) = permit.await else {
            return self.release_claim(step, WITHDRAWN).await;
        };
        self.act(step, claim, sent).await;
    }

    /// Releases the claim on a step whose call was not sent: the step is `ready` again.
    async fn release_claim(&self, step: ClaimedStep, why: &str) {
        let decision = not_sent(facts(&step), step.blockers.clone());
        let message = format!("not sent: {why}");
        let outcome = outcome_change(&step, decision, message, None, self.clock.now());
        self.reads.journal.commit_outcomes(vec![outcome]).await;
    }

    async fn act(&self, step: ClaimedStep, claim: Arc<Claim>, sent: Instant) {
        let site = step.key.site.clone();
        let run = self.activity.begin(step.key.called(&step.name));
        let acted = match self.reads.kinds.get(&step.key.kind) {
            Some(kind) => self.call(kind, &step, claim).await,
            None => {
                let failure = Failure {
                    retry: Retry::Never,
                    error: unknown_kind(&step, self.clock.now()),
                    blockers: Vec::new(),
                    retry_after: None,
                };
                Ok(Acted {
                    line: failure.error.message.clone(),
                    answer: Answer::default(),
                    named: Vec::new(),
                    outcome: Outcome::Failed(failure),
                })
            }
        };
        let acted = match acted {
            Ok(acted) => acted,
            Err(why) => {
                self.reads.sites.return_permit(&site, sent);
                return self.release_claim(step, &why).await;
            }
        };
        let (failed, reason) = match &acted.outcome {
            Outcome::Failed(failure) | Outcome::Unclear(failure) => (
                Some((failure.retry, failure.retry_after)),
                failure.error.message.clone(),
            ),
            Outcome::Accepted | Outcome::Prepared | Outcome::Absent => (None, String::new()),
        };
        self.reads.sites.ended(&site, sent, failed, &reason);
        if failed.is_some() {
            run.failed(format!("{}: {reason}", step.key.called(&step.name)));
        }
        let (line, answer) = (acted.line.clone(), acted.answer.clone());
        let outcome = self.outcome_of_call(&step, acted).await;
        if let Outcome::Failed(Failure {
            retry: Retry::SitePaused,
            error,
            ..
        }) = &outcome
        {
            self.logins.pause_site(&site, &error.message, None).await;
        }
        let decision = after_call(
            facts(&step),
            outcome,
            self.clock.now(),
            &self.schedules.of(&step.key.kind),
            self.clock.chance(),
        );
        let outcome = outcome_change(&step, decision, line, Some(answer), self.clock.now());
        self.reads.journal.commit_outcomes(vec![outcome]).await;
    }

    /// Makes the call of a step, after the reads that its kind needs.
    ///
    /// # Errors
    /// The call may not be sent now; the error says why.
    async fn call(
        &self,
        kind: &Kind,
        step: &ClaimedStep,
        claim: Arc<Claim>,
    ) -> Result<Acted, String> {
        if step.action == Action::Detach && kind.removes_one_of_row(&step.vars) {
            let listed = self.reads.kinds.listed(kind);
            let parent = parent_id(&self.reads.kinds, step).unwrap_or_default();
            let site = &step.key.site;
            let read = self.reads.read_once(site, listed, parent).await;
            match read.map(|read| read.row) {
                Ok(Some(row)) if shows(&self.reads.kinds, &step.key.site, listed, &row, step) => {}
                Ok(_) => return Ok(recreated(step)),
                Err(failed) => return Ok(self.not_read(failed)),
            }
        }
        // Our own registry compares the incarnation in the transaction that deletes.
        if kind.spec.incarnation.is_some() && !kind.is_native() {
            let site = &step.key.site;
            let read = self.reads.read_once(site, kind, &step.key.id).await;
            match read.map(|read| read.row) {
                Ok(Some(row)) if !kind.same_incarnation(&row, &step.vars) => {
                    return Ok(recreated(step));
                }
                // If the resource does not exist, the call's own answer says so.
                Ok(_) => {}
                Err(failed) => return Ok(self.not_read(failed)),
            }
        }
        let call = Call {
            site: &step.key.site,
            kind,
            action: step.action,
            id: &step.key.id,
            vars: &step.vars,
        };
        let (claimed_in, now) = (step.fence.epoch, Instant::now());
        let membership = self.ledger.membership();
        membership.may_send_step(claimed_in, self.call_timeout, now)?;
        let (site, deletion) = (&step.key.site, &step.deletion_id);
        if !self.reads.sites.may_send(site, deletion, &claim) {
            return Err(WITHDRAWN.to_owned());
        }
        // From here on the call counts as sent.
        drop(claim);
        Ok(self.reads.cloud.act(call).await)
    }

    fn not_read(&self, failed: CloudFailure) -> Acted {
        let line = format!("not sent: {}", failed.message);
        Acted::not_sent(failed, line, self.clock.now())
    }

    /// Returns the outcome of a call. An answer that a resource is absent is verified like an accepted delete,
    /// so that absence counts only with the rights that the plan froze (I13). Calls with the actions `enable` and
    /// `unset` need no verification, and neither do native resources, which the ledger's own transaction deletes.
    /// After a `reset` the delete follows. Blockers of a refused step are diagnosed.
    async fn outcome_of_call(&self, step: &ClaimedStep, acted: Acted) -> Outcome {
        match acted.outcome {
            Outcome::Accepted | Outcome::Absent
                if matches!(step.action, Action::Enable | Action::Unset)
                    || self
                        .reads
                        .kinds
                        .get(&step.key.kind)
                        .is_some_and(Kind::is_native) =>
            {
                Outcome::Absent
            }
            Outcome::Accepted if step.action == Action::Reset => Outcome::Prepared,
            Outcome::Absent => Outcome::Accepted,
            Outcome::Failed(failure)
                if failure.retry == Retry::Scheduled
                    && failure.error.class == ErrorClass::Blocked =>
            {
                Outcome::Failed(self.diagnosis.diagnose(step, failure, &acted.named).await)
            }
            outcome => outcome,
        }
    }
}

/// Returns the outcome for a step whose planned resource is gone: its id now belongs to another resource (I10), or the
/// row no longer shows the edge that the step detaches.
fn recreated(step: &ClaimedStep) -> Acted {
    Acted {
        outcome: Outcome::Absent,
        named: Vec::new(),
        line: format!(
            "{} was re-created since the plan, so it was not deleted",
            step.key
        ),
        answer: Answer::default(),
    }
}

/// Returns the error of a step whose kind no kinds file describes any more.
pub(super) fn unknown_kind(step: &ClaimedStep, at: DateTime<Utc>) -> StepError {
    let message = format!(
        "the kind {} is no longer known: the plan was made with other kinds files; restore them, then retry",
        step.key.kind
    );
    StepError::own(ErrorClass::Fatal, "UnknownKind", message, at)
}
