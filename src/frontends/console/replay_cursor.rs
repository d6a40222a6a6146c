//! The time of a replay that the console shows, and the one that it is on its way to.

use chrono::{DateTime, Utc};

use crate::control::Moment;

/// Moves to one time after the other: while one move is under way, only the last one that was asked for waits.
#[derive(Debug, Default)]
pub(super) struct ReplayCursor {
    pub(super) under_way: Option<UnderWay>,
    pub(super) next: Option<Moment>,
    /// The question for the last events before the time that is shown.
    pub(super) asked: Option<u64>,
    /// The answer to that, in words.
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

    /// The last events before the time that is shown, in words.
    pub(super) fn happened(&self) -> &str {
        &self.happened
    }

    /// The time at which the console will stand once all moves are done.
    pub(super) fn aim(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        let under_way = self.under_way.as_ref().map(|under_way| under_way.to);
        match self.next.or(under_way) {
            Some(Moment::At(to)) => to,
            _ => at,
        }
    }
}
