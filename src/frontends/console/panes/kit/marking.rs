//! Marks the rows of a list, and keeps the marks correct while rows are added and removed.

use std::collections::HashSet;
use std::ops::Range;

use super::{Action, MARKED_MAX, Row, Rows};
use crate::present::count;

impl<T: Row> Rows<T> {
    /// Performs an action on the marks; returns the message about it, if it has one. The outer `None` means that the
    /// action is another one.
    pub(super) fn mark(&mut self, action: Action) -> Option<Option<String>> {
        let message = match action {
            Action::Mark => self.toggle_mark(),
            Action::MarkRange => self.mark_range(),
            Action::MarkAll => self.mark_shown(|_| true),
            Action::MarkOthers => self.mark_shown(|is_marked| !is_marked),
            Action::Unmark => {
                self.list.marks.clear();
                Some("nothing is marked".to_owned())
            }
            _ => return None,
        };
        self.list.marks.filter_changed();
        Some(message)
    }

    fn toggle_mark(&mut self) -> Option<String> {
        let key = self.current()?.key();
        let marks = &mut self.list.marks;
        let is_marked = !marks.contains(&key);
        marks.set(key.clone(), is_marked);
        marks.last = Some((key, is_marked));
        let len = self.len();
        self.list.go(Action::Down, len, 1);
        None
    }

    /// Marks the rows from the one that was marked or unmarked last to the cursor, or unmarks them if that row was
    /// unmarked.
    fn mark_range(&mut self) -> Option<String> {
        let last = self.list.marks.last.clone();
        let from = last.as_ref().and_then(|(key, _)| self.row_of(key));
        let (Some(from), Some((_, is_marked))) = (from, last) else {
            return Some("mark a row first: a range goes from there to the cursor".to_owned());
        };
        let cursor = self.list.cursor;
        let keys = self.keys_of(from.min(cursor)..from.max(cursor) + 1);
        let here = self.current().map(|row| (row.key(), is_marked));
        let marks = &mut self.list.marks;
        let does = if is_marked { "marked" } else { "unmarked" };
        let message = format!("{does} a range of {}", count(keys.len(), "row"));
        keys.into_iter().for_each(|key| marks.set(key, is_marked));
        marks.last = here;
        Some(message)
    }

    fn keys_of(&self, rows: Range<usize>) -> Vec<String> {
        rows.filter_map(|row| Some(self.get(row)?.key())).collect()
    }

    /// Marks or unmarks each row that the filter shows: `marks_it` gets whether the row is marked now, and returns
    /// whether it is marked afterwards.
    fn mark_shown(&mut self, marks_it: impl Fn(bool) -> bool) -> Option<String> {
        let keys = self.keys_of(0..self.len());
        let marks = &mut self.list.marks;
        for key in keys {
            let is_marked = marks_it(marks.contains(&key));
            marks.set(key, is_marked);
        }
        let marked = count(marks.keys.len(), "row");
        Some(match marks.keys.len() {
            MARKED_MAX => format!("{marked} marked, the maximum; a filter makes the list shorter"),
            _ => format!("{marked} marked"),
        })
    }

    /// Counts the marks that the filter hides.
    pub(super) fn count_hidden_marks(&mut self) {
        let marks = &self.list.marks;
        let rows = if marks.is_empty() { 0 } else { self.len() };
        let keys = self.keys_of(0..rows).into_iter();
        let shown = keys.filter(|key| marks.contains(key)).count();
        self.list.marks.hidden = self.list.marks.keys.len().saturating_sub(shown);
    }

    /// Keeps the marked rows of the feed, which is about to be replaced by one that reads other rows.
    pub(crate) fn keep_marked(&mut self) {
        self.kept.append(&mut self.feed.rows);
        let mut seen = HashSet::new();
        let marks = &self.list.marks;
        self.kept
            .retain(|row| marks.contains(&row.key()) && seen.insert(row.key()));
    }

    /// Removes the marks of rows that are gone, if the list has all rows. If some rows could not be read, all marks
    /// stay.
    pub(super) fn forget_gone_marks(&mut self, holds_all: bool) {
        if self.list.marks.is_empty() || !self.feed.pace.errors.is_empty() {
            return;
        }
        let listed: HashSet<String> = self.all().map(Row::key).collect();
        if holds_all {
            self.kept.clear();
            self.list.marks.keys.retain(|key| listed.contains(key));
        } else {
            self.kept.retain(|row| !listed.contains(&row.key()));
        }
    }
}
