//! The keys in use, the words after `:`, and the meaning of the signs.

use super::NAMED_PANES;
use super::kit::*;
use crate::domain::model::{Counts, StepState};
use crate::frontends::console::keys::key_names;

/// A line of the help: a sign, and what it means or does; without a sign it is a heading.
struct Entry {
    /// The keys, a word after `:`, the name of a state, or [`BAR`].
    sign: String,
    does: String,
    action: Option<Action>,
}

/// Stands for the bar of a deletion.
const BAR: &str = "bar";

impl Entry {
    fn new(sign: impl Into<String>, does: impl Into<String>) -> Self {
        Self {
            sign: sign.into(),
            does: does.into(),
            action: None,
        }
    }

    fn sign(&self, look: &RenderContext) -> Cell {
        let mut states = StepState::ALL.into_iter();
        match states.find(|state| state.as_str() == self.sign) {
            Some(state) => look.step_state(state),
            None if self.sign == BAR => {
                let mut example = Counts::default();
                (example.gone, example.verifying, example.total) = (2, 2, 6);
                Cell::plain(look.bar(&example, 6))
            }
            None => Cell::plain(&self.sign),
        }
    }

    fn is_heading(&self) -> bool {
        self.sign.is_empty()
    }
}

/// Explains a state to a person who sees it for the first time.
fn meaning(state: StepState) -> &'static str {
    match state {
        StepState::Waiting => "waits for other steps, which must go first",
        StepState::Ready => "its call is sent next",
        StepState::Running => "the call is under way",
        StepState::Verifying => "the cloud has accepted the call; not yet confirmed gone",
        StepState::Blocked => "cannot be deleted for now; retried automatically, see :retrying",
        StepState::Stuck => "needs a person; not retried automatically, see :stuck",
        StepState::Gone => "confirmed gone",
        StepState::Skipped => "the deletion was cancelled; the resource stays",
        StepState::Purged => "abandoned by a person; may still exist, see :orphans",
    }
}

struct HelpPane;

/// The keys of the pane that was on top come first, then those of all panes, the words after `:`, the keys of other
/// panes, and the signs.
pub(super) fn open(around: &Around<'_>) -> Opened {
    let replays = around.replays;
    let mut scopes: Vec<Scope> = around.scope.in_effect(replays).collect();
    let mut entries = Vec::new();
    for scope in &scopes {
        keys_of(*scope, around, &mut entries);
    }
    words(around, &mut entries);
    for binding in &around.keys.bindings {
        let counts = replays || binding.scope != Scope::Replay;
        if counts && !scopes.contains(&binding.scope) {
            scopes.push(binding.scope);
            keys_of(binding.scope, around, &mut entries);
        }
    }
    entries.push(Entry::new("", "signs"));
    let states = StepState::ALL.into_iter();
    entries.extend(states.map(|state| Entry::new(state.as_str(), meaning(state))));
    let parts = "the steps of a deletion: gone, accepted, the others";
    entries.push(Entry::new(BAR, parts));
    Ok(listed(HelpPane, entries))
}

fn keys_of(scope: Scope, around: &Around<'_>, entries: &mut Vec<Entry>) {
    entries.push(Entry::new("", format!("keys {}", scope.title())));
    let keys = around.keys.bindings.iter().filter(|b| b.scope == scope);
    let keys = keys.filter(|b| !around.replays || !b.action.changes_a_cloud());
    entries.extend(keys.map(|b| Entry {
        action: Some(b.action),
        ..Entry::new(key_names(b), b.does)
    }));
}

/// The lines after `:` that do more than open a pane or a kind.
#[rustfmt::skip]
const WORDS: [(&str, &str); 5] = [
    (":cloud NAME", "show one cloud only, in all lists; :region and :project likewise"),
    (":port @west /web", "a kind or a pane at one site, with a filter"),
    (":view NAME", "a saved view; :view save NAME saves the current one"),
    (":columns", "choose the columns of this list or tree; :columns name,status sets them, :columns default resets them"),
    (":quit", "leave the console"),
];

fn words(around: &Around<'_>, entries: &mut Vec<Entry>) {
    entries.push(Entry::new("", "after :"));
    if around.replays {
        let times = "to a time; or 2026-11-24T03:12:07Z, -10m, +1h";
        entries.push(Entry::new(":at 03:12:07", times));
    }
    let word = |word: &str, does: &str| Entry::new(format!(":{word}"), does);
    let panes = NAMED_PANES.iter();
    entries.extend(panes.map(|pane| word(pane.word, pane.about)));
    entries.extend(WORDS.map(|(word, does)| Entry::new(word, does)));
    let kinds = around.kinds.iter();
    entries.extend(kinds.map(|kind| word(kind.name.as_str(), &kind.aliases.join(", "))));
}

impl Row for Entry {
    fn key(&self) -> String {
        format!("{} {}", self.sign, self.does)
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        !self.is_heading() && filter.fits_texts(&[self.sign.as_str(), &self.does])
    }
}

impl ListPane for HelpPane {
    type Row = Entry;
    const SCOPE: Scope = Scope::Reading;
    const NOUN: &'static str = "key";
    const REFRESH: Refresh = Refresh::Never;
    const DETAIL_ROWS: u16 = 2;
    const NOTHING: &'static [&'static str] = &["There is no key to show."];

    fn heading(&self, _rows: &Rows<Entry>, _look: &RenderContext) -> String {
        "help".to_owned()
    }
    fn table(&self, _rows: &Rows<Entry>, _look: &RenderContext) -> Table<'_, Entry> {
        columns! { entry: Entry, look;
            fixed("KEY", 18) => entry.sign(look),
            flex("WHAT IT DOES", 1) => Cell::new(&entry.does, if entry.is_heading() { Tone::Strong } else { Tone::Plain }),
        }
    }
    fn details(&self, Entry { sign, does, action }: &Entry, look: &RenderContext) -> Vec<Cell> {
        let dot = look.dot();
        let name = action.map(|action| format!("{dot}\"{}\" in [console] keys", action.name()));
        vec![match sign.as_str() {
            "" => Cell::dim("All times are UTC. \\u{…} stands for a hidden character."),
            sign => Cell::plain(format!("{sign}  {does}{}", name.unwrap_or_default())),
        }]
    }
    fn copies(&self, _: &Rows<Entry>, entry: &Entry) -> Vec<Copied> {
        vec![Copied::new("the key", &entry.sign)]
    }
}
