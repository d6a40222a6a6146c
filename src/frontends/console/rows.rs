//! Rows of one of the engine's lists: asked for by pages, filtered, and held in place under the cursor
//! while they come and go.

use super::arrived::Arrived;
use super::feed::{Feed, Fetch, PAGE_ROWS};
use super::list::List;
use super::panes::Context;
use crate::control::Request;
use crate::domain::filter::SearchQuery;
use crate::domain::model::Paged;

pub(crate) trait Row: Sized {
    /// By which it is found again.
    type Key: PartialEq;

    fn key(&self) -> Self::Key;
    fn fits(&self, filter: &SearchQuery) -> bool;
    type Request: Request;
    /// The request for the page at this cursor.
    fn request(cursor: Option<String>) -> Self::Request;
    fn of(answer: <Self::Request as Request>::Answer) -> Paged<Self>;
}

pub(crate) struct Rows<T> {
    pub(crate) list: List,
    pub(crate) feed: Feed<T>,
    visible: Vec<usize>,
}

impl<T: Row> Rows<T> {
    pub(crate) fn new() -> Self {
        Self {
            list: List::default(),
            feed: Feed::new(PAGE_ROWS),
            visible: Vec::new(),
        }
    }

    /// Those that fit the filter.
    pub(crate) fn len(&self) -> usize {
        self.visible.len()
    }

    pub(crate) fn get(&self, row: usize) -> Option<&T> {
        self.feed.rows.get(*self.visible.get(row)?)
    }

    pub(crate) fn current(&self) -> Option<&T> {
        self.get(self.list.cursor)
    }

    pub(crate) fn refilter(&mut self) {
        let held = self.current().map(Row::key);
        self.refilter_holding(held);
    }

    /// Asks for what is due; at the end of what is loaded, for more.
    pub(crate) fn ask(&mut self, context: &mut Context<'_>) {
        if self.list.cursor + 1 >= self.visible.len() {
            self.feed.more();
        }
        if let Fetch::Page(cursor) = self.feed.due(context) {
            self.page(cursor, context);
        }
    }

    /// As [`Self::ask`], whatever is known.
    pub(crate) fn ask_anew(&mut self, context: &mut Context<'_>) {
        self.feed.invalidate();
        self.ask(context);
    }

    /// True if it was these rows' question.
    pub(crate) fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let held = self.current().map(Row::key);
        let Some(fetch) = self.feed.receive::<T::Request>(arrived, context, T::of) else {
            return false;
        };
        if let Fetch::Page(next) = fetch {
            self.page(next, context);
        }
        self.refilter_holding(held);
        true
    }

    fn page(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        let is_first = cursor.is_none();
        self.feed.ask(T::request(cursor), is_first, context);
    }

    fn refilter_holding(&mut self, held: Option<T::Key>) {
        let (rows, filter) = (&self.feed.rows, &self.list.filter);
        let fits = |at: &usize| filter.is_empty() || rows[*at].fits(filter);
        self.visible = (0..rows.len()).filter(fits).collect();
        let keys = self.visible.iter().map(|at| rows[*at].key());
        self.list.hold(held, keys);
    }
}
