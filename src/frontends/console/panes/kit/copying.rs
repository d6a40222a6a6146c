//! The texts of a row that can be copied to the clipboard. A key copies the first one; the same key, pressed again on
//! that row, copies the next.

use chrono::{DateTime, Utc};

use super::{ANY_SCREEN, Context, List, Pane, Tone};
use crate::domain::model::Step;
use crate::domain::text::escape;
use crate::frontends::console::event::Effect;
use crate::present::{answer_words, joined, resource_words, time};

/// A text for the clipboard, and what it is.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    what: &'static str,
    text: String,
}

impl Copied {
    /// A text of one line. It is escaped, because a shell runs a pasted text at each line feed.
    pub(crate) fn new(what: &'static str, text: &str) -> Self {
        let text = escape(text).into_owned();
        Self { what, text }
    }

    pub(crate) fn id(id: &str) -> Self {
        Self::new("the id", id)
    }

    /// A text of several lines, each of them escaped.
    pub(crate) fn lines<'l>(what: &'static str, lines: impl Iterator<Item = &'l str>) -> Self {
        let text = joined(lines.map(escape), "\n");
        Self { what, text }
    }

    /// The last answer of the cloud to a step, with the resource, the id of the request and the time, as the operators
    /// of a cloud need them; `None` without an error.
    pub(crate) fn error(step: &Step) -> Option<Self> {
        let error = step.last_error.as_ref()?;
        let key = &step.resource.key;
        let words = resource_words(&key.kind, &step.resource.name, &key.id);
        let (answer, at) = (answer_words(error), time(error.at));
        let text = format!("{words} ({key}) at {at}: {answer}");
        Some(Self::new("the error with its request", &text))
    }

    /// An event with its time, and the id of its request if there was one.
    pub(crate) fn event(message: &str, request: &str, at: DateTime<Utc>) -> Self {
        let request = match request {
            "" => String::new(),
            id => format!(" (request {id})"),
        };
        let text = format!("{}: {message}{request}", time(at));
        Self::new("the event with its time and request", &text)
    }

    /// The row under the cursor, with its cells separated by tabs, as spreadsheets read them.
    pub(crate) fn row(pane: &dyn Pane) -> Self {
        let row = pane.list().cursor;
        let shown = pane.shown(row..row + 1, &ANY_SCREEN);
        let cells = shown.rows.iter().flatten();
        let cells = joined(cells.map(|it| escape(it.text.trim())), "\t");
        Self {
            what: "the row",
            text: cells.trim_end().to_owned(),
        }
    }
}

impl List {
    /// Copies the first of these texts to the clipboard, or the next one if the person copies again from the same row.
    /// `row` is the row's key.
    pub(crate) fn copy(&mut self, row: String, mut texts: Vec<Copied>, context: &mut Context) {
        texts.retain(|it| !it.text.is_empty());
        // In a pane of one column, the row may have the same text as the copy before it.
        texts.dedup_by(|later, earlier| later.text == earlier.text);
        let again = self.copied.take().filter(|(of, _)| *of == row);
        let next = again.map_or(0, |(_, next)| next);
        let Some(Copied { what, text }) = texts.get(next).or(texts.first()).cloned() else {
            return;
        };
        let next = if next < texts.len() { next + 1 } else { 1 };
        let first_line = text.lines().next().unwrap_or_default();
        let message = match texts.get(next).or(texts.first()) {
            Some(Copied { what: then, .. }) if texts.len() > 1 => {
                let key = context.keys.spell("{copy}");
                format!("copied {what} ({key} again: {then}): {first_line}")
            }
            _ => format!("copied {first_line}"),
        };
        self.copied = Some((row, next));
        context.say(Tone::Good, message);
        context.outbox.push(Effect::Copy(text));
    }
}
