//! Keys become actions in one table, which also feeds the help and the footer.
//!
//! **Architecture invariant:** nothing destructive stands on a control key, on Delete or on
//! Backspace, and no key deletes: `D` asks for a plan, and a plan starts by a typed confirmation; `F`
//! shows a ladder, and a rung of it is taken by one.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    Back,
    Previous,
    Next,
    Unfold,
    Fold,
    Mark,
    Sort,
    SortBackwards,
    PlanDeletion,
    Confirm,
    ToggleCascade,
    ToggleRelease,
    Retry,
    Ladder,
    Cancel,
    Pause,
    Blockers,
    Group,
    Copy,
    CommandLine,
    Filter,
    Refresh,
    Help,
    Quit,
    Suspend,
    Repaint,
    /// Keys that delete in other programs, and here do not.
    NotADelete,
}

/// Where a key means something. A pane's own scope wins over [`Scope::Everywhere`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Everywhere,
    Browse,
    Plan,
    Deletions,
    Tree,
    Attention,
    Causes,
    Inspect,
    Blockers,
    Ladder,
    Orphans,
    Sites,
    Gates,
    /// Rows that are only read.
    Reading,
}

pub(crate) struct Binding {
    pub(crate) scope: Scope,
    pub(crate) keys: &'static [(KeyCode, KeyModifiers)],
    pub(crate) action: Action,
    pub(crate) does: &'static str,
    /// One word for the footer; empty keeps it out of there.
    pub(crate) footer: &'static str,
}

const fn plain(c: char) -> (KeyCode, KeyModifiers) {
    (KeyCode::Char(c), KeyModifiers::NONE)
}
const fn ctrl(c: char) -> (KeyCode, KeyModifiers) {
    (KeyCode::Char(c), KeyModifiers::CONTROL)
}
const fn key(code: KeyCode) -> (KeyCode, KeyModifiers) {
    (code, KeyModifiers::NONE)
}
const fn bind(
    scope: Scope,
    keys: &'static [(KeyCode, KeyModifiers)],
    action: Action,
    footer: &'static str,
    does: &'static str,
) -> Binding {
    Binding {
        scope,
        keys,
        action,
        does,
        footer,
    }
}

const OPEN: &[(KeyCode, KeyModifiers)] = &[key(KeyCode::Enter)];
const RETRY: &[(KeyCode, KeyModifiers)] = &[plain('r')];
const LADDER: &[(KeyCode, KeyModifiers)] = &[plain('F')];
const CANCEL: &[(KeyCode, KeyModifiers)] = &[plain('c')];
const PAUSE: &[(KeyCode, KeyModifiers)] = &[plain('p')];
const BLOCKERS: &[(KeyCode, KeyModifiers)] = &[plain('b')];
const COPY: &[(KeyCode, KeyModifiers)] = &[plain('y')];
const UNFOLD: &[(KeyCode, KeyModifiers)] = &[key(KeyCode::Right), plain('l')];
const FOLD: &[(KeyCode, KeyModifiers)] = &[key(KeyCode::Left), plain('h')];

/// The live map. The order is that of the help, and within a scope that of the footer.
#[rustfmt::skip]
pub(crate) const BINDINGS: &[Binding] = &[
    bind(Scope::Browse, OPEN, Action::Open, "details", "show the whole resource"),
    bind(Scope::Browse, &[plain(' ')], Action::Mark, "mark", "mark or unmark the row; marks survive a refresh"),
    bind(Scope::Browse, &[plain('D')], Action::PlanDeletion, "plan deletion", "plan the deletion of the row, or of what is marked; deletes nothing"),
    bind(Scope::Browse, COPY, Action::Copy, "copy id", "copy the id to the clipboard"),
    bind(Scope::Browse, &[plain('s')], Action::Sort, "", "sort by the next column; behind the last one, as the cloud lists them"),
    bind(Scope::Browse, &[plain('S')], Action::SortBackwards, "", "sort the other way round"),

    bind(Scope::Plan, OPEN, Action::Confirm, "confirm…", "go on to the typed confirmation"),
    bind(Scope::Plan, &[plain('x')], Action::ToggleCascade, "cascade", "plan again with or without the cascade"),
    bind(Scope::Plan, &[plain('f')], Action::ToggleRelease, "release IPs", "plan again, keeping or releasing floating IPs"),
    bind(Scope::Plan, UNFOLD, Action::Unfold, "unfold", "open the folded line"),
    bind(Scope::Plan, FOLD, Action::Fold, "", "fold the line again"),
    bind(Scope::Plan, BLOCKERS, Action::Blockers, "", "what stands in the way"),
    bind(Scope::Plan, COPY, Action::Copy, "", "copy the id to the clipboard"),

    bind(Scope::Deletions, OPEN, Action::Open, "tree", "show the deletion as a tree of steps"),
    bind(Scope::Deletions, BLOCKERS, Action::Blockers, "blockers", "what stands in the way"),
    bind(Scope::Deletions, RETRY, Action::Retry, "retry", "try again now, everything that is blocked or stuck"),
    bind(Scope::Deletions, LADDER, Action::Ladder, "", "what else can be done about it; sends nothing"),
    bind(Scope::Deletions, PAUSE, Action::Pause, "pause", "pause, or go on"),
    bind(Scope::Deletions, CANCEL, Action::Cancel, "cancel…", "cancel, after a question; what was sent runs to its end"),
    bind(Scope::Deletions, COPY, Action::Copy, "", "copy the id to the clipboard"),

    bind(Scope::Tree, OPEN, Action::Open, "timeline", "what happened to the step; opens a folded line"),
    bind(Scope::Tree, UNFOLD, Action::Unfold, "unfold", "open the line"),
    bind(Scope::Tree, FOLD, Action::Fold, "", "fold the line, or go to its parent"),
    bind(Scope::Tree, BLOCKERS, Action::Blockers, "blockers", "what stands in the way"),
    bind(Scope::Tree, RETRY, Action::Retry, "retry", "try the step again now; on any other row the whole deletion"),
    bind(Scope::Tree, LADDER, Action::Ladder, "", "what else can be done about it; sends nothing"),
    bind(Scope::Tree, PAUSE, Action::Pause, "pause", "pause, or go on"),
    bind(Scope::Tree, CANCEL, Action::Cancel, "cancel…", "cancel, after a question; what was sent runs to its end"),
    bind(Scope::Tree, COPY, Action::Copy, "", "copy the id to the clipboard"),

    bind(Scope::Attention, OPEN, Action::Open, "why", "the facts, the raw error and the timeline"),
    bind(Scope::Attention, &[plain('g')], Action::Group, "group", "by cause, to try many again at once"),
    bind(Scope::Attention, BLOCKERS, Action::Blockers, "blockers", "what stands in the way"),
    bind(Scope::Attention, RETRY, Action::Retry, "retry", "try again now"),
    bind(Scope::Attention, LADDER, Action::Ladder, "ladder", "what else can be done about it; sends nothing"),
    bind(Scope::Attention, COPY, Action::Copy, "copy id", "copy the id to the clipboard"),

    bind(Scope::Causes, OPEN, Action::Open, "rows", "the steps of this cause"),
    bind(Scope::Causes, &[plain(' ')], Action::Mark, "mark", "mark or unmark the cause"),
    bind(Scope::Causes, RETRY, Action::Retry, "retry…", "count what may be tried again of what is marked, or of the row; then ask"),
    bind(Scope::Causes, COPY, Action::Copy, "", "copy what one of them was told to the clipboard"),

    bind(Scope::Inspect, BLOCKERS, Action::Blockers, "blockers", "what stands in the way"),
    bind(Scope::Inspect, RETRY, Action::Retry, "retry", "try again now"),
    bind(Scope::Inspect, LADDER, Action::Ladder, "ladder", "what else can be done about it; sends nothing"),
    bind(Scope::Inspect, COPY, Action::Copy, "copy id", "copy the id to the clipboard"),

    bind(Scope::Blockers, COPY, Action::Copy, "copy id", "copy the id of the blocker to the clipboard"),
    bind(Scope::Blockers, RETRY, Action::Retry, "retry", "try again now, once the blocker is out of the way"),
    bind(Scope::Blockers, LADDER, Action::Ladder, "ladder", "what else can be done about it; sends nothing"),

    bind(Scope::Ladder, OPEN, Action::Confirm, "take…", "go on to the typed confirmation of the rung"),
    bind(Scope::Ladder, COPY, Action::Copy, "copy", "copy what the rung does, or the line, to the clipboard"),

    bind(Scope::Orphans, OPEN, Action::Open, "timeline", "what happened to it before it was given up"),
    bind(Scope::Orphans, COPY, Action::Copy, "copy id", "copy the id to the clipboard"),

    bind(Scope::Gates, COPY, Action::Copy, "copy", "copy the address to the clipboard"),
    bind(Scope::Sites, PAUSE, Action::Pause, "pause", "send nothing to the site, or go on; others go on meanwhile"),
    bind(Scope::Sites, COPY, Action::Copy, "copy", "copy the name to the clipboard"),

    bind(Scope::Reading, COPY, Action::Copy, "copy", "copy the row to the clipboard"),

    bind(Scope::Everywhere, &[plain(':')], Action::CommandLine, "go to", "go to a pane or a kind: :stuck, :network; tab completes, up finds what was typed"),
    bind(Scope::Everywhere, &[plain('/')], Action::Filter, "filter", "show only some rows: web, ~wfe, !lab, state=stuck, site=, kind=, project=, age>1h"),
    bind(Scope::Everywhere, &[key(KeyCode::Up), plain('k')], Action::Up, "", "one row up"),
    bind(Scope::Everywhere, &[key(KeyCode::Down), plain('j')], Action::Down, "", "one row down"),
    bind(Scope::Everywhere, &[key(KeyCode::PageUp)], Action::PageUp, "", "one screen up"),
    bind(Scope::Everywhere, &[key(KeyCode::PageDown)], Action::PageDown, "", "one screen down"),
    bind(Scope::Everywhere, &[key(KeyCode::Home), plain('g')], Action::First, "", "to the first row"),
    bind(Scope::Everywhere, &[key(KeyCode::End), plain('G')], Action::Last, "", "to the last row"),
    bind(Scope::Everywhere, &[ctrl('r')], Action::Refresh, "", "ask again"),
    bind(Scope::Everywhere, &[key(KeyCode::Esc)], Action::Back, "back", "close the prompt, drop the filter, or go back"),
    bind(Scope::Everywhere, &[plain('[')], Action::Previous, "", "to the view of before, with its filter"),
    bind(Scope::Everywhere, &[plain(']')], Action::Next, "", "to the view that was left by [ or esc"),
    bind(Scope::Everywhere, &[plain('?')], Action::Help, "help", "these keys"),
    bind(Scope::Everywhere, &[plain('q'), ctrl('c')], Action::Quit, "quit", "quit; asks first if this console carries the engine and work is under way"),
    bind(Scope::Everywhere, &[ctrl('l')], Action::Repaint, "", "paint the screen again"),
    bind(Scope::Everywhere, &[ctrl('z')], Action::Suspend, "", "suspend; fg brings it back"),
    bind(Scope::Everywhere, &[ctrl('d'), ctrl('k'), key(KeyCode::Delete), key(KeyCode::Backspace)], Action::NotADelete, "", "nothing: no control key, Delete or Backspace deletes"),
];

/// What a key means in a pane; none if it means nothing there.
pub(crate) fn action(scope: Scope, pressed: KeyEvent) -> Option<Action> {
    // Shift is part of the character already; terminals differ in whether they also report it.
    let modifiers = pressed.modifiers - KeyModifiers::SHIFT;
    let find = |scope: Scope| {
        BINDINGS
            .iter()
            .find(|b| b.scope == scope && b.keys.contains(&(pressed.code, modifiers)))
            .map(|b| b.action)
    };
    find(scope).or_else(|| find(Scope::Everywhere))
}

/// `D`, `enter`, `ctrl-r`: how a key is written in the help.
pub(crate) fn key_name((code, modifiers): (KeyCode, KeyModifiers)) -> String {
    let name = match code {
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Enter => "enter".to_owned(),
        KeyCode::Esc => "esc".to_owned(),
        KeyCode::Backspace => "backspace".to_owned(),
        KeyCode::Delete => "delete".to_owned(),
        KeyCode::PageUp => "pgup".to_owned(),
        KeyCode::PageDown => "pgdn".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    };
    if modifiers.contains(KeyModifiers::CONTROL) {
        format!("ctrl-{name}")
    } else {
        name
    }
}

pub(crate) fn key_names(binding: &Binding) -> String {
    let names: Vec<String> = binding.keys.iter().map(|key| key_name(*key)).collect();
    names.join(" ")
}

impl Scope {
    /// The heading of its keys in the help.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Everywhere => "everywhere",
            Self::Browse => "in a list of resources",
            Self::Plan => "on a plan",
            Self::Deletions => "in :deletions",
            Self::Tree => "in the tree of a deletion",
            Self::Attention => "in :stuck and :gc",
            Self::Causes => "in :causes",
            Self::Inspect => "on one step or deletion",
            Self::Blockers => "among the blockers",
            Self::Ladder => "on the ladder of what is stuck",
            Self::Orphans => "in :orphans",
            Self::Sites => "in :sites",
            Self::Gates => "in :gates",
            Self::Reading => "in :events, :help and details",
        }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_key_has_two_meanings_in_one_scope() {
        let mut seen = HashSet::new();
        for binding in BINDINGS {
            for key in binding.keys {
                assert!(
                    seen.insert((binding.scope, *key)),
                    "{} in {:?}",
                    key_name(*key),
                    binding.scope
                );
            }
        }
    }

    #[test]
    fn nothing_that_changes_a_cloud_is_on_a_control_key_delete_or_backspace() {
        for binding in BINDINGS {
            let changes = matches!(
                binding.action,
                Action::PlanDeletion
                    | Action::Confirm
                    | Action::Retry
                    | Action::Cancel
                    | Action::Pause
                    | Action::ToggleRelease
            );
            for (code, modifiers) in binding.keys {
                let forbidden = modifiers.contains(KeyModifiers::CONTROL)
                    || matches!(code, KeyCode::Delete | KeyCode::Backspace);
                assert!(!(changes && forbidden), "{}", binding.does);
            }
        }
    }

    #[test]
    fn shift_as_reported_by_some_terminals_does_not_hide_a_capital() {
        let pressed = KeyEvent::new(KeyCode::Char('D'), KeyModifiers::SHIFT);
        assert_eq!(action(Scope::Browse, pressed), Some(Action::PlanDeletion));
        assert_eq!(action(Scope::Tree, pressed), None);
    }
}
