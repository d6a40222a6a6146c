//! Counts of the answered and refused calls to each site in the last hour, minute by minute. Their size does not grow
//! with the number of deletions and steps.

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::model::Site;

/// Number of minutes that [`LastHour`] covers.
pub const MINUTES: u32 = 60;

/// The counts of the last hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastHour {
    /// The end of the hour's last minute, which is under way.
    pub until: DateTime<Utc>,
    /// The minutes in which a call was answered or a step was refused, sorted by site and minute.
    pub minutes: Vec<SiteMinute>,
}

/// Counts of what happened at a site within one minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteMinute {
    pub site: Site,
    /// 0 is the oldest minute of the hour.
    pub minute: u32,
    /// Number of calls that were answered.
    pub calls: u64,
    /// Number of steps that an answer, or an observation after it, has made blocked or stuck. An observation may come
    /// a minute after its call.
    pub refused: u64,
}

/// Returns the end of the minute that contains this time.
pub fn minute_end(at: DateTime<Utc>) -> DateTime<Utc> {
    let minute = TimeDelta::minutes(1);
    at.duration_trunc(minute).unwrap_or(at) + minute
}
