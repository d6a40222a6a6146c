//! Keys become actions in one table, which also feeds the help and the footer.
//!
//! **Architecture invariant:** no control key, Delete or Backspace does anything destructive, and no single key begins
//! or abandons a deletion: `D` asks for a plan, and `F` shows the purge ladder or asks about the marked rows; starting
//! a plan, taking a rung and abandoning marked rows need a typed confirmation.

use std::collections::BTreeMap;

use termina::event::{KeyCode, KeyEvent, Modifiers};

use crate::domain::text;
use crate::present::joined;

type Key = (KeyCode, Modifiers);

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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
    MarkRange,
    MarkAll,
    MarkOthers,
    Unmark,
    Ids,
    Sort,
    SortBackwards,
    PlanDeletion,
    Confirm,
    ToggleCascade,
    ToggleRelease,
    TogglePublic,
    ToggleProject,
    ToggleServers,
    Retry,
    Ladder,
    AcceptDrift,
    RefuseDrift,
    Release,
    Cancel,
    Pause,
    Blockers,
    Explain,
    Group,
    Chart,
    Copy,
    Yaml,
    Report,
    EventBack,
    EventOn,
    JumpBack,
    JumpOn,
    Earliest,
    Latest,
    CommandLine,
    Filter,
    ClearScope,
    Refresh,
    Help,
    Quit,
    Suspend,
    Repaint,
    /// Keys that delete in other programs, but not here.
    NotADelete,
}

/// The panes in which a binding applies, in the order of the help. A pane's own scope wins over [`Scope::Everywhere`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Home,
    Browse,
    Plan,
    Deletions,
    Tree,
    Attention,
    Causes,
    Inspect,
    Blockers,
    Relations,
    Ladder,
    Orphans,
    Tombstones,
    Drift,
    Gates,
    Deployments,
    Engine,
    Sites,
    /// The fields of a resource.
    Details,
    /// A record as YAML.
    Yaml,
    /// The choice of the columns of a list or a tree.
    Columns,
    /// Panes whose rows can only be read and copied.
    Reading,
    /// All panes whose rows can be marked ([`Scope::has_keys_of`]).
    Marks,
    /// All panes whose rows can be sorted.
    Sorts,
    /// Everywhere, but only while a replay is shown.
    Replay,
    Everywhere,
}

#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) scope: Scope,
    pub(crate) keys: Vec<Key>,
    pub(crate) action: Action,
    pub(crate) does: &'static str,
    /// Label in the footer; an empty one keeps the binding out of it.
    pub(crate) footer: &'static str,
}

const fn plain(c: char) -> Key {
    (KeyCode::Char(c), Modifiers::NONE)
}
const fn ctrl(c: char) -> Key {
    (KeyCode::Char(c), Modifiers::CONTROL)
}
const fn key(code: KeyCode) -> Key {
    (code, Modifiers::NONE)
}
/// Scopes, keys, action, label in the footer, text of the help.
type Row = (&'static [Scope], &'static [Key], Action, Text, Text);
type Text = &'static str;

/// The panes of steps and deletions in which the help of [`BLOCKERS`] is the same.
const WORK: &[Scope] = &[
    Scope::Home,
    Scope::Deletions,
    Scope::Tree,
    Scope::Attention,
    Scope::Inspect,
];

const OPEN: &[Key] = &[key(KeyCode::Enter)];
const RETRY: &[Key] = &[plain('r')];
const ACCEPT: &[Key] = &[plain('a')];
const REFUSE: &[Key] = &[plain('n')];
const LADDER: &[Key] = &[plain('F')];
const CANCEL: &[Key] = &[plain('c')];
const PAUSE: &[Key] = &[plain('p')];
const BLOCKERS: &[Key] = &[plain('b')];
const EXPLAIN: &[Key] = &[plain('e')];
const COPY: &[Key] = &[plain('y')];
const YAML: &[Key] = &[plain('Y')];
const REPORT: &[Key] = &[plain('W')];
const CHART: &[Key] = &[plain('t')];
const UNFOLD: &[Key] = &[key(KeyCode::Right), plain('l')];
const FOLD: &[Key] = &[key(KeyCode::Left), plain('h')];

/// The default bindings, within a scope in the order of the help and the footer.
#[rustfmt::skip]
const STANDARD: &[Row] = &[
    (&[Scope::Home], OPEN, Action::Open, "open", "open the row: the step, the deletion, or every row of the section"),
    (&[Scope::Deletions], OPEN, Action::Open, "tree", "show the deletion as a tree of steps; without steps, its facts"),
    (&[Scope::Tree], OPEN, Action::Open, "timeline", "show what happened to the step, or open a folded line"),
    (&[Scope::Attention], OPEN, Action::Open, "why", "show the facts, the raw error and the timeline"),
    (&[Scope::Tree], UNFOLD, Action::Unfold, "unfold", "open the line"),
    (&[Scope::Tree], FOLD, Action::Fold, "", "fold the row; if it is not open, fold its parent and go there"),
    (&[Scope::Attention], &[plain('g')], Action::Group, "group", "group the steps by cause, to retry many of them at once"),
    (WORK, BLOCKERS, Action::Blockers, "blockers", "show what blocks the row, and who owns the blockers"),
    (&[Scope::Home, Scope::Tree, Scope::Attention], EXPLAIN, Action::Explain, "", "explain why the row's resource is not deleted, down to the root blocker"),
    (&[Scope::Home, Scope::Inspect], RETRY, Action::Retry, "retry", "retry the step or the deletion now"),
    (&[Scope::Deletions], RETRY, Action::Retry, "retry", "retry the blocked and stuck steps now; those of marked rows after a question"),
    (&[Scope::Tree], RETRY, Action::Retry, "retry", "retry the step now; on any other row the whole deletion"),
    (&[Scope::Attention], RETRY, Action::Retry, "retry", "retry the step or the deletion now; marked rows after a question"),
    (&[Scope::Home, Scope::Attention, Scope::Inspect], ACCEPT, Action::AcceptDrift, "", "if newcomers block the step: delete them too, after a typed confirmation"),
    (&[Scope::Home, Scope::Attention, Scope::Inspect], REFUSE, Action::RefuseDrift, "", "if newcomers block the step: leave them and end the deletion, after a typed confirmation"),
    (&[Scope::Home, Scope::Inspect], LADDER, Action::Ladder, "ladder", "show what else can be done; sends nothing"),
    (&[Scope::Deletions], LADDER, Action::Ladder, "", "show what else can be done; for marked rows: abandon the stuck and blocked steps, after a question"),
    (&[Scope::Tree], LADDER, Action::Ladder, "", "show what else can be done; sends nothing"),
    (&[Scope::Attention], LADDER, Action::Ladder, "ladder", "show what else can be done; for marked rows: abandon them, after a question"),
    (&[Scope::Home], PAUSE, Action::Pause, "", "pause or resume the deletion"),
    (&[Scope::Deletions], PAUSE, Action::Pause, "pause", "pause or resume the deletion; for marked rows after a question"),
    (&[Scope::Tree], PAUSE, Action::Pause, "pause", "pause or resume the deletion"),
    (&[Scope::Attention], PAUSE, Action::Pause, "", "pause or resume the deletion; for marked rows after a question"),
    (&[Scope::Home, Scope::Attention], CANCEL, Action::Cancel, "", "cancel the deletion, after a question; calls that were already sent are completed"),
    (&[Scope::Deletions, Scope::Tree], CANCEL, Action::Cancel, "cancel…", "cancel the deletion, after a question; calls that were already sent are completed"),
    (&[Scope::Home, Scope::Deletions, Scope::Tree], CHART, Action::Chart, "chart", "draw a chart: what ran when, and what it waited for"),
    (&[Scope::Home, Scope::Deletions, Scope::Tree, Scope::Inspect], REPORT, Action::Report, "", "write the report of the deletion, a web page for a ticket, to a file that you name"),
    (&[Scope::Home], YAML, Action::Yaml, "", "show the step or the deletion as YAML, as -o yaml prints it"),
    (&[Scope::Deletions], YAML, Action::Yaml, "", "show the deletion as YAML, as -o yaml prints it"),
    (&[Scope::Tree], YAML, Action::Yaml, "", "show the step as YAML, as -o yaml prints it; on any other row the deletion"),
    (&[Scope::Attention], YAML, Action::Yaml, "", "show the step or the refused deletion as YAML, as -o yaml prints it"),
    (&[Scope::Inspect], YAML, Action::Yaml, "YAML", "show the step or the deletion as YAML, as -o yaml prints it"),
    (&[Scope::Home], COPY, Action::Copy, "", "copy the row's id, name or answer to the clipboard; again: the error with its request id, then the row"),
    (&[Scope::Tree], COPY, Action::Copy, "", "copy the id to the clipboard; again: the error with its request id, then the row"),
    (&[Scope::Deletions], COPY, Action::Copy, "", "copy the id to the clipboard; again: the row"),
    (&[Scope::Attention], COPY, Action::Copy, "copy id", "copy the id to the clipboard; again: the error with its request id, then the row"),
    (&[Scope::Inspect], COPY, Action::Copy, "copy id", "copy the id to the clipboard; again: the error with its request id, then the event"),

    (&[Scope::Browse], OPEN, Action::Open, "details", "show the whole resource"),
    (&[Scope::Browse], &[plain('D')], Action::PlanDeletion, "plan deletion", "plan the deletion of the row, or of the marked rows; deletes nothing"),
    (&[Scope::Browse], EXPLAIN, Action::Explain, "", "explain why the resource is not deleted, or what would block its deletion; sends nothing"),
    (&[Scope::Browse], YAML, Action::Yaml, "", "show the whole resource as YAML, as -o yaml prints it"),
    (&[Scope::Browse], COPY, Action::Copy, "copy id", "copy the id to the clipboard; again: the row"),
    (&[Scope::Browse], &[plain('w')], Action::Ids, "", "show ids in place of the names of projects, networks, routers and subnets, or the names again"),

    (&[Scope::Plan], OPEN, Action::Confirm, "confirm…", "go on to the typed confirmation"),
    (&[Scope::Plan], &[plain('x')], Action::ToggleCascade, "cascade", "plan again with or without the cascade"),
    (&[Scope::Plan], &[plain('f')], Action::ToggleRelease, "release IPs", "plan again, keeping or releasing floating IPs"),
    (&[Scope::Plan], &[plain('u')], Action::TogglePublic, "", "plan again with or without resources that other projects may use, such as public images"),
    (&[Scope::Plan], &[plain('w')], Action::ToggleProject, "", "plan again with or without the Keystone project itself, which is deleted last and only when it is empty"),
    (&[Scope::Plan], &[plain('v')], Action::ToggleServers, "", "plan again with or without the servers on the networks"),
    (&[Scope::Plan], UNFOLD, Action::Unfold, "unfold", "open the folded line"),
    (&[Scope::Plan], FOLD, Action::Fold, "", "fold the line again"),
    (&[Scope::Plan], BLOCKERS, Action::Blockers, "", "show what blocks the row, and who owns the blockers"),
    (&[Scope::Plan], COPY, Action::Copy, "", "copy the id to the clipboard; again: the row"),

    (&[Scope::Causes], OPEN, Action::Open, "rows", "show the steps of this cause"),
    (&[Scope::Causes], RETRY, Action::Retry, "retry…", "count the steps of the marked causes, or of this one, that can be retried; then ask"),
    (&[Scope::Causes], COPY, Action::Copy, "", "copy the cloud's answer to one of the steps to the clipboard; again: the row"),

    (&[Scope::Blockers], COPY, Action::Copy, "copy id", "copy the id of the blocker to the clipboard; again: the row"),
    (&[Scope::Blockers], RETRY, Action::Retry, "retry", "retry the step or the deletion now; first remove the blocker"),
    (&[Scope::Blockers], LADDER, Action::Ladder, "ladder", "show what else can be done; sends nothing"),

    (&[Scope::Relations], OPEN, Action::Open, "follow", "go to the resource or the deletion at the other end; [ leads back"),
    (&[Scope::Relations], COPY, Action::Copy, "copy id", "copy the id, or the line, to the clipboard; again: the row"),

    (&[Scope::Ladder], OPEN, Action::Confirm, "take…", "go on to the typed confirmation of the rung"),
    (&[Scope::Ladder], COPY, Action::Copy, "copy", "copy what the rung does, or the line of the runbook, to the clipboard; again: the whole runbook"),

    (&[Scope::Orphans], OPEN, Action::Open, "timeline", "show what happened to the step before it was abandoned"),
    (&[Scope::Orphans], EXPLAIN, Action::Explain, "", "explain why the resource was not deleted, and what blocks it now"),
    (&[Scope::Orphans], YAML, Action::Yaml, "", "show the abandoned step as YAML, as -o yaml prints it"),
    (&[Scope::Orphans], COPY, Action::Copy, "copy id", "copy the id to the clipboard; again: the row"),

    (&[Scope::Tombstones], OPEN, Action::Open, "deletion", "show the deletion as a tree of steps; without steps, its facts"),
    (&[Scope::Tombstones], &[plain('x')], Action::Release, "release…", "release the tombstone of a resource that still exists, after a typed confirmation: it may then be created and changed again"),
    (&[Scope::Tombstones], EXPLAIN, Action::Explain, "explain", "explain what became of the resource, and what blocks it now"),
    (&[Scope::Tombstones], COPY, Action::Copy, "copy id", "copy the id to the clipboard; again: the row"),

    (&[Scope::Drift], OPEN, Action::Open, "why", "show the facts, the raw error and the timeline of the step"),
    (&[Scope::Drift], ACCEPT, Action::AcceptDrift, "accept…", "delete the newcomers too, after a typed confirmation"),
    (&[Scope::Drift], REFUSE, Action::RefuseDrift, "refuse…", "leave the newcomers and end the deletion, after a typed confirmation"),
    (&[Scope::Drift], BLOCKERS, Action::Blockers, "newcomers", "show each newcomer, and who owns it"),
    (&[Scope::Drift], EXPLAIN, Action::Explain, "", "explain why the step is blocked, down to the root blocker"),
    (&[Scope::Drift], YAML, Action::Yaml, "", "show the step as YAML, as -o yaml prints it"),
    (&[Scope::Drift], COPY, Action::Copy, "", "copy the id of the deletion to the clipboard; again: the id of the resource, the error with its request id, the row"),

    (&[Scope::Gates], COPY, Action::Copy, "copy", "copy the address to the clipboard"),
    (&[Scope::Deployments], COPY, Action::Copy, "copy", "copy the name to the clipboard"),
    (&[Scope::Engine], COPY, Action::Copy, "copy", "copy the last failure, or the name, to the clipboard"),
    (&[Scope::Sites], PAUSE, Action::Pause, "pause", "pause or resume the site; the other sites continue"),
    (&[Scope::Sites], COPY, Action::Copy, "copy", "copy the name to the clipboard"),

    (&[Scope::Details], YAML, Action::Yaml, "YAML", "show the resource as YAML, as -o yaml prints it"),
    (&[Scope::Details], COPY, Action::Copy, "copy", "copy the value to the clipboard; again: the id, then the row"),

    (&[Scope::Yaml], YAML, Action::Yaml, "fields", "back to the view before this one"),
    (&[Scope::Yaml], COPY, Action::Copy, "copy", "copy the line to the clipboard; again: the whole record"),

    (&[Scope::Columns], OPEN, Action::Open, "show these", "show the marked columns from now on, and back to the list"),
    (&[Scope::Columns], COPY, Action::Copy, "", "copy the name to the clipboard"),

    (&[Scope::Reading], COPY, Action::Copy, "copy", "copy the text of the row to the clipboard; again: an event with its time and request id, then the whole row"),

    (&[Scope::Marks], &[plain(' ')], Action::Mark, "mark", "mark or unmark the row; marks survive a refresh and a filter"),
    (&[Scope::Marks], &[plain('v'), ctrl(' ')], Action::MarkRange, "", "mark or unmark all rows from the one that was marked or unmarked last to this one"),
    (&[Scope::Marks], &[plain('*')], Action::MarkAll, "", "mark all rows that the filter shows"),
    (&[Scope::Marks], &[plain('i')], Action::MarkOthers, "", "mark the other rows instead, among those that the filter shows"),
    (&[Scope::Marks], &[plain('u')], Action::Unmark, "", "unmark all rows, also those that the filter hides"),

    (&[Scope::Sorts], &[plain('s')], Action::Sort, "", "sort by the next column, with numbers in names by value; after the last column, unsorted"),
    (&[Scope::Sorts], &[plain('S')], Action::SortBackwards, "", "reverse the order"),

    (&[Scope::Replay], &[plain(',')], Action::EventBack, "event back", "to the previous event"),
    (&[Scope::Replay], &[plain('.')], Action::EventOn, "on", "to the next event"),
    (&[Scope::Replay], &[plain('<')], Action::JumpBack, "far back", "back by a twentieth of the time that the ledger covers"),
    (&[Scope::Replay], &[plain('>')], Action::JumpOn, "far on", "forward by a twentieth of that time"),
    (&[Scope::Replay], &[plain('{')], Action::Earliest, "", "to the first event; :at 03:12:07 or :at -10m goes to any time"),
    (&[Scope::Replay], &[plain('}')], Action::Latest, "", "to the end"),

    (&[Scope::Everywhere], &[plain(':')], Action::CommandLine, "go to", "go to a pane or a kind: :stuck, :network, :port @west /web; tab completes, up finds lines that were typed before"),
    (&[Scope::Everywhere], &[plain('/')], Action::Filter, "filter", "show only some rows: web, ~wfe, ~^web-[0-9]+$, !lab, state=stuck, name:web, site=, kind=, project=, age>1h"),
    (&[Scope::Everywhere], &[plain('0')], Action::ClearScope, "", "show all clouds, regions and projects again; :cloud, :region, :project or @SITE narrow what is shown"),
    (&[Scope::Everywhere], &[key(KeyCode::Up), plain('k')], Action::Up, "", "one row up"),
    (&[Scope::Everywhere], &[key(KeyCode::Down), plain('j')], Action::Down, "", "one row down"),
    (&[Scope::Everywhere], &[key(KeyCode::PageUp)], Action::PageUp, "", "one screen up"),
    (&[Scope::Everywhere], &[key(KeyCode::PageDown)], Action::PageDown, "", "one screen down"),
    (&[Scope::Everywhere], &[key(KeyCode::Home), plain('g')], Action::First, "", "to the first row"),
    (&[Scope::Everywhere], &[key(KeyCode::End), plain('G')], Action::Last, "", "to the last row"),
    (&[Scope::Everywhere], &[ctrl('r')], Action::Refresh, "", "query the rows again"),
    (&[Scope::Everywhere], &[key(KeyCode::Escape)], Action::Back, "back", "close the prompt, drop the filter, or go back"),
    (&[Scope::Everywhere], &[plain('[')], Action::Previous, "", "to the previous view, with its filter"),
    (&[Scope::Everywhere], &[plain(']')], Action::Next, "", "to the view that was left by [ or esc"),
    (&[Scope::Everywhere], &[plain('?')], Action::Help, "help", "show these keys"),
    (&[Scope::Everywhere], &[plain('q'), ctrl('c')], Action::Quit, "quit", "quit; asks first if the engine runs in this console and has work"),
    (&[Scope::Everywhere], &[ctrl('l')], Action::Repaint, "", "paint the screen again"),
    (&[Scope::Everywhere], &[ctrl('z')], Action::Suspend, "", "suspend the console; fg resumes it"),
    (&[Scope::Everywhere], &[ctrl('d'), ctrl('k'), key(KeyCode::Delete), key(KeyCode::Backspace)], Action::NotADelete, "", "nothing: no control key, Delete or Backspace deletes"),
];

/// The bindings in use.
#[derive(Clone, Debug)]
pub struct Keymap {
    pub(crate) bindings: Vec<Binding>,
}

impl Default for Keymap {
    fn default() -> Self {
        let rows = STANDARD.iter();
        let bindings = rows.flat_map(|(scopes, keys, action, footer, does)| {
            scopes.iter().map(move |scope| Binding {
                scope: *scope,
                keys: keys.to_vec(),
                action: *action,
                does,
                footer,
            })
        });
        let mut bindings: Vec<Binding> = bindings.collect();
        bindings.sort_by_key(|binding| binding.scope);
        Self { bindings }
    }
}

/// An invalid entry of `[console] keys`.
#[derive(Debug)]
pub struct WrongKeys {
    /// Name of the action in the settings.
    pub action: String,
    pub why: String,
}

impl WrongKeys {
    fn new(action: &str, why: impl Into<String>) -> Self {
        Self {
            action: action.to_owned(),
            why: why.into(),
        }
    }
}

impl Keymap {
    /// Returns the default bindings with other keys for some actions, by their names: `retry = ["R"]`.
    ///
    /// # Errors
    /// An action or key is unknown (with the nearest known action), two actions would share a key, quit, help or back
    /// would have no key, or an action that changes a cloud would be on a key that is easily pressed by mistake.
    pub fn with(changes: &BTreeMap<String, Vec<String>>) -> Result<Self, WrongKeys> {
        let mut map = Self::default();
        for (name, keys) in changes {
            let Ok(action) = name.parse::<Action>() else {
                let names = map.bindings.iter().map(|b| b.action.name());
                let near = text::did_you_mean(name, names);
                return Err(WrongKeys::new(name, format!("no such action{near}")));
            };
            let keys = keys.iter().map(|text| {
                let key = parse_key(text).ok_or_else(|| {
                    format!("\"{text}\" is not a key; write a, D, space, enter, f5, ctrl-r")
                })?;
                match action.changes_a_cloud() && is_slip(key) {
                    true => Err(format!(
                        "an action that changes a cloud cannot be on {text}, which is easily pressed by mistake"
                    )),
                    false => Ok(key),
                }
            });
            let keys = keys.collect::<Result<Vec<Key>, String>>();
            let keys = keys.map_err(|why| WrongKeys::new(name, why))?;
            if keys.is_empty() && matches!(action, Action::Quit | Action::Help | Action::Back) {
                return Err(WrongKeys::new(name, "needs at least one key"));
            }
            let own = map.bindings.iter_mut().filter(|b| b.action == action);
            own.for_each(|binding| binding.keys.clone_from(&keys));
        }
        match map.conflict() {
            Some((first, second, key)) => {
                let is_changed = changes.contains_key(first.action.name());
                let (changed, other) = match is_changed {
                    true => (first.action, second.action),
                    false => (second.action, first.action),
                };
                let (key, other, place) = (key_name(key), other.name(), first.scope.title());
                let why = format!("{key} is also {other} {place}");
                Err(WrongKeys::new(changed.name(), why))
            }
            None => Ok(map),
        }
    }

    /// Finds two actions with the same key in scopes that overlap. A pane's binding may hide the keys for the first and
    /// the last row, as the defaults do, but no other binding.
    fn conflict(&self) -> Option<(&Binding, &Binding, Key)> {
        for (at, binding) in self.bindings.iter().enumerate() {
            for other in self.bindings.iter().skip(at + 1) {
                let both = binding.keys.iter().find(|key| other.keys.contains(key));
                let Some(key) = both else { continue };
                let moves = |b: &Binding| matches!(b.action, Action::First | Action::Last);
                let hides = other.scope == Scope::Everywhere && !moves(other)
                    || binding.scope.has_keys_of(other.scope)
                    || other.scope.has_keys_of(binding.scope)
                    || binding.scope == Scope::Replay
                    || other.scope == Scope::Replay;
                if binding.scope == other.scope || hides {
                    return Some((binding, other, *key));
                }
            }
        }
        None
    }

    /// Returns the bindings that the footer, or the console in lines, offers in a pane: those of the pane, of a replay,
    /// of rows that can be marked or sorted, and of all panes. In a replay, those of the pane that change a cloud are
    /// left out.
    pub(crate) fn offered(&self, scope: Scope, replays: bool) -> impl Iterator<Item = &Binding> {
        let scopes: Vec<Scope> = scope.in_effect(replays).collect();
        let offered = self.bindings.iter();
        let offered = offered.filter(|b| !b.footer.is_empty() && !b.keys.is_empty());
        let offered = offered.filter(move |b| scopes.contains(&b.scope));
        offered.filter(move |b| !(replays && b.action.changes_a_cloud()))
    }

    /// Returns the action of a key in a pane; `None` if the key means nothing there.
    pub(crate) fn action(&self, scope: Scope, replays: bool, pressed: KeyEvent) -> Option<Action> {
        // Shift is part of the character already; terminals differ in whether they also report it.
        let pressed = (pressed.code, pressed.modifiers - Modifiers::SHIFT);
        scope.in_effect(replays).find_map(|scope| {
            let mut own = self.bindings.iter().filter(|b| b.scope == scope);
            let found = own.find(|b| b.keys.contains(&pressed));
            found.map(|b| b.action)
        })
    }

    /// Names the panes in which a key has a meaning, for a message about the key in another pane: `, only in :home`. If
    /// there are more than two, names the first and counts the others. `None` if the key has a meaning at most in a
    /// replay.
    pub(crate) fn elsewhere(&self, pressed: KeyEvent) -> Option<String> {
        let pressed = (pressed.code, pressed.modifiers - Modifiers::SHIFT);
        let bindings = self.bindings.iter();
        let bindings = bindings.filter(|b| b.scope != Scope::Replay && b.keys.contains(&pressed));
        let places: Vec<&str> = bindings.map(|b| b.scope.title()).collect();
        match places.as_slice() {
            [] => None,
            [place] => Some(format!(", only {place}")),
            [first, second] => Some(format!(", only {first} and {second}")),
            [first, others @ ..] => Some(format!(", but {first} and {} other panes", others.len())),
        }
    }

    /// Returns the action's first key as the help writes it, or the action's name in parentheses if it has no key.
    pub(crate) fn key(&self, action: Action) -> String {
        let mut own = self.bindings.iter().filter(|b| b.action == action);
        let key = own.find_map(|b| b.keys.first());
        key.map_or_else(|| format!("({})", action.name()), |key| key_name(*key))
    }

    /// Replaces the name of an action in braces by the action's key: `{refresh} asks again.`
    pub(crate) fn spell(&self, text: &str) -> String {
        let mut parts = text.split('{');
        let mut spelled = parts.next().unwrap_or_default().to_owned();
        for (name, rest) in parts.filter_map(|part| part.split_once('}')) {
            let key = name.parse().map(|action| self.key(action));
            spelled.push_str(&key.unwrap_or_else(|_| name.to_owned()));
            spelled.push_str(rest);
        }
        spelled
    }
}

impl Action {
    /// Name of the action in the settings, such as `plan_deletion`.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the action is available even in a modal pane.
    pub(crate) fn works_in_modal_pane(self) -> bool {
        matches!(
            self,
            Self::Quit | Self::Suspend | Self::Repaint | Self::Back | Self::Previous
        )
    }

    /// Whether the action applies to the marked rows, if there are any.
    pub(crate) fn acts_on_marks(self) -> bool {
        matches!(
            self,
            Self::PlanDeletion | Self::Retry | Self::Ladder | Self::Cancel | Self::Pause
        )
    }

    /// Whether the action changes a cloud or leads to a change; a replay refuses it.
    pub(crate) fn changes_a_cloud(self) -> bool {
        matches!(
            self,
            Self::PlanDeletion
                | Self::Confirm
                | Self::Retry
                | Self::Ladder
                | Self::AcceptDrift
                | Self::RefuseDrift
                | Self::Release
                | Self::Cancel
                | Self::Pause
                | Self::ToggleCascade
                | Self::ToggleRelease
                | Self::TogglePublic
                | Self::ToggleProject
                | Self::ToggleServers
        )
    }
}

/// Whether the key is easily pressed by mistake, or deletes in other programs.
fn is_slip((code, modifiers): Key) -> bool {
    modifiers.contains(Modifiers::CONTROL) || matches!(code, KeyCode::Delete | KeyCode::Backspace)
}

/// The keys whose names have several letters, without the function keys.
#[rustfmt::skip]
const NAMES: &[(&str, KeyCode)] = &[
    ("space", KeyCode::Char(' ')), ("enter", KeyCode::Enter), ("esc", KeyCode::Escape), ("tab", KeyCode::Tab),
    ("backspace", KeyCode::Backspace), ("delete", KeyCode::Delete), ("insert", KeyCode::Insert),
    ("pgup", KeyCode::PageUp), ("pgdn", KeyCode::PageDown), ("home", KeyCode::Home), ("end", KeyCode::End),
    ("up", KeyCode::Up), ("down", KeyCode::Down), ("left", KeyCode::Left), ("right", KeyCode::Right),
];

/// Parses a key as [`key_name`] writes it, but without `alt-`; returns `None` for any other text.
pub(crate) fn parse_key(text: &str) -> Option<Key> {
    if let Some(rest) = text.strip_prefix("ctrl-") {
        let (code, modifiers) = parse_key(rest)?;
        return Some((code, modifiers | Modifiers::CONTROL));
    }
    let named = NAMES.iter().find(|(name, _)| *name == text);
    let letter = || match text.chars().collect::<Vec<_>>()[..] {
        [c] if !c.is_control() => Some(KeyCode::Char(c)),
        _ => None,
    };
    let number = || text.strip_prefix('f')?.parse().ok();
    let number = || number().filter(|n| (1..=12).contains(n));
    let function = || number().map(KeyCode::Function);
    let code = named.map(|(_, code)| *code).or_else(letter);
    Some((code.or_else(function)?, Modifiers::NONE))
}

/// Returns the name of a key as the help writes it, such as `D`, `enter` or `ctrl-r`.
pub(crate) fn key_name((code, modifiers): Key) -> String {
    let named = NAMES.iter().find(|(_, named)| *named == code);
    let mut key = match (named, code) {
        (Some((name, _)), _) => (*name).to_owned(),
        (None, KeyCode::Char(c)) => c.to_string(),
        (None, KeyCode::Function(number)) => format!("f{number}"),
        (None, other) => format!("{other:?}").to_lowercase(),
    };
    for (modifier, name) in [(Modifiers::ALT, "alt-"), (Modifiers::CONTROL, "ctrl-")] {
        if modifiers.contains(modifier) {
            key.insert_str(0, name);
        }
    }
    key
}

pub(crate) fn key_names(binding: &Binding) -> String {
    joined(binding.keys.iter().map(|key| key_name(*key)), " ")
}

impl Scope {
    /// The scopes whose keys have a meaning in this pane. If two of them have the same key, the first wins.
    pub(crate) fn in_effect(self, replays: bool) -> impl Iterator<Item = Self> {
        let shared = [Self::Marks, Self::Sorts].into_iter();
        let shared = shared.filter(move |of| self.has_keys_of(*of));
        let replay = replays.then_some(Self::Replay);
        let own = [self].into_iter().chain(shared).chain(replay);
        own.chain([Self::Everywhere])
    }

    /// Whether the keys of [`Scope::Marks`] or [`Scope::Sorts`] have a meaning in this pane too.
    pub(crate) fn has_keys_of(self, of: Self) -> bool {
        let marks = matches!(
            self,
            Self::Browse | Self::Deletions | Self::Attention | Self::Causes | Self::Columns
        );
        let sorts = matches!(
            self,
            Self::Orphans
                | Self::Tombstones
                | Self::Drift
                | Self::Sites
                | Self::Gates
                | Self::Deployments
                | Self::Engine
                | Self::Blockers
        );
        match of {
            Self::Marks => marks,
            Self::Sorts => marks || sorts,
            _ => false,
        }
    }

    /// Names the scope in the headings of the help and in messages, such as `in :home`.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Everywhere => "everywhere",
            Self::Home => "in :home",
            Self::Browse => "in a list of resources",
            Self::Plan => "on a plan",
            Self::Deletions => "in :deletions",
            Self::Tree => "in the tree of a deletion",
            Self::Attention => "in :stuck and :retrying",
            Self::Causes => "in :causes",
            Self::Inspect => "on one step or deletion",
            Self::Blockers => "among the blockers",
            Self::Relations => "in the explanation of a resource",
            Self::Ladder => "on the purge ladder",
            Self::Orphans => "in :orphans",
            Self::Tombstones => "in :tombstones",
            Self::Drift => "in :drift",
            Self::Sites => "in :sites",
            Self::Gates => "in :gates",
            Self::Deployments => "in :deployments",
            Self::Engine => "in :engine",
            Self::Details => "on the fields of a resource",
            Self::Yaml => "in a record as YAML",
            Self::Columns => "on the columns of a list",
            Self::Reading => "in :events, :help and charts",
            Self::Marks => "on rows that can be marked",
            Self::Sorts => "in lists that can be sorted",
            Self::Replay => "in a replay",
        }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    fn changed(action: &str, keys: &[&str]) -> Result<Keymap, String> {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let map = Keymap::with(&BTreeMap::from([(action.to_owned(), keys)]));
        map.map_err(|wrong| format!("{}: {}", wrong.action, wrong.why))
    }

    fn press(text: &str) -> KeyEvent {
        let (code, modifiers) = parse_key(text).expect("a key");
        KeyEvent::new(code, modifiers)
    }

    #[test]
    fn no_key_has_two_actions_in_scopes_that_overlap() {
        assert!(Keymap::default().conflict().is_none());
    }

    #[test]
    fn no_action_that_changes_a_cloud_is_bound_to_a_control_key_delete_or_backspace() {
        for binding in Keymap::default().bindings {
            let slips = binding.keys.iter().any(|key| is_slip(*key));
            let changes = binding.action.changes_a_cloud();
            assert!(!(changes && slips), "{}", binding.does);
        }
        for key in ["ctrl-x", "delete", "backspace"] {
            let refused = changed("plan_deletion", &[key]).err().unwrap_or_default();
            let why = "an action that changes a cloud";
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn keys_are_remapped_by_the_name_of_their_action() {
        let map = changed("retry", &["R", "f5"]).expect("a map");
        let action = |scope, key| map.action(scope, false, press(key));
        assert_eq!(action(Scope::Tree, "R"), Some(Action::Retry));
        assert_eq!(action(Scope::Inspect, "f5"), Some(Action::Retry));
        assert_eq!(action(Scope::Tree, "r"), None);
        assert_eq!(map.key(Action::Retry), "R");
        let without = changed("copy", &[]).expect("a map");
        assert_eq!(without.action(Scope::Browse, false, press("y")), None);
    }

    #[test]
    fn the_keys_of_a_replay_do_nothing_outside_a_replay() {
        let map = Keymap::default();
        for key in [",", ".", "<", ">", "{", "}"] {
            assert_eq!(map.action(Scope::Tree, false, press(key)), None);
            assert!(map.action(Scope::Tree, true, press(key)).is_some());
        }
    }

    /// Action, keys, and the beginning of the message that refuses them.
    #[rustfmt::skip]
    const WRONG: &[(&str, &[&str], &str)] = &[
        ("rety", &["R"], "rety: no such action; did you mean \"retry\""),
        ("retry", &["hyper-r"], "retry: \"hyper-r\" is not a key"),
        ("retry", &["y"], "retry: y is also copy in :home"),
        ("blockers", &["q"], "blockers: q is also quit in :home"),
        ("quit", &[], "quit: needs at least one key"),
        ("filter", &[":"], "filter: : is also command_line everywhere"),
        ("quit", &["D"], "quit: D is also plan_deletion in a list of resources"),
        ("event_on", &["r"], "event_on: r is also retry in :home"),
        ("latest", &["G"], "latest: G is also last in a replay"),
    ];

    #[test]
    fn an_invalid_key_setting_is_refused_with_the_reason() {
        for (action, keys, message) in WRONG {
            let refused = changed(action, keys).err().unwrap_or_default();
            assert!(refused.contains(message), "{action} {keys:?}: {refused}");
        }
    }

    #[test]
    fn each_key_name_parses_back_to_its_key() {
        for binding in Keymap::default().bindings {
            for key in &binding.keys {
                assert_eq!(parse_key(&key_name(*key)), Some(*key));
            }
        }
    }

    #[test]
    fn shift_as_reported_by_some_terminals_does_not_hide_a_capital() {
        let pressed = KeyEvent::new(KeyCode::Char('D'), Modifiers::SHIFT);
        let action = |scope| Keymap::default().action(scope, false, pressed);
        assert_eq!(action(Scope::Browse), Some(Action::PlanDeletion));
        assert_eq!(action(Scope::Tree), None);
    }
}
