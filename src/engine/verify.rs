//! Verifies that resources are gone: absence is confirmed, never assumed (I13).
//!
//! Steps to verify are gathered by site and listed kind, so that one list answers for many (N14). [`observation_wait`]
//! decides how long they are gathered. [`super::confirm`] interprets the observations.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::activity::Activity;
use super::confirm::Confirming;
use super::diagnose::Diagnosis;
use super::dispatch::unknown_kind;
use super::journal::{Journal, LEDGER_RETRY};
use super::lock;
use super::outcomes::{facts, outcome_change};
use super::schedules::Schedules;
use super::sites::Sites;
use crate::domain::kinds::Kinds;
use crate::domain::model::{KindName, Site};
use crate::domain::policy::{Failure, Observed, after_observation, observation_wait};
use crate::ledger::{LedgerError, ObservationsDue, WorkQueue};
use crate::system::clock::Clock;

/// Minimum time between two searches for due observations, while calls are in flight.
const OBSERVATION_PAUSE_MIN: Duration = Duration::from_millis(25);
/// The pause after a search, as a multiple of the search's duration: a search covers the verifying steps of all
/// deletions.
const OBSERVATION_REST: u32 = 2;
/// The shortest pause before the next search while steps are gathered for a later observation.
const OBSERVATION_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of observations of one kind at a site at a time, each for different deletions, because the list of a
/// large deletion takes long.
const OBSERVATIONS_AT_ONCE: usize = 4;
/// Maximum number of steps of one observation: some 10 MB of rows.
const OBSERVED_TOGETHER_MAX: usize = 10_000;

/// Verifies steps whose calls were accepted, or whose answers were lost.
pub(super) struct Verifying {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn WorkQueue>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) sites: Arc<Sites>,
    pub(super) journal: Arc<Journal>,
    pub(super) schedules: Arc<Schedules>,
    pub(super) confirming: Arc<Confirming>,
    pub(super) diagnosis: Diagnosis,
    pub(super) activity: Arc<Activity>,
    pub(super) observations: Mutex<Observations>,
}

/// The observations under way.
#[derive(Default)]
pub(super) struct Observations {
    /// By site and listed kind, for each observation: the numbers that its deletions have in this ledger.
    deletions: HashMap<(Site, KindName), Vec<Vec<i64>>>,
    /// When to search for due observations again.
    next_search: Option<DateTime<Utc>>,
}

impl Verifying {
    /// Starts the observations that are due. Returns how long until the next one may be due.
    pub(super) async fn start(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
    ) -> Result<Duration, LedgerError> {
        let now = self.clock.now();
        let next_search = lock(&self.observations).next_search;
        if let Some(next) = next_search
            && now < next
            && self.sites.busy()
        {
            return Ok((next - now).to_std().unwrap_or_default());
        }
        let asked = Instant::now();
        let observations_due = self.ledger.observations_due(now).await?;
        let mut observations = lock(&self.observations);
        observations.next_search =
            Some(now + OBSERVATION_PAUSE_MIN.max(asked.elapsed() * OBSERVATION_REST));
        let mut hold = Duration::MAX;
        let mut groups: BTreeMap<(Site, KindName), Vec<ObservationsDue>> = BTreeMap::new();
        for due in observations_due {
            let kind = self.kinds.get(&due.kind);
            let listed = kind.map_or(&due.kind, |kind| &self.kinds.listed(kind).name);
            let at = (due.site.clone(), listed.clone());
            let under_way = observations
                .deletions
                .get(&at)
                .map_or(&[][..], Vec::as_slice);
            let is_observed = under_way.iter().flatten().any(|it| *it == due.deletion);
            if is_observed
                || under_way.len() >= OBSERVATIONS_AT_ONCE
                || !self.sites.may_read(&due.site)
            {
                continue;
            }
            let wait = kind.map_or(Duration::ZERO, |kind| {
                observation_wait(&due.gathered, kind.spec.settles.is_some(), now)
            });
            if wait.is_zero() {
                groups.entry(at).or_default().push(due);
            } else {
                hold = hold.min(wait.max(OBSERVATION_PAUSE));
            }
        }
        for ((site, listed), due) in groups {
            let deletions: Vec<i64> = due.iter().map(|due| due.deletion).collect();
            let at = (site.clone(), listed.clone());
            observations
                .deletions
                .entry(at)
                .or_default()
                .push(deletions.clone());
            let run = self.activity.begin(format!("{listed} at {site}"));
            let verifying = self.clone();
            tasks.spawn(async move {
                if let Err(error) = verifying.observe_all(&site, &listed, due).await {
                    tracing::warn!(%error, %site, kind = %listed, "an observation was interrupted; \
                                                                   it is repeated");
                    run.failed(format!("{listed} at {site}: {error}"));
                    tokio::time::sleep(LEDGER_RETRY).await;
                }
                let mut observations = lock(&verifying.observations);
                if let Some(under_way) = observations.deletions.get_mut(&(site, listed)) {
                    under_way.retain(|it| *it != deletions);
                }
                drop(observations);
                verifying.journal.wake_loop();
            });
        }
        Ok(hold)
    }

    async fn observe_all(
        &self,
        site: &Site,
        listed: &KindName,
        due: Vec<ObservationsDue>,
    ) -> Result<(), LedgerError> {
        let unsent: BTreeMap<i64, u64> = due
            .iter()
            .map(|due| (due.deletion, due.gathered.unsent))
            .collect();
        let steps = self
            .ledger
            .steps_to_observe(due, self.clock.now(), OBSERVED_TOGETHER_MAX)
            .await?;
        let mut observed = match self.kinds.get(listed) {
            Some(kind) => {
                self.confirming
                    .observe(site, kind, &steps, unsent.into_values().sum())
                    .await
            }
            None => {
                let now = self.clock.now();
                let unknown = |step| Observed::Unprovable(unknown_kind(step, now));
                steps.iter().map(unknown).collect()
            }
        };
        for (step, observed) in steps.iter().zip(&mut observed) {
            // Resources that the service created for this one may have blockers that the service does not name.
            if let Observed::Failed(failure) = observed
                && self.kinds.takes_made(&step.key.kind)
            {
                *failure = self.diagnosis.diagnose(step, failure.clone(), &[]).await;
            }
        }
        let changes = steps
            .iter()
            .zip(observed)
            .map(|(step, observed)| {
                let message = match &observed {
                    Observed::Absent => "confirmed gone".to_owned(),
                    Observed::Present => "still exists".to_owned(),
                    Observed::StillDeleting(error)
                    | Observed::Failed(Failure { error, .. })
                    | Observed::Recreated(error) => {
                        format!("observed: {}", error.message)
                    }
                    Observed::HadNoEffect(failure) => format!(
                        "still exists, so the call had no effect: {}",
                        failure.error.message
                    ),
                    Observed::Unclear(error) | Observed::Unprovable(error) => {
                        self.activity.failed(&error.message);
                        format!("absence cannot be confirmed: {}", error.message)
                    }
                };
                let decision = after_observation(
                    facts(step),
                    observed,
                    self.clock.now(),
                    &self.schedules.of(&step.key.kind),
                    self.clock.chance(),
                );
                outcome_change(step, decision, message, None, self.clock.now())
            })
            .collect();
        self.journal.commit_outcomes(changes).await;
        Ok(())
    }
}
