//! A list of the engine that arrives in pages, and is queried again after the engine has made progress.

use chrono::{DateTime, TimeDelta, Utc};

use super::Context;
use super::arrived::Arrived;
use super::emptiness::Load;
use crate::control::{ControlError, Page, Query, Request};
use crate::domain::model::Paged;

/// The engine serves at most this many rows a page.
pub(crate) const PAGE_ROWS: usize = 500;
/// Shortest time between two refreshes: a person could not follow faster changes.
const PAUSE_MS: i64 = 1_000;

type Ask<T> = Box<dyn Fn(&[T], Option<String>, &Context<'_>) -> Query + Send>;
type Read<T> = Box<dyn Fn(Page) -> Result<Batch<T>, ControlError> + Send>;

/// The rows of one answer.
pub(crate) struct Batch<T> {
    pub(crate) rows: Vec<T>,
    /// Cursor of the next page; `None` after the last page.
    pub(crate) next: Option<String>,
    /// Why some rows are missing, one sentence each.
    pub(crate) errors: Vec<String>,
}

impl<T> From<Vec<T>> for Batch<T> {
    fn from(rows: Vec<T>) -> Self {
        Paged { rows, next: None }.into()
    }
}

impl<T> From<Box<T>> for Batch<T> {
    fn from(row: Box<T>) -> Self {
        vec![*row].into()
    }
}

impl<T> From<Paged<T>> for Batch<T> {
    fn from(Paged { rows, next }: Paged<T>) -> Self {
        let errors = Vec::new();
        Self { rows, next, errors }
    }
}

/// One list of the engine, with its query. At most one query is under way; while the pages of a refresh
/// arrive, the earlier rows stay visible, so nothing flickers or jumps.
pub(crate) struct Feed<T> {
    pub(crate) rows: Vec<T>,
    /// Rows of the refresh under way, which replace `rows` once they are complete.
    fresh: Vec<T>,
    next: Option<String>,
    /// Number of rows to load.
    wanted: usize,
    /// Number of rows beyond which no more are loaded.
    rows_max: usize,
    /// Creates the query for the page at a cursor, and reads its answer; `None` if the rows need no query.
    query: Option<(Ask<T>, Read<T>)>,
    /// Whether answers continue the rows instead of replacing them.
    continues: bool,
    pub(crate) pace: Pace,
}

impl<T: 'static> Feed<T> {
    /// Returns a feed whose query is created for the page at a cursor.
    pub(crate) fn of<R: Request>(ask: impl Fn(Option<String>) -> R + Send + 'static) -> Self
    where
        Batch<T>: From<R::Answer>,
    {
        Self::reading(ask, |answer| answer.into())
    }

    /// As [`Self::of`]; `read` makes rows of the answer.
    pub(crate) fn reading<R: Request>(
        ask: impl Fn(Option<String>) -> R + Send + 'static,
        read: impl Fn(R::Answer) -> Batch<T> + Send + 'static,
    ) -> Self {
        let read = move |page| R::answer(page).map(&read);
        Self::asking(move |_, cursor, _| ask(cursor), read)
    }

    fn asking<R: Request>(
        ask: impl Fn(&[T], Option<String>, &Context<'_>) -> R + Send + 'static,
        read: impl Fn(Page) -> Result<Batch<T>, ControlError> + Send + 'static,
    ) -> Self {
        let ask: Ask<T> = Box::new(move |rows, cursor, context| ask(rows, cursor, context).into());
        Self {
            query: Some((ask, Box::new(read))),
            pace: Pace::new(),
            ..Self::silent()
        }
    }

    /// As [`Self::reading`], of the events until the last one that the snapshot knows.
    pub(crate) fn until<R: Request>(
        ask: impl Fn(i64) -> R + Send + 'static,
        read: impl Fn(R::Answer) -> Batch<T> + Send + 'static,
    ) -> Self {
        let read = move |page| R::answer(page).map(&read);
        Self::asking(move |_, _, context| ask(context.snapshot.last_event), read)
    }

    /// Returns a feed of rows that only become more; its query is created for those after the known rows.
    pub(crate) fn log<R: Request<Answer = Vec<T>>>(
        ask: impl Fn(&[T]) -> R + Send + 'static,
    ) -> Self {
        let read = |page: Page| {
            let rows = R::answer(page)?;
            let next = (rows.len() >= PAGE_ROWS).then(String::new);
            Ok(Paged { rows, next }.into())
        };
        Self {
            continues: true,
            ..Self::asking(move |rows, _, _| ask(rows), read)
        }
    }

    /// Returns a feed without a query.
    pub(crate) fn silent() -> Self {
        Self {
            rows: Vec::new(),
            fresh: Vec::new(),
            next: None,
            wanted: PAGE_ROWS,
            rows_max: usize::MAX,
            query: None,
            continues: false,
            pace: Pace {
                stale: false,
                ..Pace::new()
            },
        }
    }

    pub(crate) fn at_most(self, rows_max: usize) -> Self {
        Self { rows_max, ..self }
    }

    /// Sets the shortest time between two refreshes.
    pub(crate) fn resting(mut self, pause: TimeDelta) -> Self {
        self.pace.pause = pause;
        self
    }

    /// Shows rows that came without a query.
    pub(crate) fn stand(&mut self, rows: Vec<T>) {
        self.rows = rows;
        self.pace.loaded = true;
        self.pace.errors.clear();
    }

    /// Asks for one more page, if there is one.
    pub(crate) fn more(&mut self) {
        if self.next.is_some() && self.pace.ticket.is_none() && !self.is_full() {
            self.wanted = self.rows.len() + PAGE_ROWS;
            self.pace.stale = true;
        }
    }

    /// Whether no more rows are loaded, although there may be more.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= self.rows_max
    }

    pub(crate) fn has_more(&self) -> bool {
        self.next.is_some()
    }

    pub(crate) fn load(&self) -> Load {
        match (self.rows.is_empty(), self.pace.load()) {
            (false, Load::Failed | Load::Empty) => Load::Answered,
            (_, load) => load,
        }
    }

    /// Sends the query now, however short ago the last one was sent.
    pub(crate) fn ask_at_once(&mut self, context: &mut Context<'_>) {
        if self.pace.ticket.is_none() {
            self.ask_page(None, context);
        }
    }

    fn ask_page(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        let Some((ask, _)) = &self.query else { return };
        let is_first = cursor.is_none();
        let query = ask(&self.rows, cursor, context);
        let ticket = context.ask(query);
        match is_first {
            true => self.pace.asked(ticket, context.now),
            false => self.pace.ticket = Some(ticket),
        }
    }

    fn take(&mut self, batch: Batch<T>, context: &mut Context<'_>) {
        // The first load shows each page as it arrives.
        let shows_pages = self.continues || !self.pace.loaded;
        let collected = match shows_pages {
            true => &mut self.rows,
            false => &mut self.fresh,
        };
        collected.extend(batch.rows);
        let lacks_rows = self.continues || collected.len() < self.wanted;
        if lacks_rows && batch.next.is_some() {
            self.pace.loaded |= self.continues;
            return self.ask_page(batch.next, context);
        }
        if !shows_pages {
            self.rows = std::mem::take(&mut self.fresh);
        }
        self.next = batch.next;
        self.pace.arrived(context.now);
        self.pace.errors = batch.errors;
    }

    /// Records an error. The earlier rows stay; the engine's next progress leads to another query.
    pub(crate) fn fail(&mut self, error: String) {
        self.fresh.clear();
        self.pace.fail(error);
    }
}

/// When a query is sent, and what became of it.
pub(crate) struct Pace {
    pub(crate) ticket: Option<u64>,
    asked_at: Option<DateTime<Utc>>,
    took: TimeDelta,
    /// Shortest time between two queries.
    pause: TimeDelta,
    stale: bool,
    pub(crate) loaded: bool,
    pub(crate) errors: Vec<String>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            ticket: None,
            asked_at: None,
            took: TimeDelta::zero(),
            pause: TimeDelta::milliseconds(PAUSE_MS),
            stale: true,
            loaded: false,
            errors: Vec::new(),
        }
    }

    pub(crate) fn invalidate(&mut self) {
        self.stale = true;
    }

    /// Whether the query must be sent now. A refresh waits a second, or four times as long as the last one
    /// took; in a replay it never waits, because a replay changes only when the person moves it.
    pub(crate) fn is_due(&self, context: &Context<'_>) -> bool {
        let (now, pause) = (context.now, self.pause.max(self.took * 4));
        let rested = self.asked_at.is_none_or(|at| now - at >= pause || now < at);
        self.ticket.is_none() && self.stale && (rested || context.replays)
    }

    pub(crate) fn asked(&mut self, ticket: u64, now: DateTime<Utc>) {
        self.ticket = Some(ticket);
        self.asked_at = Some(now);
        self.stale = false;
    }

    pub(crate) fn arrived(&mut self, now: DateTime<Utc>) {
        self.ticket = None;
        self.errors.clear();
        self.loaded = true;
        self.took = self.asked_at.map_or(TimeDelta::zero(), |at| now - at);
    }

    pub(crate) fn fail(&mut self, error: String) {
        self.ticket = None;
        self.errors = vec![error];
        self.loaded = true;
    }

    /// The state of a query whose rows, if there are any, are elsewhere.
    pub(crate) fn load(&self) -> Load {
        match (self.loaded, self.errors.is_empty()) {
            (false, _) => Load::Asking,
            (true, false) => Load::Failed,
            (true, true) => Load::Empty,
        }
    }

    /// Whether an answer is due or a query must be sent later, so that the loop has to tick.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stale || self.ticket.is_some()
    }
}

/// A query of a pane that is sent again when its answer may have changed.
pub(crate) trait Refreshed {
    fn invalidate(&mut self);
    /// Sends the query if it is due.
    fn ask(&mut self, context: &mut Context<'_>);
    /// Takes the answer; returns false if it belongs to another query. After an error the earlier rows stay,
    /// except in a replay, where they would belong to another time.
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool;
    fn is_waiting(&self) -> bool;
    fn errors(&self) -> &[String];
}

impl<T: 'static> Refreshed for Feed<T> {
    fn invalidate(&mut self) {
        self.pace.stale = self.query.is_some();
    }
    fn ask(&mut self, context: &mut Context<'_>) {
        if self.pace.is_due(context) {
            self.fresh.clear();
            self.ask_at_once(context);
        }
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let Some((_, read)) = &self.query else {
            return false;
        };
        match arrived.page(&mut self.pace.ticket) {
            None => return false,
            Some(page) => match page.and_then(read) {
                Ok(batch) => self.take(batch, context),
                Err(error) => {
                    if context.replays && !self.continues {
                        self.rows.clear();
                    }
                    self.fail(error.to_string());
                }
            },
        }
        true
    }
    fn is_waiting(&self) -> bool {
        self.pace.is_waiting()
    }
    fn errors(&self) -> &[String] {
        &self.pace.errors
    }
}
