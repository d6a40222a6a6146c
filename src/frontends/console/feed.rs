//! A list of the engine that arrives in pages, and is queried again after the engine has made progress.

use chrono::{DateTime, TimeDelta, Utc};

use super::arrived::Arrived;
use super::panes::Context;
use super::panes::emptiness::Load;
use crate::control::Request;
use crate::domain::model::Paged;

/// The engine serves at most this many rows a page.
pub(crate) const PAGE_ROWS: usize = 500;
/// Shortest time between two refreshes: a person could not follow faster changes.
const PAUSE_MS: i64 = 1_000;

/// One list of the engine. At most one query is under way; while the pages of a refresh arrive, the
/// earlier rows stay visible, so nothing flickers or jumps.
#[derive(Debug)]
pub(crate) struct Feed<T> {
    pub(crate) rows: Vec<T>,
    /// Rows of the refresh under way, which replace `rows` once they are complete.
    fresh: Vec<T>,
    /// Cursor of the next page; `None` after the last page.
    next: Option<String>,
    /// Number of rows to load.
    wanted: usize,
    ticket: Option<u64>,
    asked_at: Option<DateTime<Utc>>,
    took: TimeDelta,
    stale: bool,
    pub(crate) loaded: bool,
    pub(crate) error: Option<String>,
}

/// The query that a feed asks its owner to send.
pub(crate) enum Fetch {
    Nothing,
    /// Ask for the page at this cursor.
    Page(Option<String>),
}

impl<T> Feed<T> {
    pub(crate) fn new(wanted: usize) -> Self {
        Self {
            rows: Vec::new(),
            fresh: Vec::new(),
            next: None,
            wanted,
            ticket: None,
            asked_at: None,
            took: TimeDelta::zero(),
            stale: true,
            loaded: false,
            error: None,
        }
    }

    /// Shows rows that need no query.
    pub(crate) fn stand(&mut self, rows: Vec<T>) {
        self.rows = rows;
        self.loaded = true;
        self.stale = false;
    }

    /// Marks the feed as up to date: it needs no query.
    pub(crate) fn rest(&mut self) {
        self.stale = false;
    }

    pub(crate) fn invalidate(&mut self) {
        self.stale = true;
    }

    /// Asks for one more page, if there is one.
    pub(crate) fn more(&mut self) {
        if self.next.is_some() && self.ticket.is_none() {
            self.wanted = self.rows.len() + PAGE_ROWS;
            self.stale = true;
        }
    }

    pub(crate) fn load(&self) -> Load {
        match (self.loaded, &self.error) {
            (false, _) => Load::Asking,
            (true, Some(_)) if self.rows.is_empty() => Load::Failed,
            (true, None) if self.rows.is_empty() => Load::Empty,
            (true, _) => Load::Answered,
        }
    }

    pub(crate) fn has_more(&self) -> bool {
        self.next.is_some()
    }

    /// Whether an answer is due or a query must be sent later, so that the loop has to tick.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stale || self.ticket.is_some()
    }

    /// Returns the query that is due now. A refresh waits a second, or four times as long as the last one
    /// took; in a replay it never waits, because a replay changes only when the person moves it.
    pub(crate) fn due(&self, context: &Context<'_>) -> Fetch {
        let (now, pause) = (
            context.now,
            TimeDelta::milliseconds(PAUSE_MS).max(self.took * 4),
        );
        let rested = self.asked_at.is_none_or(|at| now - at >= pause || now < at);
        let rested = rested || context.replays;
        if self.ticket.is_none() && self.stale && rested {
            Fetch::Page(None)
        } else {
            Fetch::Nothing
        }
    }

    /// Queries the first page, or the one after the pages that have arrived.
    pub(crate) fn ask(&mut self, request: impl Request, is_first: bool, context: &mut Context<'_>) {
        let ticket = context.ask(request);
        self.asked(ticket, is_first, context.now);
    }

    /// Records a query that the owner sent itself instead of calling [`Self::ask`].
    pub(crate) fn asked(&mut self, ticket: u64, is_first: bool, now: DateTime<Utc>) {
        if is_first {
            self.stale = false;
            self.fresh.clear();
            self.asked_at = Some(now);
        }
        self.ticket = Some(ticket);
    }

    pub(crate) fn is_asked(&self, arrived: &Arrived) -> bool {
        arrived.is_to(self.ticket)
    }

    /// Takes the answer if it belongs to this feed's query; `rows` extracts its rows. Returns the next query:
    /// the next page, while more rows are wanted. After an error the earlier rows stay, except in a replay,
    /// where they would belong to another time.
    pub(crate) fn receive<R: Request>(
        &mut self,
        arrived: &mut Arrived,
        context: &Context<'_>,
        rows: impl FnOnce(R::Answer) -> Paged<T>,
    ) -> Option<Fetch> {
        match arrived.take::<R>(&mut self.ticket)? {
            Ok(answer) => {
                let Paged { rows, next } = rows(answer);
                Some(self.take(rows, next, context.now))
            }
            Err(error) => {
                if context.replays {
                    self.rows.clear();
                }
                self.fail(error.to_string());
                Some(Fetch::Nothing)
            }
        }
    }

    pub(crate) fn take(&mut self, rows: Vec<T>, next: Option<String>, now: DateTime<Utc>) -> Fetch {
        self.ticket = None;
        self.error = None;
        // The first load shows each page as it arrives.
        let collected = match self.loaded {
            true => &mut self.fresh,
            false => &mut self.rows,
        };
        collected.extend(rows);
        if collected.len() < self.wanted && next.is_some() {
            return Fetch::Page(next);
        }
        if self.loaded {
            self.rows = std::mem::take(&mut self.fresh);
        }
        self.next = next;
        self.loaded = true;
        self.took = self.asked_at.map_or(TimeDelta::zero(), |at| now - at);
        Fetch::Nothing
    }

    /// Records an error. The earlier rows stay; the engine's next progress leads to another query.
    pub(crate) fn fail(&mut self, error: String) {
        self.ticket = None;
        self.fresh.clear();
        self.error = Some(error);
        self.loaded = true;
    }
}

/// Returns the rows of an answer that has no pages as one page.
pub(crate) fn whole<T>(rows: Vec<T>) -> Paged<T> {
    Paged { rows, next: None }
}
