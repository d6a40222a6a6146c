//! A list of the engine, which may arrive in pages, and is queried again, mostly after the engine has made progress.

use chrono::{DateTime, TimeDelta, Utc};

use super::Context;
use super::emptiness::Load;
use super::freshness::{ASKING_SHOWN_AFTER, Freshness};
use crate::control::query::Pages;
use crate::control::{ControlError, Page, Query, Request};
use crate::domain::model::Paged;

/// Number of rows of a page, as many as the engine serves if a query sets no limit.
const PAGE_ROWS: usize = 500;
/// Shortest time between two automatic refreshes: a person could not follow faster changes.
const PAUSE: TimeDelta = TimeDelta::seconds(1);
/// After a change, the next query waits this many times as long as the last answer took. A query that a clock sends
/// waits longer, because nothing is known to have changed; so does one that no person waits for.
const REST_AFTER_CHANGE: i32 = 4;
const REST_ON_CLOCK: i32 = 10;
/// A failed query is sent again after this time, then after twice as long each time, up to the maximum.
const RETRY_FIRST: TimeDelta = TimeDelta::seconds(5);
const RETRY_MAX: TimeDelta = TimeDelta::seconds(60);
/// Rows that follow the engine and are out of date show their age once it is this high.
const LATE_AFTER: TimeDelta = TimeDelta::seconds(5);

type Ask<T> = Box<dyn Fn(At<'_, T>) -> Query + Send>;
type Read<T> = Box<dyn Fn(Page) -> Result<Batch<T>, ControlError> + Send>;

/// The position in a list for which a query is created.
pub(crate) struct At<'a, T> {
    /// Cursor of the page; `None` for the first.
    pub(crate) cursor: Option<String>,
    pub(crate) known: &'a [T],
    /// Sequence number of the last event that the snapshot knows.
    pub(crate) last_event: i64,
}

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
        Self {
            rows,
            next: None,
            errors: Vec::new(),
        }
    }
}

impl<T> From<T> for Batch<T> {
    fn from(row: T) -> Self {
        vec![row].into()
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
    /// Returns a feed that sends the same query each time.
    pub(crate) fn of<R: Request + Clone + 'static>(query: R) -> Self
    where
        R::Answer: Into<Batch<T>>,
    {
        Self::reading(query, |answer| answer)
    }

    /// Works like [`Self::of`]; `read` turns the answer into rows.
    pub(crate) fn reading<R: Request + Clone + 'static, B: Into<Batch<T>>>(
        query: R,
        read: impl Fn(R::Answer) -> B + Send + 'static,
    ) -> Self {
        Self::asking(move |_| query.clone(), read)
    }

    /// Returns a feed of a list that the engine serves in pages.
    pub(crate) fn paged<R: Pages + 'static>(first: R) -> Self
    where
        T: From<R::Row>,
    {
        let ask = move |at: At<'_, T>| match at.cursor {
            Some(cursor) => first.clone().at_cursor(cursor),
            None => first.clone(),
        };
        Self::asking(ask, |Paged { rows, next }| Batch {
            rows: rows.into_iter().map(T::from).collect(),
            next,
            errors: Vec::new(),
        })
    }

    /// Returns a feed whose query is created by `ask` for a position in its list; `read` turns the answer into rows.
    pub(crate) fn asking<R: Request, B: Into<Batch<T>>>(
        ask: impl Fn(At<'_, T>) -> R + Send + 'static,
        read: impl Fn(R::Answer) -> B + Send + 'static,
    ) -> Self {
        let ask: Ask<T> = Box::new(move |at| ask(at).into());
        let read: Read<T> = Box::new(move |page| R::answer(page).map(|it| read(it).into()));
        Self {
            query: Some((ask, read)),
            pace: Pace::default(),
            ..Self::silent()
        }
    }

    /// Makes the answers continue the rows. After a full answer, the next one is queried at once.
    pub(crate) fn continued(self) -> Self {
        Self {
            continues: true,
            ..self
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
                is_current: true,
                ..Pace::default()
            },
        }
    }

    pub(crate) fn at_most(self, rows_max: usize) -> Self {
        Self { rows_max, ..self }
    }

    /// Makes the feed one that no person waits for: after a change it is queried only once this time has passed since
    /// the last query, its errors are not shown, and a replay does not query it.
    pub(crate) fn in_background(mut self, pause: TimeDelta) -> Self {
        self.pace.background = Some(pause);
        self.pace.on_demand = true;
        self
    }

    /// Makes a clock send the query again: at most once in this period, and more rarely if an answer takes long.
    pub(crate) fn every(mut self, period: TimeDelta) -> Self {
        self.pace.period = Some(period);
        self
    }

    /// Replaces the rows by rows that needed no query.
    pub(crate) fn replace_rows(&mut self, rows: Vec<T>) {
        self.rows = rows;
        self.pace.loaded = true;
        self.pace.errors.clear();
    }

    /// Makes the next query load one page more, if there is one.
    pub(crate) fn more(&mut self) {
        if self.next.is_some() && self.pace.ticket.is_none() && !self.is_full() {
            self.wanted = self.rows.len() + PAGE_ROWS;
            self.pace.invalidate();
        }
    }

    /// Queries at once all rows up to this number; returns false if there are no more.
    pub(crate) fn more_up_to(&mut self, rows_max: usize, context: &mut Context) -> bool {
        let rows_max = rows_max.min(self.rows_max);
        let has_more = self.next.is_some() && self.rows.len() < rows_max;
        if has_more {
            self.wanted = rows_max;
            self.ask_at_once(context);
        }
        has_more
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

    /// Sends the query now, however recently the last one was sent, unless one is under way.
    pub(crate) fn ask_at_once(&mut self, context: &mut Context) {
        if self.pace.ticket.is_none() {
            self.fresh.clear();
            self.ask_page(None, context);
        }
    }

    fn ask_page(&mut self, cursor: Option<String>, context: &mut Context) {
        let Some((ask, _)) = &self.query else { return };
        let is_first = cursor.is_none();
        let ticket = context.outbox.ask(ask(At {
            cursor,
            known: &self.rows,
            last_event: context.snapshot.last_event,
        }));
        match is_first {
            true => self.pace.asked(ticket, context.now),
            false => self.pace.ticket = Some(ticket),
        }
    }

    fn take(&mut self, batch: Batch<T>, context: &mut Context) {
        // The first load shows each page as it arrives.
        let shows_pages = self.continues || !self.pace.loaded;
        let collected = match shows_pages {
            true => &mut self.rows,
            false => &mut self.fresh,
        };
        let is_full = self.continues && batch.rows.len() >= PAGE_ROWS;
        collected.extend(batch.rows);
        if !self.continues && collected.len() < self.wanted && batch.next.is_some() {
            return self.ask_page(batch.next, context);
        }
        if !shows_pages {
            self.rows = std::mem::take(&mut self.fresh);
        }
        self.next = batch.next;
        self.pace.arrived(context.now);
        self.pace.errors = batch.errors;
        if is_full {
            self.ask_at_once(context);
        }
    }

    /// Records an error. The earlier rows stay.
    pub(crate) fn fail(&mut self, error: String, now: DateTime<Utc>) {
        self.fresh.clear();
        self.pace.fail(error, now);
    }
}

/// When a query is sent, and what became of it.
#[derive(Default)]
pub(crate) struct Pace {
    pub(crate) ticket: Option<u64>,
    asked_at: Option<DateTime<Utc>>,
    took: TimeDelta,
    /// Shortest time between two queries that a clock sends; `None` if no clock sends the query.
    pub(crate) period: Option<TimeDelta>,
    /// Shortest time between two queries that no person waits for.
    background: Option<TimeDelta>,
    /// Whether nothing is known to have changed since the last query.
    is_current: bool,
    /// Whether the query under way was sent although nothing was known to have changed, as a clock does. The console
    /// does not show that it waits for such a query.
    by_clock: bool,
    /// When the query of the last good answer was sent.
    as_of: Option<DateTime<Utc>>,
    /// When the last query failed, and how many queries failed since the last good answer.
    failed: Option<(DateTime<Utc>, i32)>,
    /// Whether a failed query is sent again only when a person asks for that.
    pub(crate) on_demand: bool,
    pub(crate) loaded: bool,
    pub(crate) errors: Vec<String>,
}

impl Pace {
    pub(crate) fn invalidate(&mut self) {
        self.is_current = false;
    }

    /// Whether the query must be sent now. A refresh waits a second, or longer if the last one took long; in a
    /// replay it never waits, because a replay changes only when the person moves it.
    pub(crate) fn is_due(&self, context: &Context) -> bool {
        let now = context.now;
        let rested = |pause| self.asked_at.is_none_or(|at| now - at >= pause || now < at);
        let rested_without_change = |pause: TimeDelta| rested(pause.max(self.took * REST_ON_CLOCK));
        if self.ticket.is_some() {
            return false;
        }
        if let Some(pause) = self.background {
            return !self.is_current && !context.replays && rested_without_change(pause);
        }
        if context.replays {
            return !self.is_current;
        }
        !self.is_current && rested(PAUSE.max(self.took * REST_AFTER_CHANGE))
            || self.period.is_some_and(rested_without_change)
            || self.retry_at().is_some_and(|at| at <= now)
    }

    fn retry_at(&self) -> Option<DateTime<Utc>> {
        let (at, times) = self.failed.filter(|_| !self.on_demand)?;
        let doublings = u32::try_from(times - 1).unwrap_or(0).min(8);
        Some(at + RETRY_MAX.min(RETRY_FIRST * 2_i32.pow(doublings)))
    }

    pub(crate) fn asked(&mut self, ticket: u64, now: DateTime<Utc>) {
        self.ticket = Some(ticket);
        self.by_clock = self.loaded && self.is_current;
        self.asked_at = Some(now);
        self.is_current = true;
    }

    pub(crate) fn arrived(&mut self, now: DateTime<Utc>) {
        self.ticket = None;
        self.errors.clear();
        self.loaded = true;
        self.failed = None;
        self.as_of = self.asked_at;
        self.took = self.asked_at.map_or(TimeDelta::zero(), |at| now - at);
    }

    pub(crate) fn fail(&mut self, error: String, now: DateTime<Utc>) {
        self.ticket = None;
        self.errors = vec![error];
        self.loaded = true;
        self.failed = Some((now, self.failed.map_or(0, |(_, times)| times) + 1));
        self.is_current &= self.background.is_none();
    }

    /// The state of the query, for a pane that keeps the rows elsewhere.
    pub(crate) fn load(&self) -> Load {
        match (self.loaded, self.errors.is_empty()) {
            (false, _) => Load::Asking,
            (true, false) => Load::Failed,
            (true, true) => Load::Empty,
        }
    }

    /// Whether a person waits for an answer, or for a query to be sent, so that the loop has to tick.
    pub(crate) fn is_waiting(&self) -> bool {
        let is_awaited = !self.is_current || (self.ticket.is_some() && !self.by_clock);
        is_awaited && self.background.is_none()
    }

    /// Whether a query is sent automatically as time passes.
    pub(crate) fn is_timed(&self) -> bool {
        self.period.is_some() || (!self.on_demand && self.failed.is_some())
    }

    /// The age of the rows. With `follows`, they are queried again as soon as they change.
    pub(crate) fn freshness(&self, follows: bool, now: DateTime<Utc>) -> Freshness {
        let asked = self.asked_at.filter(|_| self.ticket.is_some());
        let is_slow = asked.is_some_and(|at| now - at >= ASKING_SHOWN_AFTER);
        match (self.failed, self.as_of) {
            _ if is_slow || !self.loaded => Freshness::Asking,
            (Some((at, _)), _) => Freshness::Failed {
                at,
                retries: !self.on_demand,
            },
            (None, None) => Freshness::Fixed,
            (None, Some(at)) if self.period.is_some() => Freshness::Aged(at),
            (None, Some(at)) if !follows => Freshness::AsOf(at),
            (None, Some(at)) if !self.is_current && now - at >= LATE_AFTER => Freshness::Aged(at),
            (None, Some(_)) => Freshness::Live,
        }
    }
}

/// A query of a pane that is sent again when its answer may have changed.
pub(crate) trait Refreshed {
    /// Called when the rows may be out of date: the engine has made progress, the pane is opened, or a person asks;
    /// without effect if that is no reason to send the query sooner.
    fn invalidate(&mut self) {}
    /// Sends the query if it is due.
    fn ask(&mut self, context: &mut Context);
    /// Takes the answer; returns false if it belongs to another query. After an error the earlier rows stay. In a
    /// replay they would belong to another time, so a [`Feed`] drops them, unless its answers continue the rows.
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool;
    /// Whether a person waits for the answer.
    fn is_waiting(&self) -> bool {
        false
    }
    /// Whether the query is sent automatically as time passes.
    fn is_timed(&self) -> bool {
        false
    }
    /// The errors to show above the rows.
    fn errors(&self) -> &[String] {
        &[]
    }
}

impl<T: 'static> Refreshed for Feed<T> {
    fn invalidate(&mut self) {
        self.pace.is_current = self.query.is_none();
    }
    fn ask(&mut self, context: &mut Context) {
        if self.pace.is_due(context) {
            self.ask_at_once(context);
        }
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
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
                    self.fail(error.to_string(), context.now);
                }
            },
        }
        true
    }
    fn is_waiting(&self) -> bool {
        self.pace.is_waiting()
    }
    fn is_timed(&self) -> bool {
        self.pace.is_timed()
    }
    fn errors(&self) -> &[String] {
        match self.pace.background {
            Some(_) => &[],
            None => &self.pace.errors,
        }
    }
}

/// An answer for the pane that sent the query. The pane recognizes it by its ticket, the number of the query.
pub(crate) struct Arrived {
    ticket: u64,
    answer: Option<Result<Page, ControlError>>,
}

impl Arrived {
    pub(crate) fn new(ticket: u64, answer: Result<Page, ControlError>) -> Self {
        Self {
            ticket,
            answer: Some(answer),
        }
    }

    pub(crate) fn is_to(&self, asked: Option<u64>) -> bool {
        asked == Some(self.ticket)
    }

    /// Takes the answer if its ticket is the one in `asked`, and clears `asked`.
    pub(crate) fn page(&mut self, asked: &mut Option<u64>) -> Option<Result<Page, ControlError>> {
        asked.take_if(|asked| *asked == self.ticket)?;
        self.answer.take()
    }

    /// Works like [`Self::page`], for a request of type `R`.
    pub(crate) fn take<R: Request>(
        &mut self,
        asked: &mut Option<u64>,
    ) -> Option<Result<R::Answer, ControlError>> {
        Some(self.page(asked)?.and_then(R::answer))
    }
}
