//! A search for steps in the whole ledger; the engine searches a part of it for each query.

use crate::control::query;
use crate::control::query::Counted;
use crate::domain::attention::Cause;
use crate::domain::model::{Step, StepState};
use crate::frontends::console::arrived::Arrived;

use super::super::feed::{Feed, Fetch, PAGE_ROWS};
use super::Context;
use super::emptiness::Load;
use crate::present::{count, thousands};

/// Maximum number of rows: nobody scrolls further, and a longer filter finds a row sooner.
const ROWS_MAX: usize = 10_000;

pub(crate) struct Search {
    deletion: Option<String>,
    states: Vec<StepState>,
    cause: Option<Cause>,
    filter: String,
    feed: Feed<Step>,
    /// Whether the steps that fit are counted.
    counts: bool,
    counted: u64,
    /// Ticket of the count that is under way.
    counting: Option<u64>,
    /// Whether a count has to be started.
    uncounted: bool,
}

impl Search {
    /// Returns a search in the steps of one deletion, or of all.
    pub(crate) fn new(deletion: Option<String>, filter: &str) -> Self {
        Self {
            deletion,
            states: Vec::new(),
            cause: None,
            filter: filter.to_owned(),
            feed: Feed::new(PAGE_ROWS),
            counts: true,
            counted: 0,
            counting: None,
            uncounted: false,
        }
    }

    /// Restricts the search to these states and this cause, without a count.
    pub(crate) fn among(self, states: Vec<StepState>, cause: Option<Cause>) -> Self {
        Self {
            states,
            cause,
            counts: false,
            ..self
        }
    }

    pub(crate) fn rows(&self) -> &[Step] {
        &self.feed.rows
    }

    pub(crate) fn error(&self) -> Option<&String> {
        self.feed.error.as_ref()
    }

    pub(crate) fn load(&self) -> Load {
        match self.is_searching() {
            true => Load::Asking,
            // Only rows that match were queried, so there may be others.
            false if !self.filter.is_empty() && self.feed.error.is_none() => Load::Answered,
            false => self.feed.load(),
        }
    }

    pub(crate) fn has_more(&self) -> bool {
        self.feed.has_more()
    }

    pub(crate) fn invalidate(&mut self) {
        self.feed.invalidate();
    }

    /// Whether an answer is due or a query must be sent.
    pub(crate) fn is_waiting(&self) -> bool {
        self.feed.is_waiting() || self.counting.is_some()
    }

    /// Whether the first answer has not come yet.
    pub(crate) fn is_searching(&self) -> bool {
        !self.feed.loaded
    }

    /// Tells how many of `all` steps fit.
    pub(crate) fn words(&self, all: u64) -> String {
        let all = count(all, "step");
        if !self.feed.has_more() && self.feed.loaded {
            return format!("{} of {all} fit", thousands(self.feed.rows.len() as u64));
        }
        let found = thousands(self.counted.max(self.feed.rows.len() as u64));
        let more = match self.is_searching() || self.uncounted || self.counting.is_some() {
            true => "so far, counting…",
            false if self.feed.rows.len() >= ROWS_MAX => {
                "fit; a longer filter shows those further down"
            }
            false => "fit",
        };
        format!("{found} of {all} {more}")
    }

    /// Sends the queries that are due; at the end of the loaded rows it loads more.
    pub(crate) fn ask(&mut self, cursor: usize, context: &mut Context<'_>) {
        let rows = self.feed.rows.len();
        if cursor + 1 >= rows && rows < ROWS_MAX {
            self.feed.more();
        }
        if let Fetch::Page(next) = self.feed.due(context) {
            self.uncounted = self.counts;
            self.page(next, context);
        }
        if self.uncounted && self.feed.loaded && !self.feed.is_waiting() && self.counting.is_none()
        {
            self.uncounted = false;
            if self.feed.has_more() {
                self.counted = 0;
                self.count(None, context);
            }
        }
    }

    fn page(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        let is_first = cursor.is_none();
        let steps = query::Steps {
            deletion_id: self.deletion.clone(),
            states: self.states.clone(),
            cause: self.cause.clone(),
            filter: self.filter.clone(),
            cursor,
            limit: PAGE_ROWS,
            ..query::Steps::default()
        };
        self.feed.ask(steps, is_first, context);
    }

    fn count(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        self.counting = Some(context.ask(query::StepCount {
            deletion_id: self.deletion.clone(),
            states: self.states.clone(),
            cause: self.cause.clone(),
            filter: self.filter.clone(),
            cursor,
        }));
    }

    /// Takes an answer; returns false if it belongs to another query.
    pub(crate) fn answer(
        &mut self,
        arrived: &mut Arrived,
        cursor: usize,
        context: &mut Context<'_>,
    ) -> bool {
        let received = self
            .feed
            .receive::<query::Steps>(arrived, context, |page| page);
        match received {
            Some(Fetch::Page(next)) => self.page(next, context),
            Some(Fetch::Nothing) => {}
            None => match arrived.take::<query::StepCount>(&mut self.counting) {
                None => return false,
                Some(Ok(Counted { steps, next })) => {
                    self.counted += steps;
                    if next.is_some() {
                        self.count(next, context);
                    }
                }
                Some(Err(error)) => self.feed.fail(error.to_string()),
            },
        }
        self.ask(cursor, context);
        true
    }
}
