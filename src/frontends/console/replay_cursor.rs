//! The moves of a replay to other times, and what happened at the time that it shows.

use chrono::{DateTime, Utc};

use crate::control::Moment;

/// Moves to one time after the other. While one move is under way, one other may wait. A further move by events is
/// added to a waiting move by events, and is dropped if the waiting move is to a time. A further move to a time
/// replaces the waiting move.
#[derive(Debug, Default)]
pub(super) struct ReplayCursor {
    pub(super) under_way: Option<UnderWay>,
    pub(super) next: Option<Moment>,
    /// Ticket of the query for the last events up to the time that is shown.
    pub(super) asked: Option<u64>,
    /// The last events up to the time that is shown, in words.
    pub(super) happened: String,
}

/// A move, which is done once it is both answered and shown, in any order.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) ticket: u64,
    pub(super) to: Moment,
    pub(super) is_answered: bool,
    pub(super) is_shown: bool,
}

impl ReplayCursor {
    pub(super) fn is_waiting(&self) -> bool {
        self.under_way.is_some() || self.asked.is_some()
    }

    /// The time from which the next jump is counted: the time to which the last requested move leads. It is `at`, the
    /// time that is shown, if there is no such move or if that move is by events.
    pub(super) fn aim(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        let under_way = self.under_way.as_ref().map(|under_way| under_way.to);
        match self.next.or(under_way) {
            Some(Moment::At(to)) => to,
            _ => at,
        }
    }
}
