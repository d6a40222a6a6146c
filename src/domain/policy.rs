//! Decides a step's next state from (step, outcome, now): the retry schedule, snoozes, and when a step is
//! stuck.
//!
//! The decisions are pure: the same step, outcome, time, schedule and chance give the same decision.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::kinds::AnswerClass;
use super::model::{Blocker, ErrorClass, StepError, StepState};

/// The outcome of a step's call: as the cloud port classified it, or as the engine passes it on.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A 2xx, which does not prove absence (I13). The engine passes on a not-found answer as this outcome too, so
    /// that the absence is verified.
    Accepted,
    /// The call changed the resource's state, and its delete follows.
    Prepared,
    /// From the cloud port: the kind's own not-found answer to a call by id (I13a). From the engine: the step is done
    /// and needs no observation, for example because it unset a reference.
    Absent,
    Failed(Failure),
    /// An error that leaves open whether the call took effect, because a server died on it or a proxy timed
    /// out. The engine observes first (N13). If the call had no effect, the outcome counts as this failure.
    Unclear(Failure),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub retry: Retry,
    pub error: StepError,
    /// The blockers that are known from the answer, the cloud's lists and the ledger.
    pub blockers: Vec<Blocker>,
    /// How long the cloud asked callers to wait (`Retry-After`).
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// Makes a refused attempt whose blockers are not known.
    fn refused(error: StepError) -> Self {
        Self {
            retry: Retry::Scheduled,
            error,
            blockers: Vec::new(),
            retry_after: None,
        }
    }
}

/// How a failure is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// By the retry schedule. This uses an attempt (I1, I3), unless a client caused the call (I14).
    Scheduled,
    /// An operation is in progress: the step is snoozed. This uses no attempt, and is bounded by age (I6).
    Pending,
    /// The service is down: the step is retried soon. This uses no attempt.
    Unavailable,
    /// The site refuses more calls for now: the step is retried as for `Unavailable`, and the engine sends the site
    /// fewer calls (N16).
    Throttled,
    /// It is unknown whether the call took effect, so the engine observes first (N13).
    Unknown,
    /// The site is paused and the step waits for it. This uses no attempt (N13).
    SitePaused,
    /// Only clearances of other deployments are missing. The step is sent when they come. This uses no
    /// attempt, and is bounded by age like `Pending`.
    AwaitsClearance,
    /// The step is not retried: it needs a person at once.
    Never,
}

/// The result of an observation (I13).
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    Absent,
    /// The same incarnation of the resource exists.
    Present,
    /// The resource was created again after its delete was sent, without passing a gate (T14).
    Recreated(StepError),
    /// The resource exists, and the cloud works on the delete that it accepted.
    StillDeleting(StepError),
    /// The resource exists, and the cloud has failed at the delete that it accepted.
    Failed(Failure),
    /// The resource exists, and the error that answered the call means that the call had no effect.
    HadNoEffect(Failure),
    /// The observation proves nothing: the listing failed, or is not reliable.
    Unclear(StepError),
    /// No observation proves anything until a person changes something, for example the login.
    Unprovable(StepError),
}

impl Observed {
    /// Makes the observation that the cloud has failed at the delete that it accepted, with no known blockers.
    pub fn failed(error: StepError) -> Self {
        Self::Failed(Failure::refused(error))
    }
}

/// The facts about a step that a decision needs.
#[derive(Clone, Copy, Debug)]
pub struct StepFacts<'s> {
    /// The number of attempts when the step was claimed.
    pub attempts: u32,
    pub max_attempts: u32,
    pub blocked_since: Option<DateTime<Utc>>,
    pub last_error: Option<&'s StepError>,
    /// Number of observations in a row that left the step `verifying`.
    pub observations: u32,
    /// For a step that a repeated DELETE woke: when the engine's own schedule would have made the next
    /// attempt.
    pub own_attempt_at: Option<DateTime<Utc>>,
    pub cancelled: bool,
}

/// The retry settings for one kind (I3, I6).
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Waits between attempts; the last one repeats.
    pub waits: Vec<Duration>,
    /// Each wait for the next attempt is lengthened by up to this fraction.
    pub jitter: f64,
    pub pending_max: Duration,
    /// How long the engine observes an accepted delete before the delete counts as refused.
    pub verify_max: Duration,
    /// Whether the cloud accepts a delete of the kind before it has carried it out.
    pub settles: bool,
    /// How often a delete is repeated while the cloud works on it; none if it is not repeated.
    pub repeats: Option<Repeats>,
}

/// How often an accepted delete is sent again while the cloud works on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeats {
    pub every: Duration,
    /// States of the resource while the cloud works on the delete. An error about such a state has the state as its
    /// type.
    pub pending: Vec<String>,
}

impl Repeats {
    fn is_pending(&self, error: &StepError) -> bool {
        error.status.is_none() && self.pending.contains(&error.kind)
    }
}

/// A step's next state, and the values that change with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub to: StepState,
    pub attempts: u32,
    /// When a blocked or verifying step is due; none in all other states.
    pub next_attempt_at: Option<DateTime<Utc>>,
    pub blocked_since: Option<DateTime<Utc>>,
    pub blockers: Vec<Blocker>,
    pub error: Option<StepError>,
    /// Whether to count one more observation in a row since the last call; otherwise the count becomes 0.
    pub observed_again: bool,
}

/// Accepted deletes of one kind and rank at one site that wait for an observation, and how much else their
/// deletion has to do. A step's rank is the length of the longest path from it to the end of the deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingObservations {
    /// When the first of these deletes fell due for an observation.
    pub oldest: DateTime<Utc>,
    /// Whether there are at least as many of these deletes as one list by id asks for.
    pub fills_a_list: bool,
    pub rank: u32,
    /// The highest rank of the deletion's steps at the site that are ready to be sent.
    pub ready: Option<u32>,
    /// The highest rank of the deletion's calls in flight at the site.
    pub running: Option<u32>,
    /// Number of the deletion's steps, at any site, that wait for an observation.
    pub verifying: u64,
    /// Number of the deletion's steps, at any site, that can be sent or are in flight.
    pub unsent: u64,
    /// When the deletion was requested.
    pub since: DateTime<Utc>,
}

const SNOOZE: Duration = Duration::from_secs(2);
const SNOOZE_MAX: Duration = Duration::from_secs(30);
const UNAVAILABLE_MIN: Duration = Duration::from_secs(1);
const UNAVAILABLE_MAX: Duration = Duration::from_secs(60);
/// A step needs a person once it has been blocked for this long and its service is still unavailable or throttles it,
/// or once its observations have been inconclusive for this long.
const UNAVAILABLE_GIVE_UP: Duration = Duration::from_secs(24 * 60 * 60);
/// A longer `Retry-After` counts as this. It is probably a mistake, and an extreme one cannot be added to a time.
const RETRY_AFTER_MAX: Duration = UNAVAILABLE_GIVE_UP;
/// Maximum time from an observation of a step until the next one is due.
pub const OBSERVATION_WAIT_MAX: Duration = Duration::from_secs(32);
/// Wait after the first observation that finds the resource or is inconclusive; it doubles with each further one, up to
/// `OBSERVATION_MAX`.
const OBSERVATION_FIRST: Duration = Duration::from_millis(200);
const OBSERVATION_MAX: Duration = Duration::from_secs(10);
/// Minimum time from the call of a delete that the cloud works on to its first observation, and between two
/// observations. These observations are made at even seconds.
const SETTLING_MIN: Duration = Duration::from_millis(500);
/// Time between the even seconds at which deletes that the cloud works on are observed.
const LIST_GRID: Duration = Duration::from_secs(2);
/// While there is more to send, deletes that the cloud works on wait for an observation for at most the time that the
/// deletion has taken, divided by this number.
const SETTLING_SHARE: u64 = 16;
/// Number of steps that justify an observation of their own, for any provider: about as many ids as one list of
/// OpenStack takes.
pub const WORTH_A_LIST: usize = 139;
/// Maximum time for which an accepted delete waits for other deletes whose calls are in flight.
const GATHER_MAX: Duration = Duration::from_secs(10);
/// Minimum time for which deletes wait for an observation while the deletion has more to send, since observations
/// compete with deletes; [`observation_wait`] has the exceptions.
const SEND_FIRST: Duration = Duration::from_secs(30);

/// Decides a step's next state after a call.
pub fn after_call(
    step: StepFacts<'_>,
    outcome: Outcome,
    now: DateTime<Utc>,
    schedule: &Schedule,
    chance: f64,
) -> Decision {
    match outcome {
        // The cloud still works on the first delete, and the repeated one begins nothing new. So the step keeps its
        // `blocked_since` and its error.
        Outcome::Accepted if repeats(step, schedule) => Decision {
            next_attempt_at: Some(first_observation_at(now, schedule)),
            blocked_since: step.blocked_since,
            error: step.last_error.cloned(),
            ..plain(step, StepState::Verifying)
        },
        Outcome::Accepted => Decision {
            next_attempt_at: Some(first_observation_at(now, schedule)),
            ..plain(step, StepState::Verifying)
        },
        Outcome::Prepared => plain(step, StepState::Ready),
        Outcome::Absent => plain(step, StepState::Gone),
        Outcome::Failed(failure) => after_failure(step, failure, now, schedule, chance),
        Outcome::Unclear(failure) => Decision {
            next_attempt_at: Some(now),
            blocked_since: Some(waiting(step, now).0),
            error: Some(StepError {
                class: ErrorClass::OutcomeUnknown,
                ..failure.error
            }),
            ..plain(step, StepState::Verifying)
        },
    }
}

/// Returns how an answer of this class is retried, and the error class under which it is shown.
pub fn retry_and_class(class: AnswerClass) -> (Retry, ErrorClass) {
    match class {
        AnswerClass::Blocked => (Retry::Scheduled, ErrorClass::Blocked),
        AnswerClass::Pending => (Retry::Pending, ErrorClass::Blocked),
        AnswerClass::Unavailable => (Retry::Unavailable, ErrorClass::Unavailable),
        AnswerClass::Failed => (Retry::Scheduled, ErrorClass::Unavailable),
        AnswerClass::Auth => (Retry::SitePaused, ErrorClass::Auth),
        AnswerClass::Drift => (Retry::Never, ErrorClass::Drift),
        AnswerClass::Fatal => (Retry::Never, ErrorClass::Fatal),
    }
}

/// Decides for a step whose claim was released before its call was sent: the step becomes ready, with its former
/// error and these blockers.
pub fn not_sent(step: StepFacts<'_>, blockers: Vec<Blocker>) -> Decision {
    Decision {
        blocked_since: step.blocked_since,
        blockers,
        error: step.last_error.cloned(),
        ..plain(step, StepState::Ready)
    }
}

fn after_failure(
    step: StepFacts<'_>,
    failure: Failure,
    now: DateTime<Utc>,
    schedule: &Schedule,
    chance: f64,
) -> Decision {
    let (since, age) = waiting(step, now);
    let kept = Decision {
        blocked_since: Some(since),
        blockers: failure.blockers,
        error: Some(failure.error),
        ..plain(step, StepState::Blocked)
    };
    let stuck = |kept: Decision| Decision {
        to: StepState::Stuck,
        next_attempt_at: None,
        ..kept
    };
    let at = |wait: Duration| Some(now + wait);
    let retry_after = failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    match failure.retry {
        Retry::Never => stuck(kept),
        Retry::Unknown => Decision {
            to: StepState::Verifying,
            next_attempt_at: Some(now),
            ..kept
        },
        Retry::SitePaused => Decision {
            to: StepState::Ready,
            ..kept
        },
        Retry::Pending | Retry::AwaitsClearance if age >= schedule.pending_max => stuck(kept),
        Retry::AwaitsClearance => Decision {
            next_attempt_at: Some(since + schedule.pending_max),
            ..kept
        },
        Retry::Pending => Decision {
            next_attempt_at: at(jittered(
                SNOOZE.max(age / 4).min(SNOOZE_MAX),
                schedule.jitter,
                chance,
            )),
            ..kept
        },
        Retry::Unavailable | Retry::Throttled if age >= UNAVAILABLE_GIVE_UP => stuck(kept),
        Retry::Unavailable | Retry::Throttled => {
            let backoff = jittered(
                (age / 2).clamp(UNAVAILABLE_MIN, UNAVAILABLE_MAX),
                schedule.jitter,
                chance,
            );
            Decision {
                next_attempt_at: at(retry_after.max(backoff)),
                ..kept
            }
        }
        Retry::Scheduled => {
            if let Some(own) = step.own_attempt_at.filter(|own| *own > now) {
                // A client asked for this call, so the engine's own schedule continues unchanged (I14).
                return match step.attempts >= step.max_attempts {
                    true => stuck(kept),
                    false => Decision {
                        next_attempt_at: at(retry_after).max(Some(own)),
                        ..kept
                    },
                };
            }
            let attempts = step.attempts + 1;
            if attempts >= step.max_attempts {
                return stuck(Decision { attempts, ..kept });
            }
            let index = (attempts as usize - 1).min(schedule.waits.len().saturating_sub(1));
            let wait = schedule.waits.get(index).copied().unwrap_or(SNOOZE_MAX);
            let wait = retry_after.max(jittered(wait, schedule.jitter, chance));
            Decision {
                attempts,
                next_attempt_at: at(wait),
                ..kept
            }
        }
    }
}

/// Returns the time at which an accepted delete falls due for its first observation: now, or, if the cloud works on the
/// delete, the earliest time at which the delete can have ended.
fn first_observation_at(now: DateTime<Utc>, schedule: &Schedule) -> DateTime<Utc> {
    match schedule.settles {
        true => together(now + SETTLING_MIN),
        false => now,
    }
}

/// Returns how much longer accepted deletes wait for more of their kind, so that one list observes many
/// (N14). `settles` says whether the cloud works on deletes of their kind after it has accepted them.
///
/// 1. Not at all if nothing else of their rank, or of a higher one, can be sent or is in flight at the site.
///    The steps that wait for them are next, and the longest path has priority.
/// 2. Not at all if they fill a list, if at least twice as many steps of their deletion wait for an
///    observation as are still to be sent, and if the steps to be sent fill a list too. A list by scope shows
///    the resources that still exist, so it pays off once these are few. Each of these observations leaves at most
///    a third of the steps, so there are few observations. The last steps wait until one list shows that they
///    are gone.
/// 3. While calls are in flight and nothing is ready: `GATHER_MAX`, so that a call that hangs delays nothing for
///    longer (I12).
/// 4. Otherwise `SEND_FIRST`, or half of the time that the deletion has taken so far if that is longer: the
///    longer the deletion takes, the fewer observations there are.
/// 5. If the cloud works on them, `settling_wait` at most, which is nothing in the deletion's first half minute: the
///    calls that are still to be sent do not change when the cloud has done this work. These deletes fall due at even
///    seconds, and the wait keeps to even seconds, so one list observes all of their kind, and no other list
///    follows within 2 s.
pub fn observation_wait(
    gathered: &PendingObservations,
    settles: bool,
    now: DateTime<Utc>,
) -> Duration {
    let unsent = gathered.unsent;
    let worth_it =
        gathered.fills_a_list && gathered.verifying >= 2 * unsent && unsent >= WORTH_A_LIST as u64;
    let others = gathered.ready.max(gathered.running);
    if worth_it || others.is_none_or(|rank| rank < gathered.rank) {
        return Duration::ZERO;
    }
    let passed = |since: DateTime<Utc>| (now - since).to_std().unwrap_or_default();
    let patience = match gathered.ready {
        Some(_) => SEND_FIRST.max(passed(gathered.since) / 2),
        None => GATHER_MAX,
    };
    let patience = match settles {
        true => patience.min(settling_wait(passed(gathered.since))),
        false => patience,
    };
    patience.saturating_sub(passed(gathered.oldest))
}

/// Returns how long deletes that the cloud works on may wait for an observation after they fell due: a sixteenth of the
/// time that their deletion has taken, rounded down to a multiple of `LIST_GRID`. So the number of lists grows with
/// the logarithm of that time.
fn settling_wait(taken: Duration) -> Duration {
    let multiple = taken.as_secs() / (SETTLING_SHARE * LIST_GRID.as_secs());
    LIST_GRID.saturating_mul(u32::try_from(multiple).unwrap_or(u32::MAX))
}

/// Decides a step's next state after an observation.
///
/// 1. Absent: gone.
/// 2. Present after a call whose answer was lost: the call took no effect, and is sent again. If the call was
///    answered instead by an error that left open whether it took effect, that error counts now.
/// 3. Present after an accepted call: the resource is observed again, after twice the wait each time, until
///    `verify_max`. Then the acceptance counts as a refused attempt.
/// 4. Still deleting: the resource is observed again, without using an attempt, until `pending_max`. Then the
///    step is stuck (I6). If the kind says so, the delete is repeated meanwhile, which uses no attempt either.
/// 5. Failed: this counts as a refused attempt.
/// 6. Recreated: the delete is sent again at once, as long as attempts are left.
/// 7. Unclear: the resource is observed again later, without using an attempt, for up to a day. Then the step is
///    stuck (N12).
/// 8. Unprovable: the step is stuck at once.
/// 9. If the step was cancelled and the resource exists, without an accepted delete that is in progress or has failed:
///    the step is skipped. This comes before 2, 3 and 6.
pub fn after_observation(
    step: StepFacts<'_>,
    observed: Observed,
    now: DateTime<Utc>,
    schedule: &Schedule,
    chance: f64,
) -> Decision {
    let refused =
        |error: StepError| after_failure(step, Failure::refused(error), now, schedule, chance);
    match observed {
        Observed::Absent => plain(step, StepState::Gone),
        Observed::Present | Observed::Recreated(_) | Observed::HadNoEffect(_) if step.cancelled => {
            plain(step, StepState::Skipped)
        }
        Observed::HadNoEffect(failure) => after_failure(step, failure, now, schedule, chance),
        Observed::Present
            if step
                .last_error
                .is_some_and(|error| error.class == ErrorClass::OutcomeUnknown) =>
        {
            plain(step, StepState::Ready)
        }
        Observed::Present if observed_for(step.observations) < schedule.verify_max => {
            observed_later(step, plain(step, StepState::Verifying), now)
        }
        Observed::Present => {
            let message = format!(
                "the delete was accepted, but the resource still exists after {} s",
                schedule.verify_max.as_secs()
            );
            let class = ErrorClass::Blocked;
            refused(StepError::own(class, "StillPresent", message, now))
        }
        Observed::Failed(failure) => after_failure(step, failure, now, schedule, chance),
        Observed::Recreated(error) => match refused(error) {
            Decision {
                to: StepState::Blocked,
                attempts,
                error,
                ..
            } => Decision {
                attempts,
                error,
                ..plain(step, StepState::Ready)
            },
            stuck => stuck,
        },
        Observed::StillDeleting(error) => still_deleting(step, error, now, schedule),
        Observed::Unclear(error) => unclear(step, error, now),
        Observed::Unprovable(error) => Decision {
            error: Some(error),
            ..plain(step, StepState::Stuck)
        },
    }
}

/// Returns the decision with the time of the step's next observation. The wait doubles with each observation, up to
/// `OBSERVATION_MAX`.
fn observed_later(step: StepFacts<'_>, decision: Decision, now: DateTime<Utc>) -> Decision {
    Decision {
        next_attempt_at: Some(now + observation_delay(step.observations)),
        observed_again: true,
        ..decision
    }
}

/// Decides for a resource on whose delete the cloud still works: the resource is observed again, or the delete is
/// repeated, or the step needs a person after `pending_max`.
fn still_deleting(
    step: StepFacts<'_>,
    error: StepError,
    now: DateTime<Utc>,
    schedule: &Schedule,
) -> Decision {
    let (since, age) = match is_unclear(step) {
        true => (now, Duration::ZERO),
        false => waiting(step, now),
    };
    let kept = Decision {
        blocked_since: Some(since),
        error: Some(error),
        ..plain(step, StepState::Verifying)
    };
    if age >= schedule.pending_max {
        return Decision {
            to: StepState::Stuck,
            ..kept
        };
    }
    let is_due = |repeats: &Repeats| {
        let last = step.last_error.filter(|error| repeats.is_pending(error));
        let before = last.and_then(|last| (last.at - since).to_std().ok());
        let intervals = |age: Duration| age.as_secs() / repeats.every.as_secs().max(1);
        intervals(age) > intervals(before.unwrap_or_default())
    };
    if !step.cancelled && schedule.repeats.as_ref().is_some_and(is_due) {
        return Decision {
            to: StepState::Ready,
            ..kept
        };
    }
    Decision {
        next_attempt_at: Some(together(now + SETTLING_MIN.max(age / 8).min(SNOOZE_MAX))),
        observed_again: true,
        ..kept
    }
}

/// Decides after an inconclusive observation: the resource is observed again, or the step needs a person after a day. A
/// lost answer stays the error, because an inconclusive observation says nothing about the call.
fn unclear(step: StepFacts<'_>, error: StepError, now: DateTime<Utc>) -> Decision {
    let (since, age) = match is_unclear(step) {
        true => waiting(step, now),
        false => (now, Duration::ZERO),
    };
    let error = step
        .last_error
        .filter(|last| last.class == ErrorClass::OutcomeUnknown)
        .cloned()
        .unwrap_or(error);
    let kept = Decision {
        blocked_since: Some(since),
        error: Some(error),
        ..plain(step, StepState::Verifying)
    };
    match age >= UNAVAILABLE_GIVE_UP {
        true => Decision {
            to: StepState::Stuck,
            ..kept
        },
        false => observed_later(step, kept, now),
    }
}

/// Whether the step's last error leaves the resource's state unknown: the answer to a call was lost, or an observation
/// was inconclusive.
fn is_unclear(step: StepFacts<'_>) -> bool {
    let unclear = |error: &StepError| {
        matches!(
            error.class,
            ErrorClass::Unavailable | ErrorClass::Auth | ErrorClass::OutcomeUnknown
        )
    };
    step.last_error.is_some_and(unclear)
}

/// Whether the step's accepted delete was observed to be under way when it was sent again.
fn repeats(step: StepFacts<'_>, schedule: &Schedule) -> bool {
    let error = step.last_error.filter(|_| step.blocked_since.is_some());
    let repeats = schedule.repeats.as_ref();
    repeats
        .zip(error)
        .is_some_and(|(repeats, error)| repeats.is_pending(error))
}

/// Returns the time since which a step has been blocked, and the time that has passed since then.
fn waiting(step: StepFacts<'_>, now: DateTime<Utc>) -> (DateTime<Utc>, Duration) {
    let since = step.blocked_since.unwrap_or(now);
    (since, (now - since).to_std().unwrap_or_default())
}

fn plain(step: StepFacts<'_>, to: StepState) -> Decision {
    Decision {
        to,
        attempts: step.attempts,
        next_attempt_at: None,
        blocked_since: None,
        blockers: Vec::new(),
        error: None,
        observed_again: false,
    }
}

fn jittered(wait: Duration, jitter: f64, chance: f64) -> Duration {
    wait.mul_f64(1.0 + jitter * chance)
}

/// Returns the next even second, so that one list observes deletes that end at different times, and no other list
/// follows within 2 s (N14).
fn together(at: DateTime<Utc>) -> DateTime<Utc> {
    let step = LIST_GRID.as_millis() as i64;
    let late = at.timestamp_millis().rem_euclid(step);
    at + chrono::TimeDelta::milliseconds((step - late) % step)
}

fn observation_delay(observations: u32) -> Duration {
    OBSERVATION_FIRST
        .saturating_mul(1 << observations.min(16))
        .min(OBSERVATION_MAX)
}

/// Returns the time over which the observations so far have spread.
fn observed_for(observations: u32) -> Duration {
    (0..observations.min(1000)).map(observation_delay).sum()
}
