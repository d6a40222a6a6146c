//! Steps whose observation or next attempt is due.

use chrono::{DateTime, Utc};

use super::deletions_of;
use crate::domain::model::StepState;
use crate::ledger::store::{LedgerReads, StepReads, StepRow, Stored};
use crate::ledger::{ClaimedStep, Due, ObservationsDue};

/// The due steps of these groups, as an engine claims them.
pub fn steps_to_observe<R: LedgerReads>(
    rows: &R,
    of: &[ObservationsDue],
    now: DateTime<Utc>,
    limit: usize,
) -> Stored<R, Vec<ClaimedStep>> {
    let found = rows.load_observed(of, now, limit)?;
    let deletions = deletions_of(rows, found.iter().map(|row| row.now.deletion))?;
    let steps = found.into_iter().filter_map(|StepRow { now, plan }| {
        let deletion = deletions.get(&now.deletion)?;
        Some(plan.claimed(&now, &deletion.id, deletion.cancelled))
    });
    Ok(steps.collect())
}

pub fn next_due<R: StepReads>(rows: &R, now: DateTime<Utc>) -> Stored<R, Due> {
    Ok(Due {
        attempt: rows.find_first_due(StepState::Blocked, None)?,
        observation: rows.find_first_due(StepState::Verifying, Some(now))?,
    })
}
