//! Where in a replay's time the console stands.

use chrono::{DateTime, Utc};

use super::arrived::Ticket;
use crate::control::Moment;

/// Going to one time after the other: while one is under way, the last that is wanted waits.
#[derive(Debug, Default)]
pub(super) struct ReplayCursor {
    pub(super) under_way: Option<UnderWay>,
    pub(super) next: Option<Moment>,
    /// The question what happened at the time that is shown.
    pub(super) asked: Option<Ticket>,
    /// What did.
    pub(super) happened: String,
}

/// Done once it is both answered and shown, in any order.
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

    /// What happened at the time that is shown.
    pub(super) fn happened(&self) -> &str {
        &self.happened
    }

    /// Where it stands, or will.
    pub(super) fn aim(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        let under_way = self.under_way.as_ref().map(|under_way| under_way.to);
        match self.next.or(under_way) {
            Some(Moment::At(to)) => to,
            _ => at,
        }
    }
}
