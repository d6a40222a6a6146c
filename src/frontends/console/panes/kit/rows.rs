//! The rows of one list, filtered. The cursor stays on the same row while other rows are added and removed.

use super::feed::Feed;
use super::marks::Marks;
use super::{Action, Order};
use crate::domain::filter::SearchQuery;
use crate::frontends::console::scope::AppliedScope;
use crate::present::thousands;

pub(crate) trait Row: Send + 'static {
    /// Identifies the row after a refresh, and among the marks.
    fn key(&self) -> String;
    fn fits(&self, filter: &SearchQuery) -> bool;
}

pub(crate) struct Rows<T> {
    pub(crate) list: List,
    pub(crate) feed: Feed<T>,
    /// Rows that do not come from the feed, shown after those of the feed.
    pub(crate) others: Vec<T>,
    /// Marked rows that an earlier feed read, and that the present one may not read because of the filter.
    pub(super) kept: Vec<T>,
    visible: Vec<usize>,
}

impl<T> From<Feed<T>> for Rows<T> {
    fn from(feed: Feed<T>) -> Self {
        Self {
            list: List::default(),
            feed,
            others: Vec::new(),
            kept: Vec::new(),
            visible: Vec::new(),
        }
    }
}

/// A list of rows that need no query.
impl<T: 'static> From<Vec<T>> for Rows<T> {
    fn from(rows: Vec<T>) -> Self {
        let mut feed = Feed::silent();
        feed.replace_rows(rows);
        feed.into()
    }
}

impl<T: Row> Rows<T> {
    /// Number of rows that are shown: those that fit the filter and the scope.
    pub(crate) fn len(&self) -> usize {
        self.visible.len()
    }

    /// All rows, whether they fit the filter or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.feed.rows.iter().chain(&self.others)
    }

    /// Returns a row by its index in [`Self::all`].
    pub(crate) fn at(&self, at: usize) -> Option<&T> {
        let other = || self.others.get(at.checked_sub(self.feed.rows.len())?);
        self.feed.rows.get(at).or_else(other)
    }

    pub(crate) fn get(&self, row: usize) -> Option<&T> {
        self.at(*self.visible.get(row)?)
    }

    pub(crate) fn current(&self) -> Option<&T> {
        self.get(self.list.cursor)
    }

    /// Returns at most this number of rows; the first is half that number before the cursor.
    pub(crate) fn near_cursor(&self, rows_max: usize) -> impl Iterator<Item = &T> {
        let first = self.list.cursor.saturating_sub(rows_max / 2);
        let near = (first..self.len()).take(rows_max);
        near.filter_map(|row| self.get(row))
    }

    /// Returns the marked rows, also those that a filter hides; if none is marked, the row under the cursor.
    pub(crate) fn chosen(&self) -> Vec<&T> {
        let marks = &self.list.marks;
        let all = self.all().chain(&self.kept);
        match marks.is_empty() {
            true => self.current().into_iter().collect(),
            false => all.filter(|row| marks.contains(&row.key())).collect(),
        }
    }

    /// The number of rows for a title: `12`, or `3 of 12` if the filter hides some, and a plus sign if there are
    /// more than were read.
    pub(crate) fn number(&self) -> String {
        let more = if self.feed.has_more() { "+" } else { "" };
        let shown = thousands(self.len());
        match self.list.shows_all() {
            true => format!("{shown}{more}"),
            false => format!("{shown} of {}{more}", thousands(self.all().count())),
        }
    }

    /// Returns the position of the row with this key, if the row is shown.
    pub(super) fn row_of(&self, key: &str) -> Option<usize> {
        let mut keys = self.visible.iter().map(|at| self.at(*at).map(Row::key));
        keys.position(|it| it.as_deref() == Some(key))
    }

    /// Returns the indices in [`Self::all`] of the rows that fit the filter and the scope. Words about columns are not
    /// applied here.
    pub(crate) fn fitting(&self) -> Vec<usize> {
        let queries = [&self.list.filter, &self.list.scope.query];
        let queries = queries.into_iter().filter(|query| !query.is_empty());
        let queries: Vec<&SearchQuery> = queries.collect();
        let fits = |(_, row): &(usize, &T)| queries.iter().all(|query| row.fits(query));
        let fitting = self.all().enumerate().filter(fits);
        fitting.map(|(at, _)| at).collect()
    }

    /// Shows these rows. The cursor stays on the row with the key `held`; with `follows_end`, a cursor on the last row
    /// stays on the last row.
    pub(crate) fn show(&mut self, visible: Vec<usize>, held: Option<String>, follows_end: bool) {
        let was_at_end = self.list.cursor + 1 >= self.visible.len();
        self.visible = visible;
        if follows_end && was_at_end {
            self.list.cursor = self.visible.len().saturating_sub(1);
        } else if let Some(held) = held {
            self.list.follow(self.row_of(&held));
        }
        self.count_hidden_marks();
    }
}

/// The cursor over the rows of a pane, and the settings that decide which rows are shown and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    /// The word after `:` that opens the pane, if one does.
    pub(crate) word: Option<String>,
    pub(crate) cursor: usize,
    /// First row on the screen.
    pub(crate) top: usize,
    /// Number of rows that fit on the screen; 0 before the first frame.
    pub(crate) height: usize,
    pub(crate) filter: SearchQuery,
    /// The column by which the rows are sorted; `None` for the pane's own order.
    pub(crate) order: Option<Order>,
    /// The scope of the console, which hides rows as a filter does.
    pub(crate) scope: AppliedScope,
    pub(crate) marks: Marks,
    /// The names of the columns that the person chose; if empty, as many columns are shown as fit on the screen.
    pub(crate) columns: Vec<String>,
    /// The key of the row from which the person has just copied a text, and the index of the row's next text; `None`
    /// after any other action.
    pub(crate) copied: Option<(String, usize)>,
}

impl List {
    /// Whether neither the filter nor the scope hides rows.
    pub(crate) fn shows_all(&self) -> bool {
        self.filter.is_empty() && self.scope.query.is_empty()
    }

    /// The scope and the filter as the engine reads them, with ids for the names of projects.
    pub(crate) fn resolved_text(&self) -> String {
        let (scope, filter) = (&self.scope.query, &self.filter);
        let words = [scope.resolved_text(), filter.resolved_text()];
        words.join(" ").trim().to_owned()
    }

    /// Moves the cursor; returns false if the action is not a movement.
    pub(crate) fn go(&mut self, action: Action, len: usize, page: usize) -> bool {
        let last = len.saturating_sub(1);
        self.cursor = match action {
            Action::Up => self.cursor.saturating_sub(1),
            Action::Down => self.cursor + 1,
            Action::PageUp => self.cursor.saturating_sub(page.max(1)),
            Action::PageDown => self.cursor + page.max(1),
            Action::First => 0,
            Action::Last => last,
            _ => return false,
        }
        .min(last);
        true
    }

    /// Clamps the cursor to the rows, and moves the window so that it contains the cursor. With `recenter` a
    /// window that moves has the cursor in its middle, so that the next keys do not move it again.
    pub(crate) fn fit_window(&mut self, len: usize, height: usize, recenter: bool) {
        self.cursor = self.cursor.min(len.saturating_sub(1));
        let height = height.max(1);
        self.height = height;
        let is_seen = (self.top..self.top + height).contains(&self.cursor);
        if !is_seen && recenter {
            self.top = self.cursor.saturating_sub(height / 2);
        } else if self.cursor < self.top {
            self.top = self.cursor;
        } else if !is_seen {
            self.top = self.cursor + 1 - height;
        }
        self.top = self.top.min(len.saturating_sub(height));
    }

    /// Moves the cursor to `row`, the new position of the row under the cursor. If the position is not known (`None`),
    /// nothing changes.
    pub(crate) fn follow(&mut self, row: Option<usize>) {
        if let Some(row) = row {
            // The window moves along, so that the row keeps its line on the screen.
            self.top = (self.top + row).saturating_sub(self.cursor);
            self.cursor = row;
        }
    }
}
