//! Estimates how long the rest of a deletion takes, from its counts and the rate of the last minute.

use chrono::{DateTime, Utc};

use super::model::{Counts, Deletion, DeletionState};

/// Time until an accepted delete is confirmed: at a deletion's end, observations are gathered for up to ten seconds
/// ([`super::policy`]), and the last steps end one after the other.
const CONFIRMED_WITHIN_SECONDS: f64 = 15.0;
/// How much a cloud's speed changes within a deletion, as a share of the time left: it may become that much
/// faster, or that much slower.
const FASTER: f64 = 0.3;
const SLOWER: f64 = 0.5;
/// Each counted step makes the rate more certain: the error of a rate that is counted from `n` steps is about
/// `1 / sqrt(n)`. The range allows for this many times that error.
const ERRORS_ALLOWED: f64 = 1.6;
/// The minimum time is at least this share of the time at the present rate, however inexact the rate is.
const LEAST_SHARE: f64 = 0.2;
const RATE_WINDOW_SECONDS: f64 = 60.0;

/// What is known about the end of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// The deletion ends after at least and at most this many seconds, if its rate stays that of the last minute.
    Within { least: u64, most: u64 },
    /// Nothing happens in the deletion before its next attempt, at this time.
    NextAttempt(DateTime<Utc>),
}

/// Whether the deletion runs, but all steps that are left are blocked, or wait for blocked steps.
pub fn is_blocked(deletion: &Deletion) -> bool {
    deletion.state == DeletionState::Running && waits(&deletion.counts)
}

/// Whether some of these steps are blocked, and none is ready or under way. The waiting steps then wait for blocked or
/// stuck ones.
pub fn waits(counts: &Counts) -> bool {
    counts.blocked > 0 && counts.ready + counts.running + counts.verifying == 0
}

/// Returns when the deletion ends or, if it is blocked, has its next attempt; none if nothing is known. The end is not
/// known while a step is blocked, because nobody knows how the step's next attempt is answered.
pub fn outlook(deletion: &Deletion) -> Option<Outlook> {
    if is_blocked(deletion) {
        return deletion.next_attempt_at.map(Outlook::NextAttempt);
    }
    let counts = &deletion.counts;
    let rate = deletion.rate_per_second;
    let is_running = deletion.state == DeletionState::Running && counts.blocked == 0;
    if !is_running || rate <= 0.0 {
        return None;
    }
    let (least, most) = range(counts, rate);
    Some(Outlook::Within { least, most })
}

/// Returns the minimum and the maximum number of seconds that the rest of the deletion takes at this rate.
pub fn range(counts: &Counts, rate_per_second: f64) -> (u64, u64) {
    let left = counts.live().saturating_sub(counts.verifying) as f64;
    let seconds = left / rate_per_second;
    let counted = (rate_per_second * RATE_WINDOW_SECONDS).min(counts.accepted() as f64);
    let error = ERRORS_ALLOWED / counted.max(1.0).sqrt();
    let least = seconds * (1.0 - FASTER - error).max(LEAST_SHARE);
    let most = seconds * (1.0 + SLOWER + error) + CONFIRMED_WITHIN_SECONDS;
    // Both numbers are small and positive; a cast of a larger number would saturate.
    (least.floor() as u64, most.ceil() as u64)
}
