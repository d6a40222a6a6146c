//! The keys in use, the words after `:`, and the meaning of the signs.

use super::kit::{Action, columns, fixed, flex, listed};
use super::kit::{Cell, ListPane, Refresh, RenderContext, Row, Rows, Scope, Table, Tone};
use super::{Around, NAMED_PANES, Opened};
use crate::domain::filter::SearchQuery;
use crate::domain::model::{Counts, StepState};
use crate::frontends::console::keys::key_names;

/// A line of the help: a sign, and what it means or does.
struct Entry {
    sign: Sign,
    does: String,
}

enum Sign {
    /// No sign: the line is a heading.
    Heading,
    Keys(String, Action),
    /// A word after `:`.
    Word(String),
    State(StepState),
    /// The parts of a deletion's bar.
    Bar,
}

impl Entry {
    fn heading(text: impl Into<String>) -> Self {
        Self::new(Sign::Heading, text)
    }
    fn new(sign: Sign, does: impl Into<String>) -> Self {
        let does = does.into();
        Self { sign, does }
    }
    fn word(word: &str, does: impl Into<String>) -> Self {
        Self::new(Sign::Word(format!(":{word}")), does)
    }
}

impl Sign {
    fn cell(&self, look: &RenderContext) -> Cell {
        match self {
            Self::Heading => Cell::default(),
            Self::Keys(text, _) | Self::Word(text) => Cell::plain(text),
            Self::State(state) => look.step_state(*state),
            Self::Bar => {
                let example = Counts {
                    gone: 2,
                    verifying: 2,
                    total: 6,
                    ..Counts::default()
                };
                Cell::plain(look.bar(&example, 6))
            }
        }
    }

    /// Text by which the sign is found and copied.
    fn text(&self) -> &str {
        match self {
            Self::Heading => "",
            Self::Keys(text, _) | Self::Word(text) => text,
            Self::State(state) => state.as_str(),
            Self::Bar => "bar",
        }
    }
}

/// Explains a state to a person who sees it for the first time.
fn meaning(state: StepState) -> &'static str {
    match state {
        StepState::Waiting => "waits for others, which must go first",
        StepState::Ready => "goes next",
        StepState::Running => "the call is under way",
        StepState::Verifying => "the cloud has accepted it; gone once that is confirmed",
        StepState::Blocked => "in use by another; retried automatically, see :retrying",
        StepState::Stuck => "not retried without you, see :stuck",
        StepState::Gone => "confirmed gone",
        StepState::Skipped => "cancelled before anything was sent",
        StepState::Purged => "abandoned by a person; may still exist, see :orphans",
    }
}

struct HelpPane;

/// The keys of the pane that was on top come first, then those of all panes, then the words after `:`.
pub(super) fn open(around: &Around<'_>) -> Opened {
    let replays = around.replays;
    let mut scopes = vec![around.scope];
    scopes.extend(replays.then_some(Scope::Replay));
    scopes.push(Scope::Everywhere);
    let mut entries = Vec::new();
    for scope in &scopes {
        keys_of(*scope, around, &mut entries);
    }
    words(around, &mut entries);
    for binding in around.keys.bindings() {
        let counts = replays || binding.scope != Scope::Replay;
        if counts && !scopes.contains(&binding.scope) {
            scopes.push(binding.scope);
            keys_of(binding.scope, around, &mut entries);
        }
    }
    entries.push(Entry::heading("signs"));
    let states = StepState::ALL.into_iter();
    entries.extend(states.map(|state| Entry::new(Sign::State(state), meaning(state))));
    let parts = "of a deletion: gone, accepted, still to be sent";
    entries.push(Entry::new(Sign::Bar, parts));
    Ok(listed(HelpPane, Rows::of(entries)))
}

fn keys_of(scope: Scope, around: &Around<'_>, entries: &mut Vec<Entry>) {
    entries.push(Entry::heading(format!("keys {}", scope.title())));
    let keys = around.keys.bindings().iter().filter(|b| b.scope == scope);
    let keys = keys.filter(|b| !around.replays || !b.action.changes_a_cloud());
    entries.extend(keys.map(|b| Entry::new(Sign::Keys(key_names(b), b.action), b.does)));
}

fn words(around: &Around<'_>, entries: &mut Vec<Entry>) {
    entries.push(Entry::heading("after :"));
    if around.replays {
        let times = "to a time; or 2026-11-24T03:12:07Z, -10m, +1h";
        entries.push(Entry::word("at 03:12:07", times));
    }
    let panes = NAMED_PANES.iter();
    entries.extend(panes.map(|pane| Entry::word(pane.word, pane.about)));
    entries.push(Entry::word("quit", "leave the console"));
    let kinds = around.kinds.iter();
    entries.extend(kinds.map(|kind| Entry::word(kind.name.as_str(), kind.aliases.join(", "))));
}

impl Row for Entry {
    type Key = (String, String);

    fn key(&self) -> Self::Key {
        (self.sign.text().to_owned(), self.does.clone())
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let is_heading = matches!(self.sign, Sign::Heading);
        !is_heading && filter.fits_texts(&[self.sign.text(), &self.does])
    }
}

fn does(entry: &Entry) -> Cell {
    match entry.sign {
        Sign::Heading => Cell::new(&entry.does, Tone::Strong),
        _ => Cell::plain(&entry.does),
    }
}

impl ListPane for HelpPane {
    type Row = Entry;
    const SCOPE: Scope = Scope::Reading;
    const WORD: Option<&'static str> = Some("help");
    const NOUN: &'static str = "key";
    const REFRESH: Refresh = Refresh::Never;
    const DETAIL_ROWS: u16 = 2;
    const NOTHING: &'static [&'static str] = &["There is no key to show."];

    fn heading(&self, _rows: &Rows<Entry>, _look: &RenderContext) -> String {
        "help".to_owned()
    }
    fn table(&self, _rows: &Rows<Entry>, _look: &RenderContext) -> Table<'_, Entry> {
        columns! { entry: Entry, look;
            fixed("KEY", 18) => entry.sign.cell(look),
            flex("WHAT IT DOES", 1) => does(entry),
        }
    }
    fn details(&self, Entry { sign, does }: &Entry, look: &RenderContext) -> Vec<Cell> {
        let (text, dot) = (sign.text(), look.dot());
        vec![match sign {
            Sign::Heading => {
                Cell::dim("All times are UTC. What is shown as \\u{…} is a hidden character.")
            }
            Sign::Keys(_, action) => {
                let name = action.name();
                Cell::plain(format!("{text}  {does}{dot}\"{name}\" in [console] keys"))
            }
            _ => Cell::plain(format!("{text}  {does}")),
        }]
    }
    fn copied(&self, entry: &Entry) -> String {
        entry.sign.text().to_owned()
    }
}
