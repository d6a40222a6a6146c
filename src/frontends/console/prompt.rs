//! Prompts, in which a person types: the command line, the filter, the file of a report, and confirmations; and
//! questions that one key answers.

use std::collections::BTreeSet;

use termina::event::{KeyCode, KeyEvent, Modifiers};
use tui_input::{Input, InputRequest};

use super::event::ReportFile;
use crate::control::{Command, Snapshot};
use crate::domain::model::{Site, short_id};
use crate::domain::text::word_fits;
use crate::present::joined;

/// Maximum number of characters of an input; names and filters are shorter.
const INPUT_CHARS_MAX: usize = 512;

#[derive(Debug)]
pub(crate) enum Prompt {
    /// The command line after `:`, and how many lines back the person has recalled.
    Command(Input, usize),
    /// The filter after `/`, and the filter that esc restores.
    Filter(Input, String),
    Confirm(Box<Confirm>),
    /// The file for the report of a deletion, and the id of the deletion.
    Report(Input, String),
    Question(Asked),
}

/// A question that one key answers.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// Whether to replace an existing file with the report of a deletion.
    Replace(ReportFile),
    /// Whether an engine in this process that has work is left running or stopped.
    Quit,
    /// Whether to drop commands that were confirmed together and have not been sent yet.
    Unsent,
}

impl Prompt {
    /// Asks for the file of a deletion's report, and suggests one.
    pub(crate) fn report(deletion_id: String) -> Self {
        let file = format!("deletion-{}.html", short_id(&deletion_id));
        Self::Report(Input::new(file), deletion_id)
    }
}

/// The words for a command in the messages about it.
#[derive(Clone, Debug)]
pub(crate) struct CommandWords {
    /// The command in words, such as `pausing network web`. They begin the message about an error, or about success if
    /// `done` is `None`.
    pub(crate) what: String,
    /// The message after success, such as `network web is paused`. If there is none, the message has `what` with the
    /// number of steps that moved, `done` or `accepted`.
    pub(crate) done: Option<String>,
}

impl CommandWords {
    pub(crate) fn of(what: String) -> Self {
        Self { what, done: None }
    }

    /// The words for pausing something, or for resuming it if it is paused.
    pub(crate) fn pausing(is_paused: bool, words: &str) -> Self {
        let (does, is) = match is_paused {
            true => ("resuming", "is resumed"),
            false => ("pausing", "is paused"),
        };
        Self {
            what: format!("{does} {words}"),
            done: Some(format!("{words} {is}")),
        }
    }
}

/// A confirmation that must be typed, and then a reason, if a cloud requires one.
#[derive(Clone, Debug)]
pub(crate) struct Confirm {
    /// The consequences, one fact per line.
    pub(crate) lines: Vec<String>,
    /// Tells the person what to type: `the name "web" or the short id 0a1b2c3d`.
    ask: String,
    /// The accepted texts; one of them must be typed exactly.
    accepted: Vec<String>,
    /// The sites that the commands affect, if [`Self::at`] has set them.
    pub(crate) sites: BTreeSet<Site>,
    /// Patterns that the reason must fit; each must match a word of it.
    patterns: BTreeSet<String>,
    /// Whether the confirmation has been typed, so that the reason is asked for.
    is_met: bool,
    pub(crate) input: Input,
    pub(crate) words: CommandWords,
    /// One command, or those for the marked rows.
    pub(crate) commands: Vec<Command>,
    /// Whether the commands are about the marked rows of the pane, which are unmarked once the person confirms.
    pub(crate) is_of_marked: bool,
    /// Whether the typed text was not accepted.
    pub(crate) wrong: bool,
}

impl Confirm {
    pub(crate) fn new(ask: String, accepted: Vec<String>, what: String, command: Command) -> Self {
        Self {
            is_of_marked: false,
            ..Self::of_marked(ask, accepted, what, vec![command])
        }
    }

    /// Asks about the marked rows, for which these commands are sent.
    pub(crate) fn of_marked(
        ask: String,
        accepted: Vec<String>,
        what: String,
        commands: Vec<Command>,
    ) -> Self {
        Self {
            lines: Vec::new(),
            ask,
            accepted,
            sites: BTreeSet::new(),
            patterns: BTreeSet::new(),
            is_met: false,
            input: Input::default(),
            words: CommandWords::of(what),
            commands,
            is_of_marked: true,
            wrong: false,
        }
    }

    /// Sets the message that is shown after success.
    pub(crate) fn done(mut self, words: String) -> Self {
        self.words.done = Some(words);
        self
    }

    pub(crate) fn saying(self, lines: Vec<String>) -> Self {
        Self { lines, ..self }
    }

    /// Sets the sites, and asks for a reason if one of them requires it.
    pub(crate) fn at<'s>(
        mut self,
        sites: impl Iterator<Item = &'s Site>,
        snapshot: &Snapshot,
    ) -> Self {
        let sites: BTreeSet<&Site> = sites.collect();
        self.sites = sites.into_iter().cloned().collect();
        let known = snapshot.sites.iter();
        let known = known.filter(|known| self.sites.contains(&known.site));
        self.patterns = known.filter_map(|it| it.reason_wanted.clone()).collect();
        self
    }

    /// Tells the person what to type now.
    pub(crate) fn ask(&self) -> String {
        if !self.is_met {
            return self.ask.clone();
        }
        let certain = self.patterns.iter().filter(|pattern| *pattern != "*");
        match joined(certain, " and one like ") {
            words if words.is_empty() => "the reason".to_owned(),
            words => format!("the reason, with a word like {words}"),
        }
    }

    /// Checks the typed line; returns true if nothing is left to be typed.
    pub(crate) fn enter(&mut self) -> bool {
        let typed = self.input.value();
        let fits = match self.is_met {
            false => self.accepted.iter().any(|word| word == typed),
            true => (self.patterns.iter()).all(|pattern| word_fits(typed, pattern)),
        };
        self.wrong = !fits;
        if fits && !self.is_met && !self.patterns.is_empty() {
            self.is_met = true;
            self.input = Input::default();
            return false;
        }
        fits
    }

    /// The reason that was typed; empty if none is required.
    pub(crate) fn reason(&self) -> &str {
        match self.is_met {
            true => self.input.value().trim(),
            false => "",
        }
    }
}

/// Applies a key to a line of text; returns false if the key means nothing there.
pub(crate) fn edit(input: &mut Input, pressed: KeyEvent) -> bool {
    let is_full = input.value().chars().count() >= INPUT_CHARS_MAX;
    match edit_of(pressed) {
        Some(InputRequest::InsertChar(_)) if is_full => {}
        Some(request) => _ = input.handle(request),
        None => return false,
    }
    true
}

/// Returns the edit that a key makes to a line of text, as in a shell; `None` if the key makes none.
#[rustfmt::skip]
fn edit_of(pressed: KeyEvent) -> Option<InputRequest> {
    const NONE: Modifiers = Modifiers::NONE;
    const CTRL: Modifiers = Modifiers::CONTROL;
    const ALT: Modifiers = Modifiers::ALT;
    match (pressed.modifiers - Modifiers::SHIFT, pressed.code) {
        (NONE, KeyCode::Char(c)) => Some(InputRequest::InsertChar(c)),
        (NONE, KeyCode::Backspace) | (CTRL, KeyCode::Char('h')) => Some(InputRequest::DeletePrevChar),
        (NONE, KeyCode::Delete) => Some(InputRequest::DeleteNextChar),
        (NONE, KeyCode::Left) | (CTRL, KeyCode::Char('b')) => Some(InputRequest::GoToPrevChar),
        (NONE, KeyCode::Right) | (CTRL, KeyCode::Char('f')) => Some(InputRequest::GoToNextChar),
        (NONE, KeyCode::Home) | (CTRL, KeyCode::Char('a')) => Some(InputRequest::GoToStart),
        (NONE, KeyCode::End) | (CTRL, KeyCode::Char('e')) => Some(InputRequest::GoToEnd),
        (CTRL, KeyCode::Left) | (ALT, KeyCode::Char('b')) => Some(InputRequest::GoToPrevWord),
        (CTRL, KeyCode::Right) | (ALT, KeyCode::Char('f')) => Some(InputRequest::GoToNextWord),
        (CTRL, KeyCode::Char('w')) | (ALT, KeyCode::Backspace) => Some(InputRequest::DeletePrevWord),
        (CTRL, KeyCode::Delete) | (ALT, KeyCode::Char('d')) => Some(InputRequest::DeleteNextWord),
        (CTRL, KeyCode::Char('u')) => Some(InputRequest::DeleteLine),
        (CTRL, KeyCode::Char('k')) => Some(InputRequest::DeleteTillEnd),
        (CTRL, KeyCode::Char('y')) => Some(InputRequest::Yank),
        _ => None,
    }
}

/// Inserts the first line of a pasted text without control characters: a pasted newline confirms nothing.
pub(crate) fn paste(input: &mut Input, text: &str) {
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    let room = INPUT_CHARS_MAX.saturating_sub(input.value().chars().count());
    for c in line.chars().filter(|c| !c.is_control()).take(room) {
        input.handle(InputRequest::InsertChar(c));
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use crate::frontends::console::keys::parse_key;

    /// The keys that are pressed in the line "web-1 old net", and the line that results.
    #[rustfmt::skip]
    const EDITS: &[(&[&str], &str)] = &[
        (&["backspace", "x"], "web-1 old nex"),
        (&["ctrl-w"], "web-1 old "),
        (&["alt-backspace", "alt-backspace"], "web-1 "),
        (&["ctrl-left", "ctrl-left", "X"], "web-1 Xold net"),
        (&["alt-b", "alt-b", "alt-d"], "web-1 net"),
        (&["home", "ctrl-delete", "X"], "X1 old net"),
        (&["ctrl-a", "alt-f", "X"], "web-X1 old net"),
        (&["left", "left", "right", "delete"], "web-1 old ne"),
        (&["ctrl-u"], ""),
        (&["ctrl-a", "right", "right", "right", "ctrl-k"], "web"),
        (&["ctrl-w", "home", "ctrl-y"], "netweb-1 old "),
    ];

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        for (keys, line) in EDITS {
            let mut input = Input::new("web-1 old net".to_owned());
            for key in *keys {
                let (name, alt) = match key.strip_prefix("alt-") {
                    Some(name) => (name, Modifiers::ALT),
                    None => (*key, Modifiers::NONE),
                };
                let (code, modifiers) = parse_key(name).expect("a key");
                assert!(
                    edit(&mut input, KeyEvent::new(code, modifiers | alt)),
                    "{key}"
                );
            }
            assert_eq!(input.value(), *line, "{keys:?}");
        }
        let mut input = Input::default();
        let unknown = KeyEvent::new(KeyCode::Function(5), Modifiers::NONE);
        assert!(!edit(&mut input, unknown));
        let alone = KeyEvent::new(KeyCode::Char('x'), Modifiers::ALT);
        assert!(!edit(&mut input, alone));
    }
}
