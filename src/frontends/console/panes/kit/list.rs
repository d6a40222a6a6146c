//! A cursor over rows, which stays on its row when the rows move.

use std::collections::BTreeSet;

use crate::domain::filter::SearchQuery;

use super::Action;

#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    pub(crate) cursor: usize,
    /// First row on the screen.
    pub(crate) top: usize,
    pub(crate) filter: SearchQuery,
    /// Keys of marked rows, which survive a refresh.
    pub(crate) marks: BTreeSet<String>,
}

impl List {
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
    pub(crate) fn settle(&mut self, len: usize, height: usize, recenter: bool) {
        self.cursor = self.cursor.min(len.saturating_sub(1));
        let height = height.max(1);
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

    /// Moves the cursor to the new position of its row; `None` if that is unknown.
    pub(crate) fn follow(&mut self, row: Option<usize>) {
        if let Some(row) = row {
            // The window moves along, so that the row keeps its line on the screen.
            self.top = (self.top + row).saturating_sub(self.cursor);
            self.cursor = row;
        }
    }
}
