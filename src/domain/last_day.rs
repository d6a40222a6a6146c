//! How many deletions ended in the last day, and how many of their resources are gone.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

/// The period up to now whose deletions [`LastDay`] counts.
pub const DAY: TimeDelta = TimeDelta::hours(24);

/// Counts of the deletions that ended in the [`DAY`] up to now. A deletion with stuck steps has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastDay {
    pub deletions: u64,
    /// Number of the resources of these deletions that are gone.
    pub gone: u64,
}
