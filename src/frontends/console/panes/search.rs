//! A search for the steps of a deletion that match a filter. For each query, the engine searches a part of the ledger.

use super::kit::*;
use crate::control::query::Counted;
use crate::domain::model::Step;
use crate::present::{count, thousands};

/// Maximum number of rows of a search, of `:stuck` and of `:retrying`, more than a person scrolls through; a longer
/// filter finds a row sooner.
pub(super) const ROWS_MAX: usize = 10_000;

pub(super) struct Search {
    pub(super) feed: Feed<Step>,
    count: query::StepCount,
    counted: u64,
    /// Ticket of the count that is under way.
    counting: Option<u64>,
    /// Whether a count has to be started.
    uncounted: bool,
}

impl Search {
    pub(super) fn new(deletion_id: &str, filter: &str) -> Self {
        let steps = query::Steps {
            filter: filter.to_owned(),
            ..query::Steps::of(deletion_id)
        };
        Self {
            feed: Feed::paged(steps).at_most(ROWS_MAX),
            count: query::StepCount {
                deletion_id: Some(deletion_id.to_owned()),
                filter: filter.to_owned(),
                ..query::StepCount::default()
            },
            counted: 0,
            counting: None,
            uncounted: true,
        }
    }

    pub(super) fn load(&self) -> Load {
        match self.feed.load() {
            // Only steps that match were queried, so there may be other steps.
            Load::Empty => Load::Answered,
            load => load,
        }
    }

    /// Says how many of `all` steps match.
    pub(super) fn words(&self, all: u64) -> String {
        let (all, found) = (count(all, "step"), self.feed.rows.len() as u64);
        if !self.feed.has_more() && self.feed.pace.loaded {
            return format!("{} of {all} fit", thousands(found));
        }
        let found = thousands(self.counted.max(found));
        let more = match !self.feed.pace.loaded || self.uncounted || self.counting.is_some() {
            true => "so far, counting…",
            false if self.feed.is_full() => "fit; a longer filter shows those further down",
            false => "fit",
        };
        format!("{found} of {all} {more}")
    }

    /// Loads more if the cursor is at the end of the loaded rows.
    pub(super) fn reach(&mut self, cursor: usize) {
        if cursor + 1 >= self.feed.rows.len() {
            self.feed.more();
        }
    }

    fn count(&mut self, cursor: Option<String>, context: &mut Context) {
        let query = self.count.clone();
        self.counting = Some(context.outbox.ask(query::StepCount { cursor, ..query }));
    }
}

impl Refreshed for Search {
    fn invalidate(&mut self) {
        self.feed.invalidate();
        self.uncounted = true;
    }
    /// Sends the queries that are due: first for rows, then for their number, if there are more.
    fn ask(&mut self, context: &mut Context) {
        self.feed.ask(context);
        let has_answer = self.feed.pace.loaded && self.feed.pace.errors.is_empty();
        let is_read = has_answer && !self.feed.is_waiting() && self.counting.is_none();
        if is_read && std::mem::take(&mut self.uncounted) && self.feed.has_more() {
            self.counted = 0;
            self.count(None, context);
        }
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        if !self.feed.answer(arrived, context) {
            match arrived.take::<query::StepCount>(&mut self.counting) {
                None => return false,
                Some(Ok(Counted { steps, next })) => {
                    self.counted += steps;
                    if next.is_some() {
                        self.count(next, context);
                    }
                }
                // The steps are counted again once the rows have been queried again.
                Some(Err(error)) => {
                    self.uncounted = true;
                    self.feed.fail(error.to_string(), context.now);
                }
            }
        }
        true
    }
    /// Whether an answer is due or a query must be sent.
    fn is_waiting(&self) -> bool {
        self.feed.is_waiting() || self.counting.is_some()
    }
    fn errors(&self) -> &[String] {
        &self.feed.pace.errors
    }
}
