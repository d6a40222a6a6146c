//! The live keys, where `:` goes, and what the signs mean.

use crate::control::KindInfo;
use crate::domain::model::{Counts, StepState};

use super::super::command::PANES;
use super::super::keys::{Action, Keymap, Scope, key_names};
use super::super::list::List;
use super::super::look::{Cell, Look, Tone};
use super::{Column, Context, Pane};

enum Entry {
    Heading(String),
    Line(String, String),
    State(StepState),
    /// The parts of a deletion's bar.
    Bar,
}

const BAR: &str = "of a deletion: gone, accepted, still to be sent";
const EXAMPLE: Counts = Counts {
    gone: 2,
    verifying: 2,
    waiting: 2,
    total: 6,
    ready: 0,
    running: 0,
    blocked: 0,
    stuck: 0,
    skipped: 0,
    purged: 0,
};

/// For who sees them for the first time.
fn meaning(state: StepState) -> &'static str {
    match state {
        StepState::Waiting => "waits for others, which must go first",
        StepState::Ready => "goes next",
        StepState::Running => "the call is under way",
        StepState::Verifying => "the cloud has accepted it; gone once it is seen to be",
        StepState::Blocked => "in use by another; tried again by itself, see :gc",
        StepState::Stuck => "not tried again without you, see :stuck",
        StepState::Gone => "seen to be gone",
        StepState::Skipped => "cancelled before anything was sent",
        StepState::Purged => "given up by a person; may still be there, see :orphans",
    }
}

pub(crate) struct HelpPane {
    list: List,
    entries: Vec<Entry>,
    visible: Vec<usize>,
}

impl HelpPane {
    /// The keys of the pane that was on top come first.
    pub(crate) fn new(first: Scope, map: &Keymap, kinds: &[KindInfo]) -> Self {
        let mut scopes = vec![first, Scope::Everywhere];
        for binding in map.bindings() {
            if !scopes.contains(&binding.scope) {
                scopes.push(binding.scope);
            }
        }
        let mut entries = Vec::new();
        for (at, scope) in scopes.into_iter().enumerate() {
            if at == 2 {
                entries.push(Entry::Heading("after :".to_owned()));
                let panes = PANES.iter();
                entries.extend(panes.map(|(w, does)| Entry::Line(format!(":{w}"), (*does).into())));
                entries.extend(kinds.iter().map(|kind| {
                    let aliases = kind.aliases.join(", ");
                    Entry::Line(format!(":{}", kind.name), aliases)
                }));
            }
            entries.push(Entry::Heading(format!("keys {}", scope.title())));
            let keys = map.bindings().iter().filter(|b| b.scope == scope);
            entries.extend(keys.map(|b| Entry::Line(key_names(b), b.does.to_owned())));
        }
        entries.push(Entry::Heading("signs".to_owned()));
        entries.extend(StepState::ALL.into_iter().map(Entry::State));
        entries.push(Entry::Bar);
        Self {
            list: List::default(),
            visible: (0..entries.len()).collect(),
            entries,
        }
    }
}

impl Pane for HelpPane {
    fn scope(&self) -> Scope {
        Scope::Reading
    }
    fn word(&self) -> Option<&str> {
        Some("help")
    }
    fn title(&self, _look: &Look) -> String {
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
    fn columns(&self, _look: &Look) -> Vec<Column> {
        vec![Column::fixed("KEY", 18), Column::flex("WHAT IT DOES", 1)]
    }
    fn cells(&self, row: usize, look: &Look) -> Vec<Cell> {
        match self.visible.get(row).map(|i| &self.entries[*i]) {
            Some(Entry::Heading(text)) => vec![Cell::default(), Cell::new(text, Tone::Strong)],
            Some(Entry::Line(key, does)) => vec![Cell::plain(key), Cell::plain(does)],
            Some(Entry::State(state)) => {
                vec![look.step_state(*state), Cell::plain(meaning(*state))]
            }
            Some(Entry::Bar) => vec![Cell::plain(look.bar(&EXAMPLE, 6)), Cell::plain(BAR)],
            None => Vec::new(),
        }
    }
    fn strip(&self, _look: &Look) -> Vec<Cell> {
        match self
            .visible
            .get(self.list.cursor)
            .map(|i| &self.entries[*i])
        {
            Some(Entry::Line(key, does)) => vec![Cell::plain(format!("{key}  {does}"))],
            _ => vec![Cell::dim(
                "All times are UTC. What is shown as \\u{…} is a hidden character.",
            )],
        }
    }
    fn strip_rows(&self) -> u16 {
        1
    }
    fn empty(&self, look: &Look) -> Vec<Cell> {
        vec![Cell::dim(look.nothing_fits("key"))]
    }
    fn filter_changed(&mut self) {
        self.visible = (0..self.entries.len())
            .filter(|i| match &self.entries[*i] {
                Entry::Heading(_) => self.list.filter.is_empty(),
                Entry::Line(key, does) => self.list.filter.fits_texts(&[key.as_str(), does]),
                Entry::State(state) => {
                    let texts = [state.as_str(), meaning(*state)];
                    self.list.filter.fits_texts(&texts)
                }
                Entry::Bar => self.list.filter.fits_texts(&[BAR]),
            })
            .collect();
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if action == Action::Copy
            && let Some(Entry::Line(key, _)) = self
                .visible
                .get(self.list.cursor)
                .map(|i| &self.entries[*i])
        {
            context.copy(key.clone());
        }
    }
}
