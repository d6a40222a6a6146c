//! Lines that a person types: where to go, what to show, and the confirmation of what cannot be
//! undone.

use std::collections::BTreeSet;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tui_input::{Input, InputRequest};

use crate::control::{Command, Snapshot};
use crate::domain::model::Site;
use crate::domain::text::word_fits;

/// More would be no word and no name that anyone types.
const INPUT_CHARS_MAX: usize = 512;

#[derive(Debug)]
pub(crate) enum Prompt {
    /// After `:`.
    Command(Input),
    /// After `/`. Esc puts back the filter of before.
    Filter {
        input: Input,
        before: String,
    },
    Confirm(Box<Confirm>),
    /// The engine is in this process and has work.
    Quit,
}

/// A confirmation that must be typed; then why, where a cloud wants to know.
#[derive(Clone, Debug)]
pub(crate) struct Confirm {
    /// What will happen, one fact a line.
    pub(crate) lines: Vec<String>,
    /// What to type, for the person: `the name "web", or the short id 0a1b2c3d`.
    ask: String,
    /// Any of these counts, exactly.
    accepted: Vec<String>,
    /// At which sites it happens.
    pub(crate) sites: BTreeSet<Site>,
    /// What a word of the reason must fit, each of these.
    patterns: Vec<String>,
    /// The first is typed: the reason is asked for.
    is_met: bool,
    pub(crate) input: Input,
    pub(crate) what: String,
    pub(crate) command: Command,
    /// The typed text fitted nothing.
    pub(crate) wrong: bool,
}

impl Confirm {
    pub(crate) fn new(ask: String, accepted: Vec<String>, what: String, command: Command) -> Self {
        Self {
            lines: Vec::new(),
            ask,
            accepted,
            sites: BTreeSet::new(),
            patterns: Vec::new(),
            is_met: false,
            input: Input::default(),
            what,
            command,
            wrong: false,
        }
    }

    pub(crate) fn saying(self, lines: Vec<String>) -> Self {
        Self { lines, ..self }
    }

    /// With the reason that these sites want, if they do.
    pub(crate) fn at<'s>(
        mut self,
        sites: impl Iterator<Item = &'s Site>,
        snapshot: &Snapshot,
    ) -> Self {
        let sites: BTreeSet<&Site> = sites.collect();
        self.sites = sites.into_iter().cloned().collect();
        let known = snapshot.sites.iter();
        let known = known.filter(|known| self.sites.contains(&known.site));
        self.patterns = known
            .filter_map(|site| site.reason_wanted.clone())
            .collect();
        self.patterns.sort();
        self.patterns.dedup();
        self
    }

    /// What is to be typed now.
    pub(crate) fn ask(&self) -> String {
        if !self.is_met {
            return self.ask.clone();
        }
        let certain = self.patterns.iter().filter(|pattern| *pattern != "*");
        let words: Vec<&str> = certain.map(String::as_str).collect();
        match words.is_empty() {
            true => "the reason".to_owned(),
            false => format!(
                "the reason, with a word like {}",
                words.join(" and one like ")
            ),
        }
    }

    /// A line was entered. True if nothing is left to be typed.
    pub(crate) fn enter(&mut self) -> bool {
        let typed = self.input.value();
        let fits = match self.is_met {
            false => self.accepted.iter().any(|word| word == typed),
            true => self
                .patterns
                .iter()
                .all(|pattern| word_fits(typed, pattern)),
        };
        self.wrong = !fits;
        if fits && !self.is_met && !self.patterns.is_empty() {
            self.is_met = true;
            self.input = Input::default();
            return false;
        }
        fits
    }

    /// As it was typed; empty where none was asked for.
    pub(crate) fn reason(&self) -> &str {
        match self.is_met {
            true => self.input.value().trim(),
            false => "",
        }
    }
}

/// What a key makes of a line of text; false if it means nothing there.
pub(crate) fn edit(input: &mut Input, pressed: KeyEvent) -> bool {
    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    let request = match (pressed.code, control) {
        (KeyCode::Char('u'), true) => InputRequest::DeleteLine,
        (KeyCode::Char('w'), true) => InputRequest::DeletePrevWord,
        (KeyCode::Char('a'), true) | (KeyCode::Home, _) => InputRequest::GoToStart,
        (KeyCode::Char('e'), true) | (KeyCode::End, _) => InputRequest::GoToEnd,
        (KeyCode::Char(c), false) if !pressed.modifiers.contains(KeyModifiers::ALT) => {
            if input.value().chars().count() >= INPUT_CHARS_MAX {
                return true;
            }
            InputRequest::InsertChar(c)
        }
        (KeyCode::Backspace, _) => InputRequest::DeletePrevChar,
        (KeyCode::Delete, _) => InputRequest::DeleteNextChar,
        (KeyCode::Left, _) => InputRequest::GoToPrevChar,
        (KeyCode::Right, _) => InputRequest::GoToNextChar,
        _ => return false,
    };
    input.handle(request);
    true
}

/// The first line of what was pasted, without control characters: a pasted newline confirms nothing.
pub(crate) fn paste(input: &mut Input, text: &str) {
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    let room = INPUT_CHARS_MAX.saturating_sub(input.value().chars().count());
    for c in line.chars().filter(|c| !c.is_control()).take(room) {
        input.handle(InputRequest::InsertChar(c));
    }
}
