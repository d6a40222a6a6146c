//! Verifies that resources are gone: absence is confirmed, never assumed (I13).
//!
//! Steps to verify are gathered by site and listed kind, so that one list answers for many (N14).
//! [`look_wait`] says when the list is due. [`super::observe`] makes the lists, and decides when an absence
//! counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, Utc};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::dispatch::facts;
use super::journal::LEDGER_RETRY;
use super::observe::Observation;
use super::{Done, Shared, UnderWay};
use crate::cloud::Freshness;
use crate::domain::kinds::{AsyncDelete, Kind};
use crate::domain::model::{ErrorClass, Identity, KindName, Site, StepError};
use crate::domain::policy::{Failure, Observed, Retry, after_observation, look_wait, taken_up};
use crate::ledger::{ClaimedStep, LedgerError, ObservationsDue};

/// Minimum time between two searches for due observations, while calls are in flight.
const OBSERVATION_PAUSE_MIN: Duration = Duration::from_millis(25);
/// The pause after a search, as a multiple of the search's duration: a search goes through all deletions.
const OBSERVATION_REST: u32 = 2;
/// The pause before the next search, if steps are to be gathered for longer.
const OBSERVATION_PAUSE: Duration = Duration::from_millis(250);
/// Number of observations of one kind at a site at a time, each for other deletions, because the list of a
/// large deletion takes its time.
const OBSERVATIONS_AT_ONCE: usize = 4;
/// Maximum number of steps of one observation: some 10 MB of rows.
const LOOKED_AT_MAX: usize = 10_000;
/// Number of deletions whose frozen rights are kept in memory. No known site runs more at once.
const RIGHTS_KEPT_MAX: usize = 256;

impl Shared {
    /// Starts observations. Returns the time until the next one may be due.
    pub(super) async fn verify(
        self: &Arc<Self>,
        tasks: &mut JoinSet<Done>,
        under_way: &mut UnderWay,
    ) -> Result<Duration, LedgerError> {
        let now = self.clock.now();
        if let Some(next) = under_way.next_observations
            && now < next
            && self.sites.busy()
        {
            return Ok((next - now).to_std().unwrap_or_default());
        }
        let asked = Instant::now();
        let observations_due = self.ledger.observations_due(now).await?;
        under_way.next_observations =
            Some(now + OBSERVATION_PAUSE_MIN.max(asked.elapsed() * OBSERVATION_REST));
        let mut hold = Duration::MAX;
        let mut groups: BTreeMap<(Site, KindName), Vec<ObservationsDue>> = BTreeMap::new();
        for due in observations_due {
            let Some(kind) = self.kinds.get(&due.kind) else {
                continue;
            };
            let at = (due.site.clone(), self.kinds.listed(kind).name.clone());
            let looks = under_way.looking.get(&at).map_or(&[][..], Vec::as_slice);
            let looked_at = looks.iter().flatten().any(|it| *it == due.deletion);
            if looked_at || looks.len() >= OBSERVATIONS_AT_ONCE || !self.sites.may_read(&due.site) {
                continue;
            }
            let wait = look_wait(&due.gathered, now);
            if wait.is_zero() {
                groups.entry(at).or_default().push(due);
            } else {
                hold = hold.min(wait.max(OBSERVATION_PAUSE));
            }
        }
        for ((site, listed), due) in groups {
            let deletions: Vec<i64> = due.iter().map(|due| due.deletion).collect();
            let at = (site.clone(), listed.clone());
            under_way
                .looking
                .entry(at)
                .or_default()
                .push(deletions.clone());
            let shared = self.clone();
            tasks.spawn(async move {
                if let Err(error) = shared.observe_all(&site, &listed, due).await {
                    tracing::warn!(%error, %site, kind = %listed, "an observation was interrupted; \
                                                                   it is repeated");
                    tokio::time::sleep(LEDGER_RETRY).await;
                }
                shared.journal.wake_loop();
                Done::Observed((site, listed), deletions)
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
        let Some(kind) = self.kinds.get(listed) else {
            return Ok(());
        };
        let unsent: BTreeMap<i64, u64> = due
            .iter()
            .map(|due| (due.deletion, due.gathered.unsent))
            .collect();
        let steps = self
            .ledger
            .verifying(due, self.clock.now(), LOOKED_AT_MAX)
            .await?;
        let looked = self
            .look(site, kind, &steps, unsent.into_values().sum())
            .await;
        let changes = steps
            .iter()
            .zip(looked)
            .map(|(step, looked)| {
                let message = match &looked {
                    Observed::Absent => "confirmed gone".to_owned(),
                    Observed::Present => "still exists".to_owned(),
                    Observed::StillDeleting(error)
                    | Observed::Failed(error)
                    | Observed::Anew(error) => {
                        format!("observed: {}", error.message)
                    }
                    Observed::NotTaken(failure) => format!(
                        "still exists, so the call took no effect: {}",
                        failure.error.message
                    ),
                    Observed::Unclear(error) => format!("cannot be confirmed: {}", error.message),
                };
                let decision = after_observation(
                    facts(step),
                    looked,
                    self.clock.now(),
                    &self.schedule(&step.key.kind),
                    self.clock.chance(),
                );
                self.outcome_change(step, decision, message, None)
            })
            .collect();
        self.journal.commit_outcomes(changes).await;
        Ok(())
    }

    /// Returns the result of the observation for each step, in order. `unsent` is how many more resources of
    /// the steps' deletions a list by scope may show.
    pub(super) async fn look(
        &self,
        site: &Site,
        kind: &Kind,
        steps: &[ClaimedStep],
        unsent: u64,
    ) -> Vec<Observed> {
        let seen = self.observe(site, kind, steps, unsent).await;
        let seen = self.on_whose_rights(site, seen).await;
        if let Some(failure) = &seen.failure
            && failure.retry == Retry::SitePaused
        {
            self.logins.pause_site(site, &failure.message, None).await;
        }
        let mut looked = Vec::with_capacity(steps.len());
        for step in steps {
            let row = self.parent_id(step).and_then(|id| seen.rows.get(id));
            looked.push(match (row, &seen.failure) {
                (Some(Some(row)), _) if self.shows(site, kind, row, step) => {
                    self.still_there(kind, row, step)
                }
                (Some(_), _) => self.absent(site, step, seen.identity.as_ref()).await,
                (None, Some(failure)) => Observed::Unclear(failure.to_step_error(self.clock.now())),
                (None, None) => Observed::Unclear(self.unclear(format!(
                    "the list of {} at {site} did not return its witness",
                    kind.name
                ))),
            });
        }
        looked
    }

    /// Whether a row shows a step's resource: as the row's own resource, or as an edge in the row.
    pub(super) fn shows(&self, site: &Site, kind: &Kind, row: &Value, step: &ClaimedStep) -> bool {
        let shown = self.kinds.resources_in(site, kind, row);
        shown.iter().any(|found| found.key == step.key) && kind.same_incarnation(row, &step.vars)
    }

    /// Interprets a row that still exists, or that still contains the edge. `listed` is the row's kind. The
    /// step's own kind says whether a delete settles, and how the row shows that.
    fn still_there(&self, listed: &Kind, row: &Value, step: &ClaimedStep) -> Observed {
        let kind = self.kinds.get(&step.key.kind);
        let Some((settling, status)) = kind.and_then(|kind| kind.settling(row)) else {
            if let Some(failure) = kind.and_then(|kind| not_taken(kind, step)) {
                return Observed::NotTaken(failure);
            }
            let anew = created_since_sent(listed, row, step);
            return anew.map_or(Observed::Present, |created| {
                Observed::Anew(self.recreated(created))
            });
        };
        let words = match settling {
            AsyncDelete::GoesOn => "is still",
            AsyncDelete::Failed => "has become",
        };
        let error = StepError {
            class: ErrorClass::Blocked,
            status: None,
            message: format!(
                "the delete was accepted; the {} {words} {status}{}",
                listed.name,
                kind.map(|kind| self.slow(kind, step)).unwrap_or_default()
            ),
            kind: status,
            request_id: String::new(),
            at: self.clock.now(),
        };
        match settling {
            AsyncDelete::GoesOn => Observed::StillDeleting(error),
            AsyncDelete::Failed => Observed::Failed(error),
        }
    }

    fn recreated(&self, created: DateTime<Utc>) -> StepError {
        StepError {
            class: ErrorClass::Blocked,
            status: None,
            kind: crate::domain::drift::RECREATED.to_owned(),
            message: format!(
                "the delete was accepted, and it was re-created at {}; find out who re-creates it",
                created.format("%T")
            ),
            request_id: String::new(),
            at: self.clock.now(),
        }
    }

    /// Returns the note about a delete on which the cloud has worked for long.
    fn slow(&self, kind: &Kind, step: &ClaimedStep) -> String {
        let since = step.blocked_since.unwrap_or_else(|| self.clock.now());
        let minutes = (self.clock.now() - since).num_minutes().unsigned_abs();
        match &kind.spec.settles {
            Some(settles) if minutes >= settles.minutes_warn => {
                format!(", since {minutes} min; {}", settles.warning)
            }
            _ => String::new(),
        }
    }

    /// Confirms an absence if it was observed with the rights that the plan froze.
    async fn absent(&self, site: &Site, step: &ClaimedStep, now: Option<&Identity>) -> Observed {
        match self.rights_lost(step, now).await {
            None => Observed::Absent,
            Some(error) => {
                if let (ErrorClass::Auth, Ok(expected)) = (error.class, self.expected(step).await) {
                    self.logins.pause_site(site, &error.message, expected).await;
                }
                Observed::Unclear(error)
            }
        }
    }

    /// Asks the cloud, after an observation, for the login's current identity, unless a witness of the same
    /// project proves the list. A login that loses rights sees less, without an error (I13).
    async fn on_whose_rights(&self, site: &Site, mut seen: Observation) -> Observation {
        if !seen.vouched_by_another_project || seen.rows.values().all(Option::is_some) {
            return seen;
        }
        match self
            .reads
            .once(site, self.cloud.identity(site, Freshness::Now))
            .await
        {
            Ok(now) => seen.identity = Some(now.identity),
            Err(failure) => {
                seen.rows.retain(|_, row| row.is_some());
                seen.failure = Some(failure);
            }
        }
        seen
    }

    /// Returns the id of the listed row that shows a step's resource.
    pub(super) fn parent_id<'s>(&self, step: &'s ClaimedStep) -> Option<&'s str> {
        let kind = self.kinds.get(&step.key.kind)?;
        match kind.parent_variable() {
            Some(variable) => step.vars.get(variable).map(String::as_str),
            None => Some(&step.key.id),
        }
    }

    /// Returns the identity with which the plan read the step's site.
    async fn expected(&self, step: &ClaimedStep) -> Result<Option<Identity>, LedgerError> {
        let site = step.key.site.to_string();
        let known = self
            .rights()
            .get(&step.deletion_id)
            .map(|sites| sites.get(&site).cloned());
        if let Some(known) = known {
            return Ok(known);
        }
        let sites = self.ledger.identities(&step.deletion_id).await?;
        let expected = sites.get(&site).cloned();
        let mut rights = self.rights();
        if rights.len() >= RIGHTS_KEPT_MAX {
            rights.clear();
        }
        rights.insert(step.deletion_id.clone(), sites);
        Ok(expected)
    }

    /// Returns an error if an absence was observed with other rights than the plan's, because a cloud answers
    /// 404 to a login that has lost the right to see.
    pub(super) async fn rights_lost(
        &self,
        step: &ClaimedStep,
        now: Option<&Identity>,
    ) -> Option<StepError> {
        let expected = match self.expected(step).await {
            Ok(expected) => expected?,
            // An identity that cannot be read must not be taken for a missing one.
            Err(error) => {
                return Some(self.unclear(format!(
                    "{}: absent, but the plan's login cannot be read from the ledger: {error}",
                    step.key
                )));
            }
        };
        if now == Some(&expected) {
            return None;
        }
        let shown = |identity: &Identity| {
            format!(
                "user {} in project {} with roles {}",
                identity.user_id,
                identity.project_id,
                identity.roles.join(", ")
            )
        };
        let error = self.unclear(format!(
            "{}: absent, but observed as {}, while the plan was made as {}",
            step.key,
            now.map_or_else(|| "nobody".to_owned(), shown),
            shown(&expected)
        ));
        Some(StepError {
            class: ErrorClass::Auth,
            kind: "RightsLost".into(),
            ..error
        })
    }

    fn unclear(&self, message: String) -> StepError {
        StepError {
            class: ErrorClass::Unavailable,
            status: None,
            kind: "Unclear".into(),
            message,
            request_id: String::new(),
            at: self.clock.now(),
        }
    }
}

/// Returns the error with which the cloud answered a call that took no effect. None if no answer came, or if
/// the answer left no doubt.
fn not_taken(kind: &Kind, step: &ClaimedStep) -> Option<Failure> {
    let last = step.last_error.as_ref()?;
    if last.status.is_none() || last.class != ErrorClass::OutcomeUnknown {
        return None;
    }
    let meaning = kind.calls.meaning(last);
    let (retry, class) = meaning.map_or((Retry::Unavailable, ErrorClass::Unavailable), taken_up);
    let error = StepError {
        class,
        ..last.clone()
    };
    Some(Failure {
        retry,
        error,
        blockers: Vec::new(),
        retry_after: None,
    })
}

/// Returns when the row's resource was created, unless that was before its delete was sent. Clouds give whole
/// seconds. A cloud whose clock is slow shows the resource as older, and the resource is observed until
/// `verify_max`.
fn created_since_sent(listed: &Kind, row: &Value, step: &ClaimedStep) -> Option<DateTime<Utc>> {
    let lost = |error: &StepError| error.class == ErrorClass::OutcomeUnknown;
    if listed.name != step.key.kind || step.last_error.as_ref().is_some_and(lost) {
        return None;
    }
    let created = listed.created_at(row);
    created.filter(|created| *created >= step.since.trunc_subsecs(0))
}
