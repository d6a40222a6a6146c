//! What has ended in the last day.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

pub const DAY: TimeDelta = TimeDelta::hours(24);

/// Counts of what has ended in the [`DAY`] up to now. A deletion with stuck steps has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastDay {
    pub deletions: u64,
    /// The resources that are gone of these deletions.
    pub gone: u64,
}
