//! Finds the records that commands and queries name, or returns the error that a front end shows.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::PAGE_MAX;
use crate::control::ControlError;
use crate::domain::model::{Deletion, Plan, Step, StepState};
use crate::ledger::{Cursor, StepFilter, Views};

/// Returns a plan that was made within the last 24 h.
pub(super) async fn saved_plan(
    ledger: &dyn Views,
    hash: &str,
    now: DateTime<Utc>,
) -> Result<Arc<Plan>, ControlError> {
    let plan = ledger.plan(hash, now).await?;
    plan.ok_or_else(|| ControlError::Expired {
        message: format!("no plan {hash} is kept (plans are kept 24 h); plan again"),
        oldest: 0,
    })
}

pub(super) async fn step(ledger: &dyn Views, id: i64) -> Result<Step, ControlError> {
    let found = ledger.step(id).await?;
    found.ok_or_else(|| ControlError::not_found(format!("no step {id}")))
}

/// Returns a deletion by its id or short id.
pub(super) async fn deletion(ledger: &dyn Views, id: &str) -> Result<Deletion, ControlError> {
    let found = ledger.deletion(id).await?;
    found.ok_or_else(|| {
        ControlError::not_found(format!(
            "there is no deletion {id}; `gone list deletions` shows the deletions"
        ))
    })
}

/// Returns the first steps of a deletion that are in one of these states and that `fits` accepts, at most `max`.
pub(super) async fn steps_of(
    ledger: &dyn Views,
    deletion_id: &str,
    states: &[StepState],
    max: usize,
    fits: impl Fn(&Step) -> bool,
) -> Result<Vec<Step>, ControlError> {
    let filter = StepFilter {
        deletion_id: Some(deletion_id.to_owned()),
        states: states.to_vec(),
        ..StepFilter::default()
    };
    let mut after = None;
    let mut found = Vec::new();
    loop {
        let page = Cursor {
            after,
            limit: PAGE_MAX,
        };
        let page = ledger.steps(filter.clone(), page).await?;
        found.extend(page.rows.into_iter().filter(&fits));
        after = page.next;
        if after.is_none() || found.len() >= max {
            found.truncate(max);
            return Ok(found);
        }
    }
}
