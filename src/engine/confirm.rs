//! Interprets observations: says for each step what is known about its resource, and confirms its absence only with the
//! rights that the plan froze (I13). [`super::observe`] lists and reads the resources.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, SubsecRound as _, Utc};
use serde_json::Value;

use super::lock;
use super::logins::Logins;
use super::observe::{Observation, Observing, parent_id, shows};
use super::reads::Reads;
use crate::cloud::Freshness;
use crate::domain::drift::RECREATED;
use crate::domain::kinds::{AsyncDelete, Kind};
use crate::domain::model::{ErrorClass, Identity, Site, StepError};
use crate::domain::policy::{Failure, Observed, Retry, retry_and_class};
use crate::ledger::{ClaimedStep, LedgerError, Views};
use crate::system::clock::Clock;

/// Maximum number of deletions whose frozen rights are kept in memory. No site that we know has as many running
/// deletions at once.
const RIGHTS_KEPT_MAX: usize = 256;

/// The type of a step's error if its resource is absent for another user or project than those of the plan (I13).
pub(super) const OTHER_LOGIN: &str = "OtherLogin";

/// The identities that a plan froze, by site.
type Rights = BTreeMap<String, Identity>;

pub(super) struct Confirming {
    pub(super) clock: Clock,
    pub(super) ledger: Arc<dyn Views>,
    pub(super) reads: Arc<Reads>,
    pub(super) observing: Observing,
    pub(super) logins: Arc<Logins>,
    /// The rights of each deletion, read once for many observations.
    pub(super) rights: Mutex<HashMap<String, Rights>>,
}

impl Confirming {
    /// Returns the observation of each step, in the order of the steps. Pauses the site if its login is refused or has
    /// lost rights. `unsent` is the number of other resources of the steps' deletions that a list by scope may show.
    pub(super) async fn observe(
        &self,
        site: &Site,
        kind: &Kind,
        steps: &[ClaimedStep],
        unsent: u64,
    ) -> Vec<Observed> {
        let observation = self.observing.observe(site, kind, steps, unsent).await;
        let observation = self.with_present_identity(site, observation).await;
        if let Some(failure) = &observation.failure
            && failure.retry == Retry::SitePaused
        {
            self.logins.pause_site(site, &failure.message, None).await;
        }
        let mut observed = Vec::with_capacity(steps.len());
        for step in steps {
            let row = parent_id(&self.reads.kinds, step).and_then(|id| observation.rows.get(id));
            observed.push(match (row, &observation.failure) {
                (Some(Some(row)), _) if shows(&self.reads.kinds, site, kind, row, step) => {
                    self.still_there(kind, row, step)
                }
                (Some(_), _) => self.absent(site, step, observation.identity.as_ref()).await,
                (None, Some(failure)) => Observed::Unclear(failure.to_step_error(self.clock.now())),
                (None, None) => Observed::Unclear(self.unclear(format!(
                    "the list of {}s at {site} may be incomplete: a resource that exists was not in \
                     it",
                    kind.name
                ))),
            });
        }
        observed
    }

    /// Interprets a row that still exists, or that still contains the edge. `listed` is the row's kind. The
    /// step's own kind says whether the cloud works on a delete after its answer, and how the row shows that.
    fn still_there(&self, listed: &Kind, row: &Value, step: &ClaimedStep) -> Observed {
        let kind = self.reads.kinds.get(&step.key.kind);
        let Some((settling, status)) = kind.and_then(|kind| kind.settling(row)) else {
            if let Some(failure) = kind.and_then(|kind| not_taken(kind, step)) {
                return Observed::HadNoEffect(failure);
            }
            if let Some(created) = created_since_sent(listed, row, step) {
                return Observed::Recreated(self.recreated(created));
            }
            let put_back = kind.filter(|_| !has_unknown_outcome(step));
            return match put_back.and_then(|kind| Some((kind, kind.put_back(row)?))) {
                Some((kind, state)) => Observed::failed(self.accepted(state, |state| {
                    let because = because(kind, row);
                    format!(
                        "the {} is no longer being deleted, and is {state}{because}",
                        listed.name
                    )
                })),
                None => Observed::Present,
            };
        };
        let slow = || kind.map(|kind| self.slow(kind, step)).unwrap_or_default();
        let because = || kind.map(|kind| because(kind, row)).unwrap_or_default();
        match settling {
            AsyncDelete::GoesOn => Observed::StillDeleting(self.accepted(status, |status| {
                format!("the {} is still {status}{}", listed.name, slow())
            })),
            AsyncDelete::Failed => Observed::failed(self.accepted(status, |status| {
                format!(
                    "the {} has become {status}{}{}",
                    listed.name,
                    because(),
                    slow()
                )
            })),
        }
    }

    /// Makes the error for an accepted delete that the cloud has not finished, or that has failed.
    fn accepted(&self, status: String, says: impl FnOnce(&str) -> String) -> StepError {
        let message = format!("the delete was accepted; {}", says(&status));
        StepError::own(ErrorClass::Blocked, &status, message, self.clock.now())
    }

    fn recreated(&self, created: DateTime<Utc>) -> StepError {
        let message = format!(
            "the delete was accepted, and the resource was re-created at {} UTC; find out who \
             re-creates it",
            created.format("%T")
        );
        StepError::own(ErrorClass::Blocked, RECREATED, message, self.clock.now())
    }

    /// Returns a note if the cloud has worked on the delete for long; otherwise an empty text.
    fn slow(&self, kind: &Kind, step: &ClaimedStep) -> String {
        let since = step.blocked_since.unwrap_or_else(|| self.clock.now());
        let minutes = (self.clock.now() - since).num_minutes().unsigned_abs();
        match &kind.spec.settles {
            Some(settles) if minutes >= settles.minutes_warn => {
                format!(", for {minutes} min; {}", settles.warning)
            }
            _ => String::new(),
        }
    }

    /// Confirms an absence if it was observed with the rights that the plan froze, or if the plan froze none: a cloud
    /// answers 404 to a login that has lost its rights. Lost rights pause the site until the login has them again.
    /// If another user or project is signed in now, for example after a change of `clouds.yaml`, only the step needs a
    /// person, and the site is not paused.
    async fn absent(&self, site: &Site, step: &ClaimedStep, now: Option<&Identity>) -> Observed {
        let expected = match self.expected(step).await {
            Ok(Some(expected)) => expected,
            Ok(None) => return Observed::Absent,
            // An identity that cannot be read must not count as one that was not frozen.
            Err(error) => {
                return Observed::Unclear(self.unclear(format!(
                    "{}: absent, but the plan's login cannot be read from the ledger: {error}",
                    step.key
                )));
            }
        };
        if now.is_some_and(|now| now.covers(&expected)) {
            return Observed::Absent;
        }
        let shown = |identity: &Identity| {
            format!(
                "user {} in project {} with roles {}",
                identity.user_id,
                identity.project_id,
                identity.roles.join(", ")
            )
        };
        let error = StepError {
            class: ErrorClass::Auth,
            kind: "RightsLost".into(),
            ..self.unclear(format!(
                "{}: absent, but observed as {}, while the plan was made as {}",
                step.key,
                now.map_or_else(|| "nobody".to_owned(), shown),
                shown(&expected)
            ))
        };
        if now.is_some_and(|now| !now.is_same_login(&expected)) {
            return Observed::Unprovable(StepError {
                kind: OTHER_LOGIN.into(),
                message: format!(
                    "{}, which may see more; sign in as that user and retry, or, if it is certain that the resource \
                     is gone, use the rung forget",
                    error.message
                ),
                ..error
            });
        }
        self.logins
            .pause_site(site, &error.message, Some(expected))
            .await;
        Observed::Unclear(error)
    }

    /// After an observation that found a resource absent and leaves the login's rights in doubt, asks the cloud which
    /// identity the login has now, because a login that has lost rights is shown less, without an error (I13).
    async fn with_present_identity(
        &self,
        site: &Site,
        mut observation: Observation,
    ) -> Observation {
        if !observation.rights_in_doubt || observation.rows.values().all(Option::is_some) {
            return observation;
        }
        match self
            .reads
            .once(site, self.reads.cloud.identity(site, Freshness::Now))
            .await
        {
            Ok(now) => observation.identity = Some(now.identity),
            Err(failure) => {
                observation.rows.retain(|_, row| row.is_some());
                observation.failure = Some(failure);
            }
        }
        observation
    }

    /// Returns the identity that the plan froze for the step's site; none if it froze none.
    async fn expected(&self, step: &ClaimedStep) -> Result<Option<Identity>, LedgerError> {
        let site = step.key.site.to_string();
        let known = lock(&self.rights)
            .get(&step.deletion_id)
            .map(|sites| sites.get(&site).cloned());
        if let Some(known) = known {
            return Ok(known);
        }
        let sites = self.ledger.identities(&step.deletion_id).await?;
        let expected = sites.get(&site).cloned();
        let mut rights = lock(&self.rights);
        if rights.len() >= RIGHTS_KEPT_MAX {
            rights.clear();
        }
        rights.insert(step.deletion_id.clone(), sites);
        Ok(expected)
    }

    fn unclear(&self, message: String) -> StepError {
        StepError::own(
            ErrorClass::Unavailable,
            "Unclear",
            message,
            self.clock.now(),
        )
    }
}

/// Returns the error with which the cloud answered a call that took no effect; none if no answer came, or the
/// answer left no doubt.
fn not_taken(kind: &Kind, step: &ClaimedStep) -> Option<Failure> {
    let last = step.last_error.as_ref()?;
    if last.status.is_none() || last.class != ErrorClass::OutcomeUnknown {
        return None;
    }
    let meaning = kind.calls.meaning(last);
    let (retry, class) = meaning.map_or(
        (Retry::Unavailable, ErrorClass::Unavailable),
        retry_and_class,
    );
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

/// Whether it is unknown if the step's last call took effect.
fn has_unknown_outcome(step: &ClaimedStep) -> bool {
    let is_unknown = |error: &StepError| error.class == ErrorClass::OutcomeUnknown;
    step.last_error.as_ref().is_some_and(is_unknown)
}

/// Returns the cloud's reason for a failed delete, to be appended to a sentence (`: No valid host`); empty if the row
/// has none.
fn because(kind: &Kind, row: &Value) -> String {
    let because = kind.failed_because(row);
    because.map(|it| format!(": {it}")).unwrap_or_default()
}

/// Returns the time at which the row's resource was created, if the step was claimed for its delete by then. None for
/// an edge in the row, or if it is unknown whether the delete took effect. Clouds give the time in whole seconds. If a
/// cloud's clock is slow, the resource looks older than the delete, and is observed until `verify_max`.
fn created_since_sent(listed: &Kind, row: &Value, step: &ClaimedStep) -> Option<DateTime<Utc>> {
    if listed.name != step.key.kind || has_unknown_outcome(step) {
        return None;
    }
    let created = listed.created_at(row);
    created.filter(|created| *created >= step.since.trunc_subsecs(0))
}
