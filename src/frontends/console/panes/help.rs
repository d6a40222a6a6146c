//! The keys in use, the words after `:`, and the meaning of the signs.

use crate::control::KindInfo;
use crate::domain::model::{Counts, StepState};
use std::borrow::Cow;

use super::super::keys::{Action, Keymap, Scope, key_names};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::{Column, Context, Pane};

enum Entry {
    Heading(String),
    /// A sign, and what it means or does.
    Line(Sign, String),
}

enum Sign {
    Keys(String, Action),
    /// A word after `:`.
    Word(String),
    State(StepState),
    /// The parts of a deletion's bar.
    Bar,
}

impl Sign {
    fn cell(&self, look: &RenderContext) -> Cell {
        match self {
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

pub(crate) struct HelpPane {
    list: List,
    entries: Vec<Entry>,
    visible: Vec<usize>,
}

impl HelpPane {
    /// The keys of the pane that was on top come first. `words` open panes; each comes with what it does.
    pub(crate) fn new(
        first: Scope,
        map: &Keymap,
        words: impl Iterator<Item = (&'static str, &'static str)> + Clone,
        kinds: &[KindInfo],
        replays: bool,
    ) -> Self {
        let mut scopes = vec![first];
        scopes.extend(replays.then_some(Scope::Replay));
        scopes.push(Scope::Everywhere);
        let first_ones = scopes.len();
        for binding in map.bindings() {
            let counts = replays || binding.scope != Scope::Replay;
            if counts && !scopes.contains(&binding.scope) {
                scopes.push(binding.scope);
            }
        }
        let mut entries = Vec::new();
        for (at, scope) in scopes.into_iter().enumerate() {
            if at == first_ones {
                entries.push(Entry::Heading("after :".to_owned()));
                let times = "to a time; or 2026-11-24T03:12:07Z, -10m, +1h".to_owned();
                entries.extend(replays.then(|| word_line("at 03:12:07", times)));
                let words = words.clone();
                entries.extend(words.map(|(word, does)| word_line(word, does.to_owned())));
                let kinds = kinds.iter();
                entries.extend(
                    kinds.map(|kind| word_line(kind.name.as_str(), kind.aliases.join(", "))),
                );
            }
            entries.push(Entry::Heading(format!("keys {}", scope.title())));
            let keys = map.bindings().iter().filter(|b| b.scope == scope);
            let keys = keys.filter(|b| !replays || !b.action.changes_a_cloud());
            entries.extend(keys.map(|binding| {
                let sign = Sign::Keys(key_names(binding), binding.action);
                Entry::Line(sign, binding.does.to_owned())
            }));
        }
        entries.push(Entry::Heading("signs".to_owned()));
        let states = StepState::ALL.into_iter();
        entries
            .extend(states.map(|state| Entry::Line(Sign::State(state), meaning(state).to_owned())));
        let parts = "of a deletion: gone, accepted, still to be sent";
        entries.push(Entry::Line(Sign::Bar, parts.to_owned()));
        Self {
            list: List::default(),
            visible: (0..entries.len()).collect(),
            entries,
        }
    }

    fn entry(&self, row: usize) -> Option<&Entry> {
        self.entries.get(*self.visible.get(row)?)
    }
}

fn word_line(word: &str, does: String) -> Entry {
    Entry::Line(Sign::Word(format!(":{word}")), does)
}

impl Pane for HelpPane {
    fn scope(&self) -> Scope {
        Scope::Reading
    }
    fn word(&self) -> Option<&str> {
        Some("help")
    }
    fn title(&self, _look: &RenderContext) -> String {
        "help".to_owned()
    }
    fn list(&self) -> &List {
        &self.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.list
    }
    fn len(&self) -> usize {
        self.visible.len()
    }
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        vec![Column::fixed("KEY", 18), Column::flex("WHAT IT DOES", 1)]
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        match self.entry(row) {
            Some(Entry::Heading(text)) => vec![Cell::default(), Cell::new(text, Tone::Strong)],
            Some(Entry::Line(sign, does)) => vec![sign.cell(look), Cell::plain(does)],
            None => Vec::new(),
        }
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        match self.entry(self.list.cursor) {
            Some(Entry::Line(sign @ Sign::Keys(_, action), does)) => {
                let (keys, dot, name) = (sign.text(), look.dot(), action.name());
                let line = format!("{keys}  {does}{dot}\"{name}\" in [console] keys");
                vec![Cell::plain(line)]
            }
            Some(Entry::Line(sign, does)) => {
                vec![Cell::plain(format!("{}  {does}", sign.text()))]
            }
            _ => vec![Cell::dim(
                "All times are UTC. What is shown as \\u{…} is a hidden character.",
            )],
        }
    }
    fn detail_rows(&self) -> u16 {
        2
    }
    fn noun(&self) -> Cow<'static, str> {
        "key".into()
    }
    fn nothing(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::plain("There is no key to show.")]
    }
    fn filter_changed(&mut self) {
        self.visible = (0..self.entries.len())
            .filter(|i| match &self.entries[*i] {
                Entry::Heading(_) => self.list.filter.is_empty(),
                Entry::Line(sign, does) => self.list.filter.fits_texts(&[sign.text(), does]),
            })
            .collect();
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if action == Action::Copy
            && let Some(Entry::Line(sign, _)) = self.entry(self.list.cursor)
        {
            context.copy(sign.text().to_owned());
        }
    }
}
