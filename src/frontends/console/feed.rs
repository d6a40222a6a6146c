//! Rows that come by pages, asked again when the engine has moved.

use chrono::{DateTime, TimeDelta, Utc};

use super::arrived::Arrived;
use super::panes::Context;
use super::panes::emptiness::Load;
use crate::control::Request;
use crate::domain::model::Paged;

/// The engine serves at most this many rows a page.
pub(crate) const PAGE_ROWS: usize = 500;
/// Asking again sooner would show nothing that a person could follow.
const PAUSE_MS: i64 = 1_000;

/// One list of the engine. At most one query is under way; while pages of a refresh come in, the
/// rows of before stay visible, so nothing flickers or jumps.
#[derive(Debug)]
pub(crate) struct Feed<T> {
    pub(crate) rows: Vec<T>,
    /// What is being collected, if rows stand already.
    fresh: Vec<T>,
    /// Of the last page; more rows are behind it.
    next: Option<String>,
    /// How many rows are wanted.
    wanted: usize,
    ticket: Option<u64>,
    asked_at: Option<DateTime<Utc>>,
    took: TimeDelta,
    stale: bool,
    pub(crate) loaded: bool,
    pub(crate) error: Option<String>,
}

/// What a feed wants of its owner.
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

    /// Takes rows that no question is needed for.
    pub(crate) fn stand(&mut self, rows: Vec<T>) {
        self.rows = rows;
        self.loaded = true;
        self.stale = false;
    }

    /// There is nothing to ask.
    pub(crate) fn rest(&mut self) {
        self.stale = false;
    }

    pub(crate) fn invalidate(&mut self) {
        self.stale = true;
    }

    /// Wants one more page than it has.
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

    /// Whether something will come, or has to be asked later: the loop ticks.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stale || self.ticket.is_some()
    }

    /// What to ask now. A long list is asked again only after a pause of four times what it took; but a
    /// replay moves only when a person wants it to.
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

    /// Asks for the first page, or for one behind those that have come.
    pub(crate) fn ask(&mut self, request: impl Request, is_first: bool, context: &mut Context<'_>) {
        let ticket = context.ask(request);
        self.asked(ticket, is_first, context.now);
    }

    /// A question of the owner's own, in place of [`Self::ask`].
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

    /// Takes the answer, if it is to this feed's question; its rows are read off it. What to ask next: the
    /// next page, while it wants more rows. After an error the rows of before stay, but in a replay, where they
    /// would be those of another time.
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
        // While nothing stands yet, what there is is shown.
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

    /// The rows of before stay; it asks again at the engine's next move.
    pub(crate) fn fail(&mut self, error: String) {
        self.ticket = None;
        self.fresh.clear();
        self.error = Some(error);
        self.loaded = true;
    }
}

/// All rows of an answer that has no pages.
pub(crate) fn whole<T>(rows: Vec<T>) -> Paged<T> {
    Paged { rows, next: None }
}
