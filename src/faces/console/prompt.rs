//! Lines that a person types: where to go, what to show, and the confirmation of what cannot be
//! undone.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tui_input::{Input, InputRequest};

use crate::control::Command;

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
    Confirm(Confirm),
    /// The engine is in this process and has work.
    Quit,
}

/// A confirmation that must be typed.
#[derive(Clone, Debug)]
pub(crate) struct Confirm {
    /// What will happen, one fact a line.
    pub(crate) lines: Vec<String>,
    /// What to type, for the person: `the name "web", or the short id 0a1b2c3d`.
    pub(crate) ask: String,
    /// Any of these counts, exactly.
    pub(crate) accepted: Vec<String>,
    pub(crate) input: Input,
    pub(crate) what: String,
    pub(crate) command: Command,
    /// The typed text fitted nothing.
    pub(crate) wrong: bool,
}

impl Confirm {
    pub(crate) fn is_met(&self) -> bool {
        self.accepted.iter().any(|word| word == self.input.value())
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
