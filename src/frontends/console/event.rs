//! The events that reach the console, and the effects that its loop performs.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use termina::event::KeyEvent;

use crate::control::{Command, ControlError, Page, Query, Receipt, Snapshot};
use crate::domain::model::Event as LedgerEvent;
use crate::system::config::Choice;

use super::Exit;

/// Identifies the answer to a query, a command or a request for events.
pub(crate) type Ticket = u64;

/// An event that may change the state. The loop passes events on one at a time, in one order.
///
/// Some events carry the time, because [`super::update`] reads no clock.
#[derive(Clone, Debug)]
pub enum Event {
    Key(KeyEvent),
    /// Move the cursor to this row, counted from 0.
    Row(usize),
    /// The mouse wheel was turned; `down` is towards the last row.
    Wheel {
        down: bool,
    },
    /// A click on this row of the screen, counted from 0.
    Click(u16),
    /// Bracketed paste. It is never read as keys.
    Paste(String),
    /// The new size of the screen: columns, rows.
    Resize(u16, u16),
    Snapshot(Arc<Snapshot>, DateTime<Utc>),
    /// The engine publishes no more snapshots: it has ended, or cannot be reached.
    EngineGone,
    /// The answer to [`Effect::Query`] with this ticket.
    Answer(Ticket, Result<Page, ControlError>, DateTime<Utc>),
    /// The answer to [`Effect::Submit`] with this ticket.
    Receipt(Ticket, Result<Receipt, ControlError>, DateTime<Utc>),
    /// The answer to [`Effect::Follow`] with this ticket.
    Followed(Ticket, Result<Vec<LedgerEvent>, ControlError>),
    /// Time has passed. Sent while [`super::State::wants_tick`] is true; the console in lines also sends it while a
    /// screen remains to be printed.
    Tick(DateTime<Utc>),
    /// The choice was saved in the settings file, or could not be saved for this reason.
    Saved(Choice, Result<(), String>),
    /// The report was written, or was not written for this reason.
    ReportWritten(ReportFile, Result<(), NotWritten>),
    /// The guarded screen has been painted, and input typed before that has been discarded.
    GuardPainted,
}

/// The report of a deletion, and the file for it.
#[derive(Clone, Debug)]
pub struct ReportFile {
    pub deletion_id: String,
    pub file: PathBuf,
}

/// The reason why a file was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotWritten {
    /// The file exists already, and the person has not agreed to replace it.
    Exists,
    Failed(String),
}

/// A side effect, which only the loop performs.
#[derive(Clone, Debug)]
pub enum Effect {
    Query(Ticket, Query),
    Submit {
        ticket: Ticket,
        command: Command,
        /// The reason that the person typed; empty if the person was not asked for one.
        reason: String,
    },
    /// Wait for events after this sequence number.
    Follow(Ticket, i64),
    /// Copy this text to the clipboard of the person's terminal (OSC 52).
    Copy(String),
    /// Alert a person who is not looking at the console, in the way that the settings choose.
    Alert(String),
    /// Save a choice of the person in this settings file.
    Save(PathBuf, Choice),
    /// Gather the report, and write it as a web page.
    WriteReport {
        report: ReportFile,
        /// Whether to replace a file that exists.
        replaces: bool,
    },
    Quit(Exit),
    Suspend,
    /// Paint every cell again: another program may have written on the screen, or a change of its size may have cleared
    /// cells.
    Repaint,
}

/// The effects that the loop must perform after the event that is being handled.
#[derive(Default)]
pub(crate) struct Outbox {
    effects: Vec<Effect>,
    /// The ticket of the last effect that has one.
    ticket: Ticket,
}

impl Outbox {
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(crate) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Sends a query; its answer has the ticket that this returns.
    pub(crate) fn ask(&mut self, query: impl Into<Query>) -> Ticket {
        let query = query.into();
        self.send(|ticket| Effect::Query(ticket, query))
    }

    /// Sends a command; its receipt has the ticket that this returns.
    pub(crate) fn submit(&mut self, command: Command, reason: &str) -> Ticket {
        let reason = reason.to_owned();
        self.send(|ticket| Effect::Submit {
            ticket,
            command,
            reason,
        })
    }

    /// Requests the events after this sequence number; the answer has the ticket that this returns.
    pub(crate) fn follow(&mut self, after: i64) -> Ticket {
        self.send(|ticket| Effect::Follow(ticket, after))
    }

    fn send(&mut self, effect: impl FnOnce(Ticket) -> Effect) -> Ticket {
        self.ticket += 1;
        self.effects.push(effect(self.ticket));
        self.ticket
    }
}
