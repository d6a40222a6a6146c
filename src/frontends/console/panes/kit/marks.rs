//! The marks of a list. A mark belongs to the key of a row, never to its position: it stays on its row while rows
//! are added, removed, sorted, or hidden by a filter.

use std::collections::BTreeSet;

use super::Action;
use crate::present::{count, thousands};

/// Maximum number of rows that are marked at once, more than a person can check; to mark all rows, no more are read.
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

    /// Drops the warning about hidden marks and the marking of rows that are still to be read, because the filter, the
    /// scope or the marks have changed.
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
            "{hidden} of {all} hidden: {{{name}}} again acts on all, {{unmark}} unmarks all"
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
