//! Steps that fit, wherever they are in the ledger: the engine looks for them, one stretch at a time.

use crate::control::{ControlError, Page, Query};
use crate::domain::attention::Cause;
use crate::domain::model::{Step, StepState};

use super::super::feed::{Feed, Fetch, PAGE_ROWS};
use super::super::look::{count, thousands};
use super::{Context, unexpected};

/// Further down no one scrolls: a longer filter finds it sooner.
const ROWS_MAX: usize = 10_000;

pub(crate) struct Search {
    deletion: Option<String>,
    states: Vec<StepState>,
    cause: Option<Cause>,
    filter: String,
    feed: Feed<Step>,
    /// Someone wants to know how many there are.
    counts: bool,
    counted: u64,
    /// The count that is under way.
    counting: Option<u64>,
    /// Those that were found are not counted yet.
    uncounted: bool,
}

impl Search {
    /// Of one deletion's steps, or of all.
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

    /// In these states, for this cause; not counted.
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

    pub(crate) fn has_more(&self) -> bool {
        self.feed.has_more()
    }

    pub(crate) fn invalidate(&mut self) {
        self.feed.invalidate();
    }

    /// Something will come.
    pub(crate) fn is_waiting(&self) -> bool {
        self.feed.is_waiting() || self.counting.is_some()
    }

    /// For the first time.
    pub(crate) fn is_searching(&self) -> bool {
        !self.feed.loaded
    }

    /// How many of all there are.
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

    /// Asks for what is due; at the end of what is loaded, for more.
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
        let ticket = context.query(Query::Steps {
            deletion_id: self.deletion.clone(),
            states: self.states.clone(),
            site: None,
            kind: None,
            older_than: None,
            cause: self.cause.clone(),
            filter: self.filter.clone(),
            cursor: cursor.clone(),
            limit: PAGE_ROWS,
        });
        self.feed.asked(ticket, cursor.as_deref(), context.now);
    }

    fn count(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        self.counting = Some(context.query(Query::StepCount {
            deletion_id: self.deletion.clone(),
            states: self.states.clone(),
            cause: self.cause.clone(),
            filter: self.filter.clone(),
            cursor,
        }));
    }

    /// True if it was this one's question.
    pub(crate) fn answer(
        &mut self,
        ticket: u64,
        answer: &mut Option<Result<Page, ControlError>>,
        cursor: usize,
        context: &mut Context<'_>,
    ) -> bool {
        if self.feed.owns(ticket) {
            match answer.take() {
                Some(Ok(Page::Steps { rows, next })) => {
                    if let Fetch::Page(next) = self.feed.take(rows, next, context.now) {
                        self.page(next, context);
                    }
                }
                Some(Err(error)) => self.feed.fail(error.to_string()),
                _ => self.feed.fail(unexpected()),
            }
        } else if self.counting == Some(ticket) {
            self.counting = None;
            match answer.take() {
                Some(Ok(Page::StepCount { steps, next })) => {
                    self.counted += steps;
                    if next.is_some() {
                        self.count(next, context);
                    }
                }
                Some(Err(error)) => self.feed.fail(error.to_string()),
                _ => self.feed.fail(unexpected()),
            }
        } else {
            return false;
        }
        self.ask(cursor, context);
        true
    }
}
