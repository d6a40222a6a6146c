//! Counts of the calls to each site, and of the steps that became blocked or stuck, in the last hour, minute by minute.
//! The size of the counts does not grow with the number of deletions and steps.

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
    /// The minutes in which a call ended or a step became blocked or stuck, sorted by site and minute.
    pub minutes: Vec<SiteMinute>,
}

/// Counts of what happened at a site within one minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteMinute {
    pub site: Site,
    /// 0 is the oldest minute of the hour.
    pub minute: u32,
    /// Number of calls that ended: with an answer, without one, or before they were sent.
    pub calls: u64,
    /// Number of steps that an answer, or an observation after it, has made blocked or stuck. An observation may come
    /// in a later minute than the answer.
    pub refused: u64,
}

/// Returns the end of the minute that contains this time.
pub fn minute_end(at: DateTime<Utc>) -> DateTime<Utc> {
    let minute = TimeDelta::minutes(1);
    at.duration_trunc(minute).unwrap_or(at) + minute
}
