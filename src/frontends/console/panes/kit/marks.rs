//! The marks of a list. A mark belongs to the key of a row, never to its place: it stays on its row while rows
//! come and go, are sorted, or are hidden by a filter.

use std::collections::{BTreeSet, HashSet};

use super::{Action, Row, Rows};
use crate::present::{count, thousands};

/// Maximum number of rows that are marked at once: nobody can judge more.
pub(crate) const MARKED_MAX: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    keys: BTreeSet<String>,
    /// The row that was marked or unmarked last, where a range begins; true if it was marked.
    last: Option<(String, bool)>,
    /// Number of marked rows that the filter hides.
    hidden: usize,
    /// The action before which the person was told of hidden marks. Pressed again, it is performed.
    warned_of: Option<Action>,
    /// Whether rows are marked that are still to be read.
    pub(super) mark_rest: bool,
}

impl Marks {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.keys.remove(key);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn filter_changed(&mut self) {
        (self.warned_of, self.mark_rest) = (None, false);
    }

    /// The number of marks for a title, such as `3 marked, 1 of them hidden`; none without marks.
    pub(super) fn words(&self) -> Option<String> {
        let marked = thousands(self.keys.len());
        match (self.keys.len(), self.hidden) {
            (0, _) => None,
            (_, 0) => Some(format!("{marked} marked")),
            (_, hidden) => Some(format!("{marked} marked, {} hidden", thousands(hidden))),
        }
    }

    /// Returns what to tell before an action on marks that the filter hides; none if it hides none, or the person
    /// was told just now and pressed the key again.
    pub(super) fn warn_of_hidden(&mut self, action: Action) -> Option<String> {
        if self.hidden == 0 || self.warned_of.replace(action) == Some(action) {
            return None;
        }
        let (hidden, name) = (thousands(self.hidden), action.name());
        let all = count(self.keys.len(), "marked row");
        Some(format!(
            "{hidden} of {all} hidden by the filter or the scope: {{{name}}} again takes all, {{back}} shows all, {{unmark}} unmarks all"
        ))
    }

    /// Marks a row, or unmarks it. There are at most [`MARKED_MAX`] marks.
    fn set(&mut self, key: String, is_marked: bool) {
        match is_marked {
            true if self.keys.len() < MARKED_MAX => _ = self.keys.insert(key),
            true => {}
            false => _ = self.keys.remove(&key),
        }
    }
}

impl<T: Row> Rows<T> {
    /// Performs an action on the marks; returns what to tell the person about it, or none if the action is another
    /// one.
    pub(super) fn mark(&mut self, action: Action) -> Option<Option<String>> {
        let told = match action {
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
        let marks = &mut self.list.marks;
        (marks.warned_of, marks.mark_rest) = (None, false);
        Some(told)
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

    /// Marks the rows from the one that was marked last to the cursor; unmarks them if it was unmarked.
    fn mark_range(&mut self) -> Option<String> {
        let last = self.list.marks.last.clone();
        let from = last.as_ref().and_then(|(key, _)| self.row_of(key));
        let (Some(from), Some((_, is_marked))) = (from, last) else {
            return Some("mark a row first: a range goes from there to the cursor".to_owned());
        };
        let cursor = self.list.cursor;
        let rows = from.min(cursor)..=from.max(cursor);
        let keys: Vec<String> = rows.filter_map(|row| Some(self.get(row)?.key())).collect();
        let here = self.current().map(|row| (row.key(), is_marked));
        let marks = &mut self.list.marks;
        let does = if is_marked { "marked" } else { "unmarked" };
        let told = format!("{does} a range of {}", count(keys.len(), "row"));
        keys.into_iter().for_each(|key| marks.set(key, is_marked));
        marks.last = here;
        Some(told)
    }

    /// Marks each row that the filter shows, or not, depending on whether it is marked now.
    fn mark_shown(&mut self, marks_it: impl Fn(bool) -> bool) -> Option<String> {
        let keys: Vec<String> = (0..self.len())
            .filter_map(|row| Some(self.get(row)?.key()))
            .collect();
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
        let rows = match marks.is_empty() {
            true => 0..0,
            false => 0..self.len(),
        };
        let shown = rows.filter(|row| {
            let row = self.get(*row);
            row.is_some_and(|row| marks.contains(&row.key()))
        });
        let hidden = marks.keys.len().saturating_sub(shown.count());
        self.list.marks.hidden = hidden;
    }

    /// Keeps the marked rows, because the feed is going to read other rows.
    pub(crate) fn keep_marked(&mut self) {
        let rows = std::mem::take(&mut self.feed.rows);
        self.kept.extend(rows);
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
        match holds_all {
            true => self.kept.clear(),
            false => self.kept.retain(|row| !listed.contains(&row.key())),
        }
        if holds_all {
            self.list.marks.keys.retain(|key| listed.contains(key));
        }
    }
}
