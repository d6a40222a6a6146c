//! The marks of a list. A mark belongs to the key of a row, never to its position: it stays on its row while rows
//! are added, removed, sorted, or hidden by a filter.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use super::{Action, Row, Rows};
use crate::present::{count, thousands};

/// Maximum number of rows that are marked at once, more than a person can check.
pub(crate) const MARKED_MAX: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub(super) keys: BTreeSet<String>,
    /// The row that was marked or unmarked last, where a range begins; true if it was marked.
    pub(super) last: Option<(String, bool)>,
    /// Number of marked rows that the filter hides.
    pub(super) hidden: usize,
    /// The action before which the person was warned of hidden marks. If its key is pressed again, it is performed.
    pub(super) warned_of: Option<Action>,
    /// Whether rows that are still to be read will be marked too.
    pub(super) mark_rest: bool,
}

impl Marks {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets what a key began, because the filter or the marks have changed.
    pub(super) fn filter_changed(&mut self) {
        (self.warned_of, self.mark_rest) = (None, false);
    }

    /// The number of marks for a title, such as `3 marked, 1 hidden`; `None` without marks.
    pub(super) fn words(&self) -> Option<String> {
        let marked = thousands(self.keys.len());
        match (self.keys.len(), self.hidden) {
            (0, _) => None,
            (_, 0) => Some(format!("{marked} marked")),
            (_, hidden) => Some(format!("{marked} marked, {} hidden", thousands(hidden))),
        }
    }

    /// Returns the warning before an action on marks that the filter hides; `None` if it hides none, or if the person
    /// was warned just now and pressed the key again.
    pub(super) fn warn_of_hidden(&mut self, action: Action) -> Option<String> {
        if self.hidden == 0 || self.warned_of.replace(action) == Some(action) {
            return None;
        }
        let (hidden, name) = (thousands(self.hidden), action.name());
        let all = count(self.keys.len(), "marked row");
        Some(format!(
            "{hidden} of {all} hidden: {{{name}}} again takes all, {{unmark}} unmarks all"
        ))
    }

    /// Marks a row, or unmarks it. There are at most [`MARKED_MAX`] marks.
    pub(crate) fn set(&mut self, key: String, is_marked: bool) {
        match is_marked {
            true if self.keys.len() < MARKED_MAX => _ = self.keys.insert(key),
            true => {}
            false => _ = self.keys.remove(&key),
        }
    }
}

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

    /// Marks the rows from the one that was marked last to the cursor, or unmarks them if that one was unmarked.
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

    /// Marks or unmarks each row that the filter shows; `marks_it` decides from whether the row is marked now.
    fn mark_shown(&mut self, marks_it: impl Fn(bool) -> bool) -> Option<String> {
        let keys = self.keys_of(0..self.len());
        let marks = &mut self.list.marks;
        for key in keys {
            let is_marked = marks_it(marks.contains(&key));
            marks.set(key, is_marked);
        }
        let marked = count(marks.keys.len(), "row");
        Some(match marks.keys.len() {
            MARKED_MAX => format!("{marked} marked, as many as can be; a filter shows fewer"),
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
