//! Requests to a store, and how it answers several of them in one transaction.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::store::{LedgerReads, LedgerRows, OutcomeSteps, Stop, Stored};
use super::transitions::{Rotation, has_ended};
use super::working_set::{Changing, WorkingSet};
use super::{Applied, Capacity, Change, ClaimedStep, LedgerError};

/// One request to the writer; several may share one transaction.
#[derive(Clone, Debug)]
pub enum WriteRequest {
    Commit(Vec<Change>),
    Claim {
        capacities: Vec<Capacity>,
        now: DateTime<Utc>,
    },
}

impl WriteRequest {
    /// Whether any change of the request [may raise tombstones](Change::raises_tombstones).
    pub fn raises_tombstones(&self) -> bool {
        match self {
            Self::Commit(changes) => changes.iter().any(Change::raises_tombstones),
            Self::Claim { .. } => false,
        }
    }
}

/// The answer to the [`WriteRequest`] at the same position.
#[derive(Clone, Debug)]
pub enum Outcome {
    Applied(Vec<Applied>),
    Claimed(Vec<ClaimedStep>),
}

/// A store that takes requests. Every type with this trait and [`Engines`](super::Engines) is a
/// [`Ledger`](super::Ledger) (`ports`).
#[async_trait]
pub trait Drive: Send + Sync {
    /// The rows of one snapshot.
    type Reader: LedgerReads;

    /// Sends a request to the writer, which answers when the changes are durable.
    async fn write(&self, request: WriteRequest) -> Result<Outcome, LedgerError>;

    /// Reads what is committed; all reads of one call see the same snapshot.
    async fn read<T, F>(&self, read: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Self::Reader) -> Stored<Self::Reader, T> + Send + 'static;
}

/// Whether one change, and not the store, caused the error. Only that change is refused then.
pub fn fails_alone<S: LedgerRows>(stop: &Stop<S::Error>) -> bool {
    match stop {
        Stop::Refused(_) | Stop::Impossible(_) => true,
        Stop::Failed(error) => S::is_caused_by_change(error),
    }
}

/// Answers several requests within one transaction, which the caller opens and commits.
///
/// `apart`: whether each change has a savepoint. Almost always every change can be applied, so a store begins
/// without savepoints. If one change is refused or [fails alone](fails_alone), the store repeats everything with
/// savepoints, and only that change is refused.
pub fn answer<S: LedgerRows>(
    set: &mut WorkingSet<S>,
    requests: &[WriteRequest],
    rotation: &mut Rotation,
    apart: bool,
) -> Changing<S, Vec<Outcome>> {
    let mut outcomes = Vec::with_capacity(requests.len());
    let is_claim = |request: &WriteRequest| matches!(request, WriteRequest::Claim { .. });
    // A claim drops the steps in memory; the requests between two claims share them.
    for requests in requests.chunk_by(|request, next| is_claim(request) == is_claim(next)) {
        match set.load_for_outcomes(steps_of_outcomes(requests)) {
            // A row cannot be read: only the change that needs the row is refused, when the change is applied.
            Err(error) if S::is_caused_by_change(&error) => {}
            loaded => loaded?,
        }
        for request in requests {
            outcomes.push(match request {
                WriteRequest::Commit(changes) => {
                    let applied = changes.iter().map(|change| match apart {
                        true => apply_apart(set, change),
                        false => set.apply(change),
                    });
                    Outcome::Applied(applied.collect::<Changing<S, _>>()?)
                }
                WriteRequest::Claim { capacities, now } => {
                    Outcome::Claimed(set.claim(capacities, rotation, *now)?)
                }
            });
        }
    }
    set.flush()?;
    Ok(outcomes)
}

/// The steps whose outcomes are among these requests, up to the first claim.
pub fn steps_of_outcomes(requests: &[WriteRequest]) -> OutcomeSteps {
    let commits = requests.iter().map_while(|request| match request {
        WriteRequest::Commit(changes) => Some(changes),
        WriteRequest::Claim { .. } => None,
    });
    let mut steps = OutcomeSteps::default();
    for change in commits.flatten() {
        if let Change::Step(change) = change {
            steps.all.push(change.step_id);
            if has_ended(change.decision.to) {
                steps.ending.push(change.step_id);
            }
        }
    }
    steps
}

/// Applies one change in its savepoint. A change that fails with [`Stop::Refused`] leaves nothing behind. If the ledger
/// cannot store the change (a plan that breaks its rules, a row that cannot be read), only that change is refused. If
/// the disk or the server fails, the whole transaction fails.
fn apply_apart<S: LedgerRows>(set: &mut WorkingSet<S>, change: &Change) -> Changing<S, Applied> {
    let before = set.savepoint()?;
    let saved = set.apply(change).and_then(|applied| {
        set.save()?;
        Ok(applied)
    });
    let why = match saved {
        Ok(applied) => {
            set.keep(before)?;
            return Ok(applied);
        }
        Err(Stop::Refused(why)) => why,
        Err(stop) if fails_alone::<S>(&stop) => {
            format!("the ledger cannot store this change: {stop}")
        }
        Err(stop) => return Err(stop),
    };
    set.undo(before)?;
    Ok(Applied::Refused(why))
}
