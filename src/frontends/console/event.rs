//! What reaches the console, and what it asks its loop to do.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use crossterm::event::KeyEvent;

use crate::control::{Command, ControlError, Page, Query, Receipt, Snapshot};
use crate::domain::model::Event as LedgerEvent;

use super::Exit;

/// Everything that can change the state, in the one order in which the loop took it.
///
/// The clock comes with the events: [`super::update`] never reads one.
#[derive(Clone, Debug)]
pub enum Event {
    Key(KeyEvent),
    /// Goes to this row, counted from 0.
    Row(usize),
    /// The wheel was turned, towards the end or back.
    Wheel {
        down: bool,
    },
    /// A click on this row of the screen, counted from 0.
    Click(u16),
    /// Bracketed paste. It is never read as keys.
    Paste(String),
    /// Columns, rows.
    Resize(u16, u16),
    Snapshot {
        snapshot: Arc<Snapshot>,
        now: DateTime<Utc>,
    },
    /// The engine publishes nothing any more: it has ended, or cannot be reached.
    EngineGone,
    /// The answer to [`Effect::Query`] with that ticket.
    Answer {
        ticket: u64,
        answer: Result<Page, ControlError>,
        now: DateTime<Utc>,
    },
    /// The answer to [`Effect::Submit`] with that ticket.
    Receipt {
        ticket: u64,
        receipt: Result<Receipt, ControlError>,
        now: DateTime<Utc>,
    },
    /// The answer to [`Effect::Follow`] with that ticket.
    Followed {
        ticket: u64,
        events: Result<Vec<LedgerEvent>, ControlError>,
    },
    /// Comes only while [`super::State::wants_tick`].
    Tick(DateTime<Utc>),
    /// The last state is on the screen, and what was typed before that is thrown away.
    GuardPainted,
}

/// What only the loop may do.
#[derive(Clone, Debug)]
pub enum Effect {
    Query {
        ticket: u64,
        query: Query,
    },
    Submit {
        ticket: u64,
        command: Command,
        /// What the person typed for it, where a cloud wants one.
        reason: String,
    },
    /// Waits for events after this sequence.
    Follow {
        ticket: u64,
        after: i64,
    },
    /// To the clipboard of the person's terminal (OSC 52).
    Copy(String),
    Quit(Exit),
    Suspend,
    /// Paints every cell again, for a screen that something else wrote on.
    Repaint,
}
