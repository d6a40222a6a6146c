//! The rows of one list: filtered, and kept in place under the cursor while rows come and go.

use super::feed::{Feed, PAGE_ROWS};
use super::list::List;
use crate::domain::filter::SearchQuery;

pub(crate) trait Row {
    /// Identifies the row after a refresh.
    type Key: PartialEq;

    fn key(&self) -> Self::Key;
    fn fits(&self, filter: &SearchQuery) -> bool;
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

    /// Returns a list of rows that need no query.
    pub(crate) fn of(rows: Vec<T>) -> Self {
        let mut all = Self::new();
        all.replace(rows);
        all
    }

    /// Replaces the rows by others that need no query.
    pub(crate) fn replace(&mut self, rows: Vec<T>) {
        let held = self.current().map(Row::key);
        self.feed.stand(rows);
        self.refilter_holding(held);
    }

    /// Number of rows that fit the filter.
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

    pub(crate) fn refilter_holding(&mut self, held: Option<T::Key>) {
        let (rows, filter) = (&self.feed.rows, &self.list.filter);
        let fits = |at: &usize| filter.is_empty() || rows[*at].fits(filter);
        self.visible = (0..rows.len()).filter(fits).collect();
        let keys = self.visible.iter().map(|at| rows[*at].key());
        self.list.hold(held, keys);
    }
}
