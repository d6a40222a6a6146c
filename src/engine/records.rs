//! Finds the records that commands and queries name, or returns the error that a front end shows.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::control::ControlError;
use crate::domain::model::{Deletion, Plan, Step};
use crate::ledger::Views;

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
        ControlError::not_found(format!("no deletion {id}; gone list deletions shows them"))
    })
}
