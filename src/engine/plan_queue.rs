//! Plans the accepted deletions, behind their write guards and before the first write (T3, N15).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::activity::{Activity, Run};
use super::journal::{Journal, LEDGER_RETRY};
use super::peers::OwnerSide;
use super::planning::{Planning, VANISHED};
use super::schedules::Schedules;
use super::{PAGE_MAX, lock};
use crate::cloud::CloudFailure;
use crate::domain::mapping::Mapping;
use crate::domain::model::{
    Deletion, DeletionState, ErrorClass, Plan, Refusal, RefusalRule, Site, Target, short_id,
};
use crate::domain::plan::{changes, changes_line, drifted, ranks};
use crate::ledger::tombstones::Tombstones;
use crate::ledger::{Applied, Change, Cursor, DeletionFilter, Ledger, LedgerError};
use crate::system::clock::Clock;

/// Maximum number of deletions that are planned at the same time.
const PLANNING_MAX: usize = 4;
/// The shortest wait before a deletion is planned again, after its cloud did not answer for
/// `[engine] read_patience`; less if the deletion's deadline is sooner.
const PLAN_AGAIN_MIN: Duration = Duration::from_secs(10);
/// The longest wait before a deletion is planned again, even if the cloud asks for a longer one.
const PLAN_AGAIN_MAX: Duration = Duration::from_secs(60);

/// Plans accepted deletions, a few at a time.
pub(super) struct PlanQueue {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) journal: Arc<Journal>,
    pub(super) schedules: Arc<Schedules>,
    pub(super) planning: Arc<Planning>,
    /// The writes that gates let through; none without a gate.
    pub(super) tombstones: Option<Arc<Tombstones>>,
    pub(super) mapping: Vec<Mapping>,
    /// Asks the importers for clearances; none for an engine without `[deployment]`.
    pub(super) owner: Option<Arc<OwnerSide>>,
    pub(super) activity: Arc<Activity>,
    pub(super) queued: Mutex<Queued>,
}

/// The deletions that are being planned, or wait to be planned again.
#[derive(Default)]
pub(super) struct Queued {
    /// The ids of the deletions that are being planned, and whether each was planned before.
    under_way: HashMap<String, bool>,
    /// The ids of the deletions whose cloud did not answer, and when each is planned again.
    again: HashMap<String, Instant>,
}

impl Queued {
    /// Whether one more deletion may be planned. Deletions that are planned again never use the whole capacity,
    /// because a cloud that does not answer must not delay the other deletions (I16).
    fn has_capacity(&self, is_again: bool) -> bool {
        let again = self.under_way.values().filter(|again| **again).count();
        self.under_way.len() < PLANNING_MAX && !(is_again && again >= PLANNING_MAX - 1)
    }
}

impl PlanQueue {
    /// Starts planning the accepted deletions, also those whose planning a crash ended. Deletions that were not
    /// planned before come first, the oldest first; then come those that have been due for longest. Returns how
    /// long until the next deletion is planned again.
    pub(super) async fn start(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
    ) -> Result<Duration, LedgerError> {
        let now = Instant::now();
        let mut after = None;
        let mut due: Vec<(Instant, Deletion)> = Vec::new();
        let mut waiting = HashSet::new();
        while lock(&self.queued).has_capacity(false) {
            let filter = DeletionFilter {
                states: vec![DeletionState::Planning],
                oldest_first: true,
                ..DeletionFilter::default()
            };
            let limit = PAGE_MAX;
            let page = self
                .ledger
                .deletions(filter, Cursor { after, limit })
                .await?;
            for deletion in page.rows {
                let again = lock(&self.queued).again.get(&deletion.id).copied();
                match again {
                    None => self.plan(deletion, false, tasks),
                    Some(again) => {
                        waiting.insert(deletion.id.clone());
                        if again <= now {
                            due.push((again, deletion));
                        }
                    }
                }
            }
            due.sort_by_key(|(due, _)| *due);
            due.truncate(PLANNING_MAX);
            after = page.next;
            if after.is_none() {
                lock(&self.queued)
                    .again
                    .retain(|id, _| waiting.contains(id));
                break;
            }
        }
        for (_, deletion) in due {
            self.plan(deletion, true, tasks);
        }
        let queued = lock(&self.queued);
        let next = queued.again.values().filter(|next| **next > now).min();
        let wait = next.map_or(Duration::MAX, |next| *next - now);
        drop(queued);
        self.activity.runs_in(wait);
        Ok(wait)
    }

    /// Starts planning this deletion, if it is not being planned and the capacity allows it.
    fn plan(self: &Arc<Self>, deletion: Deletion, is_again: bool, tasks: &mut JoinSet<()>) {
        let mut queued = lock(&self.queued);
        if queued.under_way.contains_key(&deletion.id) || !queued.has_capacity(is_again) {
            return;
        }
        queued.under_way.insert(deletion.id.clone(), is_again);
        queued.again.remove(&deletion.id);
        drop(queued);
        let run = self
            .activity
            .begin(format!("deletion {}", short_id(&deletion.id)));
        let queue = self.clone();
        tasks.spawn(async move {
            let id = deletion.id.clone();
            let (change, again) = queue.plan_accepted(deletion, &run).await;
            if let Err(error) = queue.write(&id, change).await {
                tracing::error!(%error, deletion = id, "a plan was not written to the ledger; \
                                                        the deletion is planned again at the \
                                                        next start");
                queue.journal.set_fault(Some(error.to_string()));
                run.failed(&error);
            }
            if let Some(owner) = &queue.owner {
                owner.ask_again();
            }
            let mut queued = lock(&queue.queued);
            queued.under_way.remove(&id);
            let again = again.map(|wait| Instant::now() + wait);
            queued.again.extend(again.map(|again| (id, again)));
        });
    }

    /// Writes how the planning ended. If the ledger refuses the plan, refuses the deletion, because the ledger
    /// would refuse the same plan each time.
    async fn write(&self, id: &str, change: Change) -> Result<(), LedgerError> {
        let is_start = matches!(change, Change::Start { .. });
        let applied = self.journal.commit_until_done(vec![change]).await?;
        if let [Applied::Refused(why)] = &*applied
            && is_start
        {
            tracing::error!(why, deletion = id, "the ledger refused a plan");
            let refuse = Change::Refuse {
                deletion_id: id.to_owned(),
                refused: Vec::new(),
                note: format!("nothing was sent: {why}"),
                now: self.clock.now(),
            };
            // The ledger rejects this change as well if the deletion was cancelled in the meantime.
            self.journal.commit_until_done(vec![refuse]).await?;
        }
        Ok(())
    }

    /// Plans an accepted deletion. Returns the change that starts it with its steps, or refuses it with the reason. If
    /// a cloud does not answer and the deletion's deadline has not passed, returns the change that notes this, and how
    /// long to wait before planning again (N16). Meanwhile other deletions are planned.
    async fn plan_accepted(&self, deletion: Deletion, run: &Run) -> (Change, Option<Duration>) {
        self.wait_for_earlier_writes(&deletion.targets).await;
        let plan = self
            .planning
            .plan_completely(&deletion.targets, deletion.options)
            .await;
        if let Err(failure) = &plan {
            run.failed(format!(
                "deletion {}: {}",
                short_id(&deletion.id),
                failure.message
            ));
        }
        if let Err(failure) = &plan
            && let Some(wait) = self.wait_for_cloud(&deletion, failure)
        {
            let change = Change::StillPlanning {
                deletion_id: deletion.id,
                note: format!(
                    "still planning, nothing was sent: {}. gone asks the cloud again until the deletion's deadline.",
                    failure.message
                ),
                now: self.clock.now(),
            };
            return (change, Some(wait));
        }
        (self.plan_ended(deletion, plan).await, None)
    }

    /// Returns how long to wait before planning again; None if the failure is not an outage of the cloud, if the
    /// deletion has no deadline, or if its deadline has passed.
    fn wait_for_cloud(&self, deletion: &Deletion, failure: &CloudFailure) -> Option<Duration> {
        let left = (deletion.deadline? - self.clock.now()).to_std().ok()?;
        let is_away = matches!(
            failure.class,
            ErrorClass::Unavailable | ErrorClass::OutcomeUnknown
        );
        let wait = failure.retry_after.unwrap_or_default();
        (is_away && !left.is_zero()).then(|| wait.clamp(PLAN_AGAIN_MIN, PLAN_AGAIN_MAX).min(left))
    }

    async fn plan_ended(&self, deletion: Deletion, plan: Result<Plan, CloudFailure>) -> Change {
        let refuse = |refused: Vec<Refusal>, note: String| Change::Refuse {
            deletion_id: deletion.id.clone(),
            refused,
            note,
            now: self.clock.now(),
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(failure) if deletion.plan_hash.is_some() && failure.kind == VANISHED => {
                let (refused, why) = all_drifted(&deletion.targets, failure.message);
                let note =
                    format!("nothing was sent: the cloud differs from the approved plan: {why}");
                return refuse(refused, note);
            }
            Err(failure) => {
                let rule = match failure.class {
                    ErrorClass::Auth => RefusalRule::NotShown,
                    _ if failure.forbidden => RefusalRule::NotShown,
                    _ => RefusalRule::Unreadable,
                };
                let refused = refuse_all(&deletion.targets, rule, &failure.message);
                return refuse(refused, format!("nothing was sent: {}", failure.message));
            }
        };
        if let Some(approved) = &deletion.plan_hash
            && *approved != plan.hash
        {
            let (refused, why) = self.drift_since(approved, &deletion.targets, &plan).await;
            let note = format!("nothing was sent: the cloud differs from the approved plan: {why}");
            return refuse(refused, note);
        }
        if !plan.refused.is_empty() {
            let first = plan
                .refused
                .first()
                .map(|refusal| refusal.reason.clone())
                .unwrap_or_default();
            let note = format!("nothing was sent: {first}");
            return refuse(plan.refused.clone(), note);
        }
        Change::Start {
            deletion_id: deletion.id.clone(),
            ranks: ranks(&plan, &self.schedules.kinds),
            max_attempts: plan
                .steps
                .iter()
                .map(|step| self.schedules.max_attempts(&step.kind))
                .collect(),
            plan: Arc::new(plan),
            now: self.clock.now(),
        }
    }

    /// Returns how the cloud differs from the approved plan, for each target and in one line.
    async fn drift_since(
        &self,
        approved: &str,
        targets: &[Target],
        now: &Plan,
    ) -> (Vec<Refusal>, String) {
        match self.ledger.plan(approved, self.clock.now()).await {
            Ok(Some(before)) => {
                let changes = changes(&before, now);
                (drifted(targets, &changes), changes_line(&changes))
            }
            Ok(None) => {
                let why = "the differences from the approved plan are unknown, because that plan is no longer kept (plans are kept 24 h)";
                all_drifted(targets, why.to_owned())
            }
            Err(why) => all_drifted(
                targets,
                format!(
                    "the differences from the approved plan are unknown, because that plan could not be read: {why}"
                ),
            ),
        }
    }

    /// Waits for the end of the writes that gates let through before this deletion's write guard was set, so that the
    /// listings show the effects of these writes (T3, T14). A gate ends each of these writes within the time that a
    /// call may take.
    async fn wait_for_earlier_writes(&self, targets: &[Target]) {
        while let Err(error) = self.ledger.guards_reached_gates().await {
            tracing::warn!(%error, "cannot read whether every gate has received a write guard; retrying");
            tokio::time::sleep(LEDGER_RETRY).await;
        }
        let Some(tombstones) = &self.tombstones else {
            return;
        };
        let sites: BTreeSet<&Site> = targets.iter().map(|target| &target.key.site).collect();
        let mapped = self.mapping.iter();
        let copied_to = mapped
            .filter(|mapping| sites.contains(&mapping.central))
            .flat_map(|mapping| &mapping.locals);
        for site in sites.iter().copied().chain(copied_to) {
            tombstones.drained(site).await;
        }
    }
}

/// Refuses every target as drifted, for a reason that concerns no single resource of the plan.
fn all_drifted(targets: &[Target], reason: String) -> (Vec<Refusal>, String) {
    (refuse_all(targets, RefusalRule::Drift, &reason), reason)
}

fn refuse_all(targets: &[Target], rule: RefusalRule, reason: &str) -> Vec<Refusal> {
    let targets = targets.iter();
    targets
        .map(|target| Refusal::new(target, rule, reason.to_owned()))
        .collect()
}
